"""`TypedStorage`: a storage whose elements are of one dtype, PyTorch's older face of storages.

It holds an `UntypedStorage` and adds nothing to it but the dtype to read its bytes by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from maquette.core import dtype as kinds
from maquette.core.device import cpu
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as Dtype
from maquette.core.dtype import float32
from maquette.core.meta import TensorMeta
from maquette.tensor.pickled_form import pickled_form
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, from_storage

Array = npt.NDArray[np.generic]
Number = bool | int | float | complex
T = TypeVar("T", bound="TypedStorage")


class TypedStorage:
    """Elements of ``dtype`` over the bytes of ``untyped()``; by size, by values, or by a storage.

    ``TypedStorage(3)``, ``TypedStorage([1, 2], device="cpu")``, ``TypedStorage(wrap_storage=bytes,
    dtype=...)``. Raises RuntimeError for arguments that contradict each other, TypeError for wrong
    types.
    """

    def __init__(
        self,
        *args: int | Sequence[Number],
        wrap_storage: UntypedStorage | None = None,
        dtype: Dtype | None = None,
        device: Device | str | None = None,
        _internal: bool = False,
    ) -> None:
        if wrap_storage is not None:
            _check_wrapping(args, dtype, device, wrap_storage)
            assert dtype is not None
            self.dtype: Dtype = dtype
            self._untyped = wrap_storage
            return
        if len(args) > 1:
            raise RuntimeError("Too many positional arguments: expected a size or a sequence")
        self.dtype = float32 if dtype is None else dtype
        self._untyped = _made(args[0] if args else 0, self.dtype, _place(device))

    # --- what it is ------------------------------------------------------------------

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self._untyped

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return self._untyped.device

    @property
    def is_cuda(self) -> bool:
        """Whether they are on cuda."""
        return self._untyped.is_cuda

    @property
    def is_sparse(self) -> bool:
        """False."""
        return False

    @property
    def is_hpu(self) -> bool:
        """False."""
        return False

    @property
    def filename(self) -> str | None:
        """The file that is written to with the storage; None if there is none."""
        return self._untyped.filename

    def size(self) -> int:
        """How many elements it has."""
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._untyped.nbytes()

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped.data_ptr()

    def get_device(self) -> int:
        """The number of the device; -1 on the cpu."""
        return self._untyped.get_device()

    def resizable(self) -> bool:
        """Whether it can grow."""
        return self._untyped.resizable()

    def is_shared(self) -> bool:
        """Whether forked processes share the bytes."""
        return self._untyped.is_shared()

    def is_pinned(self, device: object = None) -> bool:
        """False."""
        return False

    @property
    def _cdata(self) -> int:
        return self._untyped._cdata

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    _element_size, _nbytes, _data_ptr, _is_shared = element_size, nbytes, data_ptr, is_shared

    def type(self, dtype: str | None = None, non_blocking: bool = False) -> str | TypedStorage:
        """The name of old, ``torch.FloatStorage``; with ``dtype``, such a name, a storage of it."""
        if dtype is None:
            return f"torch.{self._place()}{self.dtype.scalar_name}Storage"
        return self._to(_KINDS[dtype.rpartition(".")[2]])

    def _place(self) -> str:
        return "" if self.device.type == "cpu" else f"{self.device.type}."

    def pickle_storage_type(self) -> str:
        """The name of the class that a file says for it."""
        return f"{self.dtype.scalar_name}Storage"

    _pickle_storage_type = pickle_storage_type

    def tensor(self) -> Tensor:
        """A tensor of all elements that shares memory."""
        return from_storage(
            self._untyped, TensorMeta.of(self.dtype, (self.size(),), None, 0, self.device)
        )

    # --- elements --------------------------------------------------------------------

    def _elements(self) -> Array:
        found: Array = self._untyped._bytes()[: self.size() * self.dtype.itemsize].view(
            self.dtype.numpy
        )
        return found

    def __getitem__(self, index: int) -> Number:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        if not -self.size() <= index < self.size():
            raise IndexError(f"index {index} out of range for storage of size {self.size()}")
        found: Number = self._elements()[index].item()
        return found

    def __setitem__(self, index: int | slice, value: Number) -> None:
        if not isinstance(index, int | slice):
            raise RuntimeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        if isinstance(value, TypedStorage | UntypedStorage):
            raise RuntimeError(f"cannot set item with value type {type(value).__name__}")
        self._elements()[index] = value

    _setitem = __setitem__

    def __iter__(self) -> Iterator[Number]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self.dtype is other.dtype and self.tolist() == other.tolist()

    __hash__ = None  # type: ignore[assignment]  # they change

    def tolist(self) -> list[Number]:
        """The elements as Python numbers; NotImplementedError without data."""
        found: list[Number] = self._elements().tolist()
        return found

    def fill_(self: T, value: Number) -> T:
        """Set every element; returns itself."""
        self._elements()[...] = value
        return self

    # --- copies ----------------------------------------------------------------------

    def copy_(self: T, source: TypedStorage, non_blocking: bool | None = None) -> T:
        """Take over the elements of a storage of as many, converted; returns itself."""
        if source._untyped.data is None:
            raise NotImplementedError("Cannot copy out of a storage without data (meta or fake)")
        if source.size() != self.size():
            raise RuntimeError(f"size does not match, {self.size()} and {source.size()} elements")
        with np.errstate(all="ignore"):
            self._elements()[...] = source._elements()
        return self

    def _like(self, kind: Dtype, where: Device | None = None) -> TypedStorage:
        return TypedStorage(self.size(), dtype=kind, device=where or self.device)

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        return TypedStorage(wrap_storage=self._untyped.clone(), dtype=self.dtype)

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, object]) -> TypedStorage:
        known = memo.get(id(self._untyped))
        if not isinstance(known, UntypedStorage):
            known = memo[id(self._untyped)] = self._untyped.clone()
        return TypedStorage(wrap_storage=known, dtype=self.dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        form = pickled_form()
        return super().__reduce_ex__(protocol) if form is None else form.typed_storage(self)

    def _deepcopy(self, memo: dict[int, object]) -> TypedStorage:
        return self.__deepcopy__(memo)

    def new(self) -> TypedStorage:
        """An empty storage of this dtype on the same device."""
        return TypedStorage(0, dtype=self.dtype, device=self.device)

    def cpu(self) -> TypedStorage:
        """Itself on the cpu, or a copy there; NotImplementedError without data."""
        return self._on(cpu)

    def cuda(
        self, device: Device | str | int | None = None, non_blocking: bool = False
    ) -> TypedStorage:
        """Itself on that device, the current one by default, or a copy there."""
        return TypedStorage(wrap_storage=self._untyped.cuda(device), dtype=self.dtype)

    def _on(self, where: Device) -> TypedStorage:
        if where == self.device:
            return self
        return TypedStorage(wrap_storage=self._untyped.to(device=where), dtype=self.dtype)

    def to(self, *, device: Device | str, non_blocking: bool = False) -> TypedStorage:
        """Itself if it is on that device, else a copy there."""
        return self._on(_place(device))

    def _to(self, dtype: Dtype) -> TypedStorage:
        return self if dtype is self.dtype else self._like(dtype).copy_(self)

    def double(self) -> TypedStorage:
        """Its elements as float64."""
        return self._to(kinds.float64)

    def float(self) -> TypedStorage:
        """Its elements as float32."""
        return self._to(kinds.float32)

    def half(self) -> TypedStorage:
        """Its elements as float16."""
        return self._to(kinds.float16)

    def bfloat16(self) -> TypedStorage:
        """Its elements as bfloat16."""
        return self._to(kinds.bfloat16)

    def long(self) -> TypedStorage:
        """Its elements as int64."""
        return self._to(kinds.int64)

    def int(self) -> TypedStorage:
        """Its elements as int32."""
        return self._to(kinds.int32)

    def short(self) -> TypedStorage:
        """Its elements as int16."""
        return self._to(kinds.int16)

    def char(self) -> TypedStorage:
        """Its elements as int8."""
        return self._to(kinds.int8)

    def byte(self) -> TypedStorage:
        """Its elements as uint8."""
        return self._to(kinds.uint8)

    def bool(self) -> TypedStorage:
        """Its elements as bools."""
        return self._to(kinds.bool_)

    def float8_e5m2(self) -> TypedStorage:
        """Its elements as float8_e5m2."""
        return self._to(kinds.float8_e5m2)

    def float8_e4m3fn(self) -> TypedStorage:
        """Its elements as float8_e4m3fn."""
        return self._to(kinds.float8_e4m3fn)

    def float8_e5m2fnuz(self) -> TypedStorage:
        """Its elements as float8_e5m2fnuz."""
        return self._to(kinds.float8_e5m2fnuz)

    def float8_e4m3fnuz(self) -> TypedStorage:
        """Its elements as float8_e4m3fnuz."""
        return self._to(kinds.float8_e4m3fnuz)

    def complex_double(self) -> TypedStorage:
        """Its elements as complex128."""
        return self._to(kinds.complex128)

    def complex_float(self) -> TypedStorage:
        """Its elements as complex64."""
        return self._to(kinds.complex64)

    # --- memory ----------------------------------------------------------------------

    def resize_(self: T, size: Any) -> T:
        """Change the number of elements; those that stay keep their values."""
        self._untyped.resize_(size * self.dtype.itemsize)
        return self

    def share_memory_(self: T) -> T:
        """Move the bytes to memory that forked processes share; returns itself."""
        self._untyped.share_memory_()
        return self

    _resize_, _share_memory_ = resize_, share_memory_
    _share_fd_cpu_ = _share_filename_cpu_ = share_memory_

    def _write_file(self, *args: object) -> None:
        if self._untyped.data is None:
            raise NotImplementedError("Cannot copy out of a storage without data (meta or fake)")
        raise NotImplementedError("write a storage to a file with torch.save")

    def pin_memory(self, device: object = None) -> TypedStorage:
        """A copy; pinning is a mark of tensors' here."""
        return TypedStorage(wrap_storage=self._untyped.pin_memory(), dtype=self.dtype)

    def __repr__(self) -> str:
        of = f"dtype={self.dtype}, device={self.device}"
        kind = f"[torch.storage.TypedStorage({of}) of size {self.size()}]"
        rows = ["..."] if self._untyped.data is None else [f" {value}" for value in self.tolist()]
        return "\n".join([*rows, kind])


