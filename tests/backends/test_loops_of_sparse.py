"""Compiled loops over sparse matrices: the plain path's numbers, summed in another order."""

from __future__ import annotations

import pytest
from plain_path import Plainly, arrays, plainly

import maquette.torch as torch

__all__ = ["plainly"]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("part", [0.2, 0.01])
def test_sampled_products_are_the_plain_ones(
    plainly: Plainly, kind: torch.dtype, part: float
) -> None:
    torch.manual_seed(0)
    pattern = (torch.rand(200, 300) < part).to(kind).to_sparse_csr()
    left, right = torch.randn(200, 64, dtype=kind), torch.randn(64, 300, dtype=kind)
    run = lambda: torch.sparse.sampled_addmm(pattern, left, right).values()  # noqa: E731
    (by_loop,), (plain,) = arrays(run()), arrays(plainly(run))
    assert abs(by_loop - plain).max() < (1e-4 if kind is torch.float32 else 1e-12)


def test_lists_that_are_not_sorted_are_merged_as_plainly(plainly: Plainly) -> None:
    torch.manual_seed(0)
    a, b = (torch.randint(0, 40, (2, 900)) for _ in range(2))
    first, second = (torch.sparse_coo_tensor(i, torch.ones(900), (40, 40)) for i in (a, b))

    def run() -> object:
        total = first + second
        return [total._indices(), total._values()]

    for by_loop, plain in zip(arrays(run()), arrays(plainly(run)), strict=True):
        assert by_loop.tolist() == plain.tolist()
