"""The members of `Tensor` that its meta and key set answer: sizes, strides, dtype, device."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, overload

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format, sparse_coo, sparse_csr, strided
from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.dispatch.torch_function import (
    member_is_overridden,
    offered_member,
    offered_method,
)
from maquette.tensor.declared_methods import TensorSurface
from maquette.tensor.keys import ADINPLACE, CONJUGATE, FAMILY, NEGATIVE
from maquette.tensor.storage import UntypedStorage


class TensorGeometry(TensorSurface):
    """What a tensor is made of, as far as no data is needed to tell.

    What programs ask often looks here whether a handler of ``__torch_function__``, or a mode, is to
    answer, at 8 ns of 42 (timeit, CPython 3.11); for the other members
    `maquette.api.offered_members` does.
    """

    __slots__ = ("_keys", "_storage", "meta")

    _keys: int
    meta: TensorMeta
    _storage: UntypedStorage

    _inside: int = 0  # how many tensors it wraps, each over the same storage

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.shape.__get__, (self,), {})
        return self.meta.size

    @property
    def dtype(self) -> dtype:
        """The kind of number that the elements are."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.dtype.__get__, (self,), {})
        return self.meta.dtype

    @property
    def device(self) -> device:
        """Where the data is, or would be."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.device.__get__, (self,), {})
        return self.meta.device

    @property
    def layout(self) -> layout:
        """How the data is kept: `strided`, but of sparse and jagged tensors."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.layout.__get__, (self,), {})
        return self.meta.layout

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.ndim.__get__, (self,), {})
        return self.meta.ndim

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.meta.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, ``numel * itemsize``; the storage may be larger."""
        if self.meta.layout in FAMILY:
            raise RuntimeError(
                "nbytes is not defined for sparse tensors.  If you want the size of the "
                "constituent tensors, add the nbytes of the indices and values.  If you want the "
                "size of the  equivalent dense tensor, multiply numel() by element_size()"
            )
        return self.meta.numel * self.meta.itemsize

    def dim(self) -> int:
        """How many dimensions there are."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.dim, (self,), {})
        return self.meta.ndim

    def numel(self) -> int:
        """How many elements there are."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.numel, (self,), {})
        return self.meta.numel

    def nelement(self) -> int:
        """How many elements there are."""
        return self.numel()

    def ndimension(self) -> int:
        """How many dimensions there are."""
        return self.dim()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.meta.itemsize

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of one dimension."""
        if self._asks and member_is_overridden(self):
            given = (self,) if dim is None else (self, dim)
            return offered_method(TensorGeometry.size, given, {})
        return self.meta.size if dim is None else self.meta.shape[self._wrap(dim)]

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The strides in elements, or the stride of one dimension."""
        if self._asks and member_is_overridden(self):
            return offered_method(
                TensorGeometry.stride, (self,) if dim is None else (self, dim), {}
            )
        if self.meta.layout is not strided:
            self._refuse("strides")
        strides = self.meta.strides
        return strides if dim is None else strides[self._wrap(dim)]

    def _wrap(self, dim: int) -> int:
        rank = self.meta.ndim
        if not -rank <= dim < rank:
            if not rank:
                raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but "
                f"got {dim})"
            )
        return dim % rank

    def storage_offset(self) -> int:
        """Where the first element is in the storage, in elements."""
        return self.meta.offset

    def _refuse(self, what: str) -> None:
        """RuntimeError if the layout is a compressed sparse one, which has no ``what``."""
        kind = self.meta.layout
        if FAMILY.get(kind) == "SparseCsr":
            name = kind.name.removeprefix("sparse_").upper()
            raise RuntimeError(f"Sparse {name} tensors do not have {what}")

    def is_contiguous(self, memory_format: memory_format | None = None) -> bool:
        """Whether the elements lie in memory without gaps, row-major or as a format says."""
        if self._asks and member_is_overridden(self):
            given: dict[str, object] = {}
            if memory_format is not None:
                given["memory_format"] = memory_format
            return offered_method(TensorGeometry.is_contiguous, (self,), given)
        if self.meta.layout is not strided:
            self._refuse("is_contiguous")
        if memory_format is None:
            return self.meta.is_contiguous
        return self.meta.is_contiguous_in(memory_format)

    def untyped_storage(self) -> UntypedStorage:
        """The storage with the data, which aliases share."""
        if self.meta.layout in FAMILY:
            kind = "Csr" if FAMILY[self.meta.layout] == "SparseCsr" else ""
            raise NotImplementedError(f"Cannot access storage of Sparse{kind}TensorImpl")
        return self._storage

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there is none."""
        if self.meta.layout in FAMILY:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        if self.meta.numel == 0 or self._storage.data is None:
            return 0
        return self._storage.data_ptr() + self.meta.offset * self.meta.itemsize

    def get_device(self) -> int:
        """The number of the device, -1 if it has none."""
        index = self.meta.device.index
        return -1 if index is None else index

    def is_floating_point(self) -> bool:
        """Whether the dtype is one of real floating point numbers."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.is_floating_point, (self,), {})
        return self.meta.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is one of complex numbers."""
        return self.meta.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.meta.dtype.is_signed

    def is_conj(self) -> bool:
        """Whether a conjugation waits to be computed."""
        return bool(self._keys & CONJUGATE)

    def is_neg(self) -> bool:
        """Whether a negation waits to be computed."""
        return bool(self._keys & NEGATIVE)

    def _is_zerotensor(self) -> bool:
        """Whether this stands for zeros without memory: no tensor here does."""
        return False

    def is_inference(self) -> bool:
        """Whether it was made in inference mode: autograd never records it; it has no version."""
        return not self._keys & ADINPLACE

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a cuda device."""
        if self._asks and member_is_overridden(self):
            return offered_member(TensorGeometry.is_cuda.__get__, (self,), {})
        return self.meta.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether it is on the cpu."""
        return self.meta.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether it is on the meta device, without data."""
        return self.meta.device.type == "meta"

    @property
    def is_sparse(self) -> bool:
        """Whether its layout is `sparse_coo`."""
        return self.meta.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether its layout is `sparse_csr`."""
        return self.meta.layout is sparse_csr

    is_quantized: ClassVar[bool] = False
    is_nested: ClassVar[bool] = False
    is_mkldnn: ClassVar[bool] = False


