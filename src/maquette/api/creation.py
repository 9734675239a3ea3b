"""Tensors from data: tensor, as_tensor, from_numpy, the class's own constructor, default devices.

None of these is an operator. `tensor` copies, the others share memory where they can (T50). What is
made goes through the operator ``lift_fresh``, by which modes and fake tensors learn of it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex, TypeAlias, cast

import numpy as np

from maquette.api.from_schema import default_device, given_dtype, requiring_grad
from maquette.aten.factory.factories import empty, scalar_tensor_kernel, scalar_tensor_shape
from maquette.aten.view.views import alias, lift_fresh
from maquette.core.device import canonical, cpu
from maquette.core.device import device as Device
from maquette.core.dtype import (
    bool_,
    default_complex_dtype,
    float32,
    from_numpy_dtype,
    get_default_dtype,
    int64,
    promote_types,
)
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_not_implemented, check_value
from maquette.core.fitting import check_fits
from maquette.core.layout import layout as Layout
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.promotion import PYTHON_DTYPES
from maquette.core.size import Size
from maquette.core.symbols import node_of
from maquette.core.warned import warn_once
from maquette.dispatch.modes import WATCHED, no_dispatch
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    seen_by_modes,
)
from maquette.tensor.arrays import Array
from maquette.tensor.interchange import from_dlpack
from maquette.tensor.keys import inference_keys, keys_for
from maquette.tensor.storage import OBSERVERS, UntypedStorage, announce, observers_paused
from maquette.tensor.tensor import (
    TENSOR_CONSTRUCTOR,
    Tensor,
    from_array,
    instance_of,
    wrap,
)
from maquette.tensor.typed_storage import TypedStorage

Data: TypeAlias = object
Place: TypeAlias = "Device | str | int | None"


@seen_by_modes
def tensor(
    data: Data,
    *,
    dtype: DType | None = None,
    device: Place = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data``: numbers, nested sequences of them, arrays, tensors.

    dtype: by default that of the data: Python floats the default dtype, ints int64; of mixed data
    the highest (T33). Raises ValueError for ragged data, TypeError for what is no number.
    """
    dtype = given_dtype("tensor", dtype)
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than "
            "tensor(sourceTensor).",
            UserWarning,
            stacklevel=3,  # the caller of what `seen_by_modes` made
        )
    made = _copy_of(data, dtype, device)
    return requiring_grad(made, requires_grad) if requires_grad else made


def _copy_of(data: Data, dtype: DType | None, device: Place) -> Tensor:
    if isinstance(data, Tensor):
        with DisableTorchFunctionSubclass():
            if tls.st.dispatch_modes:  # they see one operator
                return _placed_anew(data.detach(), dtype, data.device if device is None else device)
            return _placed(data.detach().clone(), dtype, device)
    if isinstance(data, TypedStorage | UntypedStorage):
        return _placed(_of_storage(data, dtype), dtype, device)
    if isinstance(data, np.ndarray) and tls.st.dispatch_modes:
        return _placed_anew(_lifted(array_of(data, None), cpu), dtype, device)
    return _lifted(array_of(data, dtype), device)


def _of_storage(data: TypedStorage | UntypedStorage, kind: DType | None) -> Tensor:
    """A tensor of a storage's elements, which shares its bytes; of bytes alone, as int64."""
    if isinstance(data, UntypedStorage):
        data = TypedStorage(wrap_storage=data, dtype=kind or int64)
    if kind not in (None, data.dtype):
        raise RuntimeError(f"Expected a Storage of type {kind}, got one of {data.dtype}")
    return data.tensor()


def _placed(t: Tensor, dtype: DType | None, device: Place) -> Tensor:
    where = None if device is None else Device(device)
    moved = t.to(dtype=dtype or t.dtype, device=where or t.device)
    assert isinstance(moved, Tensor)
    return moved


def _placed_anew(t: Tensor, dtype: DType | None, device: Place) -> Tensor:
    """A copy, by the operator that modes see of one."""
    where = default_device() if device is None else Device(device)
    copied = t.to(dtype=dtype or t.dtype, device=where or t.device, copy=True)
    assert isinstance(copied, Tensor)
    return copied


