"""Arithmetic of 16-bit floats: widened, computed and rounded some elements at a time.

A run of elements stays in a core's nearest cache from one step to the next. What is computed is
what the plain path computes in single precision, operation by operation, so it gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled
from maquette.backends.loops.conversions import (
    bfloat_of_single,
    of_half,
    single_of_bfloat,
    to_half,
)

Array = npt.NDArray[Any]

_RUN = 2048
_f = np.float32
_ZERO, _ONE, _HALF = _f(0), _f(1), _f(0.5)

# What is computed: of x, y and z, the operands in their order, and the numbers p and q.
_OF_ONE = (
    "floor", "ceil", "trunc", "rint", "frac", "sqrt", "rsqrt", "reciprocal", "square", "cube",
    "inverse_square",
)  # fmt: skip
_WITH_NUMBERS = ("plus", "times", "over", "from", "under", "clip", "leaky")
_OF_TWO = ("add", "multiply", "divide", "maximum", "minimum", "copysign")
_SLOPES = ("threshold_slope", "clip_slope", "leaky_slope", "sigmoid_slope", "tanh_slope")
_OF_THREE = ("addcmul", "addcdiv", "lerp", "lerp_by", "clip_between")
_CODES = {
    name: (family, code)
    for family, names in enumerate((_OF_ONE, _WITH_NUMBERS, _OF_TWO, _SLOPES, _OF_THREE))
    for code, name in enumerate(names)
}


# --- steps on runs in single precision -----------------------------------------------------


@compiled
def _of_one(how: int, x: Array, out: Array) -> None:
    n = x.size
    if how == 0:  # floor
        for i in range(n):
            out[i] = np.floor(x[i])
    elif how == 1:  # ceil
        for i in range(n):
            out[i] = np.ceil(x[i])
    elif how == 2:  # trunc
        for i in range(n):
            out[i] = np.trunc(x[i])
    elif how == 3:  # rint
        for i in range(n):
            out[i] = np.rint(x[i])
    elif how == 4:  # frac
        for i in range(n):
            out[i] = x[i] - np.trunc(x[i])
    elif how == 5:  # sqrt
        for i in range(n):
            out[i] = np.sqrt(x[i])
    elif how == 6:  # rsqrt
        for i in range(n):
            out[i] = _ONE / np.sqrt(x[i])
    elif how == 7:  # reciprocal
        for i in range(n):
            out[i] = _ONE / x[i]
    elif how == 8:  # square
        for i in range(n):
            out[i] = x[i] * x[i]
    elif how == 9:  # cube
        for i in range(n):
            out[i] = x[i] * x[i] * x[i]
    else:  # inverse_square
        for i in range(n):
            out[i] = _ONE / (x[i] * x[i])


@compiled
def _with_numbers(how: int, x: Array, p: Any, q: Any, out: Array) -> None:
    n = x.size
    if how == 0:  # plus
        for i in range(n):
            out[i] = x[i] + p
    elif how == 1:  # times
        for i in range(n):
            out[i] = x[i] * p
    elif how == 2:  # over
        for i in range(n):
            out[i] = x[i] / p
    elif how == 3:  # from
        for i in range(n):
            out[i] = p - x[i]
    elif how == 4:  # under
        for i in range(n):
            out[i] = p / x[i]
    elif how == 5:  # clip
        for i in range(n):
            v = p if x[i] < p else x[i]
            out[i] = q if v > q else v
    else:  # leaky
        for i in range(n):
            out[i] = x[i] if x[i] > _ZERO else x[i] * p


@compiled
def _of_two(how: int, x: Array, y: Array, p: Any, out: Array) -> None:
    n = x.size
    if how == 0:  # add
        for i in range(n):
            out[i] = x[i] + y[i] * p
    elif how == 1:  # multiply
        for i in range(n):
            out[i] = x[i] * y[i]
    elif how == 2:  # divide
        for i in range(n):
            out[i] = x[i] / y[i]
    elif how == 3:  # maximum
        for i in range(n):
            v = x[i] if x[i] > y[i] else y[i]
            out[i] = x[i] if x[i] != x[i] else v
    elif how == 4:  # minimum
        for i in range(n):
            v = x[i] if x[i] < y[i] else y[i]
            out[i] = x[i] if x[i] != x[i] else v
    else:  # copysign
        for i in range(n):
            out[i] = np.copysign(x[i], y[i])


@compiled
def _slope(how: int, x: Array, y: Array, p: Any, q: Any, out: Array) -> None:
    n = x.size
    if how == 0:  # threshold_slope
        for i in range(n):
            out[i] = _ZERO if y[i] <= p else x[i]
    elif how == 1:  # clip_slope
        for i in range(n):
            out[i] = _ZERO if (y[i] <= p) | (y[i] >= q) else x[i]
    elif how == 2:  # leaky_slope
        for i in range(n):
            out[i] = x[i] if y[i] > _ZERO else x[i] * p
    elif how == 3:  # sigmoid_slope
        for i in range(n):
            out[i] = x[i] * ((_ONE - y[i]) * y[i])
    else:  # tanh_slope
        for i in range(n):
            out[i] = x[i] * (_ONE - y[i] * y[i])


@compiled
def _of_three(how: int, x: Array, y: Array, z: Array, p: Any, out: Array) -> None:
    n = x.size
    if how == 0:  # addcmul
        for i in range(n):
            out[i] = x[i] + p * y[i] * z[i]
    elif how == 1:  # addcdiv
        for i in range(n):
            out[i] = x[i] + p * y[i] / z[i]
    elif how == 2:  # lerp
        if abs(p) < _HALF:
            for i in range(n):
                out[i] = x[i] + p * (y[i] - x[i])
        else:
            rest = _ONE - p
            for i in range(n):
                out[i] = y[i] - (y[i] - x[i]) * rest
    elif how == 3:  # lerp_by
        for i in range(n):
            step = y[i] - x[i]
            near = x[i] + z[i] * step
            out[i] = near if abs(z[i]) < _HALF else y[i] - step * (_ONE - z[i])
    else:  # clip_between
        for i in range(n):
            v = x[i] if x[i] > y[i] else y[i]
            v = x[i] if x[i] != x[i] else v
            w = v if v < z[i] else z[i]
            out[i] = v if v != v else w


# --- runs ----------------------------------------------------------------------------------


@compiled
def _load(bits: Array, single: bool, is_half: bool, out: Array) -> None:
    if single:
        out[:] = of_half(bits[0]) if is_half else single_of_bfloat(bits[0])
    elif is_half:
        for i in range(out.size):
            out[i] = of_half(bits[i])
    else:
        for i in range(out.size):
            out[i] = single_of_bfloat(bits[i])


@compiled
def _store(run: Array, is_half: bool, bits: Array) -> None:
    if is_half:
        for i in range(run.size):
            bits[i] = to_half(run[i])
    else:
        for i in range(run.size):
            bits[i] = bfloat_of_single(run[i])


@compiled
def _over_runs(
    family: int,
    how: int,
    operands: tuple[Array, Array, Array],
    count: int,
    steps: Array,
    numbers: Array,
    is_half: bool,
    out: Array,
) -> None:
    a, b, c = operands
    rows, columns = out.shape
    scratch = np.empty((4, min(columns, _RUN)), np.float32)
    p, q = numbers[0], numbers[1]
    for r in range(rows):
        for start in range(0, columns, _RUN):
            n = min(columns - start, _RUN)
            x, y, z, found = scratch[0, :n], scratch[1, :n], scratch[2, :n], scratch[3, :n]
            _load(a[r * steps[0, 0] + start * steps[0, 1] :], steps[0, 1] == 0, is_half, x)
            if count > 1:
                _load(b[r * steps[1, 0] + start * steps[1, 1] :], steps[1, 1] == 0, is_half, y)
            if count > 2:
                _load(c[r * steps[2, 0] + start * steps[2, 1] :], steps[2, 1] == 0, is_half, z)
            if family == 0:
                _of_one(how, x, found)
            elif family == 1:
                _with_numbers(how, x, p, q, found)
            elif family == 2:
                _of_two(how, x, y, p, found)
            elif family == 3:
                _slope(how, x, y, p, q, found)
            else:
                _of_three(how, x, y, z, p, found)
            _store(found, is_half, out[r, start : start + n])


def computed_on_halves(
    name: str, operands: Sequence[Array], numbers: Sequence[float], out: Array
) -> bool:
    """Fill a row-major array with a step of operands of its type that broadcast to its shape.

    False where one is strided, or is neither a row nor a column: then nothing is done.
    """
    layouts = [_layout(x, out.shape) for x in operands if x.flags.c_contiguous]
    widths = {width for width, _, _ in layouts if width}
    if len(layouts) < len(operands) or len(widths) > 1 or -1 in widths:
        return False
    columns = widths.pop() if widths else out.size
    steps = np.zeros((3, 2), np.int64)
    for step, (_, rows, along) in zip(steps, layouts, strict=False):
        step[:] = columns if rows == _WHOLE else rows, along
    bits = [x.reshape(-1).view(np.uint16) for x in operands]
    a, b, c = bits + bits[:1] * (3 - len(bits))
    given = np.array([*numbers, 0, 0][:2], np.float32)
    result = out.view(np.uint16).reshape(-1, columns)
    is_half = out.dtype == np.float16
    _over_runs(*_CODES[name], (a, b, c), len(bits), steps, given, is_half, result)
    return True


_WHOLE = -1


def _layout(x: Array, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """How an operand lies in a result as a matrix: its columns, steps from row to row and along.

    0 columns where any number fits, -1 where none does.
    """
    if x.size == 1:
        return 0, 0, 0
    padded = (1,) * (len(shape) - x.ndim) + x.shape
    if padded == shape:
        return 0, _WHOLE, 1
    first = next(i for i, n in enumerate(padded) if n != 1)
    if padded[first:] == shape[first:]:
        return x.size, 0, 1
    last = max(i for i, n in enumerate(padded) if n != 1) + 1
    if padded[:last] == shape[:last]:
        return prod(shape[last:]), 1, 0
    return -1, 0, 0
