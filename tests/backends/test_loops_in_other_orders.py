"""Compiled loops and kernels on arrays that lie in memory in another order, and on short lines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional

ORDERS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(0, 3),
    "strided": lambda t: t[..., ::2],
    "expanded": lambda t: t[:1].expand(4, -1, -1, -1),
}
BY_ELEMENT: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "hardswish": F.hardswish,
    "nan_to_num": torch.nan_to_num,
    "a row": lambda t: t * torch.arange(float(t.shape[-1])),
    "a channel": lambda t: torch.lerp(t, torch.ones(t.shape[1], 1, 1), 0.3),
    "where": lambda t: torch.where(t > 0, t, 0.5),
    "full_like": lambda t: torch.full_like(t, 2),
    "zeros_like": lambda t: torch.zeros_like(t, dtype=torch.int32),
    "prelu": lambda t: F.prelu(t, torch.full((t.shape[1],), 0.3)),
}


def _image() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 6, 30, 40)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", BY_ELEMENT)
def test_kernels_that_go_by_memory_give_the_values_of_rows(name: str, order: str) -> None:
    x, function = ORDERS[order](_image()), BY_ELEMENT[name]
    found, expected = function(x), function(x.contiguous())
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_results_that_go_by_memory_lie_as_their_operand() -> None:
    x = ORDERS["channels last"](_image())
    assert torch.sigmoid(x).stride() == x.stride()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", range(4))
def test_positions_along_a_dimension_have_the_plain_bits(
    dim: int, order: str, plainly: Plainly
) -> None:
    x = ORDERS[order](_image())
    index = torch.randint(0, x.shape[dim], tuple(x.shape))
    places = torch.randint(0, x.shape[dim], (x.shape[dim],))

    def run() -> object:
        return (
            x.gather(dim, index),
            x.scatter_add(dim, index, x),
            x.scatter(dim, index, x.flip(0)),
            x.index_add(dim, places, x),
            x.index_add(dim, places, x, alpha=2),
        )

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [2, 3, 4, 6, 12, 37, 64])
@pytest.mark.parametrize("name", ["amax", "amin", "any", "all", "argmax", "argmin"])
def test_short_lines_are_reduced_as_long_ones(name: str, size: int) -> None:
    torch.manual_seed(0)
    x = torch.randint(-3, 3, (3_000, size)).float()
    x[5, size // 2], x[6] = torch.nan, torch.nan
    expected = torch.stack([getattr(row, name)(0) for row in x])
    for found in (getattr(x, name)(1), getattr(x.t().contiguous(), name)(0)):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", range(4))
def test_products_along_a_dimension_are_those_of_rows(dim: int, order: str) -> None:
    x = ORDERS[order](_image())
    expected = x.double().contiguous().numpy().prod(dim)
    np.testing.assert_allclose(x.prod(dim).numpy(), expected, rtol=1e-5)


def test_tensors_of_one_memory_are_equal_but_for_nan() -> None:
    whole, numbers = torch.arange(10_000), torch.arange(10_000.0)
    assert torch.equal(whole, whole)
    assert torch.equal(numbers, numbers.clone())
    numbers[-1] = torch.nan
    assert not torch.equal(numbers, numbers)


def test_slopes_of_gamma_draws_agree_with_the_plain_path(plainly: Plainly) -> None:
    torch.manual_seed(0)
    shapes = torch.rand(5_000, dtype=torch.float64).mul(12).sub(5).exp()  # 0.007 to 1,100
    drawn = torch._standard_gamma(shapes).clamp_min(1e-30)
    found = torch._standard_gamma_grad(shapes, drawn)
    expected = plainly(lambda: torch._standard_gamma_grad(shapes, drawn))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0.0)


def test_slopes_of_shares_agree_with_the_plain_path(plainly: Plainly) -> None:
    torch.manual_seed(0)
    shapes = torch.rand(5_000, 2, dtype=torch.float64).mul(7).sub(1).exp()
    share, totals = torch._sample_dirichlet(shapes), shapes.sum(1, True).expand(5_000, 2)
    share = share.clamp(1e-9, 1 - 1e-9)
    found = torch._dirichlet_grad(share, shapes, totals)
    expected = plainly(lambda: torch._dirichlet_grad(share, shapes, totals))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0.0)