def _lifted(array: Array, device: Place) -> Tensor:
    """A tensor that owns a dense ``array``, as the program sees it: on its device, in its modes.

    Observers of allocations see the storage that stays, not the one that carried the values.
    """
    strides, memory = None, array
    if not array.flags.c_contiguous:
        strides, memory = tuple(s // array.itemsize for s in array.strides), array.ravel(order="K")
    meta = TensorMeta.of(from_numpy_dtype(array.dtype), array.shape, strides)
    if OBSERVERS:
        with observers_paused():
            storage = UntypedStorage(meta.storage_bytes, cpu, memory)
    else:
        storage = UntypedStorage(meta.storage_bytes, cpu, memory)
    keys = inference_keys(meta) if tls.st.inference else keys_for(meta)
    carrier = wrap(meta, storage, array, keys)
    where = default_device() if device is None else Device(device)
    if where is not None and canonical(where) is not cpu:
        with observers_paused():
            here = _lift(carrier)
        moved = here.to(device=where)
        assert isinstance(moved, Tensor)
        return moved
    if OBSERVERS and tls.st.fake_mode is None:
        announce(storage)  # it stays
    made = _lift(carrier)
    assert isinstance(made, Tensor)
    return made


def _lift(carrier: Tensor) -> Tensor:
    """``lift_fresh``, which dispatch modes see, and function modes do not."""
    if not tls.st.function_modes:
        return lift_fresh(carrier)
    with DisableTorchFunction():
        return lift_fresh(carrier)


def number(value: complex, dtype: DType) -> Tensor:
    """A number as a tensor of the cpu without dimensions, lifted as `tensor` lifts its data."""
    scalar_tensor_shape(value, dtype, None, None, None)  # checks that the number fits
    with np.errstate(all="ignore"):
        array = scalar_tensor_kernel(np, value, dtype)
    return _lifted(array, cpu)


# --- arrays of Python data -----------------------------------------------------------


def array_of(data: Data, dtype: DType | None) -> Array:
    """A new array of ``data``, of ``dtype`` or the dtype that the data has (T33).

    Contiguous in some order of its dimensions: an array's own, as any copy keeps it.
    """
    if data.__class__ in _PLAIN:
        return _filled([data], dtype or _common({data.__class__})).reshape(())
    if isinstance(data, np.ndarray) or hasattr(data, "__array_interface__"):
        given = np.asarray(data)
        source = from_array(given).meta  # checks dtype, byte order and strides
        new = source.like(dtype)
        order = sorted(range(new.ndim), key=lambda d: -new.strides[d])
        copied = np.array(given.transpose(order), new.dtype.numpy, order="C", copy=True)
        return copied.transpose(sorted(range(new.ndim), key=order.__getitem__))
    try:
        shape, kinds = _survey(data, 0)
    except RecursionError:
        raise TypeError("new(): self-referential lists are incompatible") from None
    kind = dtype if dtype is not None else _common(kinds)
    flat: list[object] = []
    _flatten(data, flat)
    return _filled(flat, kind).reshape(shape)


def _survey(data: Data, depth: int) -> tuple[tuple[int, ...], set[object]]:
    """The shape of nested sequences and the kinds of their elements: types, or dtypes."""
    if isinstance(data, Tensor):
        return _survey_tensor(data)
    if isinstance(data, (np.ndarray, np.generic)):
        return data.shape, {from_numpy_dtype(data.dtype)}
    if not _is_sequence(data):
        return (), {_kind_of(data)}
    length = len(data)  # type: ignore[arg-type]  # a sequence
    try:
        types = set(map(type, data))  # type: ignore[call-overload]  # a sequence
    except TypeError:
        raise ValueError(
            f"could not determine the shape of object type '{type(data).__name__}'"
        ) from None
    if types <= _PLAIN:
        return (length,), types
    if all(_is_number_type(kind) for kind in types):
        return (length,), {k if k in _PLAIN else from_numpy_dtype(k) for k in types}
    inner: tuple[int, ...] | None = None
    kinds: set[object] = set()
    for element in data:  # type: ignore[attr-defined]  # a sequence
        shape, found = _survey(element, depth + 1)
        kinds |= found
        inner = shape if inner is None else inner
        if shape != inner:
            _raise_ragged(inner, shape, depth + 1)
    return (length, *(inner or ())), kinds


def _survey_tensor(data: Tensor) -> tuple[tuple[int, ...], set[object]]:
    check_value(
        data.meta.numel == 1,
        lambda: f"only one element tensors can be converted to Python scalars, got {data.meta}",
    )
    return (), {data.meta.dtype}


_PLAIN = frozenset((int, float, bool, complex))


def _is_number_type(kind: type) -> bool:
    return kind in _PLAIN or issubclass(kind, np.generic)


def _is_sequence(data: Data) -> bool:
    if isinstance(data, (list, tuple, range)):
        return True
    return (
        hasattr(data, "__len__")
        and hasattr(data, "__getitem__")
        and not isinstance(data, (str, bytes, dict))
    )


def _kind_of(data: Data) -> object:
    for kind in (bool, int, float, complex):
        if isinstance(data, kind):
            return kind
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, SupportsIndex):
        return int
    if isinstance(data, SupportsFloat) and node_of(data) is not None:  # a size times a float, say
        return float
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _raise_ragged(first: tuple[int, ...], other: tuple[int, ...], depth: int) -> None:
    if not other:
        raise TypeError(f"expected a sequence at dim {depth}, got a number among sequences")
    if not first:
        raise TypeError(f"expected a number at dim {depth}, got a sequence among numbers")
    at = next((i for i, (a, b) in enumerate(zip(first, other)) if a != b), 0)
    raise ValueError(
        f"expected sequence of length {first[at]} at dim {depth + at} (got {other[at]})"
    )


