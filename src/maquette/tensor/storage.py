"""Storages: the bytes that tensors share, real or only counted.

A storage's life is Python's: it ends with its last reference. A storage without data (fake, meta)
counts bytes and nothing else. Observers of allocations (T4) see every storage once when it is made,
at each resize, and when it is released. The geometry that tensors lay over a storage is
`maquette.core.meta`.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from maquette.core.device import canonical, cpu, device
from maquette.dispatch.keysets import AUTOCAST, WATCHED
from maquette.dispatch.tls import tls
from maquette.tensor.backend import Array, backend_of
from maquette.tensor.collector import impatient
from maquette.tensor.storage_methods import StorageMethods, given_bytes

if TYPE_CHECKING:
    from maquette.core.meta import TensorMeta
    from maquette.tensor.lazy_copies import LazyCopies

_new = object.__new__
Device = device  # a parameter below has its name
_ids = itertools.count(1)


class AllocationObserver(Protocol):
    """What `observe_allocations` takes: three calls, with sizes in bytes."""

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None: ...

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None: ...

    def released(self, storage_id: int) -> None: ...


class UntypedStorage(StorageMethods):
    """A run of bytes on a device, shared by all tensors that alias it.

    Programs give a number of bytes, or the bytes, and a ``device``: ``UntypedStorage(4)``,
    ``UntypedStorage([1, 2], device="cpu")``. Tensors are made with ``on`` and ``data``, an array of
    any shape that owns the memory, contiguous in memory order, or None where there is no data.
    Identity is the object's; ``id`` numbers it.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_converted", "_id", "_nbytes", "data", "device", "foreign",
    )  # fmt: skip
    _converted: object | None  # as of tensors
    lazy_copies: LazyCopies | None = None  # the storages that share its memory until a mutation

    def __init__(
        self,
        nbytes: int | Sequence[int] = 0,
        on: device | None = None,
        data: Array | None = None,
        *,
        device: device | str = cpu,
    ) -> None:
        if on is None:
            on = canonical(Device(device))
            nbytes, data = given_bytes(nbytes, on)
        self._nbytes: int = nbytes  # type: ignore[assignment]  # a number wherever `on` is given
        self.device = on
        self.data = data
        self.foreign = False
        self._id = 0
        self._converted = None
        if OBSERVERS:
            announce(self)

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._nbytes

    size = nbytes

    def __len__(self) -> int:
        return self._nbytes

    @property
    def id(self) -> int:
        """A number of this storage's own, never used again."""
        if self._id == 0:
            self._id = next(_ids)
        return self._id

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._nbytes

    @property
    def _cdata(self) -> int:
        return self.id

    def raw(self) -> Array:
        """The bytes as a flat uint8 array that shares memory."""
        data = self.data
        if data is None:
            raise NotImplementedError(
                f"this storage of {self._nbytes} bytes on {self.device} has no data (meta or fake)"
            )
        if data.dtype is not _UINT8 or data.ndim != 1:
            # In memory order, not by index: a dense array may be stored transposed.
            data = backend_of(self.device.type).flat_bytes(data)
            self.data = data
        return data

    def data_ptr(self) -> int:
        """Address of the first byte, which may be mutated; 0 where there is none."""
        if self.lazy_copies is not None:
            self.lazy_copies.leave(self)
            self.bytes_moved()
        return self.address()

    def address(self) -> int:
        """Address of the first byte, to be read; 0 where there is none."""
        if self.data is None or self._nbytes == 0:
            return 0
        return backend_of(self.device.type).address(self.data)

    def resize_(self, nbytes: int, *, shared: bool = True) -> UntypedStorage:
        """Change the size; the common prefix of the bytes is kept.

        shared: whether tensors over the storage may be left that know only where the bytes were.
        """
        if self.foreign and nbytes > self._nbytes:
            raise RuntimeError(
                f"Trying to resize storage that is not resizable: its {self._nbytes} bytes are "
                f"also an array's of NumPy; clone the tensor before it grows to {nbytes} bytes"
            )
        old, self._nbytes = self._nbytes, nbytes
        if self.data is not None:
            grown = backend_of(self.device.type).zeros(nbytes, self.device)
            common = min(old, nbytes)
            grown[:common] = self.raw()[:common]
            if self.lazy_copies is not None:
                self.lazy_copies.forget(self)
            self.data = grown
            if shared:
                self.bytes_moved()
        if OBSERVERS:
            for observer in _here.observers:
                observer.resized(self.id, old, nbytes)
        return self

    def bytes_moved(self) -> None:
        """Note that tensors over the storage may know only where its bytes were."""
        MOVED.add(self)
        for moved in BYTES_MOVED:
            moved()


