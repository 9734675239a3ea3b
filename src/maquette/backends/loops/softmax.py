"""Softmax and its gradient, a row at a time, of single precision.

The exponential is that of `elementwise.py`, within 3 ulp, and sums are taken in several lanes: what
is computed differs from the plain path's by a few ulps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import fused, reordered
from maquette.backends.loops.elementwise import exponential
from maquette.backends.loops.normalization import sum_of

Array = npt.NDArray[np.float32]

_ZERO, _ONE = np.float32(0), np.float32(1)


@fused
def _powers(row: Array, top: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = exponential(row[i] - top)


@fused
def _scaled(row: Array, factor: Any) -> None:
    for i in range(row.size):
        row[i] *= factor


@reordered
def dot(a: Array, b: Array) -> Any:
    """The sum of the products of two rows."""
    total = _ZERO
    for i in range(a.size):
        total += a[i] * b[i]
    return total


# --- softmax ---------------------------------------------------------------------------------


@fused
def _softmax_rows(x: Array, tops: Array, out: Array) -> None:
    for r in range(x.shape[0]):
        _powers(x[r], tops[r], out[r])
        _scaled(out[r], np.float32(1 / sum_of(out[r])))


def softmax_rows(x: Array) -> Array:
    """The softmax of each row of a matrix."""
    out = np.empty(x.shape, np.float32)
    _softmax_rows(np.ascontiguousarray(x), x.max(-1), out)
    return out


@fused
def _shifted(row: Array, shift: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = row[i] - shift


@fused
def _shifted_less(row: Array, top: Any, shift: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = (row[i] - top) - shift


@fused
def _log_softmax_rows(x: Array, tops: Array, out: Array) -> None:
    for r in range(x.shape[0]):
        _powers(x[r], tops[r], out[r])
        _shifted_less(x[r], tops[r], np.float32(np.log(sum_of(out[r]))), out[r])


def log_softmax_rows(x: Array) -> Array:
    """The logarithm of the softmax of each row of a matrix."""
    out = np.empty(x.shape, np.float32)
    _log_softmax_rows(np.ascontiguousarray(x), x.max(-1), out)
    return out


@fused
def _weighted_less(grad: Array, y: Array, shift: Any, out: Array) -> None:
    for i in range(grad.size):
        out[i] = y[i] * (grad[i] - shift)


@fused
def _softmax_gradients(grad: Array, y: Array, out: Array) -> None:
    for r in range(grad.shape[0]):
        _weighted_less(grad[r], y[r], dot(grad[r], y[r]), out[r])


def softmax_gradients(grad: Array, y: Array) -> Array:
    """The gradients by the rows from those by their softmax ``y``."""
    out = np.empty(y.shape, np.float32)
    _softmax_gradients(np.ascontiguousarray(grad), np.ascontiguousarray(y), out)
    return out
