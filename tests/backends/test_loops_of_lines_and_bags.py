"""Compiled error functions, outer products, turned rows, maxima of lines, bags of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from plain_path import Plainly, arrays, plainly, spread_out, ulps

import maquette as mq
import maquette.torch as torch

__all__ = ["plainly"]

F = torch.nn.functional
FLOATS = [torch.float32, torch.float64]


def even(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 20_001)


def test_erf_of_doubles_is_within_ulps() -> None:
    x = even(-7, 7)
    assert ulps(torch.from_numpy(x).erf().numpy(), scipy.special.erf(x)) <= 4


def test_erfc_of_doubles_is_within_ulps_until_it_is_subnormal() -> None:
    x = even(-7, 26.5)
    expected = np.array([math.erfc(v) for v in x.tolist()])  # SciPy's is 500 ulp off at 26
    assert ulps(torch.from_numpy(x).erfc().numpy(), expected) <= 5


def test_erfc_of_singles_is_rounded_once() -> None:
    x = even(-5, 10.1).astype(np.float32)
    expected = scipy.special.erfc(x.astype(np.float64)).astype(np.float32)
    assert ulps(torch.from_numpy(x).erfc().numpy(), expected) <= 1


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions_of_extreme_numbers(name: str, kind: mq.dtype) -> None:
    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 30, -30, 1e-40], dtype=kind)
    (found,) = arrays(getattr(x.repeat(4_000), name)())
    expected = getattr(scipy.special, name)(x.numpy())
    np.testing.assert_array_equal(found[:7], expected[:7])
    assert (np.signbit(found[:7]) == np.signbit(expected[:7])).all()
    assert ulps(found[7:8], expected[7:]) <= 1


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_quotients_have_the_plain_bits(name: str, scale: float, plainly: Plainly) -> None:
    a, b = spread_out() * scale, spread_out().flip(0) + 0.25
    (found,) = arrays(getattr(torch, name)(a, b))
    (expected,) = arrays(plainly(lambda: getattr(torch, name)(a, b)))
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.complex64], ids=str)
def test_outer_products_have_the_plain_bits(kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(0)
    a, b, base = ((torch.randn(n) * 9).to(kind) for n in (200, 300, 300))

    def run() -> object:
        return torch.outer(a, b[::2]), torch.addr(base, a, b), torch.addr(base, a, b, beta=2)

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.int16, torch.complex128], ids=str)
@pytest.mark.parametrize("dims", [(2,), (0, 2), (0, 1, 2)])
def test_turned_rows_are_the_plain_ones(
    dims: tuple[int, ...], kind: mq.dtype, plainly: Plainly
) -> None:
    x = (torch.randn(30, 20, 51) * 9).to(kind)
    (found,), (expected,) = arrays(x.flip(dims)), arrays(plainly(lambda: x.flip(dims)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "geometry", [(2,), (3,), (3, 2), (3, 1, 1), (5, 2, 2, 3), (4, 3, 2)], ids=str
)
def test_maxima_of_lines_are_the_plain_ones(geometry: tuple[int, ...], plainly: Plainly) -> None:
    torch.manual_seed(0)
    x = (torch.randn(3, 16, 801) * 2).round()
    x[0, 0, 3], x[1, 2] = torch.nan, -torch.inf
    (found,) = arrays(F.max_pool1d(x, *geometry))
    (expected,) = arrays(plainly(lambda: F.max_pool1d(x.requires_grad_(), *geometry)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_of_rows_have_the_plain_bits(mode: str, padding: int | None, plainly: Plainly) -> None:
    torch.manual_seed(0)
    table, rows = torch.randn(50, 40), torch.randint(0, 50, (900,))
    table[4, :9], table[7] = torch.nan, -torch.inf
    bags = torch.tensor([0, 0, 5, 5, 400, 640, 900])
    scale = torch.randn(900) if mode == "sum" else None

    def run() -> object:
        return torch.ops.aten._embedding_bag(
            table, rows, bags, False, ["sum", "mean", "max"].index(mode), False, scale, False,
            -1 if padding is None else padding,
        )  # fmt: skip

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)
