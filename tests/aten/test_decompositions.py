"""Factorizations, solving, determinants: values against NumPy, gradients against differences."""

from __future__ import annotations

import gradcheck
import numpy as np
import pytest

import maquette as mq
from maquette.api import functions as F
from maquette.aten.linalg.factorizations import LinAlgError

RANDOM = np.random.default_rng(3)


def matrix(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def positive(n: int) -> np.ndarray:
    x = matrix(n, n)
    return x @ x.T + n * np.eye(n)


def symmetric(t: mq.Tensor) -> mq.Tensor:
    return t + t.mT


def rebuilt(u: mq.Tensor, s: mq.Tensor, v: mq.Tensor) -> tuple[mq.Tensor, mq.Tensor]:
    return u @ s.diag_embed() @ v, s


SMOOTH = {
    "svdvals": (lambda a: F.linalg_svdvals(a), (4, 3)),
    "svd": (lambda a: rebuilt(*F.linalg_svd(a, False)), (3, 4)),
    "svd_left": (lambda a: F.linalg_svd(a, False)[0].abs(), (4, 3)),
    "qr_tall": (lambda a: F.linalg_qr(a), (4, 3)),
    "qr_wide": (lambda a: F.linalg_qr(a), (3, 5)),
    "eigvalsh": (lambda a: F.linalg_eigvalsh(symmetric(a)), (4, 4)),
    "eigh": (lambda a: F.linalg_eigh(symmetric(a))[1].abs(), (4, 4)),
    "eigvals": (lambda a: F.linalg_eigvals(a).abs().sum(), (4, 4)),
    "eig": (lambda a: F.linalg_eig(a)[1].abs(), (4, 4)),
    "inv": (F.linalg_inv, (2, 3, 3)),
    "det": (F.linalg_det, (2, 3, 3)),
    "slogdet": (lambda a: F.linalg_slogdet(a)[1], (3, 3)),
    "lu_square": (lambda a: F.linalg_lu(a)[1:], (4, 4)),
    "lu_wide": (lambda a: F.linalg_lu(a)[1:], (3, 5)),
    "lu_tall": (lambda a: F.linalg_lu(a)[1:], (5, 3)),
    "lu_factor": (lambda a: F.linalg_lu_factor(a)[0], (4, 3)),
    "pinv_tall": (lambda a: F.linalg_pinv(a, rtol=1e-9), (4, 3)),
    "pinv_wide": (lambda a: F.linalg_pinv(a, rtol=1e-9), (3, 4)),
    "matrix_exp": (F.linalg_matrix_exp, (3, 3)),
    "matrix_power": (lambda a: F.linalg_matrix_power(a, -3), (3, 3)),
    "cond": (lambda a: F.linalg_cond(a), (3, 3)),
    "trace": (F.trace, (3, 4)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivative_of_a_factorization(name: str) -> None:
    function, shape = SMOOTH[name]
    gradcheck.check_gradients(function, matrix(*shape), tolerance=1e-4)


@pytest.mark.parametrize("upper", [False, True])
def test_derivative_of_cholesky(upper: bool) -> None:
    def factor(a: mq.Tensor) -> mq.Tensor:
        return F.linalg_cholesky(symmetric(a), upper=upper)

    gradcheck.check_gradients(factor, positive(3))


@pytest.mark.parametrize("left", [False, True])
def test_derivative_of_solve(left: bool) -> None:
    def solve(a: mq.Tensor, b: mq.Tensor) -> mq.Tensor:
        return F.linalg_solve(a, b, left=left)

    gradcheck.check_gradients(solve, positive(3), matrix(2, 3, 3))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_derivative_of_lu_solve(left: bool, adjoint: bool) -> None:
    _, pivots = F.linalg_lu_factor(mq.from_numpy(matrix(3, 3)))

    def solve(packed: mq.Tensor, b: mq.Tensor) -> mq.Tensor:
        return F.linalg_lu_solve(packed, pivots, b, left=left, adjoint=adjoint)

    gradcheck.check_gradients(solve, positive(3), matrix(3, 3))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_derivative_of_solve_triangular(left: bool, upper: bool) -> None:
    def solve(a: mq.Tensor, b: mq.Tensor) -> mq.Tensor:
        return F.linalg_solve_triangular(a, b, upper=upper, left=left)

    gradcheck.check_gradients(solve, positive(3), matrix(3, 3))


@pytest.mark.parametrize("transpose", [False, True])
def test_derivative_of_triangular_solve(transpose: bool) -> None:
    def solve(b: mq.Tensor, a: mq.Tensor) -> object:
        return F.triangular_solve(b, a, True, transpose)

    gradcheck.check_gradients(solve, matrix(3, 2), positive(3))


def test_second_derivative_of_det() -> None:
    gradcheck.check_second_gradients(F.linalg_det, matrix(3, 3))


def test_gradient_of_a_singular_determinant_is_its_adjugate() -> None:
    a = mq.from_numpy(np.diag([2.0, 0.0, 3.0])).requires_grad_()
    (grad,) = mq.autograd.grad(F.linalg_det(a), [a])
    np.testing.assert_allclose(grad.numpy(), np.diag([0.0, 6.0, 0.0]), atol=1e-30)


def test_factors_are_column_major() -> None:
    assert F.linalg_svd(mq.ones(2, 3, 4))[0].stride() == (9, 1, 3)
    assert F.linalg_qr(mq.ones(4, 3))[0].stride() == (1, 4)
    assert F.linalg_inv(mq.eye(3)).stride() == (1, 3)


def test_lu_factors_multiply_to_the_matrix() -> None:
    a = matrix(2, 4, 3)
    p, lower, upper = F.linalg_lu(mq.from_numpy(a))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), a)


def test_inverse_of_a_singular_matrix_is_refused() -> None:
    with pytest.raises(LinAlgError, match=r"\(Batch element 1\): The diagonal element 1 is zero"):
        F.linalg_inv(mq.stack([mq.eye(2), mq.zeros(2, 2)]))


def test_cholesky_of_an_indefinite_matrix_is_refused() -> None:
    with pytest.raises(LinAlgError, match="leading minor of order 2 is not positive-definite"):
        F.linalg_cholesky(mq.from_numpy(np.diag([1.0, -1.0])))


def test_solve_ex_reports_what_solve_raises() -> None:
    _, info = F.linalg_solve_ex(mq.zeros(2, 2), mq.ones(2))
    assert info.item() == 1
    with pytest.raises(LinAlgError, match="the input matrix is singular"):
        F.linalg_solve(mq.zeros(2, 2), mq.ones(2))


def test_integer_matrices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor"):
        F.linalg_qr(mq.ones(2, 2, dtype=mq.int64))


def test_rank_counts_singular_values() -> None:
    a = mq.from_numpy(np.diag([1.0, 1e-3, 0.0]))
    assert F.linalg_matrix_rank(a).item() == 2
    assert F.linalg_matrix_rank(a, atol=0.01).item() == 1


def test_cross_product_broadcasts() -> None:
    x, y = matrix(1, 3), matrix(4, 3)
    found = F.linalg_cross(mq.from_numpy(x), mq.from_numpy(y))
    np.testing.assert_allclose(found.numpy(), np.cross(x, y))
