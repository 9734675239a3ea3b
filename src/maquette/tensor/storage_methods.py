"""What programs call on storages: their bytes one by one, copies, other devices, other sizes.

`StorageMethods` is the base of `UntypedStorage`, which holds the bytes and knows their size
(`storage.py`). Nothing here is on the way of a tensor's operator.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from maquette.core.device import canonical, cpu, device
from maquette.core.dtype import dtype
from maquette.tensor.backend import Array, backend_of

if TYPE_CHECKING:
    from maquette.tensor.storage import UntypedStorage


def given_bytes(values: int | Sequence[int], where: device) -> tuple[int, Array | None]:
    """The size and the bytes of a new storage: zeros, or ``values``; no bytes where none are held.

    Raises TypeError for what is no size and no sequence of bytes, RuntimeError for a negative size.
    """
    if isinstance(values, int):
        if values < 0:
            raise RuntimeError(f"Storage size must not be negative, got {values}")
        size = values
    elif isinstance(values, StorageMethods):  # its bytes, shared
        held = values._self()
        return held.nbytes(), held.data
    elif isinstance(values, list | tuple | bytes | bytearray | range):
        size = len(values)
    else:
        raise TypeError(
            f"UntypedStorage(): expected a number of bytes or a sequence of them, got "
            f"{type(values).__name__}"
        )
    if where.type == "meta":
        return size, None
    data = backend_of(where.type).zeros(size, where)
    if not isinstance(values, int) and size:
        data[:] = np.array(list(values), np.uint8)
    return size, data


def mapped_file(filename: str | os.PathLike[str], *, shared: bool, nbytes: int) -> Array:
    """The first bytes of a file as an array; ``shared``: writes go to the file, which may grow.

    Raises RuntimeError where a file that may not grow is absent or too short.
    """
    path = os.fspath(filename)
    if shared:
        with open(path, "ab") as file:
            if file.tell() < nbytes:
                file.truncate(nbytes)
    elif not os.path.exists(path):
        raise RuntimeError(f"unable to open file <{path}> in read-only mode: it does not exist")
    elif os.path.getsize(path) < nbytes:
        raise RuntimeError(
            f"file <{path}> size <{os.path.getsize(path)}> is smaller than the required mapping "
            f"size <{nbytes}>"
        )
    if not nbytes:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, mode="r+" if shared else "c", shape=(nbytes,)))


# Storages that programs asked to pin. NumPy's memory is as good for copies to a device one way as
# the other, so that pinning is a mark and no more.
_PINNED: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()


def mark_pinned(storage: UntypedStorage) -> None:
    """From now on the storage says that it is pinned."""
    _PINNED.add(storage)


class StorageMethods:
    """The methods of `UntypedStorage` that programs call and operators do not."""

    __slots__ = ()

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> UntypedStorage:
        """A storage over a file's bytes, as `torch.from_file` has them."""
        data = mapped_file(filename, shared=bool(shared), nbytes=nbytes)
        made = cast("type[UntypedStorage]", cls)(nbytes, cpu, data)
        made.foreign = True
        return made

    # --- what it is ------------------------------------------------------------------

    def _self(self) -> UntypedStorage:
        return cast("UntypedStorage", self)

    def element_size(self) -> int:
        """1: its elements are bytes."""
        return 1

    @property
    def is_cuda(self) -> bool:
        """Whether it is on cuda."""
        return self._self().device.type == "cuda"

    @property
    def is_hpu(self) -> bool:
        """False."""
        return False

    @property
    def is_sparse(self) -> bool:
        """False."""
        return False

    def get_device(self) -> int:
        """The number of its device; -1 on the cpu."""
        index = self._self().device.index
        return -1 if index is None else index

    def _fix_weakref(self) -> None:
        """Nothing: weak references to storages live as long as the storages do."""

    def resizable(self) -> bool:
        """Whether it can grow: memory of a NumPy array's cannot."""
        return not self._self().foreign

    def is_shared(self) -> bool:
        """Whether forked processes share the bytes: after `share_memory_`, and on cuda always."""
        base: object = self._self().data
        while isinstance(base, np.ndarray):
            base = base.base
        owner = base.obj if isinstance(base, memoryview) else base
        return self.is_cuda or isinstance(owner, mmap.mmap)

    def _share_fd_cpu_(self) -> UntypedStorage:
        return self.share_memory_()

    _share_filename_cpu_ = _share_fd_cpu_

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that forked processes share; returns itself.

        RuntimeError for a storage that is not on the cpu, has no data, or is a NumPy array's.
        """
        held = self._self()
        if held.device.type != "cpu" or held.data is None:
            raise RuntimeError(f"share_memory_: only available on CPU, and this is {held!r}")
        if held.foreign:
            raise RuntimeError(
                "share_memory_(): the bytes are a NumPy array's; clone() the tensor first"
            )
        if not self.is_shared() and held.nbytes():
            shared = np.frombuffer(mmap.mmap(-1, held.nbytes()), np.uint8)
            shared[...] = held.raw()
            if held.lazy_copies is not None:
                held.lazy_copies.forget(held)
            held.data = shared
            held.bytes_moved()
        return held

    # --- bytes -----------------------------------------------------------------------

    def _bytes(self) -> Array:
        if self._self().data is None:
            raise NotImplementedError(f"Not available for a storage without data: {self!r}")
        return self._self().raw()

    def _own_bytes(self) -> Array:
        """The bytes, to be mutated: no longer those of lazy copies too."""
        copies = self._self().lazy_copies
        if copies is not None:
            copies.leave(self._self())
            self._self().bytes_moved()
        return self._bytes()

    def __getitem__(self, index: int | slice) -> int | UntypedStorage:
        """A byte; of a slice, a storage that shares its bytes."""
        chosen = self._bytes()[index]
        if not isinstance(index, slice):
            return int(chosen)
        if index.step not in (None, 1):
            raise RuntimeError(f"Trying to slice with a step of {index.step}, but only 1 is there")
        return type(self._self())(chosen.size, self._self().device, chosen)

    def __setitem__(self, index: int | slice, value: int) -> None:
        if not isinstance(value, int):
            raise RuntimeError(f"a byte is a Python int, got {type(value).__name__}")
        self._own_bytes()[index] = np.array(value).astype(np.uint8)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as Python numbers; NotImplementedError without data."""
        fetch = getattr(self._bytes(), "get", None)
        found: list[int] = (self._bytes() if fetch is None else fetch()).tolist()
        return found

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte; returns itself."""
        self[:] = value
        return self._self()

    def byteswap(self, dtype: dtype) -> None:
        """Turn round the bytes of every element of this dtype; of complex ones, of each part."""
        unit = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        if unit > 1:
            self._own_bytes()[:] = self._bytes().view(f"u{unit}").byteswap().view(np.uint8)

    # --- copies ----------------------------------------------------------------------

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Take over the bytes of a storage of the same size; returns itself."""
        if source.nbytes() != self._self().nbytes():
            raise RuntimeError(
                f"size does not match, self was {self._self().nbytes()} bytes but src was "
                f"{source.nbytes()} bytes"
            )
        if source.data is None:
            raise NotImplementedError("Cannot copy out of a storage without data (meta or fake)")
        self._own_bytes()[:] = (
            np.asarray(source.tolist(), np.uint8)
            if (source.device != self._self().device)
            else source.raw()
        )
        return self._self()

    def clone(self) -> UntypedStorage:
        """A storage of its own with the same bytes, or as many without data."""
        held = self._self()
        data = None if held.data is None else held.raw().copy()
        return type(held)(held.nbytes(), held.device, data)

    __copy__ = clone

    def to(self, *, device: device | str, non_blocking: bool = False) -> UntypedStorage:
        """Itself if it is on that device, else a copy there."""
        where = _device(device)
        held = self._self()
        if where == held.device:
            return held
        made = type(held)(held.nbytes(), device=where)
        return made if where.type == "meta" else made.copy_(held)

    def cpu(self) -> UntypedStorage:
        """Itself on the cpu, or a copy there; NotImplementedError without data."""
        return self.to(device=cpu)

    def cuda(
        self, device: device | str | int | None = None, non_blocking: bool = False
    ) -> UntypedStorage:
        """Itself on that device, the current one by default, or a copy there."""
        where = "cuda" if device is None else device
        where = f"cuda:{where}" if isinstance(where, int) else where
        return self.to(device=where)

    def pin_memory(self, device: object = None) -> UntypedStorage:
        """A copy with the mark of pinned memory. TypeError unless it is on the cpu."""
        if self._self().device.type != "cpu" or self._self().data is None:
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        copied = self.clone()
        mark_pinned(copied)
        return copied

    def is_pinned(self, device: object = None) -> bool:
        """Whether `pin_memory` of it, or of a tensor over it, made it."""
        return self._self() in _PINNED

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return type(self._self())(0, device=self._self().device)

    def type(self, dtype: object = None, non_blocking: bool = False) -> str:
        """The name of its class."""
        kind = self._self().device.type
        return "torch.storage.UntypedStorage" if kind == "cpu" else f"torch.{kind}.UntypedStorage"

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self._self()

    def __repr__(self) -> str:
        held = self._self()
        kind = f"[torch.storage.UntypedStorage(device={held.device}) of size {held.nbytes()}]"
        rows = ["..."] if held.data is None else [f" {value}" for value in self.tolist()]
        return "\n".join([*rows, kind])

    @classmethod
    def from_buffer(cls, buffer: bytes | bytearray | memoryview) -> UntypedStorage:
        """A storage with a copy of a buffer's bytes."""
        data = np.frombuffer(bytearray(buffer), np.uint8)
        made = cast("type[UntypedStorage]", cls)
        return made(data.nbytes, cpu, data)

    @property
    def filename(self) -> str | None:
        """The file that is written to with the storage; None if there is none."""
        data = self._self().data
        if isinstance(data, np.memmap) and data.mode == "r+":
            return str(data.filename)
        return None


def _device(where: device | str) -> device:
    return canonical(device(where))


__all__ = ["StorageMethods", "given_bytes"]
