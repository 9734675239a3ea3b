"""Tensors over an engine's memory: results and state are not copied until somebody mutates them.

What a program gives is shown as it lies, read-only, and what it keeps between calls (parameters,
optimizers' state) is one memory for the engine and the tensor. As with `_lazy_clone`, NumPy refuses
to mutate it, and the storage then copies (`tensor/lazy_copies.py`). So a tensor that still shows
an engine's array has not changed since, and the array is given to the next call as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.core.meta import TensorMeta
from maquette.core.ownership import held_only
from maquette.dispatch.registry import ops
from maquette.tensor.arrays import Array, NoArray
from maquette.tensor.backend import backend_of
from maquette.tensor.keys import ADINPLACE, CONJUGATE, NEGATIVE, keys_for
from maquette.tensor.lazy_copies import Lent
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, wrap

if TYPE_CHECKING:
    from maquette.compile.engines import Engine

_NOT_AS_IT_LIES = CONJUGATE | NEGATIVE


def shown_by(engine: Engine, t: Tensor) -> Any:
    """The engine's array whose memory a tensor shows; None where it shows none, or part of one."""
    lent = t._storage.lazy_copies
    if not isinstance(lent, Lent) or lent.meta is not t.meta or t._keys & _NOT_AS_IT_LIES:
        return None
    return lent.shown if lent.lender is engine.lender else None


def lend(engine: Engine, t: Tensor, array: Any) -> bool:
    """Have a tensor show the memory of an engine's array of its values; whether it could be done.

    Not so of one that NumPy's arrays show too, which must see what is written to it.
    """
    storage = t._storage
    if storage.data is None:  # released, so it is as before
        alone = held_only(t._storage, 2 + t._inside)
        values = _read_only(engine.taken(array))
    else:
        lazy = storage.lazy_copies
        found = _as_it_lies(engine, array, t.meta)
        if found is None or storage._nbytes != found.nbytes:
            return False
        if t._keys & (_NOT_AS_IT_LIES | ADINPLACE) != ADINPLACE:
            return False  # an inference tensor's mutations are not seen in time
        if lazy.__class__ is not Lent and not _shows_alone(t):
            return False
        alone = held_only(t._storage, 2 + t._inside)
        values = found
        if lazy is not None:
            lazy.forget(storage)
    Lent(values, engine.lender, array, t.meta).join(storage)
    t._mq_data = values
    if not alone:
        storage.bytes_moved()
    return True


def release(t: Tensor) -> None:
    """Let go of an engine's memory, which is to be used again; `lend` or `lost` follows.

    `lend` is then given an array as it was.
    """
    storage = t._storage
    storage.data = storage.lazy_copies = t._mq_data = None


def lost(engine: Engine, t: Tensor, array: Any) -> None:
    """Show again what was released for a call that failed, if the memory is still there."""
    try:
        Lent(engine.taken(array), engine.lender, array, t.meta).join(t._storage)
        t._mq_data = t._storage.data
    except RuntimeError:
        why = "a compiled call failed after it had taken this tensor's memory; load it again"
        t._mq_data = NoArray(why)  # type: ignore[assignment]  # any use of it says so


def tensor_of(array: Array, meta: TensorMeta) -> Tensor:
    """A tensor on the cpu with an array's values, laid out as a meta says."""
    memory, data = backend_of("cpu").laid_out(meta, array)
    return wrap(meta, UntypedStorage(meta.storage_bytes, meta.device, memory), data, keys_for(meta))


def tensor_like(engine: Engine, array: Any, fake: Tensor) -> Tensor:
    """A tensor on the cpu that shows an engine's array as a traced one shows its values."""
    if fake.is_neg():
        return ops.aten._neg_view.default(tensor_of(-engine.taken(array), fake.meta))
    if fake.is_conj():
        return ops.aten._conj.default(tensor_of(np.conj(engine.taken(array)), fake.meta))
    meta = fake.meta
    values = _as_it_lies(engine, array, meta)
    if values is None:
        return tensor_of(engine.taken(array), meta)
    storage = UntypedStorage(values.nbytes, meta.device)
    Lent(values, engine.lender, array, meta).join(storage)
    return wrap(meta, storage, values, keys_for(meta))


def _as_it_lies(engine: Engine, array: Any, meta: TensorMeta) -> Array | None:
    """An engine's memory, read-only, where it is what a tensor of a meta has; else None."""
    if engine.lender is None or not meta.is_contiguous or meta.offset or not meta.numel:
        return None
    values: Array = engine.taken(array)
    if values.dtype != meta.dtype.numpy or values.shape != meta.shape:
        return None
    return _read_only(values) if values.flags.c_contiguous else None


def _read_only(values: Array) -> Array:
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values


def _shows_alone(t: Tensor) -> bool:
    """Whether no array but a tensor's own shows the memory of its storage."""
    storage, data = t._storage, t._mq_data
    if storage.foreign or data.__class__ is not np.ndarray or storage.data is None:
        return False
    memory = storage.data
    owner = memory if memory.base is None else memory.base
    if owner.__class__ is not np.ndarray or owner.base is not None:
        return False
    for array in (data, memory, owner):
        mine = (data is array) + (memory is array) + (owner is array)
        seen = (memory.base is array) + (data is not memory and data.base is array)
        # As an attribute or a base, as a name here, in what is looped over, and as its name.
        attributes = (t._mq_data is array) + (storage.data is array) + seen
        if not held_only(array, attributes + mine + mine + 1):
            return False
    return True


__all__ = ["lend", "lost", "release", "shown_by", "tensor_like", "tensor_of"]
