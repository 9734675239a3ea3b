"""Methods of `Tensor` about memory: its storage, pinning, sharing, the order of its dimensions.

Attached at import, as those of `tensor_methods.py` are.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api.creation import legacy
from maquette.api.sparse_functions import sparse_coo_tensor
from maquette.aten.common.operators import aten
from maquette.autograd.grad_mode import no_grad
from maquette.core.device import device as Device
from maquette.core.layout import memory_format, sparse_coo, strided
from maquette.core.strides import stride_order
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage

# --- storages ------------------------------------------------------------------------


def storage(self: Tensor) -> TypedStorage:
    """The storage as elements of the tensor's dtype; `untyped_storage` is its successor."""
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. To access UntypedStorage directly, use tensor.untyped_storage() "
        "instead of tensor.storage()",
        UserWarning,
        stacklevel=2,
    )
    return TypedStorage(dtype=self.dtype, wrap_storage=self.untyped_storage())


def _typed_storage(self: Tensor) -> TypedStorage:
    """`storage`, without its warning."""
    return TypedStorage(dtype=self.dtype, wrap_storage=self.untyped_storage())


def _fix_weakref(self: Tensor) -> None:
    """Nothing: weak references to tensors live as long as the tensors do."""


def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A tensor of this dtype and device: of data, of sizes and uninitialised, of a storage.

    Of a sparse COO tensor: of indices, values and a size, or of a size alone, as
    `sparse_coo_tensor` takes them.
    """
    if self.meta.layout is sparse_coo:
        sizes = args[:1] == () or isinstance(args[0], int)
        parts = (args,) if sizes else args
        return sparse_coo_tensor(*parts, dtype=self.dtype, device=self.device, **kwargs)
    return legacy(self.dtype, args, {"device": self.device, **kwargs})


def const_data_ptr(self: Tensor) -> int:
    """Address of the first element, to be read only."""
    return self.data_ptr()


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` puts in this tensor's place for ``other``."""
    if assign:
        return other.detach()
    with no_grad():
        copied: Tensor = self.copy_(other)
    return copied.detach()


# --- pinned and shared memory --------------------------------------------------------


def pin_memory(self: Tensor, device: Device | str | None = None) -> Tensor:
    """A copy in pinned memory, or itself where it is pinned; RuntimeError unless it is on the cpu.

    Different from PyTorch, no accelerator has to be there: programs made for one go on.
    """
    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    copied: Tensor = aten._pin_memory(self, device)
    return copied


def is_pinned(self: Tensor, device: Device | str | None = None) -> bool:
    """Whether the tensor came of `pin_memory`, or shares memory with one that did."""
    return self._storage.is_pinned()


def share_memory_(self: Tensor) -> Tensor:
    """Move the bytes to memory that forked processes share; returns itself.

    All tensors over the storage use it from then on. Raises RuntimeError for a NumPy array's memory
    and for storages without data; what is not on the cpu is shared as it is.
    """
    held = self._storage
    if self.device.type == "cpu" and not held.is_shared() and held.nbytes():
        if held.data is None:
            raise RuntimeError("share_memory_(): the storage has no data to move: it is fake")
        held.share_memory_()
    return self


def is_shared(self: Tensor) -> bool:
    """Whether processes share the bytes: after `share_memory_`, and on cuda always."""
    return self.is_cuda or self._storage.is_shared()


def record_stream(self: Tensor, stream: object) -> None:
    """Nothing: memory lives as long as Python refers to it, whatever stream uses it."""


# --- the order of dimensions ---------------------------------------------------------

Ambiguity = bool | Sequence[memory_format]


def dim_order(self: Tensor, *, ambiguity_check: Ambiguity = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    ambiguity_check: whether to raise RuntimeError where strides leave a choice; or the memory
    formats of which exactly one must fit.
    """
    meta = self.meta
    if meta.layout is not strided:
        raise AttributeError(f"Can't get dim order on Tensor with layout {meta.layout}")
    if isinstance(ambiguity_check, (list, tuple)):
        formats = [f for f in ambiguity_check if isinstance(f, memory_format)]
        wrong = len(formats) < len(ambiguity_check)
        unique = sum(meta.is_contiguous_in(f) for f in formats) == 1
    else:
        wrong = not isinstance(ambiguity_check, bool)
        pairs = zip(meta.strides, meta.strides[1:])
        unique = 1 not in meta.shape and not any(a == b for a, b in pairs)
    if wrong:
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if ambiguity_check and not unique:
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given "
            f"memory formats. It is {meta} with strides {meta.strides}."
        )
    return tuple(reversed(stride_order(meta.shape, [meta.strides])))


def resize(self: Tensor, *sizes: object) -> Tensor:
    """`reshape` under the name of old; RuntimeError for another number of elements."""
    warnings.warn("non-inplace resize is deprecated; call reshape", UserWarning, stacklevel=2)
    return _resized(self, sizes[0] if len(sizes) == 1 else sizes)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`reshape` to another tensor's shape, under the name of old."""
    warnings.warn("non-inplace resize_as is deprecated; call reshape", UserWarning, stacklevel=2)
    return _resized(self, tensor.shape)


def _resized(self: Tensor, size: object) -> Tensor:
    shape = (size,) if isinstance(size, int) else tuple(size)  # type: ignore[arg-type]  # as reshape's
    count = math.prod(shape)
    if count != self.meta.numel:
        raise RuntimeError(
            f"requested resize to {shape} ({count} elements in total), but the given tensor has a "
            f"size of {tuple(self.shape)} ({self.meta.numel} elements). autograd's resize can only "
            f"change the shape of a given tensor, while preserving the number of elements."
        )
    found: Tensor = self.contiguous().view(shape)
    return found


class _Identity:
    """What stands for all that a tensor holds: an object that `swap_tensors` exchanges with it.

    Copies and files of the tensor have a plain number in its place, so that they are given another.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = next(_NUMBERS)

    def __reduce__(self) -> tuple[type[int], tuple[()]]:
        return int, ()


_NUMBERS = itertools.count(1)


def _cdata(self: Tensor) -> int:
    """A number for what the tensor object holds: another one after `swap_tensors` alone."""
    known = self.__dict__.get("_mq_identity")
    if not isinstance(known, _Identity):
        known = self.__dict__["_mq_identity"] = _Identity()
    return known.number


METHODS: tuple[Callable[..., object], ...] = (
    storage, new, const_data_ptr, module_load, pin_memory, is_pinned, share_memory_, is_shared,
    _typed_storage, _fix_weakref, record_stream, dim_order, resize, resize_as,
)  # fmt: skip
for _method in METHODS:
    setattr(Tensor, _method.__name__, _method)
for _getter in (_cdata,):
    setattr(Tensor, _getter.__name__, property(_getter))
