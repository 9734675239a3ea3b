"""Tensors of a subclass made by hand: wrappers without data, and other tensors' memory.

A wrapper says what a tensor is (sizes, dtype, device) and has no memory: its class answers every
operator in ``__torch_dispatch__``, as a rule by calling it on the tensor that it wraps.

The class may tell geometry too: then reading ``t.shape`` calls its handler with the operator of the
same question (``aten.sym_size``), and None says that what the tensor was made with is right. The
members that ask are put on the class when its first such tensor is made, so that other classes pay
nothing. Operators without a handler, and code of this package, see what the tensor was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.promotion import get_default_dtype
from maquette.core.size import Size
from maquette.dispatch.abstract import disabled_torch_dispatch
from maquette.dispatch.keysets import DispatchKeySet
from maquette.dispatch.registry import find_packet
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass, member_is_overridden
from maquette.tensor.keys import keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, alias, of_class, wrap

T = TypeVar("T", bound=Tensor)


def make_wrapper_subclass(
    cls: type[T],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: object | None = None,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Device | str | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: DispatchKeySet | None = None,
    **options: object,
) -> T:
    """A tensor of ``cls`` with these sizes and no data; it requires grad as a leaf if asked.

    strides: contiguous ones if None. dispatch_sizes_strides_policy ("strides" or "sizes"),
    dispatch_device, dispatch_layout: have the class's handler asked for them when they are read.
    Raises TypeError for a class without ``__torch_dispatch__``.
    """
    handler = getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__)
    if handler is disabled_torch_dispatch:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    where = _device(device)
    steps = None if strides is None else tuple(strides)
    kind = get_default_dtype() if dtype is None else dtype
    offset = 0 if storage_offset is None else storage_offset
    meta = TensorMeta.of(kind, tuple(size), steps, offset, where, layout)
    keys = keys_for(meta)
    if _extra_dispatch_keys is not None:
        keys |= _extra_dispatch_keys.raw_repr()
    plain = wrap(meta, UntypedStorage(meta.storage_bytes, where), None, keys)
    made = _requiring_grad(cast(T, of_class(plain, cls)), requires_grad)
    ask_for_geometry(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return made


def _requiring_grad(made: T, asked: bool) -> T:
    if asked:
        with DisableTorchFunctionSubclass():  # the object is not initialized yet
            made.requires_grad_()
    return made


def _device(given: Device | str | None) -> Device:
    return canonical(given if isinstance(given, Device) else Device(given or "cpu"))


def make_subclass(
    cls: type[T],
    data: Tensor,
    require_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    **options: object,
) -> T:
    """The memory of ``data`` as a tensor of ``cls``: a leaf, with a version of its own.

    The dispatch_ arguments are those of `make_wrapper_subclass`.
    """
    plain = alias(data)
    plain._vc = None
    made = _requiring_grad(cast(T, of_class(plain, cls)), require_grad)
    ask_for_geometry(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return made


# --- geometry that the class tells -------------------------------------------------------------

POLICIES = {"strides": frozenset(("strides",)), "sizes": frozenset(("strides", "sizes"))}
"""What the handler is asked for under a policy: under that of sizes, the strides too."""


def ask_for_geometry(
    t: Tensor, policy: str | None, dispatch_device: bool, dispatch_layout: bool
) -> None:
    """Have a tensor's handler asked from now on; RuntimeError for another policy than there are."""
    asked: set[str] = set()
    if policy is not None:
        if policy not in POLICIES:
            raise RuntimeError(
                f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes'"
            )
        asked |= POLICIES[policy]
    asked |= {name for name, on in (("device", dispatch_device), ("layout", dispatch_layout)) if on}
    if asked:
        vars(t)["_geometry_asked"] = frozenset(asked)
        _put_members(type(t))


def _put_members(cls: type[Tensor]) -> None:
    for name, member in _MEMBERS.items():
        if getattr(cls, name) is getattr(Tensor, name):
            setattr(cls, name, member)


def _asks(t: Tensor, what: str) -> bool:
    asked = vars(t).get("_geometry_asked", ())
    return what in asked and not member_is_overridden(t)


def _answer(t: Tensor, operator: str, *args: object, overload: str = "default") -> Any:
    """What the handler says; TypeError if it declines."""
    packet = find_packet(operator)
    assert packet is not None, operator
    handler: Callable[..., object] = type(t).__torch_dispatch__  # type: ignore[assignment]  # its class has one
    found = handler(getattr(packet, overload), (type(t),), (t, *args), {})
    if found is NotImplemented:
        raise TypeError(
            f"Multiple dispatch failed for 'torch.ops.{packet}'; all __torch_dispatch__ handlers "
            f"returned NotImplemented: {type(t).__name__} is to tell its geometry"
        )
    return found


def _shape(self: Tensor) -> Any:
    found = _answer(self, "aten::sym_size") if _asks(self, "sizes") else None
    return Tensor.shape.__get__(self) if found is None else Size(found)


def _size(self: Tensor, dim: int | None = None) -> Any:
    if not _asks(self, "sizes"):
        return Tensor.size(self) if dim is None else Tensor.size(self, dim)
    sizes = _shape(self)
    return sizes if dim is None else sizes[dim]


def _stride(self: Tensor, dim: int | None = None) -> Any:
    found = _answer(self, "aten::sym_stride") if _asks(self, "strides") else None
    if found is None:
        return Tensor.stride(self) if dim is None else Tensor.stride(self, dim)
    return tuple(found) if dim is None else found[dim]


def _dim(self: Tensor) -> Any:
    found = _answer(self, "aten::dim") if _asks(self, "sizes") else None
    return Tensor.dim(self) if found is None else found


def _numel(self: Tensor) -> Any:
    found = _answer(self, "aten::numel") if _asks(self, "sizes") else None
    return Tensor.numel(self) if found is None else found


def _storage_offset(self: Tensor) -> Any:
    found = _answer(self, "aten::sym_storage_offset") if _asks(self, "sizes") else None
    return Tensor.storage_offset(self) if found is None else found


def _data_ptr(self: Tensor) -> int:
    empty = _asks(self, "sizes") and _numel(self) == 0
    return 0 if empty else Tensor.data_ptr(self)


def _is_contiguous(self: Tensor, memory_format: MemoryFormat | None = None) -> Any:
    found = None
    if _asks(self, "strides"):
        if memory_format is None:
            found = _answer(self, "aten::is_contiguous")
        else:
            found = _answer(self, "aten::is_contiguous", memory_format, overload="memory_format")
    return Tensor.is_contiguous(self, memory_format) if found is None else found


def _told_device(self: Tensor) -> Any:
    found = _answer(self, "prim::device") if _asks(self, "device") else None
    return Tensor.device.__get__(self) if found is None else found


def _told_layout(self: Tensor) -> Any:
    found = _answer(self, "prim::layout") if _asks(self, "layout") else None
    return Tensor.layout.__get__(self) if found is None else found


_MEMBERS: dict[str, Any] = {
    "shape": property(_shape),
    "size": _size,
    "stride": _stride,
    "dim": _dim,
    "ndim": property(_dim),
    "numel": _numel,
    "storage_offset": _storage_offset,
    "data_ptr": _data_ptr,
    "is_contiguous": _is_contiguous,
    "device": property(_told_device),
    "layout": property(_told_layout),
}
for _name, _member in _MEMBERS.items():
    if not isinstance(_member, property):
        _member.__name__ = _member.__qualname__ = _name

Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)  # type: ignore[attr-defined]  # PyTorch's names
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
