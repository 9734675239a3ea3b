"""Padding by reflection and replication, shuffles of pixels and channels."""

from __future__ import annotations

from collections.abc import Callable

import gradcheck
import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch
from maquette.api import functions as F

RANDOM = np.random.default_rng(9)


@pytest.mark.parametrize(("mode", "theirs"), [("reflect", "reflect"), ("replicate", "edge")])
def test_pad_is_numpys(mode: str, theirs: str) -> None:
    x = RANDOM.standard_normal((1, 2, 4, 5))
    found = F.pad(mq.from_numpy(x), (1, 2, 3, 0), mode)
    np.testing.assert_array_equal(
        found.numpy(), np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 2)], theirs)
    )


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_derivative_of_pad(mode: str) -> None:
    def padded(x: mq.Tensor) -> mq.Tensor:
        return F.pad(x, (2, -1, 1, 3), mode)

    x = RANDOM.standard_normal((2, 4, 5))
    gradcheck.check_gradients(padded, x)
    gradcheck.check_second_gradients(lambda t: padded(t) ** 2, x)


def test_reflection_needs_more_elements_than_it_adds() -> None:
    with pytest.raises(RuntimeError, match="Padding size should be less than"):
        F.reflection_pad1d(mq.ones(3, 4), (4, 0))


def test_pixel_unshuffle_undoes_pixel_shuffle() -> None:
    x = mq.from_numpy(RANDOM.standard_normal((2, 8, 3, 3)))
    assert F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).equal(x)


@pytest.mark.parametrize("name", ["pixel_shuffle", "channel_shuffle"])
def test_derivative_of_shuffle(name: str) -> None:
    x = RANDOM.standard_normal((1, 4, 2, 3))
    gradcheck.check_gradients(lambda t: getattr(F, name)(t, 2), x)


def test_channels_stay_last() -> None:
    x = mq.ones(1, 4, 6, 6).contiguous(memory_format=mq.channels_last)
    assert F.reflection_pad2d(x, (1, 1, 1, 1)).is_contiguous(memory_format=mq.channels_last)
    assert F.channel_shuffle(x, 2).is_contiguous(memory_format=mq.channels_last)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("pads", [(2, 3), (0, 3, 4, 1), (1, 0, 0, 2, 3, 3)], ids=str)
def test_gradients_of_borders_are_the_adjoint_of_padding(mode: str, pads: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, *[5, 6, 7][: len(pads) // 2], dtype=torch.float64, requires_grad=True)
    out = torch.nn.functional.pad(x, pads, mode=mode)
    grad, other = torch.randn(out.shape, dtype=out.dtype), torch.randn(x.shape, dtype=x.dtype)
    out.backward(grad)
    there = (torch.nn.functional.pad(other, pads, mode=mode) * grad).sum()
    torch.testing.assert_close((other * x.grad).sum(), there)


@pytest.mark.parametrize("padding", [[], [1], [1, 1, 1]])
@pytest.mark.parametrize("name", ["reflection_pad1d", "replication_pad1d"])
def test_padding_of_another_length_is_refused(name: str, padding: list[int]) -> None:
    with pytest.raises(RuntimeError, match="padding size is expected to be 2"):
        getattr(mq.ops.aten, name)(mq.ones(1, 4), padding)


SHUFFLES = [
    lambda x: mq.ops.aten.constant_pad_nd(x, [1, -1, 0, 2], 3),
    lambda x: mq.ops.aten.reflection_pad2d(x, [1, 2, 0, 3]),
    lambda x: mq.ops.aten.replication_pad2d(x, [1, 0, 2, 3]),
    lambda x: mq.ops.aten.pixel_shuffle(x, 2),
    lambda x: mq.ops.aten.pixel_unshuffle(x, 2),
]


@pytest.mark.parametrize("function", SHUFFLES)
def test_F61_channels_last_has_the_values_of_rows(
    function: Callable[[mq.Tensor], mq.Tensor],
) -> None:
    x = mq.from_numpy(np.random.default_rng(0).standard_normal((2, 8, 6, 4)))
    last = x.contiguous(memory_format=mq.channels_last)
    found, expected = (function(v) for v in (last, x))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert found.is_contiguous(memory_format=mq.channels_last)


@pytest.mark.parametrize("pads", [[2, -1], [-1, 2]])
def test_a_dimension_that_was_cut_is_not_wrapped_around_twice(pads: list[int]) -> None:
    with pytest.raises(RuntimeError, match="wrapping around more than once"):
        mq.nn.functional.pad(mq.ones(1, 2, 2), pads, mode="circular")