_DTYPES = {bool: bool_, int: int64}


def _common(kinds: set[object]) -> DType:
    """The dtype of elements of these kinds; of none, the default dtype."""
    found: DType | None = None
    for kind in kinds:
        one = kind if isinstance(kind, DType) else _DTYPES.get(kind)  # type: ignore[call-overload]  # a type
        if one is None:
            one = default_complex_dtype() if kind is complex else get_default_dtype()
        found = one if found is None else promote_types(found, one)
    return get_default_dtype() if found is None else found


def _flatten(data: Data, into: list[object]) -> None:
    if isinstance(data, Tensor):
        into.append(_read(data))
    elif isinstance(data, np.generic):
        into.append(data.item())
    elif isinstance(data, np.ndarray):
        into.extend(data.ravel().tolist())
    elif not _is_sequence(data):
        into.append(data)
    elif (types := set(map(type, data))) <= _PLAIN:  # type: ignore[call-overload]  # a sequence
        into.extend(data)  # type: ignore[arg-type]  # a sequence
    elif all(_is_number_type(kind) for kind in types):
        numbers = cast("Sequence[np.generic]", data)
        into.extend(v.item() if isinstance(v, np.generic) else v for v in numbers)
    else:
        for element in data:  # type: ignore[attr-defined]  # a sequence
            _flatten(element, into)


def _read(element: Tensor) -> object:
    """The number of a tensor among the data; one that has data is read below the modes."""
    if element.fake_mode is not None or not tls.st.dispatch_modes:
        return element.item()
    with no_dispatch():
        return element.item()


def _filled(values: list[object], kind: DType) -> Array:
    with np.errstate(all="ignore"):
        try:
            if kind.category == 1:
                return _integers(values, kind)
            if kind.category == 2 and kind.itemsize < 4:
                return np.array(values, np.float64).astype(kind.numpy)
            return np.array(values, kind.numpy)
        except OverflowError:
            raise ValueError(
                f"Overflow when unpacking long long: a value does not fit in {kind}"
            ) from None


def _integers(values: list[object], kind: DType) -> Array:
    """Integers wrap from below only in unsigned types; floats lose their fraction."""
    wide = np.uint64 if kind.name == "uint64" else np.int64
    whole = [v if type(v) is int else _whole(v, kind) for v in values]
    array = np.array(whole, wide)
    if kind.itemsize < 8 and array.size:
        for extreme in (array.min(), array.max()):
            check_fits(int(extreme), kind)
    return array.astype(kind.numpy)


def _whole(value: object, kind: DType) -> int:
    if isinstance(value, float):
        check_fits(value, kind)
    return int(value)  # type: ignore[call-overload]  # a number, or int() says what it is


# --- sharing memory ------------------------------------------------------------------


