"""Kernels that work element by element, on large arrays of 16-bit floats: some elements at a time.

Such a kernel widens its operands to single precision, and its result is rounded. Over whole arrays
each of these steps goes through memory; blocks stay in a core's cache (`floor` of 10⁶ float16: 0.42
to 0.2 ms). The kernel gets the operands that it would get, shorter, and so gives the same values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.tensor.backend import Backend

Array = npt.NDArray[Any]
Index = tuple[slice, ...]

_BLOCK = 1 << 17  # elements: 512 KiB in single precision
_LEAST = 1 << 18
_HALVES = frozenset({"float16", "bfloat16"})


def takes_blocks(op: OpOverload, args: Sequence[object], result: object) -> bool:
    """Whether a call is worth it, by the arguments and result of its shape rule."""
    if not (op.facts.by_element or Tag.pointwise in op.tags) or result.__class__ is not TensorMeta:
        return False
    assert isinstance(result, TensorMeta)
    if result.is_symbolic or result.numel < _LEAST or op._opname == "clone":
        return False
    operands = [a for a in args if isinstance(a, TensorMeta)]
    return any(m.dtype.name in _HALVES for m in operands) and not any(
        m.is_symbolic or m.ndim > result.ndim for m in operands
    )


def computed_in_blocks(
    op: OpOverload, meta: TensorMeta, backend: Backend, args: Sequence[object]
) -> Array:
    """The result of an array kernel, laid out as ``meta`` says, from the arrays of its operands."""
    kernel, xp = op.array_kernel, backend.namespace
    assert kernel is not None
    order = sorted(range(meta.ndim), key=lambda d: -meta.strides[d])
    shape = tuple([meta.shape[d] for d in order])
    found = np.empty(shape, meta.dtype.numpy)
    if _by_loop(op, backend, args, order, found):
        return found.transpose(np.argsort(order))
    operands = [_laid_along(a, meta.shape, order) for a in args]
    arrays = [a for a in operands if isinstance(a, np.ndarray) and a.size > 1]
    target: Array = found
    if all(a.flags.c_contiguous for a in arrays):
        operands = [_in_a_row(a) for a in operands]
        target = found.reshape(-1)
    for block in _blocks(target.shape):
        part = [a[block] if isinstance(a, np.ndarray) and a.size > 1 else a for a in operands]
        backend.write(target[block], backend.as_array(kernel(xp, *part)))
    return found.transpose(np.argsort(order))


def _by_loop(
    op: OpOverload, backend: Backend, args: Sequence[object], order: list[int], out: Array
) -> bool:
    """Whether a compiled loop computed all of the result."""
    rule, loops = op.facts.on_halves, backend.loops
    step = None if rule is None or loops is None else rule(*args)
    if loops is None or step is None:
        return False
    name, given, numbers = step
    arrays = [a if any(a.strides) else a[(slice(0, 1),) * a.ndim] for a in given]  # of one number
    turned = order != list(range(out.ndim))
    if any(a.dtype != out.dtype or (turned and a.ndim != out.ndim) for a in arrays):
        return False
    operands = [a.transpose(order) for a in arrays] if turned else arrays
    done: bool = loops.computed_on_halves(name, operands, numbers, out)
    return done


def _laid_along(value: object, shape: tuple[int, ...], order: list[int]) -> object:
    """An operand with the result's shape, in the order of its dimensions; single numbers stay."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    if value.size == 1:
        return value.reshape((1,) * len(shape))
    return np.broadcast_to(value, shape).transpose(order)


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
