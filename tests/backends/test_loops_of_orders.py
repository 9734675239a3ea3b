"""Compiled sorts and searches for the first few: the plain path's positions."""

from __future__ import annotations

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

KINDS = [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.uint8, torch.int64]


def repeated(kind: mq.dtype, *shape: int) -> Tensor:
    """Numbers that repeat, with both zeros, infinities and NaN where the type has them."""
    torch.manual_seed(0)
    x = torch.randint(-60, 60, shape)
    if not kind.is_floating_point:
        return x.abs().to(kind) if kind is torch.uint8 else x.to(kind)
    special = torch.tensor([torch.nan, -torch.nan, torch.inf, -torch.inf, -0.0])
    return torch.where(x > 54, special[(x - 55).clamp(0, 4)], x / 4).to(kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((60, 400), 1), ((400, 60), 0), ((50_000,), 0)])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts_are_the_plain_ones(
    shape: tuple[int, ...], dim: int, descending: bool, kind: mq.dtype, plainly: Plainly
) -> None:
    x = repeated(kind, *shape)

    def run() -> object:
        values, order = x.sort(dim, descending)
        return values.double(), order

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((60, 400), 1), ((400, 60), 0), ((50_000,), 0)])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, 7, 25])
def test_the_first_few_are_the_plain_ones(
    k: int,
    largest: bool,
    shape: tuple[int, ...],
    dim: int,
    kind: mq.dtype,
    plainly: Plainly,
) -> None:
    x = repeated(kind, *shape)

    def run() -> object:
        values, places = x.topk(k, dim, largest)
        np.testing.assert_array_equal(
            arrays(values.double()), arrays(x.double().gather(dim, places))
        )
        short = shape[dim] < 1000  # in longer lines any of equal elements may be taken
        return values.double(), places if short else values.double()

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [*KINDS, torch.int32], ids=str)
@pytest.mark.parametrize("scale", [1, 1_000_003])
def test_distinct_values_are_the_plain_ones(scale: int, kind: mq.dtype, plainly: Plainly) -> None:
    x = repeated(kind, 100, 300) * (1 if kind.itemsize == 1 else scale)
    found = x.unique(return_inverse=True, return_counts=True)
    values, inverse, counts = (t.numpy() for t in (found[0].double(), *found[1:]))
    np.testing.assert_array_equal(values[inverse], x.double().numpy())
    assert values.size == np.unique(x.double().numpy(), equal_nan=False).size
    np.testing.assert_array_equal(np.bincount(inverse.reshape(-1)), counts)
    np.testing.assert_array_equal(x.unique().double().numpy(), values)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_runs_of_repeats_are_the_plain_ones(kind: mq.dtype, plainly: Plainly) -> None:
    x = repeated(kind, 20_000).repeat_interleave(3)
    found, expected = x.unique_consecutive().double(), plainly(x.unique_consecutive)
    assert isinstance(expected, Tensor)
    np.testing.assert_array_equal(found.numpy(), expected.double().numpy())


def test_which_of_equal_elements_come_first(plainly: Plainly) -> None:
    x = torch.randint(-20, 20, (9, 300)).to(torch.bfloat16)
    x[0, :3] = torch.nan

    def run() -> object:
        return [torch.topk(x, k, largest=k % 2 > 0)[1] for k in (1, 4, 30, 299)]

    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)
