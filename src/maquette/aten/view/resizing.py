"""Tensors that change their size or storage: ``resize_``, ``resize_as_``, ``set_`` (T5, T6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maquette.aten.common.batching_forms import to_front
from maquette.autograd.gradient_edges import renew_leaf
from maquette.core.determinism import Determinism, left_unset
from maquette.core.device_rules import any_elsewhere, check_one_device
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.layout import preserve_format
from maquette.core.meta import TensorMeta
from maquette.core.strides import format_strides
from maquette.core.symbols import alike
from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.library.page import OperatorPage, define
from maquette.tensor.aliasing import alias_kernel
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, adopt, from_storage
from maquette.tensor.typed_storage import TypedStorage
from maquette.transforms.functional.memory import given_memory, resized
from maquette.transforms.wrappers import BatchedTensor, hidden

Ints = tuple[int, ...]
_TAGS = [Tag.inplace, Tag.inplace_view]

resize_ = define(
    "aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) "
    "-> Tensor(a!)",
    tags=[Tag.core, *_TAGS],
)
resize_.describe(
    "Give the tensor a size, with memory for it; elements that fit stay, others are not filled."
)


@resize_.shape
def resize__shape(self: TensorMeta, size: Ints, memory_format: MemoryFormat | None) -> TensorMeta:
    """The same sizes keep their strides unless a format is named; storages only grow."""
    if memory_format is None:
        if alike(size, self.shape):
            return self
        return TensorMeta.of(self.dtype, size, None, self.offset, self.device)
    check(
        memory_format is not preserve_format,
        lambda: "Unsupported memory format for resize_: preserve_format",
    )
    strides = format_strides(size, (), memory_format)
    return TensorMeta.of(self.dtype, size, strides, self.offset, self.device)


def _refuse_grad(page: OperatorPage, words: str, *, leaves: bool = False) -> None:
    """Autograd does not follow a tensor whose sizes change.

    leaves: one that requires grad may be changed under no_grad, as parameters by ``p.set_(t)``;
    graphs recorded before do not lead to it any more.
    """
    below = ~(K.AUTOGRAD | K.REQUIRES_GRAD)

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        def kernel(ks: int, self: Tensor, *rest: object) -> object:
            let = leaves and self.is_leaf and not tls.st.grad_enabled
            check(
                let or not self.requires_grad,
                lambda: f"{words}; detach() or clone() {self.meta} first",
            )
            if let and self._ag is not None:
                renew_leaf(self)
            return op.run(ks & below, (self, *rest))

        return kernel

    page.op.register(DispatchKey.Autograd, Kernel(factory))


def _counting_changes(op: OpOverload, ks: int) -> Callable[..., object]:
    """Count a mutation, unless the tensor has those sizes already: then nothing was mutated."""
    count = alias_kernel(op, ks)
    assert count is not None

    def kernel(
        ks: int, self: Tensor, given: Ints | Tensor, memory_format: MemoryFormat | None
    ) -> object:
        size = given.meta.shape if isinstance(given, Tensor) else given
        if size == self.meta.shape:
            return op.run(ks & ~ADINPLACE, (self, given, memory_format))
        before = self._storage.nbytes() // self.meta.itemsize
        resized = count(ks, self, given, memory_format)
        if Determinism.enabled:
            _fill_new(self, before)
        return resized

    return kernel


def _fill_new(t: Tensor, before: int) -> None:
    """Fill the elements that a storage of so many did not have, where programs ask for it."""
    data = t._mq_data
    if isinstance(data, np.ndarray) and data.flags.c_contiguous and not t.meta.offset:
        left_unset(data.reshape(-1)[before:])


resize_.op.register(DispatchKey.ADInplaceOrView, Kernel(_counting_changes))


@resize_.batching_decomposition
def resize_in_place_batching(self: Tensor, size: Any, memory_format: Any = None) -> Tensor:
    assert isinstance(self, BatchedTensor)
    level = self._interpreter
    with level.lower():
        front = to_front(self._value, self._bdim)
        if front is not self._value:
            front = front.contiguous()
        front.resize_((front.shape[0], *size))
    self._value, self._bdim, self.meta = front, 0, hidden(front.meta, 0)
    return self


_refuse_grad(resize_, "cannot resize variables that require grad")

resize_as_ = define(
    "aten::resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) "
    "-> Tensor(a!)",
    tags=_TAGS,
).overlap_allowed()
resize_as_.describe("Give the tensor the size of another; elements that fit stay.")


@resize_as_.shape
def resize_as__shape(
    self: TensorMeta, the_template: TensorMeta, memory_format: MemoryFormat | None
) -> TensorMeta:
    plain = resize__shape(self, the_template.shape, None)
    if memory_format is None:
        return plain
    format = the_template.suggested_format if memory_format is preserve_format else memory_format
    return plain.view(plain.shape, format_strides(plain.shape, (), format))


# Only the size of the template counts (F59).
resize_as_.any_device(when=lambda self, the_template, *rest: any_elsewhere((self, the_template)))
resize_as_.op.register(DispatchKey.ADInplaceOrView, Kernel(_counting_changes))


@resize_as_.batching_decomposition
def resize_as_in_place_batching(
    self: Tensor, the_template: Tensor, memory_format: Any = None
) -> Tensor:
    return self.resize_(the_template.shape)


_refuse_grad(resize_as_, "cannot resize variables that require grad")

# --- another storage -----------------------------------------------------------------


def _set_page(schema: str, replace: Callable[..., None]) -> OperatorPage:
    """A page whose kernel exchanges the storage: it works on tensors, real and fake alike."""
    page = define(schema, tags=_TAGS)

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        def kernel(ks: int, self: Tensor, *rest: object) -> Tensor:
            replace(self, *rest)
            return self

        return kernel

    for key in (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta, DispatchKey.Fake):
        page.op.register(key, Kernel(factory))
    _refuse_grad(page, "cannot set the storage of variables that require grad", leaves=True)
    return page


def _set_storage(
    self: Tensor,
    source: UntypedStorage | TypedStorage,
    storage_offset: int,
    size: Ints,
    stride: Ints,
) -> None:
    source = _bytes_of(source, self.meta.dtype)
    where = source.device
    check(
        where == self.meta.device,
        lambda: (
            f'Attempted to set the storage of a tensor on device "{self.meta.device}" to a storage '
            f'on different device "{where}". Use .to(), which copies'
        ),
    )
    meta = TensorMeta.of(
        self.meta.dtype, size, stride or None, storage_offset, source.device, self.meta.layout
    )
    if meta.storage_bytes > source.nbytes():
        # As in PyTorch, a storage grows with the tensor's size, and not for a far offset alone.
        check(
            not alike(self.meta.shape, meta.shape),
            lambda: (
                f"setStorage: sizes {list(meta.shape)}, strides {list(meta.strides)}, storage "
                f"offset {storage_offset}, and itemsize {meta.itemsize} requiring a storage size "
                f"of {meta.storage_bytes} are out of bounds for storage of size {source.nbytes()}"
            ),
        )
        source.resize_(meta.storage_bytes)
    _replace(self, meta, source)


def _bytes_of(source: UntypedStorage | TypedStorage, kind: dtype) -> UntypedStorage:
    if not isinstance(source, TypedStorage):
        return source
    check(
        source.dtype is kind,
        lambda: (
            f"Expected a Storage of type {kind} or an UntypedStorage, but got type "
            f"{source.dtype} for argument 1 'storage'"
        ),
    )
    return source.untyped()


def _replace(self: Tensor, meta: TensorMeta, source: UntypedStorage) -> None:
    plain = self._keys
    adopt(self, from_storage(source, meta))
    # A fake stays fake, an inference tensor stays one.
    self._keys = plain


def _set_whole_storage(self: Tensor, source: UntypedStorage | TypedStorage) -> None:
    count = source.nbytes() // self.meta.itemsize
    _set_storage(self, source, 0, (count,), (1,))


def _check_same_dtype(self: Tensor, source: Tensor) -> None:
    check(
        self.meta.dtype is source.meta.dtype,
        lambda: (
            f"Could not set tensor of type {source.meta.dtype} to a tensor of type "
            f"{self.meta.dtype}"
        ),
    )


def _set_tensor(self: Tensor, source: Tensor) -> None:
    check_one_device("aten::set_", (self.meta, source.meta))
    _check_same_dtype(self, source)
    _replace(self, source.meta, source._storage)


def _set_empty(self: Tensor) -> None:
    meta = TensorMeta.of(self.meta.dtype, (0,), None, 0, self.meta.device)
    like = self._storage
    data = None if like.data is None else like.data.reshape(-1)[:0].copy()
    _replace(self, meta, UntypedStorage(0, like.device, data))


# Forms with tensors come first: a Storage parameter takes any object.
set__tensor = _set_page(
    "aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)", _set_tensor
)
set__tensor.describe(
    "Have the tensor use the storage, size and strides of another, or those given."
)
set_ = _set_page("aten::set_(Tensor(a!) self) -> Tensor(a!)", _set_empty)
set__tensor_offset = define(
    "aten::set_.source_Tensor_storage_offset(Tensor(a!) self, Tensor source, "
    "SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)",
    tags=_TAGS,
)


@set__tensor_offset.composite
def set__tensor_offset_composite(
    self: Tensor, source: Tensor, storage_offset: int, size: Ints, stride: Ints
) -> object:
    _check_same_dtype(self, source)
    return set__storage_offset(self, source._storage, storage_offset, size, stride)


set__storage = _set_page(
    "aten::set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)", _set_whole_storage
)
set__storage_offset = _set_page(
    "aten::set_.source_Storage_storage_offset(Tensor(a!) self, Storage source, "
    "SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)",
    _set_storage,
)
for _page in (set__tensor, set_, set__tensor_offset, set__storage, set__storage_offset):
    _page.overlap_allowed()
    _page.functionalization(given_memory)
resize_.functionalization(resized)

__all__ = ["resize_", "resize_as_", "set_"]
