"""Layers that undo a max-pooling, and max-pooling over windows that begin at random."""

from collections.abc import Sequence
from typing import ClassVar

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.functional.pooling import Ratios, WithIndices
from maquette.nn.modules._construct import Sizes, described, repeated
from maquette.tensor import Tensor


class _MaxUnpoolNd(Module):
    _mq_run: ClassVar[str]
    _dims: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self._dims)
        self.stride = repeated(kernel_size if stride is None else stride, self._dims)
        self.padding = repeated(padding, self._dims)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """What was pooled, zero but for its maxima; `output_size` where it was not the least."""
        return getattr(F, self._mq_run)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """The window."""
        return described(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """The values of `MaxPool1d` back where its indices say."""

    _mq_run = "max_unpool1d"
    _dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """The values of `MaxPool2d` back where its indices say."""

    _mq_run = "max_unpool2d"
    _dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """The values of `MaxPool3d` back where its indices say."""

    _mq_run = "max_unpool3d"
    _dims = 3


class _FractionalMaxPoolNd(Module):
    _mq_run: ClassVar[str]
    _dims: ClassVar[int]
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Ratios | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, dims = type(self).__name__, self._dims
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = repeated(kernel_size, dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, dims)
        self.output_ratio = None if output_ratio is None else _ratios(output_ratio, dims)

    def forward(self, input: Tensor) -> Tensor | WithIndices:
        """(batch, channels, *space) to (batch, channels, *output_size), with indices on request."""
        return getattr(F, self._mq_run)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


def _ratios(output_ratio: Ratios, dims: int) -> tuple[float, ...]:
    one = isinstance(output_ratio, int | float)
    ratios: tuple[float, ...] = (output_ratio,) * dims if one else tuple(output_ratio)  # type: ignore[arg-type, assignment]  # as asked
    if not all(0 < ratio < 1 for ratio in ratios):
        raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
    return ratios


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima of windows of an image that begin at random (Graham, 2014)."""

    _mq_run = "fractional_max_pool2d"
    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima of windows of a volume that begin at random (Graham, 2014).

    Raises ValueError for a window without elements; `FractionalMaxPool2d` leaves that to its call.
    """

    _mq_run = "fractional_max_pool3d"
    _dims = 3

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Ratios | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        if not all(size > 0 for size in repeated(kernel_size, 3)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)
