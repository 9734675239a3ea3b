"""What distributions make of a stream's uniform numbers, number for number as PyTorch does.

Each function gives ``count`` values in one dimension, in the order in which PyTorch fills memory;
`in_memory_order` says where they go. Samplers that reject are in
`rejection.py`, normals in blocks in `box_muller.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import byte_strides
from maquette.aten.common.axes import Array
from maquette.aten.common.large_arrays import SMALL
from maquette.aten.random.box_muller import (
    BLOCK,
    normal_blocks,
    normal_blocks_double,
    normal_blocks_half,
)
from maquette.aten.random.fused import fused_double, fused_single
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import finfo, float32, float64, int64
from maquette.core.layout import contiguous_format, preserve_format
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.strides import format_strides
from maquette.tensor.backend import backend_for
from maquette.tensor.streams.mersenne import MersenneStream

Ints = tuple[int, ...]
# From this many values on, a word of 32 bits would favour some visibly: PyTorch takes 64.
_WIDE_RANGE = 2**28
# Below this many places, swapping them one by one is as fast as all at once.
_FEW_SWAPS = 512


def uniform(stream: MersenneStream, count: int, low: float, high: float, kind: DType) -> Array:
    """Values in [low, high), in ``kind`` or, for halves, in what rounds to it."""
    if kind.is_complex:
        return _paired(uniform(stream, 2 * count, low, high, kind.to_real()))
    if kind is float64:
        return fused_double(stream.doubles(count), high - low, low)
    # The bounds in single precision; product and sum rounded once.
    least, most = np.float32(low), np.float32(high)
    values: Array = stream.floats(count)
    if (least, most) != (0, 1):
        values = fused_single(values, most - least, least)
    if kind is not float32:
        values = values.astype(kind.numpy)
        # Rounding must not reach the upper bound, which is excluded.
        values[values == np.asarray(high, kind.numpy)] = np.asarray(low, kind.numpy)
    return values


def normal(
    stream: MersenneStream, count: int, mean: float, std: float, kind: DType, *, dense: bool = True
) -> Array:
    """Normal values. From 16 on, contiguous ones (``dense``) are made in blocks."""
    if kind.is_complex:
        real = kind.to_real()
        parts = normal(stream, 2 * count, mean, std / math.sqrt(2), real, dense=dense)
        return _paired(parts)
    if not dense or count < BLOCK:
        return _doubles_about(stream, count, mean, std)
    if kind is float64:
        return normal_blocks_double(stream, count, mean, std)
    if kind is float32:
        return normal_blocks(stream, count, mean, std)
    return normal_blocks_half(stream, count, mean, std)


def _doubles_about(stream: MersenneStream, count: int, mean: float, std: float) -> Array:
    """Normal values one by one, in double precision."""
    few = stream.scaled_normals(count, float(mean), float(std))
    return fused_double(stream.normals(count), std, mean) if few is None else few


def _paired(parts: Array) -> Array:
    return parts[0::2] + 1j * parts[1::2]


def integers(stream: MersenneStream, count: int, low: int, high: int) -> Array:
    """Integers in [low, high), as int64 or, where that is too small, uint64."""
    size = high - low
    loops = stream.loops(count, 5) if size < _WIDE_RANGE and high < 2**63 else None
    if loops is not None:
        looped: Array = loops.integers(stream.engine_words(), count, low, size)
        return looped
    if size >= 2**64:
        return stream.double_words(count).view(np.int64)
    words = stream.double_words(count) if size >= _WIDE_RANGE else stream.single_words(count)
    found = _below(words, size)
    if high > 2**63:
        return found + np.uint64(low)
    whole = found.astype(np.int64)
    whole += np.int64(low)
    return whole


def _below(words: Array, size: int) -> Array:
    """The remainders of unsigned words by a size, in their memory; NumPy's takes twice as long."""
    most = words.dtype.type(size)
    words -= words // most * most
    return words


def any_integers(stream: MersenneStream, count: int, kind: DType) -> Array:
    """Integers from 0 that the dtype holds exactly, each as likely."""
    if kind.is_floating_point:
        most = 2 ** round(-math.log2(finfo(kind).eps) + 1)
        words = stream.double_words(count) if kind is float64 else stream.single_words(count)
        return _below(words, most + 1).astype(np.int64)
    if kind.name == "bool":
        return stream.words(count) & np.uint64(1)
    bits = 8 * kind.itemsize - kind.is_signed
    found = stream.double_words(count) if kind.itemsize == 8 else stream.single_words(count)
    found &= found.dtype.type((1 << bits) - 1)
    return found.view(np.int64) if kind is int64 else found


def exponential(stream: MersenneStream, count: int, rate: float) -> Array:
    """Exponential values, by the inverse of their distribution function."""
    return -1.0 / rate * np.log1p(-stream.doubles(count))


