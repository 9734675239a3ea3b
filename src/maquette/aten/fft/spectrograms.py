"""Spectra of a signal's frames and the signal made of them again: stft, istft.

Frames are a view of the signal; adding them back is that view's gradient, ``unfold_backward``. What
is computed is a product with the window and a transform of `fourier.py`, so derivatives follow.
"""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.aten.factory.assertions import _assert_async_msg
from maquette.aten.fft.fourier import PLAIN, ROOT, WHOLE, _fft_c2c, _fft_c2r, _fft_r2c
from maquette.aten.view.view_gradients import unfold_backward
from maquette.core.errors import check, check_index
from maquette.core.symbols import expect_within
from maquette.core.warned import warn_once
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

# Where the windows over a sample add up to less, the sample cannot be found again.
_LEAST_OVERLAP = 1e-11

_SIZES = "Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None"
_RESULT = "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None"
stft = define(f"aten::stft({_SIZES}, bool normalized=False, {_RESULT}) -> Tensor")
stft.describe("The short-time Fourier transform of signals [..., L]: [..., frequencies, frames].")
stft.autocast(cpu="float32")
stft_center = define(
    f'aten::stft.center({_SIZES}, bool center=True, str pad_mode="reflect", '
    f"bool normalized=False, {_RESULT}) -> Tensor"
)
stft_center.autocast(cpu="float32")


