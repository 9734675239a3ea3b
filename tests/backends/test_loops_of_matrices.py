"""LAPACK called by compiled loops for many small matrices: the plain path's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

L = torch.linalg


def _matrices(kind: mq.dtype) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 12, 6, 6, dtype=kind) + 3 * torch.eye(6, dtype=kind)


FUNCTIONS: dict[str, Callable[[Tensor], object]] = {
    "inv": L.inv,
    "inv, singular": lambda a: L.inv_ex(a - a[..., :1]),
    "inv, transposed": lambda a: L.inv(a.mT),
    "solve": lambda a: L.solve(a, a[..., :2]),
    "solve, vectors": lambda a: L.solve(a, a[..., 0]),
    "solve, right": lambda a: L.solve(a, a[..., :2, :], left=False),
    "solve, one matrix": lambda a: L.solve(a[0, 0], a[..., :2]),
    "det": L.det,
    "slogdet": L.slogdet,
    "lu_factor": L.lu_factor,
    "lu_factor, wide": lambda a: L.lu_factor(a[..., :4, :]),
    "lu_factor, tall": lambda a: L.lu_factor(a[..., :3]),
    "lu": L.lu,
    "lu_solve": lambda a: L.lu_solve(*L.lu_factor(a), a, adjoint=True),
    "cholesky": lambda a: L.cholesky(a @ a.mH),
    "cholesky, upper": lambda a: L.cholesky(a @ a.mH, upper=True),
    "cholesky, indefinite": lambda a: L.cholesky_ex(a @ a.mH - 2 * torch.eye(6)),
    "cholesky_solve": lambda a: torch.cholesky_solve(a[..., :3], a),
    "triangular": lambda a: L.solve_triangular(a, a[..., :3], upper=True),
    "triangular, right": lambda a: L.solve_triangular(a, a[..., :3, :], upper=False, left=False),
    "triangular, unit": lambda a: L.solve_triangular(a, a, upper=False, unitriangular=True),
    "triangular, zeros": lambda a: L.solve_triangular(a - a[..., :1], a, upper=True),
}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_small_matrices_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly
) -> None:
    a = _matrices(kind)
    found = arrays(FUNCTIONS[name](a))
    for of_loop, plain in zip(found, arrays(plainly(lambda: FUNCTIONS[name](a))), strict=True):
        np.testing.assert_array_equal(of_loop, plain)


def test_gradients_of_many_small_inverses(plainly: Plainly) -> None:
    def run() -> object:
        a = _matrices(torch.float64).requires_grad_()
        L.inv(a).square().sum().backward()
        return a.grad

    np.testing.assert_array_equal(arrays(run())[0], arrays(plainly(run))[0])


def _symmetric(a: Tensor) -> Tensor:
    return a + a.mT


REFLECTORS_AND_OTHERS: dict[str, Callable[[Tensor], object]] = {
    "geqrf": torch.geqrf,
    "geqrf, wide": lambda a: torch.geqrf(a[..., :4, :]),
    "householder_product": lambda a: L.householder_product(*torch.geqrf(a[..., :4])),
    "ormqr": lambda a: torch.ormqr(*torch.geqrf(a[..., :4]), a),
    "ormqr, transposed": lambda a: torch.ormqr(*torch.geqrf(a), a[..., :2], True, True),
    "ormqr, right": lambda a: torch.ormqr(*torch.geqrf(a), a[..., :2, :], False),
    "ldl_factor": lambda a: L.ldl_factor(_symmetric(a - 3 * torch.eye(6))),
    "ldl_factor, Hermitian": lambda a: L.ldl_factor(a + a.mH, hermitian=True),
    "ldl_factor, singular": lambda a: L.ldl_factor_ex(a * 0),
    "ldl_solve": lambda a: L.ldl_solve(*L.ldl_factor(_symmetric(a)), a[..., :2]),
    "ldl_solve, one matrix": lambda a: L.ldl_solve(*L.ldl_factor(_symmetric(a[0, 0])), a),
    "lstsq": lambda a: L.lstsq(a[..., :4], a[..., :2]),
    "lstsq, wide": lambda a: L.lstsq(a[..., :4, :], a[..., :4, :2]),
    "lstsq, of low rank": lambda a: L.lstsq(a * torch.eye(6)[0], a[..., :2]),
    "gels": lambda a: L.lstsq(a[..., :4], a[..., :2], driver="gels"),
    "gelsd": lambda a: L.lstsq(a[..., :4], a[..., :2], driver="gelsd"),
    "gelsd, of low rank": lambda a: L.lstsq(a * torch.eye(6)[0], a[..., :2], driver="gelsd"),
    "gelss, wide": lambda a: L.lstsq(a[..., :4, :], a[..., :4, :2], driver="gelss"),
}


@pytest.mark.parametrize("kind", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("name", REFLECTORS_AND_OTHERS)
def test_reflectors_and_least_squares_of_many_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly
) -> None:
    a, function = _matrices(kind), REFLECTORS_AND_OTHERS[name]
    found, plain = arrays(function(a)), arrays(plainly(lambda: function(a)))
    for of_loop, expected in zip(found, plain, strict=True):
        np.testing.assert_array_equal(of_loop, expected)


def test_many_least_squares_by_a_singular_matrix_are_refused(plainly: Plainly) -> None:
    a = _matrices(torch.float32)
    a[2, 3, :, 0] = 0
    with pytest.raises(RuntimeError, match=r"Batch element 27.*error code: 1"):
        L.lstsq(a, a, driver="gels")


def test_triangles_by_rows_are_solved_as_by_columns() -> None:
    a = _matrices(torch.complex64)[0, 0]
    by_columns = a.mT.contiguous().mT
    for upper in (True, False):
        rows = L.solve_triangular(a, a, upper=upper)
        torch.testing.assert_close(rows, L.solve_triangular(by_columns, a, upper=upper))


def test_permutations_of_few_and_of_many_matrices_agree() -> None:
    a = _matrices(torch.float64)
    many = torch.lu_unpack(*L.lu_factor(a.repeat(2, 1, 1, 1)))
    few = torch.lu_unpack(*L.lu_factor(a))
    for x, y in zip(many, few, strict=True):
        np.testing.assert_array_equal(x[:4].numpy(), y.numpy())
