"""The array of a tensor: laid over the bytes of its storage, or a stand-in where none can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from maquette.core.meta import TensorMeta
from maquette.tensor.backend import backend_of
from maquette.tensor.storage import UntypedStorage

Array = npt.NDArray[np.generic]
_SHOWN_AS_BYTES = "fiub"  # types whose arrays, where dense, another array may be laid over


def array_over(storage: UntypedStorage, meta: TensorMeta) -> Array:
    """The array of a meta over a storage's bytes; RuntimeError where the storage is too short."""
    if meta.storage_bytes > storage._nbytes and meta.numel:
        raise RuntimeError(
            f"{meta} with strides {meta.strides} and offset {meta.offset} needs "
            f"{meta.storage_bytes} bytes, but its storage has {storage._nbytes}"
        )
    if meta.ndim > 64:
        raise NotImplementedError(f"{meta}: NumPy arrays have at most 64 dims, not {meta.ndim}")
    memory: Array | None = storage.data  # bytes are not asked for where an array will do
    if (
        memory.__class__ is not np.ndarray
        or memory is None
        or memory.dtype.kind not in _SHOWN_AS_BYTES
        or not memory.flags.c_contiguous
    ):
        memory = storage.raw()
    if memory.__class__ is not np.ndarray:
        return backend_of(meta.device.type).over(memory, meta)
    size = meta.itemsize
    if meta.numel == 0:
        return np.empty(meta.shape, meta.dtype.numpy)
    # NumPy's `over`, written out: views are made here (make bench, rows `view`).
    strides = tuple([s * size for s in meta.strides])
    return np.ndarray(meta.shape, meta.dtype.numpy, memory, meta.offset * size, strides)


class NoArray:
    """In the place of a tensor's array where there can be none: any use raises, saying why."""

    def __init__(self, why: str, error: type[Exception] = RuntimeError) -> None:
        self._why = why
        self._error = error

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise self._error(self._why)

    if not TYPE_CHECKING:  # a type checker would take it for leave to read any name

        def __getattr__(self, name: str) -> NoReturn:
            raise self._error(self._why)
