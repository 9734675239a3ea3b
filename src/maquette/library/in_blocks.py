"""Kernels that work element by element, on large arrays: in the order of memory, and in blocks.

Where the result is to lie in another order than its dimensions' (channels last, transposed), the
kernel gets its operands with dimensions in the order of memory: then loops over rows meet rows, and
what they give is where it belongs (`sigmoid` of 10⁵ float32, channels last: 0.37 to 0.04 ms).

A kernel of 16-bit floats widens its operands to single precision, and its result is rounded. Over
whole arrays each of these steps goes through memory; blocks stay in a core's cache (`floor` of 10⁶
float16: 0.42 to 0.2 ms). The kernel gets the operands that it would get, turned or shorter, and so
gives the same values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.tensor.backend import Backend, backend_for

Array = npt.NDArray[Any]
Index = tuple[slice, ...]

_BLOCK = 1 << 17  # elements: 512 KiB in single precision
_LEAST = 1 << 18
_LEAST_OF_LOOPS = 1 << 12  # for operators that a compiled loop may compute
_TURNED = 1 << 14  # elements from which kernels go by memory: to turn takes 10 us
_HALVES = frozenset({"float16", "bfloat16"})


def takes_blocks(op: OpOverload, args: Sequence[object], result: object) -> bool:
    """Whether a call is worth it, by the arguments and result of its shape rule."""
    if not (op.facts.by_element or Tag.pointwise in op.tags) or result.__class__ is not TensorMeta:
        return False
    assert isinstance(result, TensorMeta)
    if result.is_symbolic or result.numel < _LEAST_OF_LOOPS or op._opname == "clone":
        return False
    operands = [a for a in args if isinstance(a, TensorMeta)]
    if any(m.is_symbolic or m.ndim > result.ndim for m in operands):
        return False
    # What is a function of NumPy goes by memory as it is.
    turned = op.facts.ufunc is None and result.numel >= _TURNED and _is_turned(result)
    return turned or _are_large_halves(op, operands, result)


def _are_large_halves(
    op: OpOverload, operands: Sequence[TensorMeta | Array], result: TensorMeta
) -> bool:
    least = _LEAST if op.facts.on_halves is None else _LEAST_OF_LOOPS
    if op.facts.by_bits or result.numel < least:
        return False
    return any(m.dtype.itemsize == 2 and _is_half(m.dtype) for m in operands)


def _is_turned(meta: TensorMeta) -> bool:
    """Whether a meta fills its memory in another order than its dimensions'."""
    order = _order_of(meta)
    rows = contiguous_strides(tuple([meta.shape[d] for d in order]))
    return order != sorted(order) and [meta.strides[d] for d in order] == list(rows)


def _order_of(meta: TensorMeta | Array) -> list[int]:
    return list(_outermost_first(tuple(meta.strides)))


@lru_cache(maxsize=1024)
def _outermost_first(strides: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


@cache
def _is_half(kind: object) -> bool:
    return kind.name in _HALVES  # type: ignore[attr-defined]  # NumPy's take 3 us


def computed_in_blocks(
    op: OpOverload, meta: TensorMeta, backend: Backend, args: Sequence[object]
) -> Array:
    """The result of an array kernel, laid out as ``meta`` says, from the arrays of its operands."""
    kernel, xp = op.array_kernel, backend.namespace
    assert kernel is not None
    order = _order_of(meta)
    turned = order != list(range(meta.ndim))
    if not _are_large_halves(op, [a for a in args if isinstance(a, np.ndarray)], meta):
        computed = kernel(xp, *[_turned(a, order) for a in args])
        return backend.as_array(computed).transpose(np.argsort(order))
    laid = found = np.empty(
        [meta.shape[d] for d in order] if turned else meta.shape, meta.dtype.numpy
    )
    if turned:
        laid = found.transpose([order.index(d) for d in range(meta.ndim)])
    if _by_loop(op, backend, args, order, laid, found):
        return laid
    operands = [_laid_along(a, meta.shape, order) for a in args]
    arrays = [a for a in operands if isinstance(a, np.ndarray) and a.size > 1]
    target: Array = found
    if all(a.flags.c_contiguous for a in arrays):
        operands = [_in_a_row(a) for a in operands]
        target = found.reshape(-1)
    for block in _blocks(target.shape):
        part = [a[block] if isinstance(a, np.ndarray) and a.size > 1 else a for a in operands]
        backend.write(target[block], backend.as_array(kernel(xp, *part)))
    return laid


def _by_loop(
    op: OpOverload,
    backend: Backend,
    args: Sequence[object],
    order: list[int],
    laid: Array,
    found: Array,
) -> bool:
    """Whether a compiled loop computed all of the result: laid out, and in the order of memory."""
    rule, loops = op.facts.on_halves, backend.loops
    step = None if rule is None or loops is None else rule(*args)
    if loops is None or step is None:
        return False
    name, given, numbers = step
    if any(a.dtype is not found.dtype and a.dtype != found.dtype for a in given):
        return False
    operands = given if laid is found else [_laid_along(a, laid.shape, order) for a in given]
    loops.computed_on_halves(name, operands, numbers, found)
    return True


def written_by_loop(op: OpOverload, xp: ModuleType, args: Sequence[object]) -> bool:
    """Whether a compiled loop wrote what an operator computes into its first argument."""
    target = args[0]
    if xp is not np or op.facts.on_halves is None or not isinstance(target, np.ndarray):
        return False
    if target.itemsize != 2 or not _is_half(target.dtype) or target.size < _LEAST_OF_LOOPS:
        return False
    order = _order_of(target)
    found = target.transpose(order)
    others = [a for a in args[1:] if isinstance(a, np.ndarray) and a is not target]
    apart = not any(a.ndim > target.ndim or np.may_share_memory(a, target) for a in others)
    if not (apart and found.flags.c_contiguous):
        return False
    laid = found if order == list(range(target.ndim)) else target
    return _by_loop(op, backend_for(xp), args, order, laid, found)


def _turned(value: object, order: list[int]) -> object:
    """An operand with its dimensions in another order; numbers stay."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    missing = len(order) - value.ndim
    return value.reshape((1,) * missing + value.shape).transpose(order)


def _laid_along(value: object, shape: tuple[int, ...], order: list[int]) -> object:
    """An operand with the result's shape, in the order of its dimensions; single numbers stay."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    if value.size == 1:
        return value.reshape((1,) * len(shape))
    whole = value if value.shape == shape else np.broadcast_to(value, shape)
    return whole.transpose(order)


def _in_a_row(value: object) -> object:
    return value.reshape(-1) if isinstance(value, np.ndarray) and value.ndim else value


def _blocks(shape: tuple[int, ...]) -> Iterator[Index]:
    """Indices that cut an array into blocks along its first dimensions."""
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) > _BLOCK:
        axis += 1
    rows = max(1, _BLOCK // math.prod(shape[axis + 1 :]))
    count = -(-shape[axis] // rows)
    cuts = [shape[axis] * i // count for i in range(count + 1)]  # of about one size
    parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    for before in np.ndindex(*shape[:axis]):
        first = tuple([slice(i, i + 1) for i in before])
        for part in parts:
            yield (*first, part)
