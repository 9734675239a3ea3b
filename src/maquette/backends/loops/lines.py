"""Reductions and running sums along the middle axis of [outer, size, inner].

Single numbers are added and multiplied in double precision, in which a sum of them is exact but for
its last rounding, and a product may be too large or too small for them on its way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, reordered

Array = npt.NDArray[Any]

_RUN = 1024  # elements of a row that are added in several lanes
_LANES = 4
_ROWS = 4  # rows that are summed at once: an addition waits for the one before it

# Rows are taken as arrays of their own: an index that is known not to be negative is what lets the
# compiler take several elements at once.


# --- sums without NaN, products ------------------------------------------------------------


@reordered
def _numbers_of_run(run: Array) -> Any:
    total = np.float64(0)
    for i in range(run.size):
        v = np.float64(run[i])
        total += v if v == v else np.float64(0)
    return total


@compiled
def _row_numbers(x: Array, out: Array) -> None:
    for r in range(x.shape[0]):
        total = 0.0
        for start in range(0, x.shape[1], _RUN):
            total += _numbers_of_run(x[r, start : start + _RUN])
        out[r] = total


@reordered
def _row_product(row: Array) -> Any:
    product = np.float64(1)
    for i in range(row.size):
        product *= np.float64(row[i])
    return product


@compiled
def _row_products(x: Array, out: Array) -> None:
    for r in range(x.shape[0]):
        out[r] = _row_product(x[r])


@compiled
def _complex_row_products(x: Array, out: Array) -> None:
    """By four products a row: a multiplication waits for the one before it."""
    for r in range(x.shape[0]):
        row = x[r]
        a = b = c = d = np.complex128(1)
        whole = row.size // _LANES * _LANES
        for i in range(0, whole, _LANES):
            a *= row[i]
            b *= row[i + 1]
            c *= row[i + 2]
            d *= row[i + 3]
        for i in range(whole, row.size):
            a *= row[i]
        out[r] = a * b * (c * d)


def _by_rows(loop: Any, x: Array) -> Array:
    """What a loop over rows finds along the last axis of a row-major array."""
    out = np.empty(x.shape[:-1], x.dtype)
    loop(x.reshape(-1, x.shape[-1]), out.reshape(-1))
    return out


def row_sums_of_numbers(x: Array) -> Array:
    """The sums along the last axis of what is not NaN."""
    return _by_rows(_row_numbers, x)


def row_products(x: Array) -> Array:
    """The products along the last axis."""
    return _by_rows(_complex_row_products if x.dtype.kind == "c" else _row_products, x)


# --- means and squared deviations ----------------------------------------------------------


@reordered
def _sum_of_run(run: Array) -> Any:
    total = np.float64(0)
    for i in range(run.size):
        total += np.float64(run[i])
    return total


@reordered
def _squares_of_run(run: Array, mean: Any) -> Any:
    total = np.float64(0)
    for i in range(run.size):
        d = np.float64(run[i]) - mean
        total += d * d
    return total


@compiled
def _row_spread(x: Array, means: Array, squares: Array) -> None:
    for r in range(x.shape[0]):
        total = 0.0
        for start in range(0, x.shape[1], _RUN):
            total += _sum_of_run(x[r, start : start + _RUN])
        mean = total / x.shape[1]
        total = 0.0
        for start in range(0, x.shape[1], _RUN):
            total += _squares_of_run(x[r, start : start + _RUN], mean)
        means[r], squares[r] = mean, total


def row_spread(x: Array) -> tuple[Array, Array]:
    """Means along the last axis and sums of squared deviations, both in double precision."""
    means, squares = np.empty(x.shape[:-1]), np.empty(x.shape[:-1])
    _row_spread(x.reshape(-1, x.shape[-1]), means.reshape(-1), squares.reshape(-1))
    return means, squares


# --- running sums and products -------------------------------------------------------------


@compiled
def _running_row_sum(row: Array, out: Array, total: Any) -> None:
    for i in range(row.size):
        total += row[i]
        out[i] = total


@compiled
def _running_row_sums(x: Array, out: Array, zero: Any) -> None:
    whole = x.shape[0] // _ROWS * _ROWS
    for r in range(0, whole, _ROWS):
        xa, xb, xc, xd = x[r], x[r + 1], x[r + 2], x[r + 3]
        oa, ob, oc, od = out[r], out[r + 1], out[r + 2], out[r + 3]
        a = b = c = d = zero
        for i in range(xa.size):
            a += xa[i]
            b += xb[i]
            c += xc[i]
            d += xd[i]
            oa[i], ob[i], oc[i], od[i] = a, b, c, d
    for r in range(whole, x.shape[0]):
        _running_row_sum(x[r], out[r], zero)


@compiled
def _running_row_product(row: Array, out: Array, product: Any) -> None:
    for i in range(row.size):
        product *= row[i]
        out[i] = product


@compiled
def _running_row_products(x: Array, out: Array, one: Any) -> None:
    whole = x.shape[0] // _ROWS * _ROWS
    for r in range(0, whole, _ROWS):
        xa, xb, xc, xd = x[r], x[r + 1], x[r + 2], x[r + 3]
        oa, ob, oc, od = out[r], out[r + 1], out[r + 2], out[r + 3]
        a = b = c = d = one
        for i in range(xa.size):
            a *= xa[i]
            b *= xb[i]
            c *= xc[i]
            d *= xd[i]
            oa[i], ob[i], oc[i], od[i] = a, b, c, d
    for r in range(whole, x.shape[0]):
        _running_row_product(x[r], out[r], one)


@compiled
def _added_step(totals: Array, x: Array, out: Array) -> None:
    for i in range(totals.size):
        totals[i] += x[i]
        out[i] = totals[i]


@compiled
def _multiplied_step(totals: Array, x: Array, out: Array) -> None:
    for i in range(totals.size):
        totals[i] *= x[i]
        out[i] = totals[i]


@compiled
def _running_sums_across(x: Array, out: Array, zero: Any) -> None:
    totals = np.full(x.shape[2], zero)
    for o in range(x.shape[0]):
        totals[:] = zero
        for s in range(x.shape[1]):
            _added_step(totals, x[o, s], out[o, s])


@compiled
def _running_products_across(x: Array, out: Array, one: Any) -> None:
    totals = np.full(x.shape[2], one)
    for o in range(x.shape[0]):
        totals[:] = one
        for s in range(x.shape[1]):
            _multiplied_step(totals, x[o, s], out[o, s])


def _running(in_rows: Any, across: Any, x: Array, axis: int, start: Any) -> Array:
    out = np.empty(x.shape, x.dtype)
    inner = int(np.prod(x.shape[axis + 1 :]))
    if inner == 1:
        rows = (-1, x.shape[axis])
        in_rows(x.reshape(rows), out.reshape(rows), start)
    else:
        lines = (-1, x.shape[axis], inner)
        across(x.reshape(lines), out.reshape(lines), start)
    return out


def running_sums(x: Array, axis: int, kind: np.dtype[Any]) -> Array:
    """The sums of the elements so far along an axis, taken in a wider type."""
    return _running(_running_row_sums, _running_sums_across, x, axis, kind.type(0))


def running_products(x: Array, axis: int, kind: np.dtype[Any]) -> Array:
    """The products of the elements so far along an axis, taken in a wider type."""
    return _running(_running_row_products, _running_products_across, x, axis, kind.type(1))


# --- extremes ------------------------------------------------------------------------------

# Bits of floats in the order of whole numbers: below zero, all but the sign turned over. For the
# least of a row all bits are turned over once more (`turned`).


@compiled
def _row_extremes(bits: Array, magnitude: Any, infinity: Any, turned: Any, out: Array) -> None:
    kind = bits.dtype.type
    sign = kind(8 * bits.itemsize - 1)
    for r in range(bits.shape[0]):
        row = bits[r]
        best, largest = kind(~magnitude), kind(0)
        for i in range(row.size):
            b = row[i]
            key = kind(kind(b ^ kind(kind(b >> sign) & magnitude)) ^ turned)
            best = key if key > best else best
            size = kind(b & magnitude)
            largest = size if size > largest else largest
        best = kind(best ^ turned)
        best = kind(best ^ kind(kind(best >> sign) & magnitude))
        out[r] = largest if largest > infinity else best  # NaN is larger than infinity


def row_extremes(rows: Array, *, largest: bool) -> Array:
    """The largest or smallest of each row of a row-major matrix of floats; NaN wins.

    A negative zero is less than a positive one.
    """
    out, kind = np.empty(len(rows), rows.dtype), np.dtype(f"i{rows.itemsize}").type
    magnitude, infinity = np.iinfo(kind).max, np.array(np.inf, rows.dtype).view(kind)[()]
    turned = kind(0 if largest else -1)
    _row_extremes(rows.view(kind), kind(magnitude), infinity, turned, out.view(kind))
    return out
