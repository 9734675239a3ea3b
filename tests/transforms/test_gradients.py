"""`grad`, `vjp`, `jacrev` (T70, T71)."""

import pytest

import maquette as mq
from maquette.core.warned import Always
from maquette.transforms import grad, grad_and_value, jacrev, vjp


def test_T70_levels_isolate_perturbations():
    assert grad(lambda x: x * grad(lambda y: x * y)(x))(mq.tensor(3.0)) == 6


def test_T70_grad_of_grad():
    assert grad(grad(lambda x: x**3))(mq.tensor(2.0)) == 12


def test_T70_grad_does_not_warn_of_the_cycle_that_backward_makes(monkeypatch):
    monkeypatch.setattr(Always, "on", True)  # not only the first time
    assert grad(lambda x: x * x)(mq.tensor(3.0)) == 6  # a warning is an error here


def test_T70_no_grad_inside_counts_and_outside_does_not():
    x = mq.tensor(3.0)

    def f(x):
        with mq.no_grad():
            shift = x**2
        return x**2 - shift

    assert grad(f)(x) == 6
    with mq.no_grad():
        assert grad(lambda x: x**2)(x) == 6


def test_T70_argnums_and_aux():
    x, y = mq.tensor(2.0), mq.tensor(5.0)
    assert grad(lambda x, y: x * y, argnums=(1, 0))(x, y) == (2, 5)
    gradient, (value, aux) = grad_and_value(lambda x: (x * x, [x + 1]), has_aux=True)(x)
    assert (gradient, value, aux) == (4, 4, [3])
    with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type <class 'str'>"):
        grad(lambda x: (x * x, "aux"), has_aux=True)(x)


@pytest.mark.parametrize(
    "function, match",
    [
        (lambda x: x, "Expected .* to return a scalar Tensor, got tensor with 1 dims"),
        (lambda x: 3, "to return a Tensor, got <class 'int'>"),
        (lambda x: x.sum().backward(), "backward.. called inside a functorch transform"),
        (lambda x: mq.ones(3).requires_grad_(), "attempting to call Tensor.requires_grad_"),
    ],
)
def test_T70_refusals(function, match):
    with pytest.raises(RuntimeError, match=match):
        grad(function)(mq.ones(3))


def test_T70_captured_tensors_are_not_written():
    y = mq.zeros(3)
    with pytest.raises(RuntimeError, match=r"add_.Tensor.* would mutate a captured Tensor"):
        grad(lambda x: y.add_(x).sum())(mq.ones(3))


def test_T70_a_tensor_made_inside_is_written():
    def f(x):
        y = mq.zeros(3)
        y[1] = x
        return (y * y).sum()

    assert grad(f)(mq.tensor(3.0)) == 6


def test_T70_outer_tensors_stay_differentiable():
    w = mq.tensor(3.0, requires_grad=True)
    grad(lambda x: w * x * x)(mq.tensor(2.0)).backward()
    assert w.grad == 4


def test_T71_vjp_gives_the_output_and_a_function_that_gives_a_tuple():
    output, pull = vjp(lambda x: x.sin(), mq.zeros(3))
    assert output.tolist() == [0, 0, 0]
    (found,) = pull(mq.ones(3))
    assert found.tolist() == [1, 1, 1]
    assert pull(mq.ones(3))[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_T71_jacrev(chunk_size):
    x = mq.arange(3.0)
    found = jacrev(lambda x: x**2, chunk_size=chunk_size)(x)
    assert found.tolist() == [[0, 0, 0], [0, 2, 0], [0, 0, 4]]


def test_T60_batched_gradients_are_computed_at_once():
    x = mq.tensor([1.0, 2.0, 3.0], requires_grad=True)
    unused = mq.ones(2, requires_grad=True)
    passes = []
    y = (x * x).clone()
    y.register_hook(lambda g: passes.append(g.shape))
    rows, none = mq.autograd.grad(
        y, (x, unused), mq.eye(3), is_grads_batched=True, allow_unused=True, create_graph=True
    )
    assert passes == [(3,)]
    assert none is None
    assert mq.equal(rows, mq.diag(2 * x))
    assert mq.autograd.grad(rows.sum(), x)[0].tolist() == [2, 2, 2]


def test_T60_batched_gradients_that_meet_unbatched_ones_are_added():
    x = mq.ones(2, requires_grad=True)
    (found,) = mq.autograd.grad(
        [x * 2, x.detach() + x], x, [mq.eye(2), mq.ones(2, 2)], is_grads_batched=True
    )
    assert found.tolist() == [[3, 1], [1, 3]]


def test_T60_batched_gradients_of_the_wrong_shape_are_refused():
    x = mq.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a shape of .*\[2, 2\]"):
        mq.autograd.grad(x * 2, x, mq.eye(2), is_grads_batched=True)
