"""Dual numbers with reverse mode: gradients of duals move, leaves get theirs (T71)."""

import pytest

import maquette as mq
from maquette.transforms.forward_ad import dual_level, make_dual, unpack_dual

V = mq.tensor([3.0, 4.0])


def leaf():
    return mq.tensor([1.0, 2.0], requires_grad=True)


def test_T71_gradients_of_duals_are_dual():
    w = leaf()
    with dual_level():
        dual = make_dual(w, V)
        (found,) = mq.autograd.grad((dual**3).sum(), dual)
        gradient, moved = unpack_dual(found)
    assert gradient.tolist() == [3, 12]
    assert moved.tolist() == [18, 48]


def test_T71_gradients_move_with_what_they_start_from():
    w = leaf()
    with dual_level():
        start = make_dual(mq.ones(2), V)
        (found,) = mq.autograd.grad(make_dual(w, V) ** 3, w, start)
        assert unpack_dual(found).tangent.tolist() == [18 + 9, 48 + 48]


def test_T71_backward_in_a_dual_level_gives_leaves_their_gradients():
    w = leaf()
    with dual_level():
        (make_dual(w, V) ** 2).sum().backward()
        inside = mq.ones(2, requires_grad=True)
        (inside * 3).sum().backward()
        assert inside.grad.tolist() == [3, 3]
    assert w.grad.tolist() == [2, 4]


def test_T71_a_tangent_can_be_differentiated():
    w = leaf()
    with dual_level():
        moved = unpack_dual((make_dual(w, V) ** 3).sum()).tangent
        (found,) = mq.autograd.grad(moved, w)
    assert found.tolist() == [18, 48]


def test_T71_a_tensor_is_made_dual_once_a_level():
    with dual_level():
        dual = make_dual(mq.ones(2), V)
        assert repr(dual) == "tensor([1., 1.], tangent=tensor([3., 4.]))"
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            make_dual(dual, V)


@pytest.mark.parametrize(
    "fill",
    [
        lambda x: x.uniform_(),
        lambda x: x.normal_(),
        lambda x: x.random_(),
        lambda x: x.bernoulli_(mq.full((2,), 0.5)),
    ],
)
def test_T71_what_is_drawn_does_not_move(fill):
    with dual_level():
        dual = make_dual(mq.ones(2), V.clone())
        fill(dual)
        assert unpack_dual(dual).tangent.tolist() == [0, 0]


def test_T71_indexed_writes_below_the_surface_move():
    with dual_level():
        dual = make_dual(mq.ones(2), V.clone())
        mq.ops.aten._index_put_impl_(dual, (mq.tensor([0]),), mq.zeros(1))
        assert unpack_dual(dual).tangent.tolist() == [0, 4]


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda x: x.set_(mq.ones(2)), NotImplementedError),
        (lambda x: mq.ops.aten.rrelu_with_noise_(x, mq.ones(2)), NotImplementedError),
        (lambda x: x.resize_(1), RuntimeError),
        (lambda x: x.resize_as_(mq.ones(1)), RuntimeError),
    ],
)
def test_T71_writes_without_a_tangent_are_refused(write, error):
    with dual_level():
        dual = make_dual(mq.ones(2), V.clone())
        with pytest.raises(error, match="forward"):
            write(dual)


def test_T71_rows_of_a_dual_table_are_renormalized():
    table = mq.ones(2, 2)
    with dual_level():
        dual = make_dual(table, mq.ones(2, 2))
        rows = mq.nn.functional.embedding(mq.tensor([1]), dual, max_norm=1.0)
        assert unpack_dual(rows).tangent.tolist() == [[1, 1]]
    assert mq.allclose(table.norm(dim=1), mq.tensor([2.0**0.5, 1.0]))


class Doubled(mq.autograd.Function):
    """Twice the input; its forward takes the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        ctx.factor = 2
        return x * 2

    @staticmethod
    def jvp(ctx, moved):
        (x,) = ctx.saved_tensors
        return moved * ctx.factor + 0 * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor


def test_T71_a_function_whose_forward_takes_the_context_moves_by_its_jvp():
    w = leaf()
    with dual_level():
        result = Doubled.apply(make_dual(w, V.clone()))
        assert unpack_dual(result).tangent.tolist() == (2 * V).tolist()
        assert mq.autograd.grad(unpack_dual(result).primal.sum(), w)[0].tolist() == [2, 2]


class Written(Doubled):
    """The input doubled in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def jvp(ctx, moved):
        return moved * 2


