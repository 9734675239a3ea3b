"""Compiled samples of images and distances of pairs, and their gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from plain_path import Plainly, arrays, plainly, trained

import maquette as mq
import maquette.torch as torch
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional
MODES = list(
    itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"])
)


def _sampled(mode: str, padding: str, image: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(image, grid, mode, padding, align_corners=False)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("mode", "padding"), MODES)
def test_samples_have_the_plain_bits(
    mode: str, padding: str, kind: mq.dtype, plainly: Plainly
) -> None:
    torch.manual_seed(0)
    image, grid = torch.randn(2, 5, 9, 11, dtype=kind), torch.randn(2, 50, 60, 2, dtype=kind)
    image[0, 0, 0, 0] = torch.inf
    run = trained(lambda image, grid: _sampled(mode, padding, image, grid), image, grid)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_with_channels_last_have_the_plain_bits(mode: str, plainly: Plainly) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 5, 9, 11).to(memory_format=torch.channels_last)
    image[0, 0, 0, 0] = torch.inf
    run = trained(lambda x, g: _sampled(mode, "zeros", x, g), image, torch.randn(2, 50, 60, 2))
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_samples_of_volumes_have_the_plain_bits(plainly: Plainly) -> None:
    torch.manual_seed(0)
    volume, grid = torch.randn(1, 3, 5, 6, 7), torch.randn(1, 20, 20, 20, 3)
    run = trained(lambda v, g: F.grid_sample(v, g, align_corners=True), volume, grid)
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_distances_of_pairs_are_the_plain_ones(p: float, kind: mq.dtype, plainly: Plainly) -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 17, dtype=kind)
    x[3], x[5, 2] = x[4], torch.inf  # a distance of zero, infinite ones
    run = trained(lambda x: F.pdist(x, p), x)
    rtol = 1e-5 if kind is torch.float32 else 1e-13
    for found, expected in zip(arrays(run()), arrays(plainly(run)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
