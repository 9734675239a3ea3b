"""Images whose channels are in a row, through their own loops and products, beside other orders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from plain_path import arrays, trained

import maquette.torch as torch
from maquette.tensor.tensor import Tensor

F = torch.nn.functional


def _parameter(*shape: int) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(shape) * 0.3


def _depthwise(size: int, **how: object) -> tuple[Callable[..., Tensor], Tensor]:
    return (lambda x, w: F.conv2d(x, w, groups=20, **how)), _parameter(20, 1, size, size)


CASES: dict[str, tuple[Callable[..., Tensor], Tensor]] = {
    "batch norm": (lambda x, w: F.batch_norm(x, None, None, w, w, True), _parameter(20)),
    "group norm": (lambda x, w: F.group_norm(x, 5, w, w), _parameter(20)),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), _parameter(30, 20, 3, 3)),
    "narrow": (lambda x, w: F.conv2d(x, w, padding=2), _parameter(8, 20, 5, 3)),
    "strided": (lambda x, w: F.conv2d(x, w, None, (2, 3), 1, 2), _parameter(8, 20, 3, 3)),
    "pointwise": (F.conv2d, _parameter(8, 20, 1, 1)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1), _parameter(20, 8, 4, 3)),
    "depthwise": _depthwise(3, padding=1),
    "depthwise, strided": _depthwise(5, padding=2, stride=2),
    "depthwise, apart": _depthwise(3, stride=(1, 3), dilation=(2, 2), padding=1),
}

POOLS: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, 2, True),
    "mean": lambda x: F.avg_pool2d(x, (3, 4), 2, 1, True),
    "mean of what is there": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "divided": lambda x: F.avg_pool2d(x, 3, divisor_override=2),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (5, 4)),
    "few means": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (5, 4)),
}


def _image() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(3, 20, 18, 23)


@pytest.mark.parametrize("name", CASES)
def test_channels_in_a_row_have_the_values_of_rows(name: str) -> None:
    function, *given = CASES[name]
    last = _image().to(memory_format=torch.channels_last)
    found, expected = (arrays(trained(function, x, *given)()) for x in (last, _image()))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4 * np.abs(other).max())


@pytest.mark.parametrize("name", CASES)
def test_results_have_channels_in_a_row_again(name: str) -> None:
    function, *given = CASES[name]
    x = _image().to(memory_format=torch.channels_last).requires_grad_()
    out = function(x, *given)
    out.backward(torch.ones(out.shape))
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert x.grad.stride() == x.stride()


@pytest.mark.parametrize("name", POOLS)
def test_pools_of_channels_in_a_row_have_the_values_of_rows(name: str) -> None:
    x, function = _image(), POOLS[name]
    x[:, ::3, ::4, ::5] = torch.nan
    x[:, 1] = 0.5
    last = x.to(memory_format=torch.channels_last)
    found, expected = (arrays(trained(function, v)()) for v in (last, x))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", POOLS)
def test_pools_keep_channels_in_a_row(name: str) -> None:
    x = _image().to(memory_format=torch.channels_last).requires_grad_()
    out = POOLS[name](x)
    out.backward(torch.ones(out.shape))
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert x.grad.stride() == x.stride()


def test_largest_elements_of_volumes_have_their_places() -> None:
    x = torch.randn(2, 6, 9, 10, 11).to(memory_format=torch.channels_last_3d)
    found, expected = (F.max_pool3d(v, 3, 2, 1, return_indices=True) for v in (x, x.contiguous()))
    for one, other in zip(arrays(found), arrays(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_places_outside_are_refused() -> None:
    x = _image().to(memory_format=torch.channels_last)
    index = torch.full_like(x, 999, dtype=torch.int64)
    backward = torch.ops.aten.adaptive_max_pool2d_backward
    with pytest.raises(RuntimeError, match="lie outside"):
        backward(x, x, index)


def test_columns_of_a_matrix_are_normalized() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(300, 70) * 3 + 100, _parameter(70)
    found = F.batch_norm(x, None, None, w, w, True)
    wide = F.batch_norm(x.double(), None, None, w.double(), w.double(), True)
    np.testing.assert_allclose(found.numpy(), wide.numpy(), atol=2e-5)


def test_gradients_that_lie_otherwise_are_taken_along() -> None:
    weight = _parameter(30, 20, 3, 3)
    x = _image().to(memory_format=torch.channels_last).requires_grad_()
    F.conv2d(x, weight).sum().backward()  # an expanded gradient
    rows = _image().requires_grad_()
    F.conv2d(rows, weight).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), rows.grad.numpy(), rtol=1e-4, atol=1e-4)


def _folded(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv3d(x, weight, stride=(1, 2, 1), padding=1)


def test_volumes_with_channels_in_a_row() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(2, 6, 9, 10, 11), _parameter(8, 6, 3, 3, 2)
    last = x.to(memory_format=torch.channels_last_3d)
    found, expected = (arrays(trained(_folded, v, weight)()) for v in (last, x))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("how", [{}, {"stride": (2, 1, 3), "padding": 1, "dilation": (1, 2, 1)}])
def test_transposed_convolutions_of_volumes_have_the_values_of_rows(how: dict[str, int]) -> None:
    torch.manual_seed(0)
    rows, weight = torch.randn(2, 6, 9, 11, 10), _parameter(6, 4, 3, 2, 3)
    last = rows.to(memory_format=torch.channels_last_3d)
    run = [trained(lambda x, w: F.conv_transpose3d(x, w, **how), x, weight) for x in (last, rows)]
    for one, other in zip(arrays(run[0]()), arrays(run[1]()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4 * np.abs(other).max())
