"""`torch.autograd` and `torch.func`: what computes with the engine from outside."""

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn
from maquette.torch.autograd import functional


def cubes(x):
    return x**3


def pair(x, y):
    return x * y, x.sum() + y.sum()


def test_the_room_and_its_modules_are_at_their_paths():
    assert torch.autograd.Function is mq.autograd.Function
    assert torch.autograd.grad is mq.autograd.grad
    assert torch.autograd.graph is mq.autograd.graph
    from maquette.torch.autograd.function import Function

    assert Function is mq.autograd.Function


def test_variables_are_tensors():
    x = torch.autograd.Variable(mq.ones(2), requires_grad=True)
    assert x.requires_grad
    assert isinstance(x, torch.autograd.Variable)
    assert not isinstance(1.0, torch.autograd.Variable)


def test_the_jacobian_of_an_elementwise_function_is_diagonal():
    x = mq.tensor([1.0, 2.0, 3.0])
    assert mq.allclose(functional.jacobian(cubes, x), mq.diag(3 * x**2))


def test_jacobians_of_several_are_tuples_by_output_and_input():
    x, y = mq.tensor([1.0, 2.0]), mq.tensor([3.0, 4.0])
    (xx, xy), (sx, _) = functional.jacobian(pair, (x, y))
    assert mq.equal(xx, mq.diag(y))
    assert mq.equal(xy, mq.diag(x))
    assert mq.equal(sx, mq.ones(2))


def test_products_with_vectors_are_products_with_the_jacobian():
    x, v = mq.randn(3), mq.randn(4)
    w = mq.randn(4, 3)

    def f(t):
        return (w @ t).tanh()

    jacobian = functional.jacobian(f, x)
    out, product = functional.vjp(f, x, v)
    assert mq.equal(out, f(x))
    assert mq.allclose(product, v @ jacobian, atol=1e-6)
    _, forward = functional.jvp(f, x, x)
    assert mq.allclose(forward, jacobian @ x, atol=1e-6)


def test_hessians_are_derivatives_of_gradients():
    x = mq.tensor([1.0, 2.0])
    hessian = functional.hessian(lambda t: cubes(t).sum(), x)
    assert mq.allclose(hessian, mq.diag(6 * x))
    _, product = functional.hvp(lambda t: cubes(t).sum(), x, mq.ones(2))
    assert mq.allclose(product, 6 * x)
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(cubes, x)


def test_a_jacobian_can_be_part_of_a_program():
    x = mq.tensor([2.0], requires_grad=True)
    functional.jacobian(cubes, x, create_graph=True).sum().backward()
    assert x.grad.item() == 12.0
    assert not functional.jacobian(cubes, x).requires_grad


def test_gradcheck_tells_right_from_wrong():
    class Wrong(mq.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = mq.randn(2, 3, dtype=mq.float64, requires_grad=True)
    y = mq.randn(3, dtype=mq.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: (a * b).sin(), (x, y))
    assert torch.autograd.gradgradcheck(lambda a, b: (a * b).sin(), (x, y))
    assert not torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match="output 0 with respect to input 0"):
        torch.autograd.gradcheck(Wrong.apply, (x,))
    with pytest.raises(ValueError, match="require"):
        torch.autograd.gradcheck(cubes, (mq.ones(1),))


def test_a_module_is_called_with_other_parameters():
    layer = nn.Linear(2, 1)
    values = {"weight": mq.zeros(1, 2), "bias": mq.ones(1)}
    assert torch.func.functional_call(layer, values, (mq.ones(1, 2),)).item() == 1.0


def test_states_of_like_modules_are_stacked():
    models = [nn.Linear(2, 3) for _ in range(4)]
    parameters, buffers = torch.func.stack_module_state(models)
    assert parameters["weight"].shape == (4, 3, 2)
    assert mq.equal(parameters["bias"][1], models[1].bias)
    assert buffers == {}
    with pytest.raises(RuntimeError, match="same class"):
        torch.func.stack_module_state([nn.Linear(2, 3), nn.ReLU()])


def test_a_variable_can_be_made_in_a_function_under_a_transform():
    def summed(x):
        return (x * torch.autograd.Variable(mq.ones(2)) * torch.autograd.Variable(x)).sum()

    assert torch.func.grad(summed)(mq.arange(2.0)).tolist() == [0, 1]