_KINDS = {f"{kind.scalar_name}Storage": kind for kind in kinds.all_dtypes}


def _place(where: Device | str | None) -> Device:
    found = where if isinstance(where, Device) else Device(where or "cpu")
    if found.type not in ("cpu", "cuda", "meta"):
        raise RuntimeError(f"Storage device not recognized: {found}; expected cpu, cuda or meta")
    return found


def _check_wrapping(
    values: tuple[object, ...], kind: object, device: object, storage: object
) -> None:
    if values:
        raise RuntimeError("No positional arguments should be given when using 'wrap_storage'")
    if kind is None:
        raise RuntimeError("Argument 'dtype' must be specified when 'wrap_storage' is")
    if not isinstance(kind, Dtype):
        raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(kind).__name__}")
    if device is not None:
        raise RuntimeError("Argument 'device' should not be specified when 'wrap_storage' is given")
    if not isinstance(storage, UntypedStorage):
        raise TypeError(
            f"Argument 'wrap_storage' must be UntypedStorage, but got {type(storage).__name__}"
        )


def _made(values: object, kind: Dtype, where: Device) -> UntypedStorage:
    if isinstance(values, int | np.integer):
        return UntypedStorage(int(values) * kind.itemsize, device=where)
    if isinstance(values, Tensor) or not isinstance(values, Sequence | np.ndarray):
        raise TypeError(f"Argument type not recognized: {type(values).__name__}")
    if isinstance(values, str):
        raise TypeError("invalid data type 'str': expected a sequence of numbers")
    data = np.zeros(len(values), kind.numpy)
    if len(values):
        data[...] = values
    if where is cpu:
        return UntypedStorage(data.nbytes, where, data)
    made = UntypedStorage(data.nbytes, device=where)
    return made if made.data is None else made.copy_(UntypedStorage(data.nbytes, cpu, data))


def _convert_bytes(name: str) -> None:
    """Give storages of bytes a conversion of those of one dtype: of each byte as a number."""

    def converted(self: UntypedStorage) -> TypedStorage:
        typed = TypedStorage(wrap_storage=self, dtype=kinds.uint8)
        made: TypedStorage = getattr(typed, name)()
        return made

    converted.__name__ = name
    converted.__doc__ = getattr(TypedStorage, name).__doc__.replace(
        "elements", "bytes, each a number,"
    )
    setattr(UntypedStorage, name, converted)


for _name in (
    "double", "float", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool",
    "complex_double", "complex_float",
):  # fmt: skip
    _convert_bytes(_name)

__all__ = ["TypedStorage"]