def from_numpy(array: Array) -> Tensor:
    """A tensor that shares the memory of a NumPy array (T50); bfloat16 and float8 by ml_dtypes.

    Raises TypeError for dtypes that no tensor has, ValueError for strides and byte orders that none
    can have. A read-only array gives a tensor that refuses to be written to.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if tls.st.fake_mode is None and not tls.st.include & WATCHED:
        return _sharing(array)
    with observers_paused():
        real = _sharing(array)
    made = _lift(real)
    assert isinstance(made, Tensor)
    return made


def _sharing(array: Array) -> Tensor:
    if not array.flags.writeable:
        _warn_read_only("NumPy array")
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)  # a matrix multiplies otherwise, masks are of no tensor
    return from_array(array)


def _warn_read_only(given: str) -> None:
    warn_once(
        f"The given {given} is not writable, and the tensor that shares its memory cannot be "
        f"written to either. Copy the {given} to protect its data or to make it writable first."
    )


@seen_by_modes
def as_tensor(data: Data, dtype: DType | None = None, device: Place = None) -> Tensor:
    """``data`` as a tensor, sharing memory where dtype and device allow it (T50)."""
    dtype = given_dtype("as_tensor", dtype)
    if isinstance(data, Tensor):
        with DisableTorchFunctionSubclass():
            return _placed(data, dtype, device)
    if isinstance(data, np.ndarray):
        with observers_paused():
            shared = _sharing(data)
        lifted = _lift(shared)
        assert isinstance(lifted, Tensor)
        if OBSERVERS and lifted._storage is shared._storage:
            announce(shared._storage)
        return _placed(lifted, dtype, device or default_device())
    return tensor(data, dtype=dtype, device=device)


@seen_by_modes
def asarray(
    obj: Data,
    *,
    dtype: DType | None = None,
    device: Place = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """``obj`` as a tensor; ``copy`` True always copies, False never (ValueError if it must).

    requires_grad: False cuts the result off from what computed ``obj``, and a leaf that is given
    back as it is requires none any more; True keeps that; None leaves it as it was.
    """
    dtype = given_dtype("asarray", dtype)
    if type(obj).__name__ == "PyCapsule":
        obj = from_dlpack(obj)
    buffer = not isinstance(obj, (Tensor, np.ndarray)) and _is_buffer(obj)
    source = frombuffer(obj, dtype=dtype or get_default_dtype()) if buffer else obj
    made = as_tensor(source, dtype, device)
    shares = isinstance(source, (Tensor, np.ndarray)) and _shares(made, source)
    if copy is False and not shares:
        raise _not_shared(source, dtype, made)
    if copy is True and shares:
        made = made.clone()
    if requires_grad is None:
        if made.requires_grad:
            warn_once(
                "torch.asarray: without requires_grad the result requires grad as obj does. Pass "
                "requires_grad=False for a result that does not"
            )
        return made
    if requires_grad:
        return made.requires_grad_(requires_grad)
    if not made.requires_grad:
        return made
    return made.requires_grad_(False) if made.is_leaf else made.detach()


def _not_shared(source: Data, dtype: DType | None, made: Tensor) -> Exception:
    """The error for data that `asarray` would have to copy."""
    if isinstance(source, np.generic):
        return RuntimeError("can't alias NumPy scalars. Either remove copy=False or pass an array.")
    if not isinstance(source, (Tensor, np.ndarray)):
        return ValueError("can't alias arbitrary sequence into a tensor; pass copy=None")
    kind = source.dtype if isinstance(source, Tensor) else from_numpy_dtype(source.dtype)
    assert isinstance(kind, DType)
    if dtype is not None and kind is not dtype:
        names = kind.scalar_name, dtype.scalar_name
        return ValueError("can't alias tensor with dtype '{}' into dtype '{}'.".format(*names))
    place = source.device if isinstance(source, Tensor) else "cpu"
    return ValueError(f"can't alias tensor from device '{place}' to '{made.device}'.")


def _is_buffer(obj: Data) -> bool:
    return isinstance(obj, (bytes, bytearray, memoryview)) or type(obj).__module__ == "array"


def _shares(made: Tensor, source: Tensor | Array) -> bool:
    if isinstance(source, Tensor):
        return made._storage is source._storage
    return made._mq_data is not None and np.shares_memory(made._mq_data, source)


@seen_by_modes
def frombuffer(
    buffer: Data, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-D tensor over the memory of an object with the buffer protocol.

    count: elements to take, -1 for all; offset: bytes to skip. Raises ValueError if the object has
    no such protocol, and if the buffer is empty, too short, or no multiple of the element size.
    """
    try:
        raw = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload]  # NumPy checks it
    except TypeError as error:
        raise ValueError(
            f"object does not implement Python buffer protocol: it is of {type(buffer)}"
        ) from error
    dtype = PYTHON_DTYPES.get(dtype, dtype)
    size = dtype.itemsize
    rest = raw.nbytes - offset
    check_value(
        raw.nbytes > 0 and count != 0,
        lambda: f"both buffer length ({raw.nbytes}) and count ({count}) must not be 0",
    )
    check_value(
        0 <= offset < raw.nbytes,
        lambda: (
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({raw.nbytes} bytes) minus 1"
        ),
    )
    check_value(
        count > 0 or rest % size == 0,
        lambda: (
            f"buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({size})"
        ),
    )
    taken = count if count > 0 else rest // size
    check_value(
        taken * size <= rest,
        lambda: (
            f"requested buffer length ({taken} * {size} bytes) after offset ({offset} bytes) "
            f"must not be greater than actual buffer length ({raw.nbytes} bytes)"
        ),
    )
    if not raw.flags.writeable:
        _warn_read_only("buffer")
    made = from_array(raw[offset : offset + taken * size].view(dtype.numpy))
    return requiring_grad(made, requires_grad) if requires_grad else made


