"""Fourier transforms, as the array API standard has them: its ``fft`` extension.

What is here: PyTorch's transforms with ``axis`` for ``dim``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from maquette.api import functions as mq
from maquette.array_api.creation import Place
from maquette.array_api.data_types import DType
from maquette.tensor.tensor import Tensor

Norm = Literal["backward", "ortho", "forward"]


def _along(name: str, function: Callable[..., Tensor], does: str) -> Callable[..., Tensor]:
    def transform(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
    ) -> Tensor:
        return function(x, n=n, dim=axis, norm=norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = does
    return transform


def _over(name: str, function: Callable[..., Tensor], does: str) -> Callable[..., Tensor]:
    def transform(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: Norm = "backward",
    ) -> Tensor:
        return function(x, s=s, dim=axes, norm=norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = does
    return transform


fft = _along("fft", mq.fft_fft, "The transform along an axis.")
ifft = _along("ifft", mq.fft_ifft, "The inverse transform along an axis.")
rfft = _along("rfft", mq.fft_rfft, "The transform of real numbers, its second half left out.")
irfft = _along("irfft", mq.fft_irfft, "The inverse of `rfft`.")
hfft = _along("hfft", mq.fft_hfft, "The real transform of numbers that mirror their conjugates.")
ihfft = _along("ihfft", mq.fft_ihfft, "The inverse of `hfft`.")
fftn = _over("fftn", mq.fft_fftn, "The transform over several axes.")
ifftn = _over("ifftn", mq.fft_ifftn, "The inverse transform over several axes.")
rfftn = _over("rfftn", mq.fft_rfftn, "The transform of real numbers over several axes.")
irfftn = _over("irfftn", mq.fft_irfftn, "The inverse of `rfftn`.")


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Place = None
) -> Tensor:
    """The frequencies of a transform of ``n`` samples that are ``d`` apart."""
    return mq.fft_fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Place = None
) -> Tensor:
    """The frequencies that `rfft` keeps."""
    return mq.fft_rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The array with frequency zero moved to the middle."""
    return mq.fft_fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return mq.fft_ifftshift(x, axes)
