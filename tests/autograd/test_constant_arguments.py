"""What has no gradient: functions without a derivative, arguments that are written."""

from collections.abc import Callable

import pytest

import maquette as mq

aten = mq.ops.aten


@pytest.mark.parametrize(
    "name",
    "bessel_j0 bessel_y1 modified_bessel_i0 modified_bessel_k1 scaled_modified_bessel_k0 "
    "spherical_bessel_j0".split(),
)
def test_functions_without_a_derivative_have_no_history(name: str) -> None:
    x = mq.ones(3, requires_grad=True)
    function = getattr(aten, f"special_{name}")
    assert not function(x).requires_grad
    assert not function.out(x, out=mq.empty(3)).requires_grad


@pytest.mark.parametrize("name", ["chebyshev_polynomial_t", "laguerre_polynomial_l"])
def test_polynomials_have_no_history(name: str) -> None:
    x = mq.ones(3, requires_grad=True)
    assert not getattr(aten, f"special_{name}")(x, x).requires_grad
    assert not getattr(aten, f"special_{name}")(x, 2).requires_grad


def test_statistics_that_are_written_may_not_require_grad() -> None:
    x, stat = mq.rand(2, 3, 4, requires_grad=True), mq.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"not differentiable with respect to .*running_mean"):
        aten._native_batch_norm_legit(x, None, None, stat * 1, stat * 1, True, 0.1, 1e-5)


def test_noise_that_is_written_may_not_require_grad() -> None:
    x, noise = mq.rand(3), mq.ones(3, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match=r"not differentiable with respect to .*noise"):
        aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)


def test_a_gradient_by_reflectors_factors_owns_its_memory() -> None:
    a = mq.rand(2, 5, 3, requires_grad=True)
    tau = mq.rand(2, 3, requires_grad=True)
    (grad,) = mq.autograd.grad(mq.linalg_householder_product(a, tau).sum(), [tau])
    assert grad.is_contiguous()


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.floor_divide_(mq.ones(2)),
        lambda y: y.heaviside_(mq.ones(2)),
        lambda y: y.scatter_(0, mq.tensor([0]), 2.0, reduce="multiply"),
        lambda y: aten.embedding_renorm_(y.unsqueeze(1), mq.tensor([0]), 0.1, 2.0),
    ],
)
def test_T25_a_write_without_a_derivative_ends_the_history(write: Callable[..., object]) -> None:
    """It was passed over: the gradient came out as though nothing had been written."""
    x = mq.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        write(x)
    y = x * 1
    write(y)
    with pytest.raises(RuntimeError, match=r"derivative for .* is not implemented"):
        y.sum().backward()


def test_polygamma_has_a_gradient_in_place_too() -> None:
    x = mq.ones(2, requires_grad=True)
    (x * 1).polygamma_(1).sum().backward()
    assert mq.allclose(x.grad, mq.polygamma(2, mq.ones(2)))


@pytest.mark.parametrize("values", [mq.linalg_svdvals, mq.linalg_eigvalsh])
def test_gradients_of_values_need_the_vectors_alone(values: Callable[..., mq.Tensor]) -> None:
    x = mq.eye(3, requires_grad=True)
    y = x * 1
    found = values(y)
    y.detach().zero_()
    found.sum().backward()
    assert x.grad.trace().item() == pytest.approx(3)
