"""`torch._utils`: the functions that saved files name to have their tensors made.

Each takes what a file holds: storages as `TypedStorage`, geometry as numbers. A file may be
crafted, so every one of them checks what it is given against the storage; none runs code of the
file's.
"""

from __future__ import annotations

import importlib
import pickle
import reprlib
from collections.abc import Mapping, Sequence
from types import MemberDescriptorType
from typing import Any, NoReturn, TypeVar

from maquette.core.device import device
from maquette.core.device import device as Device
from maquette.core.dtype import dtype
from maquette.core.dtype import dtype as Dtype
from maquette.core.layout import jagged, layout, strided
from maquette.core.meta import TensorMeta
from maquette.nested import NestedTensor
from maquette.tensor.copying import rebuild_tensor
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.distributed.flattening import (
    flatten_dense_tensors,
    take_tensors,
    unflatten_dense_tensors,
)
from maquette.torch.face.forwarding import forward
from maquette.torch.saving.layouts import (
    SPARSE,
)

T = TypeVar("T")
_flatten_dense_tensors = flatten_dense_tensors
_take_tensors = take_tensors
_unflatten_dense_tensors = unflatten_dense_tensors


class StoredElements(TypedStorage):
    """A storage of a file, and where the file or the caller wants its tensors.

    It is there, except under a fake mode, which makes its tensors of data on cpu.
    """

    __slots__ = ("where",)

    def __init__(self, storage: UntypedStorage, kind: dtype, where: device) -> None:
        super().__init__(wrap_storage=storage, dtype=kind)
        self.where = where


