"""Loops over positions: taken, added up where they repeat, running extremes, drawn, swapped.

All give the plain path's bits: sums are taken in the order in which the values stand.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, inlined

Array = npt.NDArray[Any]

# --- positions in rows -----------------------------------------------------------------------


@compiled
def _take(rows: Array, index: Array, out: Array) -> None:
    for r in range(index.shape[0]):
        for c in range(index.shape[1]):
            out[r, c] = rows[r, index[r, c]]


def taken_from_rows(array: Array, index: Array) -> Array:
    """``array[..., index]`` row by row; positions from 0, all of them within the rows."""
    out = np.empty(index.shape, array.dtype)
    width, rows = index.shape[-1], np.ascontiguousarray(array).reshape(-1, array.shape[-1])
    _take(rows, np.ascontiguousarray(index).reshape(-1, width), out.reshape(-1, width))
    return out


@compiled
def _take_across(lines: Array, index: Array, out: Array) -> None:
    for o in range(index.shape[0]):
        for s in range(index.shape[1]):
            for i in range(index.shape[2]):
                out[o, s, i] = lines[o, index[o, s, i], i]


def taken_across(array: Array, index: Array, axis: int) -> Array:
    """``take_along_axis`` of positions from 0, all of them within; else of the array's sizes."""
    out = np.empty(index.shape, array.dtype)
    outer, inner = prod(array.shape[:axis]), prod(array.shape[axis + 1 :])
    lines = (outer, index.shape[axis], inner)
    _take_across(
        np.ascontiguousarray(array).reshape(outer, array.shape[axis], inner),
        np.ascontiguousarray(index).reshape(lines),
        out.reshape(lines),
    )
    return out


@compiled
def _reverse(row: Array, out: Array) -> None:
    last = np.uint64(row.size - 1)
    for i in range(np.uint64(row.size)):
        out[i] = row[last - i]


@compiled
def _reverse_rows(rows: Array, out: Array) -> None:
    for r in range(rows.shape[0]):
        _reverse(rows[r], out[r])


def reversed_rows(array: Array) -> Array:
    """``array[..., ::-1]`` of a row-major array, copied."""
    out, rows = np.empty(array.shape, array.dtype), (-1, array.shape[-1])
    _reverse_rows(array.reshape(rows), out.reshape(rows))
    return out


@compiled
def _add_in_rows(rows: Array, index: Array, values: Array) -> None:
    for r in range(index.shape[0]):
        for c in range(index.shape[1]):
            rows[r, index[r, c]] += values[r, c]


def add_to_rows(target: Array, index: Array, values: Array) -> None:
    """Add values at positions of the rows of ``target``, which is row-major; as many rows."""
    width = index.shape[-1]
    _add_in_rows(
        target.reshape(-1, target.shape[-1]), index.reshape(-1, width), values.reshape(-1, width)
    )


@compiled
def _added(row: Array, values: Array) -> None:
    for i in range(row.size):
        row[i] += values[i]


@compiled
def _add_slices(target: Array, places: Array, values: Array) -> None:
    for o in range(values.shape[0]):
        for k in range(places.size):
            _added(target[o, places[k]], values[o, k])


@compiled
def _add_columns(target: Array, places: Array, values: Array) -> None:
    for o in range(values.shape[0]):
        for k in range(places.size):
            target[o, places[k]] += values[o, k]


def add_slices(target: Array, axis: int, places: Array, values: Array) -> None:
    """Add slices of values to slices along an axis of a row-major target; all within it."""
    outer, inner = prod(target.shape[:axis]), prod(target.shape[axis + 1 :])
    added, size = np.ascontiguousarray(values), target.shape[axis]
    if inner == 1:
        _add_columns(target.reshape(outer, size), places, added.reshape(outer, -1))
    else:
        _add_slices(
            target.reshape(outer, size, inner), places, added.reshape(outer, places.size, inner)
        )


# --- bags of rows ----------------------------------------------------------------------------


@inlined
def _add_scaled(row: Array, values: Array, factor: Any) -> None:
    for i in range(row.size):
        row[i] += values[i] * factor


@compiled
def _four_added(row: Array, a: Array, b: Array, c: Array, d: Array) -> None:
    for i in range(row.size):
        row[i] = row[i] + a[i] + b[i] + c[i] + d[i]


