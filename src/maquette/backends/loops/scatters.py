"""Values written or combined at positions along an axis: the plain path's bits.

Values come in the order in which they stand, so of those at one position the last one stays.
"""

from __future__ import annotations

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


@compiled
def _assign(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        for s in range(index.shape[1]):
            for i in range(index.shape[2]):
                target[o, index[o, s, i], i] = values[o, s, i]


@compiled
def _multiply(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        for s in range(index.shape[1]):
            for i in range(index.shape[2]):
                target[o, index[o, s, i], i] *= values[o, s, i]


@compiled
def _add(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        for s in range(index.shape[1]):
            for i in range(index.shape[2]):
                target[o, index[o, s, i], i] += values[o, s, i]


@compiled
def _maximum(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        for s in range(index.shape[1]):
            for i in range(index.shape[2]):
                v, at = values[o, s, i], index[o, s, i]
                old = target[o, at, i]
                target[o, at, i] = v if (v > old) | (v != v) else old


@compiled
def _minimum(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        for s in range(index.shape[1]):
            for i in range(index.shape[2]):
                v, at = values[o, s, i], index[o, s, i]
                old = target[o, at, i]
                target[o, at, i] = v if (v < old) | (v != v) else old


_LOOPS = {
    "assign": _assign,
    "add": _add,
    "multiply": _multiply,
    "maximum": _maximum,
    "minimum": _minimum,
}


# Along a last axis, a row at a time: positions without a sign, which are not asked for it.


@compiled
def _assign_in_rows(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        row, places, given = target[o], index[o], values[o]
        for s in range(places.size):
            row[np.uint64(places[s])] = given[s]


@compiled
def _multiply_in_rows(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        row, places, given = target[o], index[o], values[o]
        for s in range(places.size):
            row[np.uint64(places[s])] *= given[s]


@compiled
def _add_in_rows(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        row, places, given = target[o], index[o], values[o]
        for s in range(places.size):
            row[np.uint64(places[s])] += given[s]


@compiled
def _raise_in_rows(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        row, places, given = target[o], index[o], values[o]
        for s in range(places.size):
            v, at = given[s], np.uint64(places[s])
            row[at] = v if (v > row[at]) | (v != v) else row[at]


@compiled
def _lower_in_rows(target: Array, index: Array, values: Array) -> None:
    for o in range(index.shape[0]):
        row, places, given = target[o], index[o], values[o]
        for s in range(places.size):
            v, at = given[s], np.uint64(places[s])
            row[at] = v if (v < row[at]) | (v != v) else row[at]


_IN_ROWS = {
    "assign": _assign_in_rows,
    "add": _add_in_rows,
    "multiply": _multiply_in_rows,
    "maximum": _raise_in_rows,
    "minimum": _lower_in_rows,
}


def combine_along(target: Array, axis: int, index: Array, values: Array, how: str) -> None:
    """Write values, or combine them with what stands, at positions along an axis.

    target: row-major; index: positions from 0 below its size there, and as large as the target in
    all other dimensions; how: "assign", "add", "multiply", "maximum" or "minimum".
    """
    outer, inner = prod(target.shape[:axis]), prod(target.shape[axis + 1 :])
    in_rows = inner == 1
    lines, kept = (outer, index.shape[axis], inner), (outer, target.shape[axis], inner)
    loop = (_IN_ROWS if in_rows else _LOOPS)[how]
    loop(
        target.reshape(kept[:2] if in_rows else kept),
        np.ascontiguousarray(index).reshape(lines[:2] if in_rows else lines),
        np.ascontiguousarray(values).reshape(lines[:2] if in_rows else lines),
    )


# --- rows ----------------------------------------------------------------------------------


@compiled
def _multiply_row(row: Array, values: Array) -> None:
    for i in range(row.size):
        row[i] *= values[i]


@compiled
def _raise_row(row: Array, values: Array) -> None:
    for i in range(row.size):
        v = values[i]
        row[i] = v if (v > row[i]) | (v != v) else row[i]


@compiled
def _lower_row(row: Array, values: Array) -> None:
    for i in range(row.size):
        v = values[i]
        row[i] = v if (v < row[i]) | (v != v) else row[i]


@compiled
def _multiply_rows(target: Array, rows: Array, values: Array) -> None:
    for r in range(rows.size):
        _multiply_row(target[rows[r]], values[r])


@compiled
def _raise_rows(target: Array, rows: Array, values: Array) -> None:
    for r in range(rows.size):
        _raise_row(target[rows[r]], values[r])


@compiled
def _lower_rows(target: Array, rows: Array, values: Array) -> None:
    for r in range(rows.size):
        _lower_row(target[rows[r]], values[r])


_OF_ROWS = {"multiply": _multiply_rows, "maximum": _raise_rows, "minimum": _lower_rows}


def combine_rows(target: Array, rows: Array, values: Array, how: str) -> None:
    """Combine rows of values with rows of a row-major target; positions from 0, all within it.

    how: "multiply", "maximum" or "minimum".
    """
    wide = (-1, prod(target.shape[1:]))
    _OF_ROWS[how](
        target.reshape(wide), np.ascontiguousarray(rows), np.ascontiguousarray(values).reshape(wide)
    )


# --- slices of 16-bit floats ---------------------------------------------------------------


@compiled
def _add_halves(row: Array, values: Array) -> None:
    for i in range(row.size):
        row[i] = to_half(of_half(row[i]) + of_half(values[i]))


@compiled
def _add_bfloats(row: Array, values: Array) -> None:
    for i in range(row.size):
        row[i] = bfloat_of_single(single_of_bfloat(row[i]) + single_of_bfloat(values[i]))


@compiled
def _add_slices(target: Array, places: Array, values: Array, is_half: bool) -> None:
    for o in range(target.shape[0]):
        for s in range(places.size):
            if is_half:
                _add_halves(target[o, places[s]], values[o, s])
            else:
                _add_bfloats(target[o, places[s]], values[o, s])


@compiled
def _add_numbers(target: Array, places: Array, values: Array, is_half: bool) -> None:
    for o in range(target.shape[0]):
        row = target[o]
        for s in range(places.size):
            old, v = row[places[s]], values[o, s]
            if is_half:
                row[places[s]] = to_half(of_half(old) + of_half(v))
            else:
                row[places[s]] = bfloat_of_single(single_of_bfloat(old) + single_of_bfloat(v))


def add_slices_of_halves(target: Array, axis: int, places: Array, values: Array) -> None:
    """Add the slices of 16-bit floats along an axis to those of a row-major target, in order.

    Each sum is rounded. places: from 0, all within the target.
    """
    outer, inner = prod(target.shape[:axis]), prod(target.shape[axis + 1 :])
    into = target.view(np.uint16).reshape(outer, target.shape[axis], inner)
    given = np.ascontiguousarray(values.view(np.uint16)).reshape(outer, places.size, inner)
    rows, is_half = np.ascontiguousarray(places), target.dtype == np.float16
    if inner == 1:
        _add_numbers(into[..., 0], rows, given[..., 0], is_half)
    else:
        _add_slices(into, rows, given, is_half)
