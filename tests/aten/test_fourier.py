"""Fourier transforms against NumPy's, their layouts and gradients."""

from __future__ import annotations

import math

import gradcheck
import numpy as np
import pytest

import maquette as mq
from maquette.api import functions as F

RANDOM = np.random.default_rng(5)
NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]


@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
@pytest.mark.parametrize("name", NAMES)
def test_transform_is_numpys(name: str, norm: str | None) -> None:
    x = RANDOM.standard_normal((3, 8))
    found = getattr(F, f"fft_{name}")(mq.from_numpy(x), 6, 1, norm)
    np.testing.assert_allclose(
        found.resolve_conj().numpy(), getattr(np.fft, name)(x, 6, 1, norm), atol=1e-12
    )


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transform_of_several_dimensions_is_numpys(name: str) -> None:
    x = RANDOM.standard_normal((3, 4, 5))
    found = getattr(F, f"fft_{name}")(mq.from_numpy(x), (6, 4), (0, 2))
    np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(x, (6, 4), (0, 2)), atol=1e-12)


@pytest.mark.parametrize("name", ["fft_rfft", "fft_irfft", "fft_hfft", "fft_ihfft", "fft_fft2"])
def test_derivative_of_transform(name: str) -> None:
    def size(x: mq.Tensor) -> mq.Tensor:
        return getattr(F, name)(x).abs()

    gradcheck.check_gradients(size, RANDOM.standard_normal((3, 5)))


def test_transformed_dimension_lies_closest() -> None:
    assert F.fft_fft(mq.ones(5, 6, 7), dim=0).stride() == (1, 35, 5)


def test_real_transform_refuses_complex_input() -> None:
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor"):
        F.fft_rfft(mq.ones(4, dtype=mq.complex64))


def test_ihfftn_writes_its_out_where_several_dimensions_are_transformed() -> None:
    x, out = mq.from_numpy(RANDOM.standard_normal((3, 6))), mq.empty(0, dtype=mq.complex128)
    assert F.fft_ihfftn(x, out=out) is out
    assert mq.equal(out, F.fft_ihfftn(x))


def test_ihfftn_leaves_its_out_alone_for_one_dimension() -> None:
    out = mq.zeros(4, dtype=mq.complex64)
    assert F.fft_ihfftn(mq.ones(6), out=out).tolist() == [0] * 4


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_sums_of_real_signals_have_no_negative_zero(n: int) -> None:
    found = F.fft_fft(mq.arange(n)).numpy()
    assert not np.signbit(found.imag[0])
    np.testing.assert_allclose(found, np.fft.fft(np.arange(n)), atol=1e-5)
    ahead, behind = found.imag[1 : (n + 1) // 2], found.imag[n // 2 + 1 :]
    assert ahead.tolist() == (-behind[::-1]).tolist()


def test_a_scale_leaves_the_other_part_of_an_infinite_element() -> None:
    found = mq.ops.aten.fft_ihfft(mq.tensor([[math.inf], [1.0]]), norm="ortho")
    assert found.real.tolist() == [[math.inf], [1.0]]
    assert found.imag.tolist() == [[0.0], [0.0]]
