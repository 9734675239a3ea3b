"""`autograd.Function`: forward and backward written by hand (T67)."""

import gc
import weakref
from typing import Any

import pytest

import maquette as mq
from maquette import Tensor
from maquette.autograd.function import Function, once_differentiable


def numbers(x):
    return x.detach().numpy().tolist()


def ones(*shape):
    return mq.ones(*shape).requires_grad_()


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class SquareSplit(Function):
    @staticmethod
    def forward(x, power=2):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0], None


def function(forward, backward=None):
    """A Function of two plain functions."""
    body = {"forward": staticmethod(forward)}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type("Made", (Function,), body)


def test_T67_forward_and_backward():
    x = ones(2)
    y = Square.apply(x)
    assert y.grad_fn.name() == "SquareBackward"
    assert type(y.grad_fn).__name__ == "SquareBackward"
    y.sum().backward()
    assert numbers(x.grad) == [2, 2]


def test_T67_setup_context_and_keyword_arguments():
    x = ones(2)
    y = SquareSplit.apply(x=x)
    assert y.grad_fn.inputs[1] == 2
    y.sum().backward()
    assert numbers(x.grad) == [2, 2]


def test_T67_keywords_need_setup_context():
    with pytest.raises(TypeError, match="keyword"):
        Square.apply(x=ones(2))


def test_T67_double_backward():
    x = ones(2)
    (g,) = mq.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    (h,) = mq.autograd.grad(g.sum(), x)
    assert numbers(h) == [2, 2]


def test_T67_forward_is_unrecorded_and_the_rest_is_plain_without_grad():
    seen = []

    def forward(ctx, x, n):
        seen.append((x.requires_grad, mq.is_grad_enabled(), ctx.needs_input_grad))
        return x * n

    made = function(forward)
    assert made.apply(ones(2), 2).requires_grad
    with mq.no_grad():
        assert made.apply(ones(2), 2).grad_fn is None
    assert seen == [(True, False, (True, False))] * 2


def test_T67_saved_tensors_are_guarded():
    y = Square.apply(w := ones(2) * 1)
    w.add_(1)
    with pytest.raises(RuntimeError, match="version 1; expected version 0"):
        y.sum().backward()
    z = Square.apply(ones(2)).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_T67_saved_tensors_are_seen_from_the_node():
    x = ones(2)
    assert Square.apply(x).grad_fn.saved_tensors[0] is x


def test_T67_only_tensors_are_saved():
    made = function(lambda ctx, x: ctx.save_for_backward(x, 3))
    with pytest.raises(TypeError, match=r"argument 1 .*int"):
        made.apply(ones(2))


def test_T67_several_outputs_and_other_values():
    def backward(ctx, a, b, c):
        assert b is None
        return a + c

    made = function(lambda ctx, x: (x * 2, "s", x * 3), backward)
    x = ones(2)
    a, b, c = made.apply(x)
    assert b == "s"
    (a.sum() + 10 * c.sum()).backward()
    assert numbers(x.grad) == [11, 11]


@pytest.mark.parametrize("materialize", [True, False])
def test_T67_missing_gradients(materialize):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3

    def backward(ctx, a, b):
        seen.append(a)
        return b

    x = ones(2)
    function(forward, backward).apply(x)[1].sum().backward()
    assert (seen[0] is None) is not materialize


def test_T67_zeros_are_fake_for_fake_outputs():
    seen = []

    def backward(ctx, a, b):
        seen.append(a)
        return b

    made = function(lambda ctx, x: (x * 2, x * 3), backward)
    made.apply(mq.FakeTensorMode().from_tensor(ones(2)))[1].sum().backward()
    assert isinstance(seen[0], mq.FakeTensor)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda g: g, "expected 3.*got 1"),
        (lambda g: (g, None), "expected 3.*got 2"),
        (lambda g: (g, None, g), "position 2"),
        (lambda g: (3, None, None), "int"),
        (lambda g: (mq.ones(3), None, None), r"index 0.*\[3\].*\[2\]"),
    ],
)
def test_T67_gradients_that_do_not_fit(answer, message):
    made = function(lambda ctx, x, y, n: x * 2, lambda ctx, g: answer(g))
    y = made.apply(ones(2), ones(2), 1)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_T67_extra_trailing_nones_pass():
    x = ones(2)
    function(lambda ctx, x: x * 2, lambda ctx, g: (g, None)).apply(x).sum().backward()
    assert numbers(x.grad) == [1, 1]


def test_T67_without_backward():
    y = function(lambda ctx, x: x * 2).apply(ones(2))
    with pytest.raises(NotImplementedError, match="backward"):
        y.sum().backward()


def test_T67_vjp_is_another_name_of_backward():
    made = type(
        "Vjp",
        (Function,),
        {"forward": staticmethod(lambda ctx, x: x * 2), "vjp": staticmethod(lambda ctx, g: g * 2)},
    )
    x = ones(2)
    made.apply(x).sum().backward()
    assert numbers(x.grad) == [2, 2]


def test_T67_an_input_returned_as_is_is_a_view():
    made = function(lambda ctx, x: x, lambda ctx, g: g * 5)
    x = ones(2)
    y = made.apply(x)
    assert y is not x
    assert y._is_view()
    y.sum().backward()
    assert numbers(x.grad) == [5, 5]
    with pytest.raises(RuntimeError, match="custom Function"):
        made.apply(x).add_(1)


