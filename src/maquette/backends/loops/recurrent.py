"""All steps of an LSTM layer, forward and backward: a product and a few passes over rows a step.

The steps are those of `nn/recurrent/lstm_layer.py`. Its exponentials are within 3 ulp here, its
hyperbolic tangents within 4, where NumPy's are within as much, and sums are taken in another order:
results of a step differ from the plain path's by a few ulps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import fused, inlined
from maquette.backends.loops.elementwise import exponential

Array = npt.NDArray[np.float32]
_f = np.float32

_ZERO, _ONE, _TWO = _f(0), _f(1), _f(2)
# tanh(x) = x + x³ p(x²) on |x| <= 0.625; p by reweighted least squares in double precision.
_P0, _P1, _P2, _P3, _P4 = (
    _f(-0.3333328068256378),
    _f(0.13331441581249237),
    _f(-0.05373971909284592),
    _f(0.020639097318053246),
    _f(-0.0057049961760640144),
)
_NEAR = _f(0.625)
_FEW_ROWS = 4  # rows up to which a loop multiplies sooner than BLAS is called


@inlined
def tangent(x: Any) -> Any:
    """The hyperbolic tangent of a single number."""
    t = x * x
    near = x + x * t * ((((_P4 * t + _P3) * t + _P2) * t + _P1) * t + _P0)
    far = _ONE - _TWO / (exponential(abs(x) * _TWO) + _ONE)
    return near if abs(x) < _NEAR else np.copysign(far, x)


@fused
def _logistics(x: Array) -> None:
    for i in range(x.size):
        x[i] = _ONE / (_ONE + exponential(-x[i]))


@fused
def _tangents(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = tangent(x[i])


@fused
def _row_times(row: Array, matrix: Array, out: Array) -> None:
    """``out = row @ matrix``, of few rows: four of the matrix's at a time."""
    out[:] = _ZERO
    whole = row.size - row.size % 4
    for k in range(0, whole, 4):
        a, b, c, d = row[k], row[k + 1], row[k + 2], row[k + 3]
        first, second, third, fourth = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        for j in range(out.size):
            out[j] += (a * first[j] + b * second[j]) + (c * third[j] + d * fourth[j])
    for k in range(whole, row.size):
        out += row[k] * matrix[k]


@fused
def _times(rows: Array, matrix: Array, out: Array) -> None:
    if rows.shape[0] <= _FEW_ROWS:
        for n in range(rows.shape[0]):
            _row_times(rows[n], matrix, out[n])
    else:
        np.dot(rows, matrix, out)


@fused
def _forward(
    sums: Any, recurrent: Any, h: Any, c: Any, reverse: bool, outputs: Any, kept: Any
) -> None:
    steps, batch, width = sums.shape
    size = width // 4
    product = np.empty((batch, width), np.float32)
    for at in range(steps):
        t = steps - 1 - at if reverse else at
        _times(h, recurrent, product)
        h = outputs[t]
        for n in range(batch):
            row, before, out = kept[t, n], c[n], h[n]
            gates, new = row[:width], row[width:]
            given, hidden = sums[t, n], product[n]
            for j in range(width):
                gates[j] = given[j] + hidden[j]
            _logistics(gates[: 2 * size])
            _tangents(gates[2 * size : 3 * size], gates[2 * size : 3 * size])
            _logistics(gates[3 * size :])
            for j in range(size):
                new[j] = gates[size + j] * before[j] + gates[j] * gates[2 * size + j]
            _tangents(new, out)
            for j in range(size):
                out[j] *= gates[3 * size + j]
        c = kept[t, :, width:]


def lstm_steps(
    sums: Array, recurrent: Array, h: Array, c: Array, *, reverse: bool
) -> tuple[Array, Array]:
    """Outputs [time, batch, size], and of each step gates and cell [time, batch, 5 * size].

    sums: the input's part of the gates, [time, batch, 4 * size]. recurrent: [size, 4 * size].
    """
    steps, batch, width = sums.shape
    outputs = np.empty((steps, batch, width // 4), np.float32)
    kept = np.empty((steps, batch, width // 4 * 5), np.float32)
    sums, recurrent, h = (np.ascontiguousarray(a) for a in (sums, recurrent, h))
    # The first cell in the form that later ones have: columns of wider rows.
    first = np.empty((batch, width // 4 * 5), np.float32)
    first[:, width:] = c
    _forward(sums, recurrent, h, first[:, width:], reverse, outputs, kept)
    return outputs, kept


@fused
def _row_back(
    row: Array, before: Any, by_h: Array, by_c: Array, bent: Array, by_sums: Array
) -> None:
    """A row's gradients by its gates' sums from those by its output and, in ``by_c``, its cell."""
    size = by_h.size
    i, f, g, o = (
        row[:size],
        row[size : 2 * size],
        row[2 * size : 3 * size],
        row[3 * size : 4 * size],
    )
    by_i, by_f = by_sums[:size], by_sums[size : 2 * size]
    by_g, by_o = by_sums[2 * size : 3 * size], by_sums[3 * size :]
    _tangents(row[4 * size :], bent)
    for j in range(size):
        by_o[j] = by_h[j] * bent[j] * o[j] * (_ONE - o[j])
    for j in range(size):
        by_c[j] += by_h[j] * o[j] * (_ONE - bent[j] * bent[j])
    for j in range(size):
        by_i[j] = by_c[j] * g[j] * i[j] * (_ONE - i[j])
    for j in range(size):
        by_g[j] = by_c[j] * i[j] * (_ONE - g[j] * g[j])
    for j in range(size):
        by_f[j] = by_c[j] * before[j] * f[j] * (_ONE - f[j])
    for j in range(size):
        by_c[j] *= f[j]


@fused
def _backward(
    kept: Any, first: Any, w_hh: Any, by_output: Any, given: bool, reverse: bool,
    by_h: Any, by_c: Any, by_sums: Any,
) -> None:  # fmt: skip
    steps, batch, size = kept.shape[0], kept.shape[1], by_h.shape[1]
    bent = np.empty(size, np.float32)
    for at in range(steps - 1, -1, -1):
        t = steps - 1 - at if reverse else at
        last = t + 1 if reverse else t - 1
        before = kept[last, :, 4 * size :] if at else first
        for n in range(batch):
            if given:
                by_h[n] += by_output[t, n]
            _row_back(kept[t, n], before[n], by_h[n], by_c[n], bent, by_sums[t, n])
        _times(by_sums[t], w_hh, by_h)


def lstm_steps_back(
    kept: Array, c: Array, w_hh: Array, by_output: Array | None, by_h: Array, by_c: Array,
    *, reverse: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients by the gates' sums [time, batch, 4 * size] and by the first states.

    kept: as `lstm_steps` gives it; c: the first cell. by_output: None for zeros; by_h, by_c: by the
    last states.
    """
    steps, batch, size = kept.shape[0], kept.shape[1], c.shape[1]
    by_sums = np.empty((steps, batch, 4 * size), np.float32)
    by_h, by_c = by_h.copy(), by_c.copy()
    first = np.empty((batch, 5 * size), np.float32)
    first[:, 4 * size :] = c
    given = by_output is not None
    by_output = np.ascontiguousarray(by_output) if given else kept[:0, :, :size]
    _backward(
        np.ascontiguousarray(kept), first[:, 4 * size :], np.ascontiguousarray(w_hh), by_output,
        given, reverse, by_h, by_c, by_sums,
    )  # fmt: skip
    return by_sums, by_h, by_c
