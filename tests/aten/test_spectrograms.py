"""Short-time Fourier transforms: what each frame is, the way back, gradients, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients

import maquette as mq

random = np.random.default_rng(3)
SIGNAL = random.standard_normal((2, 25))
WINDOW = random.random(6) + 0.2


def tensor(array: np.ndarray) -> mq.Tensor:
    return mq.from_numpy(array.copy())


def frames_of(signal: np.ndarray, window: np.ndarray, n_fft: int, hop: int) -> np.ndarray:
    """The oracle: each frame times the window, which stands in the middle of n_fft zeros."""
    before = (n_fft - len(window)) // 2
    full = np.zeros(n_fft)
    full[before : before + len(window)] = window
    starts = range(0, signal.shape[-1] - n_fft + 1, hop)
    return np.stack([signal[..., s : s + n_fft] * full for s in starts], -2)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_stft_is_the_transform_of_each_frame(onesided: bool, normalized: bool) -> None:
    found = mq.stft(
        tensor(SIGNAL), 8, 3, 6, tensor(WINDOW), center=False, normalized=normalized,
        onesided=onesided, return_complex=True,
    )  # fmt: skip
    transform = np.fft.rfft if onesided else np.fft.fft
    frames = frames_of(SIGNAL, WINDOW, 8, 3)
    expected = transform(frames, norm="ortho" if normalized else "backward")
    np.testing.assert_allclose(found.numpy(), np.swapaxes(expected, -1, -2), atol=1e-12)


def test_a_centred_stft_continues_the_signal_by_reflection() -> None:
    padded = np.pad(SIGNAL, [(0, 0), (4, 4)], mode="reflect")
    centred = mq.stft(tensor(SIGNAL), 8, 3, return_complex=True)
    plain = mq.stft(tensor(padded), 8, 3, center=False, return_complex=True)
    assert mq.equal(centred, plain)


def test_stft_of_parts_is_a_view_of_the_complex_one() -> None:
    parts = tensor(SIGNAL).stft(8, return_complex=False)
    assert mq.equal(parts, mq.view_as_real(tensor(SIGNAL).stft(8, return_complex=True)))


def test_an_aligned_window_begins_with_the_signal() -> None:
    aligned = mq.stft(
        tensor(SIGNAL), 8, 3, 6, center=False, align_to_window=True, return_complex=True
    )
    first = np.fft.irfft(aligned.numpy()[..., 0])
    np.testing.assert_allclose(first[..., 1:7], SIGNAL[..., :6], atol=1e-12)
    assert aligned.shape[-1] == (25 - 6) // 3 + 1


@pytest.mark.parametrize("center", [True, False])
def test_istft_finds_the_signal_again(center: bool) -> None:
    spectrum = mq.stft(tensor(SIGNAL), 8, 2, 8, center=center, return_complex=True)
    again = mq.istft(spectrum, 8, 2, 8, center=center, length=24)
    np.testing.assert_allclose(again.numpy(), SIGNAL[:, :24], atol=1e-12)


def test_istft_of_a_complex_signal() -> None:
    signal = tensor(SIGNAL + 1j * SIGNAL[::-1])
    spectrum = signal.stft(8, return_complex=True)
    again = spectrum.istft(8, onesided=False, length=25, return_complex=True)
    assert mq.allclose(again, signal)


def test_a_length_beyond_the_frames_is_filled_with_zeros() -> None:
    spectrum = mq.stft(tensor(SIGNAL), 8, 2, return_complex=True)
    again = mq.istft(spectrum, 8, 2, length=40)
    assert again.shape == (2, 40)
    assert not again[:, 29:].any()


def test_derivatives_of_stft_by_signal_and_window() -> None:
    def parts(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
        return mq.stft(x, 8, 3, 6, w, return_complex=False)

    check_gradients(parts, SIGNAL[:, :12], WINDOW)
    check_second_gradients(lambda x, w: parts(x, w).square(), SIGNAL[:, :9], WINDOW)


def test_derivatives_of_istft_by_spectrum_and_window() -> None:
    parts = random.standard_normal((5, 4, 2))
    check_gradients(
        lambda s, w: mq.istft(mq.view_as_complex(s), 8, 3, 6, w), parts, WINDOW, tolerance=1e-4
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "return_complex parameter be given"),
        ({"n_fft": 99, "center": False}, "expected 0 < n_fft <= 25"),
        ({"hop_length": 0}, "hop_length > 0"),
        ({"win_length": 9}, "0 < win_length <= n_fft"),
        ({"window": mq.ones(7)}, "size equal to win_length=8"),
        ({"window": mq.ones(8, dtype=mq.complex64), "onesided": True}, "Cannot have onesided"),
        ({"align_to_window": True}, "only be set when center = false"),
    ],
)
def test_stft_refuses(options: dict[str, object], message: str) -> None:
    given = {"n_fft": 8, "return_complex": True, **options}
    if not options:
        del given["return_complex"]
    with pytest.raises(RuntimeError, match=message):
        mq.stft(tensor(SIGNAL), **given)


def test_istft_refuses_windows_that_leave_samples_uncovered_and_a_fake_cannot_know() -> None:
    spectrum = mq.stft(tensor(SIGNAL), 8, 2, return_complex=True)
    with pytest.raises(RuntimeError, match="window overlap add min: 1"):
        mq.istft(spectrum, 8, 2, window=mq.zeros(8))
    mode = mq.FakeTensorMode()
    with mode:
        fake = mq.istft(mode.from_tensor(spectrum), 8, 2, window=mq.zeros(8))
    assert fake.shape == (2, 24)


def test_istft_refuses_a_spectrum_of_another_size() -> None:
    spectrum = mq.stft(tensor(SIGNAL), 8, 2, return_complex=True)
    with pytest.raises(RuntimeError, match=r"match n_fft / 2 \+ 1 = 6"):
        mq.istft(spectrum, 10, 2)
    with pytest.raises(RuntimeError, match="complex-valued input"):
        mq.istft(spectrum.real, 8, 2)


def test_frames_of_a_view_and_of_a_batch_under_vmap() -> None:
    signals = tensor(random.standard_normal((3, 40, 2)))
    window = mq.ones(8, dtype=mq.float64)

    def spectrum(signal: mq.Tensor) -> mq.Tensor:
        return mq.stft(signal, 8, 4, window=window, center=False, return_complex=True)

    each = mq.stack([spectrum(s.T.contiguous()) for s in signals])
    assert mq.allclose(mq.func.vmap(lambda s: spectrum(s.T))(signals), each)