def _element_size(dtype: object) -> int:
    """The bytes of an element of a dtype; RuntimeError for what is not a dtype."""
    if not isinstance(dtype, Dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _rebuild_tensor(
    storage: TypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """A tensor of this geometry over a storage; RuntimeError if it reaches beyond the storage."""
    return _over(storage, storage.dtype, storage_offset, size, stride, False, {})


def _rebuild_tensor_v2(
    storage: TypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: object = None,
    metadata: Mapping[str, bool] | None = None,
) -> Tensor:
    """`_rebuild_tensor` with ``requires_grad``, and the conjugate and negative bits."""
    kind = storage.dtype
    return _over(storage, kind, storage_offset, size, stride, requires_grad, metadata or {})


def _rebuild_tensor_v3(
    storage: TypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: object,
    dtype: dtype,
    metadata: Mapping[str, bool] | None = None,
) -> Tensor:
    """`_rebuild_tensor_v2` with the elements read as another dtype than the storage's."""
    return _over(storage, dtype, storage_offset, size, stride, requires_grad, metadata or {})


def _over(
    storage: TypedStorage,
    kind: dtype,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    bits: Mapping[str, bool],
) -> Tensor:
    held = storage.untyped()
    if held.device.type == "meta":  # no memory to reach beyond: it grows, as PyTorch's
        held.resize_(max(held.nbytes(), bytes_reached(kind, offset, size, stride)))
    else:
        check_geometry(held.nbytes(), kind, offset, size, stride)
    made = rebuild_tensor(
        Tensor,
        held,
        TensorMeta.of(kind, tuple(size), tuple(stride), offset, held.device),
        bool(requires_grad),
        bool(bits.get("conj")),
        bool(bits.get("neg")),
    )
    where = storage.where if isinstance(storage, StoredElements) else held.device
    if where is held.device:
        return made
    moved: Tensor = made.detach().to(where)
    return moved.requires_grad_(bool(requires_grad))


def check_geometry(
    nbytes: int, kind: dtype, offset: int, size: Sequence[int], stride: Sequence[int]
) -> None:
    """RuntimeError unless a tensor of this geometry lies within ``nbytes`` bytes."""
    if bytes_reached(kind, offset, size, stride) > nbytes:
        raise RuntimeError(
            f"a {kind} tensor of sizes {tuple(size)}, strides {tuple(stride)} and offset {offset} "
            f"reaches beyond its storage of {nbytes} bytes"
        )


def bytes_reached(kind: dtype, offset: int, size: Sequence[int], stride: Sequence[int]) -> int:
    """Where in its storage a tensor of this geometry ends; RuntimeError for what is none."""
    plain = isinstance(size, list | tuple) and isinstance(stride, list | tuple)
    numbers = (offset, *size, *stride) if plain else ()
    if not plain or len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
        text = reprlib.repr  # of what a file nests, the whole would have no end
        raise RuntimeError(
            f"no tensor has sizes {text(size)}, strides {text(stride)} and offset {text(offset)}"
        )
    if 0 in size:
        return 0
    last = offset + sum((n - 1) * step for n, step in zip(size, stride))
    return (last + 1) * kind.itemsize


def _rebuild_parameter(
    data: Tensor, requires_grad: bool, backward_hooks: object = None
) -> Parameter:
    """A parameter with this value."""
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: object, state: Mapping[str, object]
) -> Parameter:
    """A parameter with this value and these attributes."""
    made = Parameter(data, bool(requires_grad))
    _set_state(made, state)
    return made


def _rebuild_meta_tensor_no_storage(
    dtype: dtype, size: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> Tensor:
    """A tensor on ``meta`` of this geometry."""
    check_geometry(1 << 62, dtype, 0, size, stride)
    meta = TensorMeta.of(dtype, tuple(size), tuple(stride), 0, device("meta"))
    storage = UntypedStorage(meta.storage_bytes, meta.device)
    return rebuild_tensor(Tensor, storage, meta, bool(requires_grad))


def _rebuild_qtensor(*args: object) -> NoReturn:
    """NotImplementedError: there are no quantized tensors."""
    raise NotImplementedError(
        "this file has a quantized tensor, and there are none here: save what dequantize() gives"
    )


def _rebuild_from_type_v2(
    func: object, new_type: type[Tensor], args: Sequence[object], state: object
) -> object:
    """What ``func(*args)`` makes, as an object of a subclass of `Tensor`, with its attributes."""
    made = func(*args)  # type: ignore[operator]  # one of the functions here
    if isinstance(made, Tensor) and type(made) is not new_type and new_type is not Buffer:
        made = made.as_subclass(new_type)
    if isinstance(made, NestedTensor):
        return made  # its parts are all that it has; PyTorch writes them again as attributes
    setter = getattr(made, "__setstate__", None)
    if setter is not None and type(made).__setstate__ is not getattr(Tensor, "__setstate__", None):
        setter(state)
    else:
        _set_state(made, state)
    return made


def _set_state(made: object, state: object) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for values in (attributes, slots):
        if isinstance(values, Mapping):
            taken = [
                name
                for name, value in values.items()
                if _is_of_the_class(made, str(name)) and not _is_a_mark(name, value)
            ]
            if taken:
                raise pickle.UnpicklingError(
                    f"this file gives a {type(made).__name__} the state {taken}, names that its "
                    f"class has for itself"
                )
            for name, value in values.items():  # in slots, if its class has such
                setattr(made, str(name), value)


def _set_obj_state(obj: T, state: object) -> T:
    """The object with the attributes of a state, and those in slots where it has two parts."""
    _set_state(obj, state)
    return obj


def _is_a_mark(name: object, value: object) -> bool:
    return name in ("_is_buffer", "_is_param") and isinstance(value, bool)


def _is_of_the_class(made: object, name: str) -> bool:
    absent = object()
    found, ours = getattr(type(made), name, None), getattr(Parameter, name, absent)
    is_own_slot = isinstance(found, MemberDescriptorType) and found is not ours
    return ours is not absent and not is_own_slot


def _get_layout(name: str) -> layout:
    """The layout of a name, ``torch.strided``; RuntimeError for those that files do not hold."""
    known = {str(kind): kind for kind in (strided, jagged, *SPARSE)}
    found = known.get(name) if isinstance(name, str) else None  # the hash of another has no end
    if found is None:
        raise RuntimeError(f"tensors of layout {reprlib.repr(name)} are not read from files")
    return found


def _get_device_index(device: object, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device, an index or a name; -1 for cpu where that is allowed.

    ValueError for a device of another kind, or None where one must be given.
    """
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return 0 if device.index is None else device.index
    if isinstance(device, int):
        return device
    if optional:
        return 0
    raise ValueError(f"Expected a torch.device or an int, but got: {device!r}")


def _get_available_device_type() -> str | None:
    """The kind of accelerator whose tensors have data here: ``cuda``, or None."""
    return "cuda" if _get_device_module("cuda").is_available() else None


def _get_device_module(device_type: str) -> Any:
    """``torch.cuda`` for ``cuda``, and the like; RuntimeError where there is no such module."""
    module = getattr(importlib.import_module("maquette.torch"), device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        )
    return module


__getattr__ = forward(
    __name__, "maquette.torch.helpers.exceptions", "maquette.torch.saving.layouts"
)
