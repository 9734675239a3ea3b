"""Arithmetic of 16-bit floats: widened, computed and rounded some elements at a time.

A run of elements stays in a core's nearest cache from one step to the next. What is computed is
what the plain path computes in single precision, operation by operation, so it gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled
from maquette.backends.loops.conversions import (
    narrow_bfloat,
    narrow_half,
    of_half,
    single_of_bfloat,
    widen_bfloat,
    widen_half,
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
_FIRST_OF_TWO, _OF_THREE_AT = 2, 4  # families


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
            out[i] = x[i] if (y[i] > p) & (y[i] < q) else _ZERO
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
def _load(bits: Array, start: int, step: int, is_half: bool, out: Array) -> None:
    if step == 1 and is_half:
        widen_half(bits[start : start + out.size], out)
    elif step == 1:
        widen_bfloat(bits[start : start + out.size], out)
    elif step == 0:
        out[:] = of_half(bits[start]) if is_half else single_of_bfloat(bits[start])
    elif is_half:
        for i in range(out.size):
            out[i] = of_half(bits[start + i * step])
    else:
        for i in range(out.size):
            out[i] = single_of_bfloat(bits[start + i * step])


@compiled
def _store(run: Array, is_half: bool, bits: Array) -> None:
    if is_half:
        narrow_half(run, bits)
    else:
        narrow_bfloat(run, bits)


@compiled
def _to_next_row(at: Array, starts: Array, sizes: Array, steps: Array) -> None:
    """Go on to the next row of all dimensions but the last one, with each operand's start."""
    for d in range(sizes.size - 2, -1, -1):
        at[d] += 1
        back = 0 if at[d] < sizes[d] else sizes[d]
        for k in range(3):
            starts[k] += steps[k, d] * (1 - back)
        if back == 0:
            return
        at[d] = 0


@compiled
def _over_runs(
    family: int,
    how: int,
    operands: tuple[Array, Array, Array],
    sizes: Array,
    steps: Array,
    first: float,
    second: float,
    is_half: bool,
    out: Array,
) -> None:
    a, b, c = operands
    columns, along = sizes[-1], steps[:, -1]
    scratch = np.empty((4, min(columns, _RUN)), np.float32)
    at, starts = np.zeros(sizes.size, np.int64), np.zeros(3, np.int64)
    p, q = np.float32(first), np.float32(second)
    for row in range(0, out.size, columns):
        for start in range(0, columns, _RUN):
            n = min(columns - start, _RUN)
            x, y, z, found = scratch[0, :n], scratch[1, :n], scratch[2, :n], scratch[3, :n]
            _load(a, starts[0] + start * along[0], along[0], is_half, x)
            if family >= _FIRST_OF_TWO:
                _load(b, starts[1] + start * along[1], along[1], is_half, y)
            if family == _OF_THREE_AT:
                _load(c, starts[2] + start * along[2], along[2], is_half, z)
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
            _store(found, is_half, out[row + start : row + start + n])
        _to_next_row(at, starts, sizes, steps)


def computed_on_halves(
    name: str, operands: Sequence[Array], numbers: Sequence[float], out: Array
) -> None:
    """Fill a row-major array with a step of operands of its type that broadcast to its shape."""
    if not out.size:
        return
    rows = [
        x if x.flags.c_contiguous or min(x.strides) >= 0 else np.ascontiguousarray(x)
        for x in operands
    ]
    sizes, steps = _merged(out.shape, tuple([(x.shape, x.strides) for x in rows]))
    memory = [_memory(x) for x in rows]
    a, b, c = (memory * 3)[:3]
    p, q = (*numbers, 0.0, 0.0)[:2]
    bits = out.view(np.uint16).reshape(-1)
    _over_runs(
        *_CODES[name], (a, b, c), sizes, steps, float(p), float(q), out.dtype == np.float16, bits
    )


@lru_cache(maxsize=256)
def _merged(
    shape: tuple[int, ...], operands: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> tuple[Array, Array]:
    """The sizes of the fewest dimensions, and the steps of three operands along them.

    operands: the shapes, which broadcast to the one that is given, and strides in bytes.
    """
    sizes, steps = [1], [[0] * len(operands)]
    for n, *step in zip(shape, *[_steps(*each, len(shape)) for each in operands], strict=True):
        if n == 1:
            continue
        if all(outer == n * inner for outer, inner in zip(steps[-1], step, strict=True)):
            sizes[-1] *= n
            steps[-1] = step
        elif sizes == [1]:
            sizes, steps = [n], [step]
        else:
            sizes.append(n)
            steps.append(step)
    padded = np.zeros((3, len(sizes)), np.int64)
    padded[: len(operands)] = np.array(steps).T
    return np.array(sizes), padded


def _steps(shape: tuple[int, ...], strides: tuple[int, ...], ndim: int) -> list[int]:
    """From element to element along each dimension that an operand is broadcast to."""
    steps = [0 if n == 1 else step // 2 for n, step in zip(shape, strides, strict=True)]
    return [0] * (ndim - len(shape)) + steps


def _memory(x: Array) -> Array:
    """The bits from an array's first element to its last one, and what is between."""
    if x.flags.c_contiguous:
        return x.reshape(-1).view(np.uint16)
    last = sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True))
    bits = x[(slice(0, 1),) * x.ndim].view(np.uint16)
    return np.lib.stride_tricks.as_strided(bits, (last // 2 + 1,), (2,))
