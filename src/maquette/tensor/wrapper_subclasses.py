"""Tensors of a subclass made by hand: wrappers without data, and other tensors' memory.

A wrapper says what a tensor is (sizes, dtype, device) and has no memory: its class answers every
operator in ``__torch_dispatch__``, as a rule by calling it on the tensor that it wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.layout import layout as Layout
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.promotion import get_default_dtype
from maquette.dispatch.abstract import disabled_torch_dispatch
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass
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
    **options: object,
) -> T:
    """A tensor of ``cls`` with these sizes and no data; it requires grad as a leaf if asked.

    strides: contiguous ones if None. The dispatch_ arguments and options, which in PyTorch choose
    who is asked for sizes, strides and the device, change
    nothing. Raises TypeError for a class without ``__torch_dispatch__``.
    """
    handler = getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__)
    if handler is disabled_torch_dispatch:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    where = _device(device)
    steps = None if strides is None else tuple(strides)
    kind = get_default_dtype() if dtype is None else dtype
    offset = 0 if storage_offset is None else storage_offset
    meta = TensorMeta.of(kind, tuple(size), steps, offset, where, layout)
    plain = wrap(meta, UntypedStorage(meta.storage_bytes, where), None, keys_for(meta))
    return _requiring_grad(cast(T, of_class(plain, cls)), requires_grad)


def _requiring_grad(made: T, asked: bool) -> T:
    if asked:
        with DisableTorchFunctionSubclass():  # the object is not initialized yet
            made.requires_grad_()
    return made


def _device(given: Device | str | None) -> Device:
    return canonical(given if isinstance(given, Device) else Device(given or "cpu"))


def make_subclass(cls: type[T], data: Tensor, require_grad: bool = False, **options: object) -> T:
    """The memory of ``data`` as a tensor of ``cls``: a leaf, with a version of its own."""
    plain = alias(data)
    plain._vc = None
    return _requiring_grad(cast(T, of_class(plain, cls)), require_grad)


Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)  # type: ignore[attr-defined]  # PyTorch's names
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