@compiled
def _bag_sums(table: Array, rows: Array, bag: Array, out: Array) -> None:
    i = 0
    while i < rows.size:
        b = bag[i]
        last = i + 3
        if last < rows.size and b == bag[i + 1] and b == bag[i + 2] and b == bag[last]:
            first, second = table[rows[i]], table[rows[i + 1]]
            _four_added(out[b], first, second, table[rows[i + 2]], table[rows[last]])
            i += 4
        else:
            _added(out[b], table[rows[i]])
            i += 1


@compiled
def _scaled_bag_sums(table: Array, rows: Array, bag: Array, scale: Array, out: Array) -> None:
    for i in range(rows.size):
        _add_scaled(out[bag[i]], table[rows[i]], scale[i])


def bag_sums(table: Array, rows: Array, bag: Array, bags: int, scale: Array | None) -> Array:
    """The sums of the rows of each bag, each row times a factor if that is given.

    table: a matrix; rows, bag: positions from 0, all within it and below ``bags``.
    """
    out = np.zeros((bags, table.shape[1]), table.dtype)
    table = np.ascontiguousarray(table)
    if scale is None:
        _bag_sums(table, rows, bag, out)
    else:
        _scaled_bag_sums(table, rows, bag, scale, out)
    return out


@compiled
def _raise_with_place(values: Array, place: int, best: Array, places: Array) -> None:
    for i in range(values.size):
        better = values[i] > best[i]
        best[i] = values[i] if better else best[i]
        places[i] = place if better else places[i]


@compiled
def _bag_maxima(
    table: Array, rows: Array, bag: Array, best: Array, places: Array, empty: Array
) -> None:
    for i in range(rows.size):
        b = bag[i]
        if empty[b]:
            empty[b] = False
            best[b], places[b] = table[rows[i]], rows[i]
        else:
            _raise_with_place(table[rows[i]], rows[i], best[b], places[b])


def bag_maxima(table: Array, rows: Array, bag: Array, bags: int) -> tuple[Array, Array]:
    """The largest of each bag and column, and its row, of `bag_sums`' operands; 0 of empty bags."""
    best = np.zeros((bags, table.shape[1]), table.dtype)
    places = np.zeros(best.shape, np.int64)
    _bag_maxima(np.ascontiguousarray(table), rows, bag, best, places, np.ones(bags, np.bool_))
    return best, places


# --- running extremes ------------------------------------------------------------------------


@inlined
def _takes_over(v: Any, best: Any, largest: bool) -> Any:
    return ((v >= best) if largest else (v <= best)) | (v != v)


@compiled
def _extreme_in_row(x: Array, values: Array, places: Array, largest: bool) -> None:
    start = 0
    while start < x.size:  # a run at a time: few elements are larger than all before them
        best, end = x[start], start + 1
        while end < x.size and not _takes_over(x[end], best, largest):
            end += 1
        for s in range(start, end):
            values[s] = best
            places[s] = start
        start = end


@compiled
def _extremes_in_rows(x: Array, values: Array, places: Array, largest: bool) -> None:
    whole = x.shape[0] // 3 * 3  # at once: a comparison waits for the one before it
    for r in range(0, whole, 3):
        xa, xb, xc = x[r], x[r + 1], x[r + 2]
        va, vb, vc = values[r], values[r + 1], values[r + 2]
        pa, pb, pc = places[r], places[r + 1], places[r + 2]
        a, b, c = xa[0], xb[0], xc[0]
        i = j = k = 0
        for s in range(xa.size):
            new = _takes_over(xa[s], a, largest)
            a, i = xa[s] if new else a, s if new else i
            va[s], pa[s] = a, i
            new = _takes_over(xb[s], b, largest)
            b, j = xb[s] if new else b, s if new else j
            vb[s], pb[s] = b, j
            new = _takes_over(xc[s], c, largest)
            c, k = xc[s] if new else c, s if new else k
            vc[s], pc[s] = c, k
    for r in range(whole, x.shape[0]):
        _extreme_in_row(x[r], values[r], places[r], largest)


