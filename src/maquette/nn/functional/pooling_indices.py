"""The max-poolings that always return indices: `max_pool2d_with_indices` and its like."""

from collections.abc import Callable

from maquette.nn.functional import pooling
from maquette.nn.functional.conv import Sizes
from maquette.nn.functional.pooling import OptionalSizes, WithIndices
from maquette.tensor import Tensor


def _max_pool(dims: int) -> Callable[..., WithIndices]:
    pool: Callable[..., WithIndices] = getattr(pooling, f"max_pool{dims}d")

    def pool_with_indices(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> WithIndices:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return _named(pool_with_indices, f"max_pool{dims}d_with_indices")


def _adaptive_max_pool(dims: int) -> Callable[..., WithIndices]:
    pool: Callable[..., WithIndices] = getattr(pooling, f"adaptive_max_pool{dims}d")

    def pool_with_indices(
        input: Tensor, output_size: OptionalSizes, return_indices: bool = False
    ) -> WithIndices:
        return pool(input, output_size, True)

    return _named(pool_with_indices, f"adaptive_max_pool{dims}d_with_indices")


def _named(function: Callable[..., WithIndices], name: str) -> Callable[..., WithIndices]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The largest of each window and its place, whatever `return_indices` says."
    return function


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    _max_pool, (1, 2, 3)
)
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices = map(_adaptive_max_pool, (1, 2))
adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)