def test_T67_an_input_passed_on_cannot_be_saved_by_setup_context():
    class Passing(SquareSplit):
        @staticmethod
        def forward(x):
            return x

    with pytest.raises(RuntimeError, match="as-is"):
        Passing.apply(ones(2))


def add_one(ctx, x):
    ctx.mark_dirty(x)
    return x.add_(1)


def test_T67_a_dirty_input_is_returned_itself():
    made = function(add_one, lambda ctx, g: g * 3)
    x = ones(2)
    z = x * 1
    y = made.apply(z)
    assert y is z
    assert z.grad_fn.name() == "MadeBackward"
    assert z._version == 2  # the write, and that it was marked
    z.sum().backward()
    assert numbers(x.grad) == [3, 3]


def test_T67_a_leaf_cannot_be_dirty():
    with pytest.raises(RuntimeError, match="leaf"):
        function(add_one).apply(ones(2))


def test_T67_a_dirty_input_must_be_returned():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2

    with pytest.raises(RuntimeError, match="dirty"):
        function(forward).apply(ones(2) * 1)


def test_T67_outputs_that_are_not_differentiable():
    def forward(ctx, x):
        out = x * 2, x * 3, x.to(mq.int64)
        ctx.mark_non_differentiable(out[1])
        return out

    a, b, c = function(forward).apply(ones(2))
    assert [t.requires_grad for t in (a, b, c)] == [True, False, False]


def test_T67_once_differentiable():
    @once_differentiable
    def backward(ctx, grad):
        assert not mq.is_grad_enabled()
        return grad * 2

    made = function(lambda ctx, x: x * 2, backward)
    x = ones(2)
    made.apply(x).sum().backward()
    assert numbers(x.grad) == [2, 2]
    start = ones(2)
    (g,) = mq.autograd.grad(made.apply(x), x, start, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_T67_instances_are_not_called():
    with pytest.warns(DeprecationWarning, match="instantiated"):
        instance = Square()
    with pytest.raises(RuntimeError, match="apply"):
        instance(ones(2))


def test_T67_a_saved_output_leaves_no_cycle():
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(y)
        return y

    gc.collect()
    gc.disable()
    try:
        y = function(forward).apply(ones(2))
        gone = weakref.ref(y._storage)
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_T67_setup_context_gets_default_arguments_too() -> None:
    """Finding 13."""

    class Scale(mq.autograd.Function):
        @staticmethod
        def forward(x: Tensor, factor: float = 3.0) -> Tensor:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
            return grad * ctx.factor, None

    x = mq.ones(1, requires_grad=True)
    Scale.apply(x).backward()
    assert x.grad.tolist() == [3.0]


class SameTensor(mq.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def test_T67_a_subclass_returned_as_it_is_keeps_its_class() -> None:
    """Finding 13."""

    class Named(Tensor):
        pass

    x = mq.ones(1, requires_grad=True).as_subclass(Named)
    assert type(SameTensor.apply(x)) is Named


def test_T67_without_recording_what_is_returned_as_it_is_requires_no_grad() -> None:
    with mq.no_grad():
        y = SameTensor.apply(mq.ones(1, requires_grad=True))
    assert not y.requires_grad
    assert not y._is_view()


def test_T67_marking_as_dirty_counts_a_write() -> None:
    class Bump(mq.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad

    x = mq.ones(1)
    Bump.apply(x)
    assert x._version == 1


class Tripled(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(3)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def test_T67_a_dirty_argument_that_is_not_recorded_comes_back_detached():
    """Finding 60: the result of a call under no_grad requires no grad; the argument still does."""
    x = mq.ones(2, requires_grad=True)
    with mq.no_grad():
        y = Tripled.apply(x)
    assert (x.requires_grad, y.requires_grad) == (True, False)
    assert y._version == x._version == 2


@pytest.mark.parametrize("made", [lambda x: x[:], lambda x: (x * 1).unbind()[0]])
def test_T67_functions_may_not_mutate_what_operators_may_not(made):
    """Finding 60: views of leaves, and one of several views."""
    view = made(mq.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="view"):
        Tripled.apply(view)


def test_T67_results_that_are_no_tensors_have_numbers_too():
    seen = []

    class Three(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, "between", y * 3

        @staticmethod
        def backward(ctx, *grads):
            seen.append([None if g is None else g.item() for g in grads])
            return grads[0] * 2, grads[2] * 3

    x, y = ones(1), ones(1)
    first, _, last = Three.apply(x, y)
    assert last.output_nr == 2
    (first + 5 * last).backward()
    assert seen == [[1, None, 5]]
    assert (x.grad.item(), y.grad.item()) == (2, 15)


def test_T67_zeros_for_what_is_not_differentiable_may_be_left_out():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            other = x.clone()
            ctx.mark_non_differentiable(other)
            ctx._materialize_non_diff_grads = False
            return x.clone(), other

        @staticmethod
        def backward(ctx, grad, other):
            assert other is None
            return grad

    Two.apply(ones(2))[0].sum().backward()


def test_T67_a_context_keeps_what_it_saved_when_its_graph_is_gone():
    kept = []

    class Keeping(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            kept.append(ctx)
            return grad

    x = ones(2)
    Keeping.apply(x).sum().backward(retain_graph=True)
    assert kept[0].saved_tensors[0] is x


def test_T67_backward_and_vjp_are_not_both_given():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

        vjp = staticmethod(lambda ctx, grad: grad * 2)

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(ones(2)).sum().backward()
