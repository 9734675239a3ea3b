"""Distances of rows and reductions of complex numbers: against plain paths."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional
EXACT = "donot_use_mm_for_euclid_dist"


def _rows(kind: mq.dtype) -> Tensor:
    torch.manual_seed(0)
    x = torch.randn(200, 17, dtype=kind)
    x[3], x[7, 2], x[9, 1], x[11, 1], x[12, 1] = x[5], torch.nan, inf, -inf, inf
    return x


def _run(p: float, *given: Tensor) -> Callable[[], list[Tensor]]:
    def run() -> list[Tensor]:
        leaves = [t.detach().clone().requires_grad_() for t in given]
        found = F.pdist(*leaves, p) if len(given) == 1 else torch.cdist(*leaves, p, EXACT)
        torch.manual_seed(1)
        found.backward(torch.rand(found.shape, dtype=found.dtype))
        return [found, *[t.grad for t in leaves]]

    return run


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, inf])
def test_distances_and_their_gradients_are_near_the_plain_ones(
    p: float, kind: mq.dtype, plainly: Plainly
) -> None:
    x, y, z = _rows(kind), torch.randn(4, 100, 17, dtype=kind), torch.randn(70, 17, dtype=kind)
    near = 1e-4 if kind is torch.float32 else 1e-11
    for given in ((x,), (x[:150], x[20:]), (y, z), (y[:, ::2], y[:1, 1:])):
        run = _run(p, *given)
        for found, plain in zip(arrays(run()), arrays(plainly(run)), strict=True):
            np.testing.assert_allclose(found, plain, near, near)


def test_distances_of_no_rows_or_columns() -> None:
    assert F.pdist(torch.ones(1, 3), inf).shape == (0,)
    assert torch.cdist(torch.ones(0, 3), torch.ones(200, 3), 1.0).shape == (0, 200)
    assert torch.cdist(torch.ones(300, 0), torch.ones(200, 0), inf).sum() == 0


# --- complex numbers -----------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[[Tensor], object]] = {
    "prod, rows": lambda c: (c / c.abs()).prod(1),
    "prod, all": lambda c: (c / c.abs()).prod(),
    "prod, columns": lambda c: (c / c.abs()).prod(0),
    "cumsum": lambda c: c.cumsum(1),
    "cumsum, columns": lambda c: c.cumsum(0),
    "cumprod": lambda c: (c / c.abs()).cumprod(1),
    "var": lambda c: c.var(1),
    "var, all": lambda c: torch.var_mean(c),
    "var, columns": lambda c: c.var(0),
    "sum": lambda c: c.sum(1),
    "sum of two dims": lambda c: c.reshape(10, 21, 203).sum((0, 2)),
    "reciprocal": lambda c: 1 / c,
    "inverse square": lambda c: c**-2,
}


@pytest.mark.parametrize("kind", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_complex_numbers_are_reduced_as_by_wider_ones(
    name: str, kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(0)
    c, run = torch.randn(210, 203, dtype=kind), REDUCTIONS[name]
    near = 2e-5 if kind is torch.complex64 else 1e-12
    wide = plainly(lambda: run(c.to(torch.complex128)))
    for found, expected in zip(arrays(run(c)), arrays(wide), strict=True):
        np.testing.assert_allclose(found, expected, near, near)


def test_sums_of_complex_rows_keep_infinities_apart() -> None:
    c = torch.ones(210, 203, dtype=torch.complex64)
    c[3, 4] = torch.inf
    assert c.sum(1)[3] == complex(inf, 0)


def test_reciprocals_of_complex_edges_are_numpys(plainly: Plainly) -> None:
    edges = [0.0, -0.0, 1.0, inf, -inf, torch.nan]
    c = torch.ones(20_000, dtype=torch.complex64)
    c[:36] = torch.tensor([complex(a, b) for a, b in product(edges, edges)])
    (found,), (plain,) = arrays(c.reciprocal()), arrays(plainly(c.reciprocal))
    np.testing.assert_array_equal(found, plain)
