"""Attention on arrays, forward and backward, a few rows of scores at a time, never all of them.

Arrays are (batch, heads, length, width). Several heads of queries may share one of keys and values:
a dimension for those that share is added, so that products broadcast over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, sqrt
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import assigned_at, exp_in
from maquette.aten.common.large_arrays import loops_of_places

#: Scores held at once; 16 million float32 are 64 MiB.
_SCORES_AT_ONCE = 1 << 24


def calculate_scale(width: int, scale: float | None) -> float:
    """The factor of the scores: 1 / sqrt(width) by default."""
    if scale is not None:
        return scale
    if width.__class__ is int:
        return 1.0 / sqrt(width) if width else inf
    return 1.0 / width**0.5


def _grouped(array: Array, key_heads: int) -> Array:
    """(B, H, L, D) as (B, key heads, heads sharing one, L, D)."""
    batch, heads, length, width = array.shape
    return wide(array).reshape(batch, key_heads, heads // max(key_heads, 1), length, width)


def _four_dimensional(mask: Array | None) -> Array | None:
    return None if mask is None else wide(mask).reshape((1,) * (4 - mask.ndim) + mask.shape)


def _grouped_mask(mask: Array | None, key_heads: int) -> Array | None:
    mask = _four_dimensional(mask)
    if mask is None:
        return None
    batch, heads, rows, columns = mask.shape
    split = (1, 1) if heads == 1 else (key_heads, heads // key_heads)
    return mask.reshape(batch, *split, rows, columns)


class Scores:
    """The scaled and masked scores of grouped queries, computed for runs of rows."""

    def __init__(
        self, xp: ModuleType, q: Array, k: Array, mask: Array | None, causal: bool, scale: float
    ) -> None:
        self.xp, self.mask, self.causal = xp, mask, causal
        self.q = q * q.dtype.type(scale)
        self.transposed = xp.swapaxes(k, -1, -2)

    def runs(self) -> Iterator[tuple[slice, Array]]:
        """Slices of rows with their scores."""
        rows, columns = self.q.shape[-2], self.transposed.shape[-1]
        other = max(1, self.q.size // max(1, rows * self.q.shape[-1]))
        step = max(1, _SCORES_AT_ONCE // max(1, other * columns))
        for start in range(0, rows, step):
            run = slice(start, min(rows, start + step))
            yield run, self._of(run)

    def _of(self, run: slice) -> Array:
        xp = self.xp
        scores = xp.matmul(self.q[..., run, :], self.transposed)
        if self.mask is not None:
            scores = scores + (self.mask if self.mask.shape[-2] == 1 else self.mask[..., run, :])
        if self.causal:
            hidden = xp.arange(scores.shape[-1]) > xp.arange(run.start, run.stop)[:, None]
            scores = xp.where(hidden, scores.dtype.type(-xp.inf), scores)
        return scores


def _loops(
    xp: ModuleType, query: Array, key: Array, value: Array, mask: Array | None
) -> ModuleType | None:
    """The compiled loops for many scores of single precision; else None."""
    given = [wide(x) for x in (query, key, value, mask) if x is not None]
    if not all(x.dtype == np.float32 and x.size for x in given):
        return None
    return loops_of_places(xp, query[..., 0].size * key.shape[2], *given)


def attend(
    xp: ModuleType,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    causal: bool,
    scale: float | None,
) -> tuple[Array, Array]:
    """Attention and the logarithms of its sums of exponentials; both zero where all is masked."""
    factor = calculate_scale(query.shape[-1], scale)
    loops = _loops(xp, query, key, value, mask)
    if loops is not None:
        given = (wide(query), wide(key), wide(value), _four_dimensional(mask))
        found: tuple[Array, Array] = loops.attend(*given, causal=causal, scale=factor)
        return found
    heads = key.shape[1]
    k, v = wide(key)[:, :, None], wide(value)[:, :, None]
    scores = Scores(xp, _grouped(query, heads), k, _grouped_mask(mask, heads), causal, factor)
    shape = (*scores.q.shape[:-1], value.shape[-1])
    out, sums = xp.empty(shape, k.dtype), xp.empty(shape[:-1], k.dtype)
    for run, s in scores.runs():
        top = s.max(axis=-1, keepdims=True) if s.shape[-1] else s.sum(axis=-1, keepdims=True)
        top = xp.where(xp.isneginf(top), 0, top)
        s -= top
        s = exp_in(xp, s)
        total = s.sum(axis=-1, keepdims=True)
        total = xp.where(total == 0, 1, total)
        out = assigned_at(xp, out, (..., run, slice(None)), xp.matmul(s, v) / total)
        sums = assigned_at(xp, sums, (..., run), (top + xp.log(total))[..., 0])
    return out.reshape(*query.shape[:3], shape[-1]), sums.reshape(query.shape[:3])


def attend_backward(
    xp: ModuleType,
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    mask: Array | None,
    causal: bool,
    scale: float | None,
    wants_mask: bool = False,
) -> tuple[Array, Array, Array, Array | None]:
    """Gradients of query, key, value, and of the mask, spread over heads, if wanted."""
    heads, factor = key.shape[1], calculate_scale(query.shape[-1], scale)
    loops = None if wants_mask else _loops(xp, query, key, value, mask)
    if loops is not None:
        ends = logsumexp[..., : query.shape[2]]
        given = [wide(x) for x in (grad, query, key, value, out, ends)]
        last = _four_dimensional(mask)
        grads: tuple[Array, Array, Array] = loops.attend_backward(
            *given, last, causal=causal, scale=factor
        )
        return *grads, None
    q, k, v = _grouped(query, heads), wide(key)[:, :, None], wide(value)[:, :, None]
    g = _grouped(grad, heads)
    delta = (g * _grouped(out, heads)).sum(axis=-1, keepdims=True)
    sums = logsumexp[..., : query.shape[2]].reshape(delta.shape)
    grad_q, grad_k, grad_v = xp.empty_like(q), xp.zeros_like(k[:, :, 0]), xp.zeros_like(v[:, :, 0])
    grad_mask = xp.empty((*q.shape[:-1], k.shape[-2]), q.dtype) if wants_mask else None
    scores = Scores(xp, q, k, _grouped_mask(mask, heads), causal, factor)
    for run, s in scores.runs():
        s -= sums[..., run, :]
        p = exp_in(xp, s)
        rows = g[..., run, :]
        grad_v += xp.matmul(xp.swapaxes(p, -1, -2), rows).sum(axis=2)
        ds = xp.matmul(rows, xp.swapaxes(v, -1, -2))
        ds -= delta[..., run, :]
        ds *= p
        if grad_mask is not None:
            grad_mask = assigned_at(xp, grad_mask, (..., run, slice(None)), ds)
        ds *= factor
        grad_q = assigned_at(xp, grad_q, (..., run, slice(None)), xp.matmul(ds, k))
        grad_k += xp.matmul(xp.swapaxes(ds, -1, -2), q[..., run, :]).sum(axis=2)
    if grad_mask is not None:
        grad_mask = grad_mask.reshape(*query.shape[:3], -1)
    return grad_q.reshape(query.shape), grad_k, grad_v, grad_mask
