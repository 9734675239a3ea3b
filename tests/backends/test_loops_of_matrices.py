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
