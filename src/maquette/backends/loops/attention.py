"""Attention of single precision, a few rows of scores at a time, from the products to the results.

What a block of rows needs stays in a core's cache between the two products, and of causal scores
only those that are seen are computed, but for the last few columns of a block. Products are
BLAS's, of contiguous blocks, the exponential is that of `elementwise.py`: results differ from the
plain path's by a few ulps.

Arrays are (batch, heads, length, width); several heads of queries share one of keys and values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.backends.loops.compiler import compiled, fused
from maquette.backends.loops.elementwise import exponential
from maquette.backends.loops.normalization import sum_of
from maquette.backends.loops.softmax import dot

Array = npt.NDArray[np.float32]

_ZERO, _ONE = np.float32(0), np.float32(1)
_LEAST, _SIGN, _ALL_BUT_SIGN = np.int32(-(1 << 31)), np.int32(31), np.int32((1 << 31) - 1)

#: Scores of a block of rows: 128 KiB, a part of a core's second cache.
_AT_ONCE = 1 << 15
_FEWEST_ROWS, _MOST_ROWS = 16, 64


def _block_rows(rows: int, columns: int) -> int:
    """How many rows of scores are held at once."""
    return min(rows, max(_FEWEST_ROWS, min(_MOST_ROWS, _AT_ONCE // max(1, columns))))


@fused
def _powers(row: Array, top: Any) -> None:
    for i in range(row.size):
        row[i] = exponential(row[i] - top)


@fused
def _added(row: Array, other: Array) -> None:
    for i in range(row.size):
        row[i] += other[i]


@fused
def _shifted(row: Array, shift: Any) -> None:
    for i in range(row.size):
        row[i] += shift


@fused
def _quotients(row: Array, divisor: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = row[i] / divisor


@compiled
def _largest(bits: Any) -> Any:
    """The largest of numbers that are given by their bits; NaN is above all.

    As integers, several are compared at once, which floats are not. The bits of a negative number
    but its sign are inverted first: then integers have the order of the numbers.
    """
    top = _LEAST
    for i in range(bits.size):
        top = max(top, np.int32(bits[i] ^ ((bits[i] >> _SIGN) & _ALL_BUT_SIGN)))
    top = np.int32(top ^ ((top >> _SIGN) & _ALL_BUT_SIGN))
    return top.view(np.float32)


@fused
def _slopes(row: Array, weights: Array, shift: Any) -> None:
    for i in range(row.size):
        row[i] = (row[i] - shift) * weights[i]


@fused
def _multiples(row: Array, factor: Any, out: Array) -> None:
    for i in range(row.size):
        out[i] = row[i] * factor


@compiled
def _masked(scores: Array, mask: Array, b: int, h: int, start: int) -> None:
    """Add a block's part of a mask, whose sizes are 1 where it is the same for all."""
    head = mask[min(b, mask.shape[0] - 1), min(h, mask.shape[1] - 1)]
    for r in range(scores.shape[0]):
        line = head[min(start + r, head.shape[0] - 1)]
        if line.size == 1:
            _shifted(scores[r], line[0])
        else:
            _added(scores[r], line)


def _rows(x: Array) -> Array:
    """A copy, row after row in memory: then there is one form of each loop to compile."""
    return np.array(x, np.float32, order="C")


def _mask_of(mask: Array | None) -> Array:
    """A mask as the loops take it, and one without elements for none."""
    return np.zeros((0, 0, 0, 0), np.float32) if mask is None else _rows(mask)


