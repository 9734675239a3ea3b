"""What has no gradient: functions without a derivative, arguments that are written."""

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