@stft_center.composite
def stft_center_composite(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """``stft`` of a signal continued at both ends, so that frames are centred on their samples."""
    if window is None and n_fft > 1:
        warn_once(
            "A window was not provided. A rectangular window will be applied, which is known to "
            "cause spectral leakage. Other windows such as torch.hann_window or "
            "torch.hamming_window are recommended to reduce spectral leakage. To suppress this "
            "warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`."
        )
    check(
        not center or align_to_window is None,
        lambda: "stft align_to_window should only be set when center = false.",
    )
    if center:
        ndim, shape = self.meta.ndim, self.meta.shape
        rows = self.view([1] * (3 - ndim) + list(shape))  # padding takes channels and a batch
        rows = aten.pad(rows, [n_fft // 2, n_fft // 2], pad_mode)
        self = rows.view(rows.meta.shape[rows.meta.ndim - ndim :])
    spectrum: Tensor = stft(
        self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
        align_to_window,
    )  # fmt: skip
    return spectrum


@stft.composite
def stft_composite(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """(samples) or (batch, samples) to (..., frequencies, frames); with a last 2 if not complex.

    Differs: frames aligned to a window of odd distance to ``n_fft`` do not leave the signal.
    """
    is_complex = self.is_complex() or (window is not None and window.is_complex())
    check(
        return_complex is not None or is_complex,
        lambda: (
            "stft requires the return_complex parameter be given for real inputs, and will "
            "further require that return_complex=True in a future PyTorch release."
        ),
    )
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    _check_signal(self, n_fft, hop)
    _check_window("stft", n_fft, width, window)
    check(
        not (onesided and is_complex),
        lambda: "Cannot have onesided output if window or input is complex",
    )
    signal = self.unsqueeze(0) if self.meta.ndim == 1 else self
    if align_to_window:
        signal = _widened(signal, n_fft, width)
    frames = _frames_in(signal, n_fft, hop)
    if window is not None or width < n_fft:
        frames = frames * _full_window(self, n_fft, width, window)
    check(
        frames.dtype.itemsize >= (8 if is_complex else 4),
        lambda: f"Unsupported dtype {frames.dtype.scalar_name}: stft takes float32 and wider",
    )
    mode = ROOT if normalized else PLAIN
    half = not is_complex if onesided is None else onesided
    spectrum = (
        _fft_c2c(frames, [2], mode, True) if is_complex else _fft_r2c(frames, [2], mode, half)
    )
    spectrum.transpose_(1, 2)
    if self.meta.ndim == 1:
        spectrum.squeeze_(0)
    result: Tensor = aten.view_as_real(spectrum) if return_complex is False else spectrum
    return result


def _frames_in(signal: Tensor, n_fft: int, hop: int) -> Tensor:
    """(batch, samples) to (batch, frames, n_fft), a view."""
    batch, samples = signal.meta.shape
    across, along = signal.stride()
    frames: Tensor = signal.as_strided(
        (batch, 1 + (samples - n_fft) // hop, n_fft), (across, hop * along, along)
    )
    return frames


def _check_signal(self: Tensor, n_fft: int, hop: int) -> None:
    meta = self.meta
    check(
        meta.dtype.is_floating_point or meta.dtype.is_complex,
        lambda: f"stft({meta}): expected a tensor of floating point or complex values",
    )
    check(meta.ndim in (1, 2), lambda: f"stft({meta}): expected a 1D or 2D tensor")
    check(
        expect_within(1, n_fft, meta.shape[-1]),
        lambda: (
            f"stft({meta}): expected 0 < n_fft <= {meta.shape[-1]}, the length of the signal; got "
            f"n_fft={n_fft}"
        ),
    )
    check(hop > 0, lambda: f"stft({meta}): expected hop_length > 0, but got hop_length={hop}")


def _check_window(name: str, n_fft: int, width: int, window: Tensor | None) -> None:
    check(
        0 < width <= n_fft,
        lambda: (
            f"{name}: expected 0 < win_length <= n_fft, but got win_length={width}, n_fft={n_fft}"
        ),
    )
    check(
        window is None or window.meta.shape == (width,),
        lambda: (
            f"{name}: expected a 1D window tensor of size equal to win_length={width}, but got "
            f"window {None if window is None else window.meta}"
        ),
    )


def _full_window(like: Tensor, n_fft: int, width: int, window: Tensor | None) -> Tensor:
    """The window, ones by default, in the middle of ``n_fft`` elements."""
    full: Tensor = like.new_ones((width,)) if window is None else window
    return _widened(full, n_fft, width) if width < n_fft else full


def _widened(t: Tensor, n_fft: int, width: int) -> Tensor:
    """Zeros at both ends, as many as a window of ``width`` lacks of ``n_fft``."""
    before = (n_fft - width) // 2
    wide: Tensor = aten.constant_pad_nd(t, [before, n_fft - width - before])
    return wide


istft = define(
    f"aten::istft({_SIZES}, bool center=True, bool normalized=False, bool? onesided=None, "
    f"int? length=None, bool return_complex=False) -> Tensor"
)
istft.describe(
    "The signal of a short-time Fourier transform [..., frequencies, frames], overlapping "
    "frames added."
)


@istft.composite
def istft_composite(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    normalized: bool,
    onesided: bool | None,
    length: int | None,
    return_complex: bool,
) -> Tensor:
    """(..., frequencies, frames) to (..., samples), by least squares (Griffin and Lim, 1984).

    Raises RuntimeError where the windows leave a sample uncovered; a fake run cannot see it.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    half = _check_spectrum(self, n_fft, onesided)
    check(
        0 < hop <= width,
        lambda: f"istft: expected 0 < hop_length <= win_length; got {hop} and {width}",
    )
    _check_window("istft", n_fft, width, window)
    check(
        return_complex or window is None or not window.is_complex(),
        lambda: "Complex windows are incompatible with return_complex=False",
    )
    check(
        not (return_complex and half),
        lambda: "Cannot have onesided output if window or input is complex",
    )
    spectrum = self.unsqueeze(0) if self.meta.ndim == 2 else self
    frames = _frames_of(spectrum, n_fft, normalized, half, return_complex)
    full = _full_window(frames.real if return_complex else frames, n_fft, width, window)
    samples = n_fft + hop * (frames.meta.shape[1] - 1)
    start = n_fft // 2 if center else 0
    end = samples - start if length is None else start + length
    signal = aten.slice(_overlapped(frames * full, samples, hop), 1, start, end)
    weights = full.pow(2).expand((1, frames.meta.shape[1], n_fft))
    envelope = aten.slice(_overlapped(weights, samples, hop), 1, start, end)
    _assert_async_msg(
        (envelope.abs().min() < _LEAST_OVERLAP).logical_not(),
        f"istft: window overlap add min: 1. The windows do not cover every sample: the least sum "
        f"of their squares is below {_LEAST_OVERLAP}",
    )
    signal = signal / envelope
    if self.meta.ndim == 2:
        signal = signal.squeeze(0)
    return aten.constant_pad_nd(signal, [0, end - samples]) if end > samples else signal


def _check_spectrum(self: Tensor, n_fft: int, onesided: bool | None) -> bool:
    """Whether the spectrum is half of one: it is if it has not ``n_fft`` frequencies."""
    meta = self.meta
    check(
        meta.dtype.is_complex,
        lambda: (
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        ),
    )
    check_index(
        meta.ndim > 1,
        lambda: f"istft({meta}): expected frequencies and frames, in two dimensions or three",
    )
    check(meta.numel > 0, lambda: f"istft({meta}): input tensor cannot be empty.")
    check(
        meta.ndim < 4,
        lambda: f"istft({meta}): expected frequencies and frames, in two dimensions or three",
    )
    count = meta.shape[-2]
    half = count != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    check(
        count == expected,
        lambda: (
            f"istft({meta}): expected the frequency dimension to match "
            f"{'n_fft / 2 + 1' if half else 'n_fft'} = {expected} when onesided={half}, but got "
            f"{count}"
        ),
    )
    return half


def _frames_of(
    spectrum: Tensor, n_fft: int, normalized: bool, half: bool, return_complex: bool
) -> Tensor:
    """(batch, frames, n_fft): each spectrum transformed back."""
    rows = spectrum.transpose(1, 2)
    mode = ROOT if normalized else WHOLE
    if return_complex:
        whole: Tensor = _fft_c2c(rows, [2], mode, False)
        return whole
    if not half:
        rows = aten.slice(rows, -1, 0, n_fft // 2 + 1)
    real: Tensor = _fft_c2r(rows, [2], mode, n_fft)
    return real


def _overlapped(frames: Tensor, samples: int, hop: int) -> Tensor:
    """(batch, frames, n_fft) to (batch, samples): frames added up where they overlap."""
    batch, _, n_fft = frames.meta.shape
    signal: Tensor = unfold_backward(frames, [batch, samples], 1, n_fft, hop)
    return signal
