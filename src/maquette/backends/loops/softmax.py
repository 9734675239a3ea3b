"""Softmax and its gradient, a row at a time, of single precision; losses of classes and of paths.

The exponential of softmax is that of `elementwise.py`, within 3 ulp, and sums are taken in several
lanes: what is computed differs from the plain path's by a few ulps. Losses are of either precision,
summed in double.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fused, reordered
from maquette.backends.loops.elementary import half_of_exp, log_of_sum
from maquette.backends.loops.elementwise import exponential
from maquette.backends.loops.normalization import sum_of

Array = npt.NDArray[Any]

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


@fused
def _powers_less(grad: Array, y: Array, total: Any, out: Array) -> None:
    for i in range(grad.size):
        out[i] = grad[i] - exponential(y[i]) * total


@fused
def _log_softmax_gradients(grad: Array, y: Array, out: Array) -> None:
    for r in range(grad.shape[0]):
        _powers_less(grad[r], y[r], np.float32(sum_of(grad[r])), out[r])


def log_softmax_gradients(grad: Array, y: Array) -> Array:
    """The gradients by the rows from those by the logarithms ``y`` of their softmax."""
    out = np.empty(y.shape, np.float32)
    _log_softmax_gradients(np.ascontiguousarray(grad), np.ascontiguousarray(y), out)
    return out


# --- losses ----------------------------------------------------------------------------------


@compiled
def _class_losses(x: Array, target: Array, weight: Array, ignored: int) -> tuple[float, float, int]:
    summed, weights = 0.0, 0.0
    for o in range(target.shape[0]):
        for i in range(target.shape[1]):
            at = np.int64(target[o, i])
            if at == ignored:
                continue
            if at < 0 or at >= x.shape[1]:
                return 0.0, 0.0, o * target.shape[1] + i
            scale = weight[at] if weight.size else x.dtype.type(1)
            if scale != 0:  # what is ignored counts as zero, even where it is infinite
                summed += np.float64(-x[o, at, i] * scale)
            weights += np.float64(scale)
    return summed, weights, -1


def class_losses(
    x: Array, target: Array, weight: Array | None, ignored: int
) -> tuple[float, float, int]:
    """The sum of ``-x[o, target[o, i], i]`` times the class's weight, and that of the weights.

    x: [outer, classes, inner]. Third, the place of a target that is no class, or -1.
    """
    return _class_losses(x, target, _NO_WEIGHTS[x.dtype] if weight is None else weight, ignored)


_NO_WEIGHTS = {np.dtype(kind): np.empty(0, kind) for kind in (np.float32, np.float64)}


@compiled
def _next_frame(before: Array, emitted: Array, skips: Array, out: Array) -> None:
    for s in range(emitted.size):
        a, b = before[s + 2], before[s + 1]
        c = before[s] if skips[s] else -np.inf
        top = a if a > b else b
        top = c if c > top else top
        base = top if abs(top) < np.inf else 0.0
        powers = half_of_exp(a - base, emitted[s]) + half_of_exp(b - base, emitted[s])
        powers += half_of_exp(c - base, emitted[s])
        found = base + log_of_sum(2.0 * powers, 0.0, emitted[s])
        found = found if abs(top) < np.inf else top
        found = found if (a == a) & (b == b) & (c == c) else np.nan
        out[s] = emitted.dtype.type(found) + emitted[s]


@compiled
def _log_paths(emitted: Array, lengths: Array, skips: Array, out: Array) -> None:
    states = emitted.shape[2]
    before = np.full(states + 2, -np.inf)  # with two states before the first
    for n in range(emitted.shape[1]):
        out[n, 0] = -np.inf
        out[n, 0, 0] = emitted[0, n, 0]
        if states > 1 and lengths[n] > 0:
            out[n, 0, 1] = emitted[0, n, 1]
        for t in range(1, emitted.shape[0]):
            before[2:] = out[n, t - 1]
            _next_frame(before, emitted[t, n], skips[n], out[n, t])


def log_paths(emitted: Array, lengths: Array, skips: Array) -> Array:
    """log of the sum over paths that lead to each state, [batch, frames, states].

    emitted: logs of each state's probabilities, [frames, batch, states]; lengths: a path may begin
    with the second state where its is not 0; skips: states that may be entered from two before.
    """
    frames, batch, states = emitted.shape
    out = np.empty((batch, frames, states), emitted.dtype)
    _log_paths(np.ascontiguousarray(emitted), lengths, skips, out)
    return out