@compiled
def _extreme_step(x: Array, s: int, best: Array, at: Array, largest: bool) -> None:
    for i in range(x.size):
        new = _takes_over(x[i], best[i], largest)
        best[i] = x[i] if new else best[i]
        at[i] = s if new else at[i]


@compiled
def _extremes_across(x: Array, values: Array, places: Array, largest: bool) -> None:
    for o in range(x.shape[0]):
        best, at = x[o, 0].copy(), np.zeros(x.shape[2], np.int64)
        for s in range(x.shape[1]):
            _extreme_step(x[o, s], s, best, at, largest)
            values[o, s], places[o, s] = best, at


def running_extreme(x: Array, axis: int, *, largest: bool) -> tuple[Array, Array]:
    """The largest, or smallest, elements so far along an axis, and where each stands last."""
    values, places = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    outer = int(np.prod(x.shape[:axis]))
    inner = x.size // max(1, outer * x.shape[axis])
    if inner == 1:
        rows = (outer, x.shape[axis])
        _extremes_in_rows(x.reshape(rows), values.reshape(rows), places.reshape(rows), largest)
    else:
        lines = (outer, x.shape[axis], inner)
        _extremes_across(x.reshape(lines), values.reshape(lines), places.reshape(lines), largest)
    return values, places


# --- positions among even edges --------------------------------------------------------------


@compiled
def _even_cells(x: Array, edges: Array, out: Array) -> None:
    last = edges.size - 2
    first, each = np.float64(edges[0]), (last + 1) / (np.float64(edges[-1]) - edges[0])
    for i in range(x.size):
        guess = (x[i] - first) * each
        cell: Any = np.int64(guess) if (guess >= 0.0) & (guess < last) else 0
        cell = last if guess >= last else cell
        while cell > 0 and x[i] < edges[cell]:
            cell -= 1
        while cell < last and x[i] >= edges[cell + 1]:
            cell += 1
        out[i] = cell


def even_cells(x: Array, edges: Array) -> Array:
    """``searchsorted(edges, x, "right") - 1`` for rising edges as far apart, two at least.

    What is outside of them is given the first or the last cell.
    """
    out = np.empty(x.size, np.int64)
    _even_cells(x, edges, out)
    return out


# --- positions drawn by weights --------------------------------------------------------------


@compiled
def _drawn_positions(weights: Array, uniform: Array, out: Array) -> None:
    size = weights.shape[1]
    sums = np.empty(size, weights.dtype)
    for r in range(weights.shape[0]):
        total = weights.dtype.type(0)
        for i in range(size):
            total += weights[r, i]
            sums[i] = total
        for s in range(uniform.shape[1]):
            low, high = 0, size
            while low < high:
                middle = (low + high) >> 1
                if np.float64(sums[middle] / total) < uniform[r, s]:
                    low = middle + 1
                else:
                    high = middle
            out[r, s] = low


def drawn_positions(weights: Array, uniform: Array) -> Array:
    """Where uniform numbers [rows, draws] fall among the summed weights [rows, positions]."""
    out = np.empty(uniform.shape, np.int64)
    _drawn_positions(weights, uniform, out)
    return out


# --- triangles -----------------------------------------------------------------------------


@compiled
def _fill_triangle(first: Array, counts: Array, rows: Array, columns: Array) -> None:
    k = 0
    for i in range(counts.size):
        end = k + counts[i]
        rows[k:end] = i
        for c in range(counts[i]):
            columns[k + c] = first[i] + c
        k = end


def triangle_places(first: Array, counts: Array, total: int) -> Array:
    """Rows and columns [2, total] of a part of a matrix: of each row some from a first one on."""
    out = np.empty((2, total), np.int64)
    _fill_triangle(first, counts, out[0], out[1])
    return out


# --- random order --------------------------------------------------------------------------


@compiled
def _swap(words: Array, found: Array) -> None:
    size = found.size
    for i in range(size):
        found[i] = i
    for i in range(size - 1):
        other = i + np.int64(np.uint32(words[i]) % np.uint32(size - i))
        found[i], found[other] = found[other], found[i]


def swapped_in_turn(words: Array, size: int) -> Array:
    """The numbers below a size, each place swapped with one that a word of 32 bits chooses."""
    found = np.empty(size, np.int64)
    _swap(words, found)
    return found
