"""Compiled conversions of 16-bit floats: NumPy's numbers, and PyTorch's layouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette as mq
import maquette.torch as torch

__all__ = ["plainly"]

HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_every_half_is_widened_exactly(kind: mq.dtype, plainly: Plainly) -> None:
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(kind)
    (found,), (expected,) = arrays(x.float()), arrays(plainly(lambda: x.float()))
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected)).all()


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_numbers_are_rounded_to_halves_as_plainly(kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(0)
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(kind).float().view(torch.int32)
    near = [bits + step for step in (-1, 0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)]
    x = torch.cat([*near, torch.randint(-(2**31), 2**31, (300_000,)).int()]).view(torch.float32)
    (found,), (expected,) = arrays(x.to(kind).float()), arrays(plainly(lambda: x.to(kind).float()))
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(found)].all()


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_arithmetic_of_halves_has_the_plain_bits(kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(1)
    x, y = torch.randn(2, 300, 200).to(kind)

    def run() -> object:
        into = torch.zeros(200, 300, dtype=kind).t()
        found = [x + y, x - y, x * y, x / y, x.add(y, alpha=3), x.t() + y.t(), x + 1.7, x.exp()]
        return [t.float() for t in (*found, into.copy_(x.float()), torch.add(x, y, out=into))]

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


LAYOUTS: dict[str, Callable[[mq.Tensor], mq.Tensor]] = {
    "in a row": lambda x: x[:30],
    "transposed": lambda x: x[:30].transpose(0, 2),
    "permuted": lambda x: x[:30].permute(1, 0, 2),
    "every other one": lambda x: x[::2],
    "rows": lambda x: x[:30, :1],
    "columns": lambda x: x[:30, :, :1],
    "expanded": lambda x: x[:1, :, :1].expand(30, 30, 30),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_steps_on_halves_of_all_layouts_have_the_plain_bits(
    kind: mq.dtype, layout: str, plainly: Plainly
) -> None:
    torch.manual_seed(2)
    x, y = LAYOUTS[layout](torch.randn(60, 30, 30).to(kind)), torch.randn(30, 30, 30).to(kind)

    def run() -> object:
        return [t.float() for t in (x + y, y / x, torch.maximum(x, y), x.sqrt(), y.lerp(x, x))]

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def _sums_at_positions(kind: mq.dtype) -> list[mq.Tensor]:
    """Values of which several meet at a position, by each operator."""
    torch.manual_seed(3)
    x, y = torch.randn(2, 90, 90).to(kind)
    rows, index = torch.randint(0, 9, (90,)), torch.randint(0, 90, (90, 90))
    pairs = (index, index.t())
    reductions = ["sum", "prod", "mean", "amax", "amin"]
    return [
        *[x.index_add(dim, rows, y) for dim in (0, 1)],
        x.index_add(1, rows[:50], y[:, 20:70]),
        x.index_put((rows,), y, accumulate=True),
        x.index_put(pairs, y, accumulate=True),
        *[x.put(index - 45, y, add) for add in (True, False)],
        *[x.scatter(dim, index, y) for dim in (0, 1)],
        *[x.scatter_add(dim, index, y) for dim in (0, 1)],
        *[x.scatter_reduce(dim, index, y, how) for how in reductions for dim in (0, 1)],
        *[x.index_reduce(dim, rows, y, how) for how in reductions[1:] for dim in (0, 1)],
    ]


@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_halves_meet_at_positions_as_plainly(kind: mq.dtype, plainly: Plainly) -> None:
    expected = plainly(lambda: _sums_at_positions(kind))
    for found, plain in zip(_sums_at_positions(kind), expected, strict=True):
        np.testing.assert_array_equal(*[np.asarray(t.float()) for t in (found, plain)])
