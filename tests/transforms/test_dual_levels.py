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