@seen_by_modes
def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: DType | None = None,
    layout: Layout = strided,
    device: Place = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-D tensor of ``size`` elements over a file's bytes, on the cpu.

    shared: whether writes go to the file, which is made and grown as needed; else they stay here,
    and RuntimeError is raised where the file is too short. NotImplementedError for another device.
    """
    check_not_implemented(
        device is None or Device(device).type == "cpu",
        lambda: f"from_file maps a file into memory of the cpu, not of {device}",
    )
    kind, count = dtype or get_default_dtype(), size or 0
    held = UntypedStorage.from_file(filename, bool(shared), count * kind.itemsize)
    made = TypedStorage(wrap_storage=held, dtype=kind).tensor()
    return requiring_grad(made, requires_grad) if requires_grad else made


# --- the class's own constructor -----------------------------------------------------


def _construct(cls: type[Tensor], *args: object, **kwargs: object) -> Tensor:
    """``Tensor()``, ``Tensor(2, 3)`` and ``Tensor([1])``: the default dtype; ``Tensor(t)``: its."""
    given = args[0] if len(args) == 1 else kwargs.get("data")
    kind = given.dtype if isinstance(given, Tensor) else get_default_dtype()
    made = legacy(kind, args, kwargs)
    return made if cls is Tensor else cast(Tensor, instance_of(cls, made, given))


def legacy(kind: DType, args: Sequence[object], kwargs: dict[str, object]) -> Tensor:
    """What the constructors of old make: sizes give uninitialised values, anything else is data.

    No ``__torch_function__`` is told of it.
    """
    with DisableTorchFunction():
        return _legacy(kind, args, kwargs)


def _legacy(kind: DType, args: Sequence[object], kwargs: dict[str, object]) -> Tensor:
    device = kwargs.pop("device", None)
    if "size" in kwargs:
        args = (Size(kwargs.pop("size")),)  # type: ignore[arg-type]  # Size checks it
    if kwargs.keys() - {"data"}:
        raise TypeError(f"new() received unexpected keyword arguments: {', '.join(kwargs)}")
    if "data" in kwargs:
        args = (kwargs["data"],)
    if len(args) == 1 and isinstance(args[0], Tensor):
        _check_kind(args[0].dtype, kind)
        return alias(args[0])
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        if isinstance(args[0], TypedStorage):
            given = args[0].dtype
            check(given is kind, lambda: f"Expected a Storage of type {kind}, got one of {given}")
            return args[0].tensor()
        here = device is None or Device(device) is cpu  # type: ignore[arg-type]  # it checks it
        if here and isinstance(args[0], np.ndarray) and args[0].dtype == kind.numpy:
            return from_numpy(args[0])
        return _copy_of(args[0], kind, device)  # type: ignore[arg-type]  # Device checks it
    sizes = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    made = empty(tuple(sizes), dtype=kind, device=device)
    assert isinstance(made, Tensor)
    return made


def _check_kind(given: DType, kind: DType) -> None:
    if given is not kind:
        raise TypeError(
            f"expected {kind} (got {given}): this constructor does not convert; use "
            f"tensor.to({kind})"
        )


TENSOR_CONSTRUCTOR[0] = _construct

__all__ = [
    "as_tensor",
    "asarray",
    "float32",
    "from_file",
    "from_numpy",
    "frombuffer",
    "tensor",
]