@compiled
def _attend(
    q: Array, k: Array, v: Array, mask: Array, causal: bool, step: int, out: Array, sums: Array
) -> None:
    batches, heads, length, _ = q.shape
    shared, columns, width = heads // k.shape[1], k.shape[2], v.shape[3]
    scores = np.empty(step * columns, np.float32)
    bits = scores.view(np.int32)
    products = np.empty(step * width, np.float32)
    totals = np.empty(step, np.float32)
    for b in range(batches):
        for h in range(heads):
            keys, values = k[b, h // shared], v[b, h // shared]
            for start in range(0, length, step):
                stop = min(start + step, length)
                rows, seen = stop - start, min(columns, stop) if causal else columns
                s = scores[: rows * seen].reshape(rows, seen)
                o = products[: rows * width].reshape(rows, width)
                np.dot(q[b, h, start:stop], keys[:seen].T, s)
                if mask.size:
                    _masked(s, mask, b, h, start)
                for r in range(rows):
                    own = min(seen, start + r + 1) if causal else seen
                    top = _largest(bits[r * seen : r * seen + own])
                    top = _ZERO if top == -np.inf else top
                    _powers(s[r, :own], top)
                    s[r, own:] = _ZERO
                    total = np.float32(sum_of(s[r, :own]))
                    totals[r] = _ONE if total == 0 else total
                    sums[b, h, start + r] = top + np.log(totals[r])
                np.dot(s, values[:seen], o)
                for r in range(rows):
                    _quotients(o[r], totals[r], out[b, start + r, h])


def attend(
    q: Array, k: Array, v: Array, mask: Array | None, *, causal: bool, scale: float
) -> tuple[Array, Array]:
    """Attention and the logarithms of its sums of exponentials; both zero where all is masked.

    mask: what is added to the scores, of four dimensions, 1 where it is the same for all. Causal:
    a row sees the columns up to its own number.
    """
    batches, heads, length, _ = q.shape
    out = np.empty((batches, length, heads, v.shape[3]), np.float32)
    sums = np.empty(q.shape[:3], np.float32)
    step = _block_rows(length, k.shape[2])
    queries = _rows(q)
    queries *= np.float32(scale)
    _attend(queries, _rows(k), _rows(v), _mask_of(mask), causal, step, out, sums)
    return out.swapaxes(1, 2), sums


@compiled
def _attend_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    ends: Array,
    mask: Array,
    causal: bool,
    scale: Any,
    step: int,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
) -> None:
    batches, heads, length, depth = q.shape
    shared, columns, width = heads // k.shape[1], k.shape[2], v.shape[3]
    weights, slopes = np.empty(step * columns, np.float32), np.empty(step * columns, np.float32)
    by_q = np.empty(step * depth, np.float32)
    by_k, by_v = np.empty((columns, depth), np.float32), np.empty((columns, width), np.float32)
    for b in range(batches):
        for h in range(heads):
            keys, values = k[b, h // shared], v[b, h // shared]
            for start in range(0, length, step):
                stop = min(start + step, length)
                rows, seen = stop - start, min(columns, stop) if causal else columns
                p = weights[: rows * seen].reshape(rows, seen)
                ds = slopes[: rows * seen].reshape(rows, seen)
                queries, given = q[b, h, start:stop], grad[b, h, start:stop]
                np.dot(queries, keys[:seen].T, p)
                if mask.size:
                    _masked(p, mask, b, h, start)
                np.dot(given, values[:seen].T, ds)
                for r in range(rows):
                    own = min(seen, start + r + 1) if causal else seen
                    _powers(p[r, :own], ends[b, h, start + r])
                    p[r, own:] = _ZERO
                    shift = dot(given[r], out[b, h, start + r])
                    _slopes(ds[r], p[r], shift)
                dq = by_q[: rows * depth].reshape(rows, depth)
                np.dot(ds, keys[:seen], dq)
                np.dot(ds.T, queries, by_k[:seen])
                np.dot(p.T, given, by_v[:seen])
                for r in range(rows):
                    _multiples(dq[r], scale, grad_q[b, start + r, h])
                for c in range(seen):
                    _added(grad_k[b, c, h // shared], by_k[c])
                    _added(grad_v[b, c, h // shared], by_v[c])


def attend_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    ends: Array,
    mask: Array | None,
    *,
    causal: bool,
    scale: float,
) -> tuple[Array, Array, Array]:
    """Gradients of queries, keys and values; ends: the logarithms that `attend` gave."""
    by_q, by_k, by_v = (np.zeros(x.swapaxes(1, 2).shape, np.float32) for x in (q, k, v))
    queries, factor = _rows(q), np.float32(scale)
    queries *= factor
    _attend_backward(
        _rows(grad),
        queries,
        _rows(k),
        _rows(v),
        _rows(out),
        _rows(ends),
        _mask_of(mask),
        causal,
        factor,
        _block_rows(q.shape[2], k.shape[2]),
        by_q,
        by_k,
        by_v,
    )
    return by_q.swapaxes(1, 2), by_k.swapaxes(1, 2), by_v.swapaxes(1, 2)
