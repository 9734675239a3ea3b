"""Windows for spectra, as ``stft`` takes them: Hann, Hamming, Bartlett, Blackman, Kaiser.

Periodic ones, the default, are those of one point more without the last. The formulas are Harris's
(1978); the windows of ``torch.signal``, with other parameters, are in the torch-named face.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.elementary_functions import elementary
from maquette.aten.common.tensor_options import new_meta
from maquette.aten.factory.factories import OPTIONS
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_not_implemented
from maquette.core.layout import layout as Layout
from maquette.core.meta import TensorMeta
from maquette.library.page import define, describe

# From positions between 0 and 1/2 and the parameters of the window to values.
Formula = Callable[..., Array]


def _cosines(xp: ModuleType, at: Array, *weights: float) -> Array:
    """The sum of weighted cosines of 0, 1, 2 ... turns, of alternating sign."""
    total: Array = elementary(xp, "cos", 2 * xp.pi * at) * -weights[1] + weights[0]
    for k, weight in enumerate(weights[2:], 2):
        total += elementary(xp, "cos", 2 * xp.pi * k * at) * ((-1) ** k * weight)
    return total


def hann(xp: ModuleType, at: Array) -> Array:
    """One turn of a cosine, from 0 to 1 and back."""
    return _cosines(xp, at, 0.5, 0.5)


def hamming(xp: ModuleType, at: Array, alpha: float = 0.54, beta: float = 0.46) -> Array:
    """One turn of a cosine of height ``beta`` about ``alpha``."""
    return _cosines(xp, at, alpha, beta)


def bartlett(xp: ModuleType, at: Array) -> Array:
    """A triangle."""
    return 2 * at


def blackman(xp: ModuleType, at: Array) -> Array:
    """Two cosines, which meet zero smoothly."""
    return _cosines(xp, at, 0.42, 0.5, 0.08)


def kaiser(xp: ModuleType, at: Array, beta: float = 12.0) -> Array:
    """A Bessel function of half an ellipse; ``beta`` trades width for leakage."""
    found: Array = xp.i0(beta * xp.sqrt(1 - (2 * at - 1) ** 2)) / xp.i0(xp.float64(beta))
    return found


def _define_window(name: str, formula: Formula, overload: str, parameters: str) -> None:
    """The page of one overload; ``parameters`` are those after the length."""
    page = define(f"aten::{name}{overload}(int window_length{parameters}, *, {OPTIONS}) -> Tensor")

    @page.shape
    def window_shape(window_length: int, *rest: object) -> TensorMeta:
        dtype, layout, device = rest[-4:-1]
        assert dtype is None or isinstance(dtype, DType)
        assert layout is None or isinstance(layout, Layout)
        assert device is None or isinstance(device, Device)
        check(
            window_length >= 0,
            lambda: (
                f"{name} requires non-negative window_length, got window_length={window_length}"
            ),
        )
        made = new_meta(name, (window_length,), dtype, layout, device)
        check(
            made.dtype.category > 1,
            lambda: f"{name} expects floating point dtypes, got: {made.dtype.scalar_name}",
        )
        check_not_implemented(
            not made.dtype.is_complex,
            lambda: f"\"arange_cpu\" not implemented for '{made.dtype.scalar_name}'",
        )
        return made

    @page.kernel
    def window_kernel(xp: ModuleType, window_length: int, *rest: object) -> Array:
        periodic, *numbers = rest[:-4] or (True,)
        points = window_length + bool(periodic)
        if window_length < 2:
            ones: Array = xp.ones(window_length)
            return ones
        half = (points + 1) // 2
        at = xp.arange(half, dtype=np.float64)
        at /= points - 1
        first = formula(xp, at, *numbers)
        mirrored = first[points - window_length : points - half][::-1]
        whole: Array = xp.concatenate([first, mirrored])
        return whole


_PERIODIC = (".periodic", ", bool periodic")
for _formula in (hann, hamming, bartlett, blackman, kaiser):
    for _overload, _parameters in (("", ""), _PERIODIC):
        _define_window(f"{_formula.__name__}_window", _formula, _overload, _parameters)
describe("kaiser_window", "The Kaiser window of `window_length` points, of shape `beta`: a vector.")
describe("hann_window", "The Hann window of `window_length` points: a vector.")
describe("hamming_window", "The Hamming window of `window_length` points: a vector.")
describe("blackman_window", "Blackman's window of `window_length` points: a vector.")
describe("bartlett_window", "The triangular window of `window_length` points: a vector.")
_define_window("hamming_window", hamming, ".periodic_alpha", f"{_PERIODIC[1]}, float alpha")
_define_window(
    "hamming_window", hamming, ".periodic_alpha_beta", f"{_PERIODIC[1]}, float alpha, float beta"
)
_define_window("kaiser_window", kaiser, ".beta", f"{_PERIODIC[1]}, float beta")
