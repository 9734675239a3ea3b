"""Functionalization's handlers of operators that give a tensor other memory, or none of its own.

The pages of these operators name them (`OperatorPage.functionalization`): what they do is said by
no schema and no functional twin.
"""

from __future__ import annotations

from typing import Any

from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides
from maquette.dispatch.operator import OpOverload
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, from_storage
from maquette.tensor.typed_storage import TypedStorage
from maquette.transforms.functional.kernel import (
    Params,
    first_look,
    refuse_mixed,
    relay,
    values_of,
)
from maquette.transforms.functional.storage import FunctionalStorage, ViewStep, storage_of
from maquette.transforms.functional.wrapper import FunctionalWrapper, Owner, is_functional, wrap
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import revived


def lifted(op: OpOverload, owner: Owner, params: Params) -> object:
    """A tensor made from Python data enters the program: a copy that no view reaches."""
    (made,) = params
    if is_functional(made, owner):
        return made
    return wrap(owner.call(operators.lift_fresh_copy.default, (revived(made),)), owner)  # type: ignore[arg-type]  # a tensor


def detached(op: OpOverload, owner: Owner, params: Params) -> object:
    """Only autograd changes, and that lies above."""
    return params[0] if is_functional(params[0], owner) else owner.call(op, params)


def resized(op: OpOverload, owner: Owner, params: Params) -> object:
    """Within its memory a tensor becomes a view; a larger one gets memory of its own."""
    target, size, memory_format = params
    if not is_functional(target, owner):
        return owner.call(op, values_of(params, owner))
    count = 1
    for s in size:
        count *= s
    available = target._storage._nbytes // target.meta.itemsize - target.meta.offset
    strides = contiguous_strides(tuple(size))
    if memory_format is None and count <= available:
        if tuple(size) != target.meta.shape:
            view = operators.as_strided.default
            step = ViewStep(
                view, (tuple(size), strides, target.meta.offset), -1, target.meta, owner.copies
            )
            target._value = first_look(target, step, owner)
            relay(target, step, view.shape_rule(target.meta, *step.params))
        return target
    if target._steps:
        raise RuntimeError(
            f"{op}: Attempted to resize a view tensor to a larger size. This is not allowed in the "
            f"functionalization pass: {target.meta} to {list(size)}"
        )
    new = owner.call(operators.resize.default, (target.sync(), size, memory_format))
    assert isinstance(new, Tensor)
    target._value, target.meta = new, new.meta
    target._storage = storage_of(new, new.meta)
    target._generation = 0
    target._metadata_changed = True
    return target


def given_memory(op: OpOverload, owner: Owner, params: Params) -> object:
    """The wrapper gets the memory of another, or of a storage."""
    target, *rest = params
    if not is_functional(target, owner):
        refuse_mixed(op, [target], params, owner)
        return owner.call(op, values_of(params, owner))
    if not rest:
        _adopt(target, wrap(owner.call(operators.set.default, (target.sync(),)), owner))  # type: ignore[arg-type]  # a tensor
    elif isinstance(rest[0], Tensor):
        source = rest[0] if is_functional(rest[0], owner) else wrap(rest[0], owner)
        if source.meta.dtype is not target.meta.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.meta.dtype} to a tensor of type "
                f"{target.meta.dtype}"
            )
        _adopt(target, source)
        if len(rest) > 1:
            _place(target, owner, *rest[1:])
    else:
        _adopt(target, _over(rest[0], target.meta, owner))
        if len(rest) > 1:
            _place(target, owner, *rest[1:])
    return target


def _adopt(target: FunctionalWrapper, source: FunctionalWrapper) -> None:
    target._storage, target._steps = source._storage, source._steps
    target._generation, target._value = source._generation, source._value
    target.meta, target._lazy = source.meta, source._lazy
    target._storage_changed = target._metadata_changed = True


def _over(storage: object, like: TensorMeta, owner: Owner) -> FunctionalWrapper:
    """A wrapper of all of a storage."""
    raw = storage.untyped() if isinstance(storage, TypedStorage) else storage
    if isinstance(raw, FunctionalStorage):
        made = wrap(raw.base, owner)
        made._storage, made._generation = raw, raw.generation
        if raw.updates:
            made._generation = -1
        return made
    assert isinstance(raw, UntypedStorage)
    count = raw.nbytes() // like.itemsize
    return wrap(from_storage(raw, TensorMeta.of(like.dtype, (count,), (1,), 0, raw.device)), owner)


def _place(target: FunctionalWrapper, owner: Owner, offset: int, size: Any, stride: Any) -> None:
    view = operators.as_strided.default
    strides = tuple(stride) or contiguous_strides(tuple(size))
    step = ViewStep(view, (tuple(size), strides, offset), -1, target.meta, owner.copies)
    target._value = first_look(target, step, owner)
    relay(target, step, view.shape_rule(target.meta, *step.params))


__all__ = ["detached", "given_memory", "lifted", "resized"]