class Half(Doubled):
    """A view, with a tangent that is none."""

    @staticmethod
    def forward(ctx, x):
        return x[:1]

    @staticmethod
    def jvp(ctx, moved):
        return moved[:1].clone()


@pytest.mark.parametrize(("function", "words"), [(Written, "gradients inplace"), (Half, "a view")])
def test_T71_tangents_of_custom_functions_lie_where_their_results_do(function, words):
    with dual_level(), pytest.raises(RuntimeError, match=words):
        function.apply(make_dual(mq.ones(2), V.clone()))


def test_T71_a_tangent_has_no_tangent_of_the_same_level():
    with dual_level():
        moved = make_dual(mq.ones(2), V.clone())
        with pytest.raises(RuntimeError, match="forward gradient at the same level"):
            make_dual(mq.ones(2), moved)


WRITES = {
    "copy_": lambda t, d: t.copy_(d),
    "add_": lambda t, d: t.add_(d),
    "mul_": lambda t, d: t.mul_(d),
    "assignment": lambda t, d: t.__setitem__(slice(None), d),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_T71_a_dual_number_may_be_written_into_a_tensor_from_outside(write):
    target, step = mq.tensor([5.0, 6.0]), 1e-3

    def function(x):
        room = target.clone()
        write(room, x**2)
        return (room**2).sum()

    slope = (
        function(mq.tensor([1.0, 2.0]) + step * V) - function(mq.tensor([1.0, 2.0]) - step * V)
    ) / (2 * step)
    with dual_level():
        x = make_dual(mq.tensor([1.0, 2.0]), V)
        room = target.clone()
        outside = unpack_dual(room).primal  # made below the level, as a tensor from outside is
        write(outside, x**2)
        found = unpack_dual((outside**2).sum()).tangent
    assert mq.allclose(found, slope, 1e-2)


def test_T71_a_view_from_outside_moves_with_its_base():
    base = mq.zeros(2, 2)
    view = base.t()
    with dual_level():
        view[0].copy_(make_dual(mq.ones(2), V))
        assert unpack_dual(base).tangent.tolist() == [[3, 0], [4, 0]]
        base.mul_(2)
        assert unpack_dual(view).tangent.tolist() == [[6, 8], [0, 0]]
    assert unpack_dual(base).tangent is None
    assert base.tolist() == [[2, 0], [2, 0]]


def test_T71_what_does_not_move_is_written_as_outside_of_a_level():
    counter = mq.zeros(2)
    with dual_level():
        assert counter.add_(1) is counter
        assert unpack_dual(counter).tangent is None
    assert counter.tolist() == [1, 1]


def test_T71_out_is_refused_where_something_moves():
    with dual_level():
        x = make_dual(mq.ones(2), V)
        with pytest.raises(NotImplementedError, match="out= function"):
            mq.add(x, x, out=mq.zeros(2))


def test_T71_a_tangent_that_lies_otherwise_is_copied():
    value, tangent = mq.zeros(6)[:4], mq.ones(4)
    with dual_level():
        dual = make_dual(value, tangent)
        unpack_dual(dual).tangent.mul_(2)
        assert dual.as_strided((6,), (1,), 0).shape == (6,)
    assert tangent.tolist() == [1, 1, 1, 1]


def test_T71_a_tangent_for_what_is_not_differentiable_is_refused():
    class Two(mq.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def jvp(ctx, moved):
            return moved * 2, moved

    with dual_level(), pytest.raises(RuntimeError, match="return None at that position"):
        Two.apply(make_dual(mq.ones(2), V))


@pytest.mark.parametrize("returned", [lambda t: t.clone(), lambda t: t], ids=["copy", "itself"])
def test_T71_the_tangent_of_a_view_is_a_view(returned):
    class First(mq.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def jvp(ctx, moved):
            return returned(moved)

    with dual_level(), pytest.raises(RuntimeError, match="is returning a view"):
        First.apply(make_dual(mq.ones(2), V))


@pytest.mark.parametrize(
    "draw", [mq.bernoulli, mq.poisson, lambda p: mq.normal(p, 1.0), lambda p: mq.normal(p, p)]
)
def test_draws_do_not_move_with_their_parameters(draw):
    with dual_level():
        drawn = draw(make_dual(mq.full((3,), 0.5), mq.ones(3)))
        assert unpack_dual(drawn).tangent.tolist() == [0.0, 0.0, 0.0]


def test_a_tangent_without_elements_is_kept_wherever_it_begins() -> None:
    a, b = (mq.ones(3).as_strided((0,), (1,), begin) for begin in (1, 2))
    with dual_level():
        assert unpack_dual(make_dual(a, b)).tangent is b
