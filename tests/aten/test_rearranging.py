"""Joined, repeated, flipped, padded tensors and triangles, against NumPy and differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from gradcheck import check_gradients

import maquette as mq

A = np.arange(12.0).reshape(3, 4) / 10 + 0.5
B = A[:2] * 2


def test_cat_promotes_and_skips_empty_vectors() -> None:
    joined = mq.cat([mq.zeros(0), mq.ones(2, 3, dtype=mq.int32), mq.zeros(1, 3)])
    assert joined.shape == (3, 3)
    assert joined.dtype is mq.float32


@pytest.mark.parametrize(
    ("tensors", "error", "words"),
    [
        ([], ValueError, "non-empty"),
        ([mq.zeros(())], RuntimeError, "zero-dimensional"),
        ([mq.zeros(2), mq.zeros(2, 2)], RuntimeError, "got 1 and 2"),
        ([mq.zeros(2, 3), mq.zeros(2, 4)], RuntimeError, "size 3 but got size 4"),
    ],
)
def test_cat_refuses(tensors: list[mq.Tensor], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        mq.cat(tensors)


def test_T40_cat_and_stack_of_channels_last_keep_the_order() -> None:
    x = mq.zeros(2, 3, 4, 5).to(memory_format=mq.channels_last)
    assert mq.cat([x, x]).stride() == (60, 1, 15, 3)
    assert mq.stack([x, x], 1).stride() == (120, 3, 1, 30, 6)
    assert mq.stack([x, x], 4).is_contiguous()


def test_T40_flip_keeps_the_order_and_roll_does_not() -> None:
    x = mq.zeros(48).as_strided((4, 2, 3), (1, 12, 4))
    assert x.flip(0).stride() == (1, 12, 4)
    assert x.roll(1, 0).stride() == (6, 3, 1)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x: x.flip(0, 1), lambda a: a[::-1, ::-1]),
        (lambda x: x.roll((1, 2), (0, 1)), lambda a: np.roll(a, (1, 2), (0, 1))),
        (lambda x: x.rot90(), np.rot90),
        (lambda x: x.tile(2), lambda a: np.tile(a, 2)),
        (lambda x: x.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
        (lambda x: x.tril(1), lambda a: np.tril(a, 1)),
        (lambda x: x.triu(-1), lambda a: np.triu(a, -1)),
        (lambda x: mq.vstack([x, x]), lambda a: np.vstack([a, a])),
        (lambda x: x.repeat_interleave(2), lambda a: np.repeat(a, 2)),
        (lambda x: x[0].diag(1), lambda a: np.diag(a[0], 1)),
    ],
)
def test_agrees_with_numpy(ours: Callable[..., mq.Tensor], theirs: Callable[..., object]) -> None:
    np.testing.assert_array_equal(ours(mq.from_numpy(A)).numpy(), theirs(A))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: mq.cat([x, y * y, x]),
        lambda x, y: mq.stack([x[:2], y], 1),
        lambda x, y: mq.block_diag(x, y),
        lambda x, y: x.repeat(2, 3) * y.flip(0)[0].repeat(3),
        lambda x, y: x.roll(1, 0).rot90() + y.tril().sum(),
        lambda x, y: mq.constant_pad_nd(x, (1, -1, 0, 2)) * y.sum(),
        lambda x, y: x.diagonal().diag_embed(1).triu() * y.sum(),
        lambda x, y: x.clone().copy_(y[0]) * x,
        lambda x, y: mq.ops.aten.fill(x, 2.0) * x + x.clone().fill_(y.sum()),
    ],
)
def test_derivatives(function: Callable[..., object]) -> None:
    check_gradients(function, A, B)


def test_copy_crosses_dtypes_and_devices() -> None:
    x = mq.zeros(2, 3, dtype=mq.int64)
    assert x.copy_(mq.tensor([1.7, -1.7, 0.0])).tolist() == [[1, -1, 0]] * 2
    with mq.FakeTensorMode():
        y = mq.zeros(3, device="cuda")
        assert y.copy_(mq.zeros(3)).device.type == "cuda"


def test_T41_a_write_to_one_location_is_refused_but_a_fill_is_not() -> None:
    x = mq.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.copy_(mq.zeros(3))
    x.fill_(2)
    x.zero_()


def test_T41_partial_overlap_is_refused() -> None:
    x = mq.zeros(4)
    with pytest.raises(RuntimeError, match="clone"):
        x[1:].copy_(x[:-1])


def test_pad_counts_pairs_from_the_last_dimension() -> None:
    assert mq.constant_pad_nd(mq.zeros(2, 3), (1, 2, 3, 4)).shape == (9, 6)
    with pytest.raises(RuntimeError, match="negative output size"):
        mq.constant_pad_nd(mq.zeros(2), (-2, -1))


def test_a_write_by_composition_counts_once() -> None:
    out = mq.zeros(3)
    mq.hstack([mq.ones(1), mq.ones(2)], out=out)
    assert out._version == 1


@pytest.mark.parametrize("diagonal", [-5_000, -70, -1, 0, 3, 90])
@pytest.mark.parametrize("shape", [(5_000, 4), (2, 3, 1_000), (90, 70)])
def test_triangles_of_tall_and_wide_matrices_are_those_of_a_mask(
    shape: tuple[int, ...], diagonal: int
) -> None:
    x = mq.arange(1, 1 + math.prod(shape)).reshape(shape)
    column, row = mq.arange(shape[-1]), mq.arange(shape[-2])[:, None]
    assert mq.equal(x.tril(diagonal), mq.where(column <= row + diagonal, x, 0))
    assert mq.equal(x.triu(diagonal), mq.where(column >= row + diagonal, x, 0))