_META: Any = TensorGeometry.__dict__["meta"]


def share_meta(cls: type[TensorGeometry]) -> None:
    """Let a class use the name `meta` for something of its own, as MONAI's tensors do.

    PyTorch's tensors have no such member, so programs are free to take the name. Code of this
    package sees the tensor's meta, all other code what the class says.
    """
    theirs = getattr(cls, "meta", _META)
    if theirs is not _META and not isinstance(theirs, _SharedMeta):
        setattr(cls, "meta", _SharedMeta(theirs))  # noqa: B010  # checkers know of the slot alone


class _SharedMeta:
    """The descriptor of a `meta` with two meanings, by who asks."""

    __slots__ = ("_theirs",)

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __get__(self, t: TensorGeometry | None, cls: type) -> Any:
        if t is None:
            return self._theirs if not _asked_inside() else self
        if _asked_inside():
            return _META.__get__(t, cls)
        reads = getattr(type(self._theirs), "__get__", None)
        return self._theirs if reads is None else reads(self._theirs, t, cls)

    def __set__(self, t: TensorGeometry, value: Any) -> None:
        (_META if _asked_inside() else self._theirs).__set__(t, value)


def _asked_inside() -> bool:
    """Whether the code that asks a descriptor is this package's; generated code has no name."""
    name: str = sys._getframe(2).f_globals.get("__name__", "maquette.")
    return name.startswith("maquette.")