_UINT8 = np.dtype(np.uint8)
OBSERVERS: list[AllocationObserver] = []
"""The observers of all threads: while there are none, nobody looks further."""


class _Here(threading.local):
    """The observers of one thread, innermost last; none while they are paused."""

    def __init__(self) -> None:
        self.observers: list[AllocationObserver] = []


_here = _Here()
MOVED: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()
"""The storages whose bytes have moved while tensors may have known where they were."""
# What tensors do when bytes have moved; the next file fills it in.
BYTES_MOVED: list[Callable[[], None]] = []


def new_storage(nbytes: int, on: device) -> UntypedStorage:
    """A storage without data; without ``__init__`` 0.15 us less (timeit, CPython 3.11)."""
    storage = _new(UntypedStorage)
    storage._nbytes = nbytes
    storage.device = on
    storage.data = None
    storage.foreign = False
    storage._id = 0
    if OBSERVERS:
        announce(storage)
    return storage


class _UncountedStorage(UntypedStorage):
    """The storage of a fake of symbolic sizes until its bytes are asked for: most never are.

    Only here, as a class with ``__getattr__`` has no quick attributes in CPython 3.11.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would take it for leave to read any name

        def __getattr__(self, name: str) -> object:
            if name != "_nbytes":
                raise AttributeError(f"'UntypedStorage' object has no attribute {name!r}")
            self._nbytes = self.__dict__.pop("meta").storage_bytes
            self.__class__ = UntypedStorage
            return self._nbytes


def new_symbolic_storage(meta: TensorMeta) -> UntypedStorage:
    """A storage without data for a meta of symbolic sizes; it counts its bytes when asked."""
    storage = _new(_UncountedStorage)
    storage.__dict__["meta"] = meta
    storage.device = meta.device
    storage.data = None
    storage.foreign = False
    storage._id = 0
    if OBSERVERS:
        announce(storage)
    return storage


def announce(storage: UntypedStorage) -> None:
    """Tell this thread's observers of a new storage, and later of its release."""
    sizes = storage._nbytes
    for observer in _here.observers:
        observer.allocated(storage, sizes)
        weakref.finalize(storage, _release, observer, storage.id).atexit = False
    # A resize is told as it happens, so the release needs the id alone.


def _release(observer: AllocationObserver, storage_id: int) -> None:
    observer.released(storage_id)


@contextmanager
def observe_allocations(observer: AllocationObserver) -> Iterator[AllocationObserver]:
    """Let ``observer`` see every storage that this thread makes or resizes in the block.

    Storages made before are not announced. Releases of announced storages are reported whenever
    and in whatever thread they happen, also after the block.
    """
    here = _here.observers
    OBSERVERS.append(observer)
    here.append(observer)
    try:
        with impatient():  # what cycles hold is counted as memory
            yield observer
    finally:
        here.remove(observer)
        OBSERVERS.remove(observer)


def is_observed() -> bool:
    """Whether this thread's storages are observed."""
    return bool(_here.observers)


def nobody_watches() -> bool:
    """Whether no mode, transform, hook, autocast region or observer of memory is in force."""
    st = tls.st
    return not (
        st.dispatch_modes
        or st.function_modes
        or st.transforms
        or st.fake_mode is not None
        or any(mode is not None for mode in st.pre_dispatch_modes)
        or st.node_context is not None
        or st.include & WATCHED
        or AUTOCAST & ~st.exclude
        or is_observed()
    )


@contextmanager
def observers_paused() -> Iterator[None]:
    """Tell no observer of the storages that this thread makes in the block.

    They stand for nothing in the program.
    """
    before = _here.observers
    _here.observers = []
    try:
        yield
    finally:
        _here.observers = before
