"""Pooling: the largest or the mean of a window, of fixed or adapted size, or of random place.

The windows' arithmetic is the operators'. Lives here: the choice between an operator that also
returns indices and one that does not, `None` sizes of the adaptive forms, and the random numbers
of the fractional ones. What undoes a max-pooling is in `unpooling.py`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.library.advice import advised
from maquette.nn.functional.conv import Sizes
from maquette.tensor import Tensor

OptionalSizes = int | Sequence[int | None] | None
WithIndices = tuple[Tensor, Tensor]
Ratios = float | Sequence[float]


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window over one dimension; the stride defaults to the window."""
    return mq.avg_pool1d(input, kernel_size, _stride(stride), padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of each window over two dimensions; the stride defaults to the window."""
    return mq.avg_pool2d(
        input,
        kernel_size,
        _stride(stride),
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        **({} if out is None else {"out": out}),
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of each window over three dimensions; the stride defaults to the window."""
    return mq.avg_pool3d(
        input,
        kernel_size,
        _stride(stride),
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        **({} if out is None else {"out": out}),
    )


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | WithIndices:
    """The largest of each window over one dimension, with its index on request."""
    op = mq.max_pool1d_with_indices if return_indices else mq.max_pool1d
    return op(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | WithIndices:
    """The largest of each window over two dimensions, with its flat index on request."""
    op = mq.max_pool2d_with_indices if return_indices else mq.max_pool2d
    return op(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | WithIndices:
    """The largest of each window over three dimensions, with its flat index on request."""
    op = mq.max_pool3d_with_indices if return_indices else mq.max_pool3d
    return op(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means over as many windows as `output_size` asks for."""
    return mq.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: OptionalSizes) -> Tensor:
    """Means over height × width windows; None keeps the input's size."""
    return mq.adaptive_avg_pool2d(input, _adapted(output_size, input.shape))


def adaptive_avg_pool3d(input: Tensor, output_size: OptionalSizes) -> Tensor:
    """Means over depth × height × width windows; None keeps the input's size."""
    return mq.adaptive_avg_pool3d(input, _adapted(output_size, input.shape))


def adaptive_max_pool1d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Tensor | WithIndices:
    """Maxima of as many windows as `output_size` asks for, with their indices on request."""
    pooled: WithIndices = mq.adaptive_max_pool1d(input, output_size)
    return pooled if return_indices else pooled[0]


def adaptive_max_pool2d(
    input: Tensor, output_size: OptionalSizes, return_indices: bool = False
) -> Tensor | WithIndices:
    """Maxima of height × width windows, with their flat indices on request."""
    pooled: WithIndices = mq.adaptive_max_pool2d(input, _adapted(output_size, input.shape))
    return pooled if return_indices else pooled[0]


def adaptive_max_pool3d(
    input: Tensor, output_size: OptionalSizes, return_indices: bool = False
) -> Tensor | WithIndices:
    """Maxima of depth × height × width windows, with their flat indices on request."""
    pooled: WithIndices = mq.adaptive_max_pool3d(input, _adapted(output_size, input.shape))
    return pooled if return_indices else pooled[0]


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> WithIndices:
    """Maxima of windows that begin at random but evenly, and their flat indices (Graham, 2014).

    output_ratio: the size of the output over the input's, where `output_size` is not given.
    _random_samples: (batch, channels, 2) numbers in [0, 1) that say where windows begin.
    Differs: one ratio stands for all dimensions; PyTorch takes it in the module only.
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> WithIndices:
    """`fractional_max_pool2d_with_indices` over three dimensions, with as many random numbers."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | WithIndices:
    """`fractional_max_pool2d_with_indices`, with the indices on request."""
    pooled = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | WithIndices:
    """`fractional_max_pool3d_with_indices`, with the indices on request."""
    pooled = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


def _fractional(
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Ratios | None,
    samples: Tensor | None,
) -> WithIndices:
    if output_size is None:
        if output_ratio is None:
            raise ValueError(
                f"fractional_max_pool{dims}d requires specifying either an output_size or an "
                f"output_ratio"
            )
        one = isinstance(output_ratio, int | float)
        ratios: Any = (output_ratio,) * dims if one else output_ratio
        if len(ratios) != dims:
            raise ValueError(
                f"fractional_max_pool{dims}d requires output_ratio to either be a single Int or "
                f"tuple of Ints. Got {output_ratio}"
            )
        output_size = [int(n * ratio) for n, ratio in zip(input.shape[-dims:], ratios)]
    if samples is None:
        planes = [1 if input.ndim == dims + 1 else input.shape[0], input.shape[-dims - 1]]
        samples = mq.rand([*planes, dims], dtype=input.dtype, device=input.device)
    pool = mq.fractional_max_pool2d if dims == 2 else mq.fractional_max_pool3d
    pooled: WithIndices = pool(input, each(kernel_size, dims), each(output_size, dims), samples)
    return pooled


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window over one dimension; infinities take the largest magnitude."""
    return _lp_pool(input, norm_type, (kernel_size,), stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window over two dimensions; infinities take the largest magnitude."""
    return _lp_pool(input, norm_type, each(kernel_size, 2), stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window over three dimensions; infinities take the largest magnitude."""
    return _lp_pool(input, norm_type, each(kernel_size, 3), stride, ceil_mode)


_AVG_POOLS: dict[int, Callable[..., Tensor]] = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


def _lp_pool(
    input: Tensor, norm_type: float, window: Sequence[int], stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    if math.isinf(norm_type):
        max_pool = getattr(mq, f"max_pool{len(window)}d")
        strides = _stride(stride)
        if norm_type > 0:
            return max_pool(input.abs(), window, strides, 0, 1, ceil_mode)
        return -max_pool(-input.abs(), window, strides, 0, 1, ceil_mode)
    avg_pool = _AVG_POOLS[len(window)]
    out = avg_pool(input.pow(norm_type), window, stride, 0, ceil_mode)
    # A sum that should be positive may come out a little below zero; it counts as zero.
    return (out.sign() * mq.relu(out.abs())).mul(math.prod(window)).pow(1.0 / norm_type)


def _stride(stride: Sizes | None) -> Sizes:
    return () if stride is None else stride  # the operators read an empty list as "the window"


def each(size: Sizes, count: int) -> Sequence[int]:
    """A size for each of so many dimensions."""
    return (size,) * count if isinstance(size, int) else size


def _adapted(output_size: OptionalSizes, shape: Sequence[int]) -> Sizes:
    if isinstance(output_size, int):
        return output_size
    sizes = [None] if output_size is None else list(output_size)
    if len(shape) <= len(sizes):
        error = ValueError(f"Input dimension should be at least {len(sizes) + 1}")
        raise advised(error, f"It is {len(shape)} for an output of {output_size}.")
    kept = shape[-len(sizes) :]
    return [old if new is None else new for new, old in zip(sizes, kept)]