def cauchy(stream: MersenneStream, count: int, median: float, sigma: float) -> Array:
    """Cauchy values, by the inverse of their distribution function."""
    drawn = fused_double(np.tan(math.pi * (stream.doubles(count) - 0.5)), sigma, median)
    # An infinite median is the value, where the fused product would say nan.
    return drawn if math.isfinite(median) else np.full(count, median)


def log_normal(stream: MersenneStream, count: int, mean: float, std: float) -> Array:
    """Exponentials of normal values."""
    return np.exp(_doubles_about(stream, count, mean, std))


def geometric(stream: MersenneStream, count: int, p: float) -> Array:
    """How many trials of probability ``p`` until the first success."""
    return np.ceil(np.log(stream.doubles(count)) / math.log1p(-p))


def truths(stream: MersenneStream, count: int, p: float) -> Array:
    """True with probability ``p``."""
    return stream.doubles(count) < p


def truths_of(stream: MersenneStream, p: Array) -> Array:
    """True with the probabilities of a one-dimensional array, drawn in its precision."""
    if p.dtype == np.float64:
        return stream.doubles(p.size) < p
    return stream.floats(p.size) < p.astype(np.float32)


_FEW_PLACES = 32  # places that Python shuffles as soon as a loop is called


def permutation(stream: MersenneStream, n: int) -> Array:
    """The numbers below ``n`` in random order: each place swaps with one that is not yet done."""
    words = stream.words(max(n - 1, 0))
    backend = backend_for(np)
    if n < _FEW_PLACES or n >= 2**31:
        loops = None
    else:
        loops = backend.loops if n >= SMALL else backend.loops_if_worth(n / 15)
    if loops is not None:
        swapped: Array = loops.swapped_in_turn(words, n)
        return swapped
    if _FEW_SWAPS <= n < 2**31:
        return _swapped_at_once(words.astype(np.uint32), n)
    found = list(range(n))
    for i, word in enumerate(words.tolist()):
        other = i + word % (n - i)
        found[i], found[other] = found[other], found[i]
    return np.array(found, np.int64)


def _swapped_at_once(words: Array, n: int) -> Array:
    """What the swaps of `permutation` give, without a loop (10⁶ places: 1,340 to 150 ms).

    A step finds in the place it swaps with what the last step before it that chose that place left
    there: what that earlier step found at home, in its own place. Following these chains to their
    start, where nothing had been left yet, gives every number.
    """
    bits = np.int64(n.bit_length())
    step = np.arange(n - 1, dtype=np.int64)
    keys = (words % np.arange(n, 1, -1, dtype=np.uint32)).astype(np.int64)
    keys += step
    keys <<= bits
    keys |= step
    keys.sort()  # by the place that a step chose, then by steps
    chosen = (keys >> bits).astype(np.int32)
    step = (keys & ((1 << bits) - 1)).astype(np.int32)
    # What a step finds at home, as the step before that left it there; itself where none did.
    home = np.arange(n, dtype=np.int32)
    elsewhere = step != chosen
    home[np.compress(elsewhere, chosen)] = np.compress(elsewhere, step)  # the last one stays
    open_chains = np.flatnonzero(home != np.arange(n, dtype=np.int32))
    while open_chains.size:
        before = home.take(open_chains)
        further = home.take(before)
        home[open_chains] = further
        open_chains = np.compress(further != before, open_chains)
    again = np.flatnonzero(chosen[1:] == chosen[:-1])
    chosen[again + 1] = home.take(step.take(again))
    found = np.empty(n, np.int64)
    found[step] = chosen
    found[-1] = home[-1]
    return found


_AS_IT_LIES = (preserve_format, contiguous_format)  # for what is contiguous

# --- places ---------------------------------------------------------------------------


def _outermost_first(array: Array, wanted: MemoryFormat = preserve_format) -> list[int]:
    """Dimensions from the largest step in memory to the smallest, in what is laid out alike."""
    strides = format_strides(array.shape, tuple(byte_strides(array)), wanted)
    return sorted(range(len(strides)), key=lambda dim: -strides[dim])


def in_memory_order(array: Array, like: Array | None = None) -> Array:
    """The elements with dimensions from the outermost in memory to the innermost.

    like: order the dimensions as they lie in this array's memory instead.
    """
    return array.transpose(_outermost_first(array if like is None else like))


def empty_alike(array: Array, kind: Any = None, wanted: object = None) -> Array:
    """An array that lies in memory as a tensor of `empty_like` would.

    kind: its NumPy dtype, if another. wanted: the memory format; None for the array's own order.
    """
    assert wanted is None or isinstance(wanted, MemoryFormat)
    if array.flags.c_contiguous and (wanted is None or wanted in _AS_IT_LIES):
        return np.empty(array.shape, kind or array.dtype)
    order = _outermost_first(array, wanted or preserve_format)
    made: Array = np.empty([array.shape[dim] for dim in order], kind or array.dtype)
    return made.transpose(np.argsort(order))
