"""The strided tensor: an interned meta laid over a storage, with a key set.

What is here: construction, aliasing and the doors to Python numbers and NumPy. What is not: sizes,
strides, dtype and device (`geometry.py`), what autograd keeps on a tensor (`history.py`), operators
and the methods made of them (they are derived from the operators' pages and attached by
`maquette.api.attach`), printing (`printing.py`). ``_keys`` carries, beside the visible key set, the
hidden bit REQUIRES_GRAD, so that one `or` of the arguments answers whether anything requires grad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from maquette.core.device import device
from maquette.core.dtype import from_numpy_dtype
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.warned import warn_once
from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import (
    ACTIVE,
    HAS_HANDLER,
    TensorBase,
    disabled_torch_dispatch,
    disabled_torch_function,
)
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import (
    ACTIVE_MODES,
    WATCHED,
    WITHOUT_HANDLER,
    disable_current_modes,
)
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    SILENT_HANDLERS,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    default_torch_function,
)
from maquette.tensor.arrays import Array, array_over
from maquette.tensor.geometry import share_meta
from maquette.tensor.history import TensorHistory, refuse_deletion
from maquette.tensor.keys import ADINPLACE, FAMILY, NOT_INHERITED, inference_keys, keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.up_to_date import SHOWN, own_memory

T = TypeVar("T", bound="Tensor")
_new = object.__new__

_PYTHON = K.functionality_bits(DispatchKey.Python) | K.functionality_bits(
    DispatchKey.PythonTLSSnapshot
)


class Tensor(TensorHistory):
    """A strided array of one dtype on one device, as PyTorch's: shape, strides, offset, storage.

    `Tensor([1.0])` makes a tensor of the default dtype; use `maquette.tensor` to choose.
    """

    # There is no __getattr__ and no metaclass: with either, CPython 3.11 reads every attribute, or
    # asks every isinstance, the long way (40 ns instead of 5, 100 instead of 35).

    __slots__ = ("__dict__", "__weakref__", "_mq_data")

    _mq_data: Array | None

    fake_mode: object | None = None
    constant: Tensor | None = None
    _class_bits: ClassVar[int] = 0
    _is_param: bool = False
    _is_buffer: bool = False
    _differs: bool = False  # whether it stands for several tensors, as under vmap: no one number
    __array_priority__ = 1000
    __torch_dispatch__: ClassVar[object] = disabled_torch_dispatch

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """What a subclass does that defines no handler: call, and give results its class (D136)."""
        return default_torch_function(cls, func, types, args, kwargs, convert=_converted)

    def __init_subclass__(cls, *, has_handlers: bool = True) -> None:
        """has_handlers: False for a class that has none, nor ever gets any: it adds no keys."""
        share_meta(cls)
        cls._class_bits = K.TORCH_FUNCTION if has_handlers else 0
        cls._asks = HAS_HANDLER if has_handlers else ACTIVE
        if _has_dispatch(cls):
            function = getattr(cls.__torch_function__, "__func__", cls.__torch_function__)
            if function is _DEFAULT_FUNCTION:
                # Its handler says what its results are; the default would make them of the class.
                cls.__torch_function__ = disabled_torch_function  # type: ignore[method-assign]
        bits_of(cls)

    def __new__(cls, *args: object, **kwargs: object) -> Tensor:
        maker = TENSOR_CONSTRUCTOR[0]
        if maker is None:
            raise RuntimeError("the operators are not loaded: import maquette first")
        return maker(cls, *args, **kwargs)

    def _alias(self) -> Tensor:
        """`alias`, as each class of tensors makes it."""
        other = wrap(self.meta, self._storage, self._mq_data, self._keys & NOT_INHERITED)
        if self._keys & ADINPLACE:
            other._vc = self._version_counter()
        return other

    def _without_history(self) -> Tensor:
        """`alias` of a tensor that only the caller holds: it itself where a class can."""
        return self._alias()

    @property
    def data(self) -> Tensor:
        """An alias outside autograd with a version counter of its own (T8)."""
        if tls.st.include & WATCHED:
            return self.detach()  # modes learn of it as of an operator
        other = alias(self)
        other._vc = None
        if other.__class__ is Tensor and self.__class__ is not Tensor and not self._is_param:
            return cast(Tensor, of_class(other, self.__class__))
        return other

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Tensor.data must be a Tensor, got {type(value).__name__}")
        if value.fake_mode is not self.fake_mode:
            raise RuntimeError(
                "data set to a tensor of another kind: the one is fake and the other is not, or "
                "they are fakes of two modes"
            )
        for tell in SHOWN:
            tell(self, "given other data")
        kind = value.meta.dtype
        if self.requires_grad and not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                f"data set to a tensor that requires gradients must be floating point or complex "
                f"dtype, got {kind}"
            )
        if (value.meta.layout is strided) is not (self.meta.layout is strided):
            raise RuntimeError(
                f"data set to a tensor of an incompatible tensor type: {value.meta} in the place "
                f"of {self.meta}; one is sparse and the other is not"
            )
        adopt(self, value)

    @data.deleter
    def data(self) -> None:
        refuse_deletion("data")

    def as_subclass(self, cls: type[T]) -> T:
        """An alias of the tensor as an object of ``cls``, in the same place of autograd's graph.

        Modes are not told. RuntimeError where the alias is an object of another class already: that
        of a fake, or what the handler of the tensor's class gave.
        """
        if not issubclass(cls, Tensor):
            raise TypeError(f"as_subclass() takes a subclass of Tensor, got {cls!r}")
        with DisableTorchFunctionSubclass():
            return cast(T, _as_subclass(self, cls))

    # --- Python protocol -------------------------------------------------------------

    def __dir__(self) -> list[str]:
        left = {"_converted", "_viewed", "volatile"} | (
            set() if self.is_cuda else {"__cuda_array_interface__"}
        )
        return sorted(set(super().__dir__()) - left)

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        if not self.meta.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.meta.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.dim():  # handlers are asked
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        if self.meta.numel != 1:
            what = "no values" if self.meta.numel == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        self._warn_of_history()
        return float(self._as_real("double"))

    def __int__(self) -> int:
        return int(self._as_real("int64_t"))

    def _as_real(self, kind: str) -> Any:
        number = self._as_number()
        if number.__class__ is complex:
            if number.imag:
                raise RuntimeError(
                    f"value cannot be converted to type {kind} without overflow: it is {number}"
                )
            return number.real
        return number

    def __complex__(self) -> complex:
        self._warn_of_history()
        return complex(self._as_number())

    def _warn_of_history(self) -> None:
        if self._keys & K.REQUIRES_GRAD and tls.st.grad_enabled:
            warn_once(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                "behavior.\nConsider using tensor.detach() first."
            )

    def _as_number(self) -> Any:
        if self.meta.numel != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars; this is {self.meta}"
            )
        return self.item()

    def __index__(self) -> int:
        kind = self.meta.dtype
        if kind.is_floating_point or kind.is_complex or self.meta.numel != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, element: object) -> bool:
        if not isinstance(element, (TensorHistory, int, float, complex)):
            raise RuntimeError(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element)}."
            )
        return bool((self == element).any().item())

    if TYPE_CHECKING:  # classes of users take no tensor_contents

        def __repr__(self) -> str: ...

    else:

        def __repr__(self, *, tensor_contents: str | None = None) -> str:
            printer = PRINTER[0]
            if printer is None:
                return object.__repr__(self)
            return printer(self, tensor_contents)

    def __format__(self, spec: str) -> str:
        if self.meta.ndim == 0 and self.fake_mode is None and not self.is_meta:
            return self.item().__format__(spec)
        if spec:
            if self.meta.ndim == 0 and self.fake_mode is not None:
                with suppress(RuntimeError):  # a mode may know the number
                    return self.item().__format__(spec)
            raise TypeError(f"unsupported format string {spec!r} for a {type(self).__name__}")
        return repr(self)

    # --- NumPy -----------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Array:
        """The data as an array that shares memory (T51); ``force`` resolves what is in the way."""
        t: Tensor = self
        own_memory(t)
        if t.meta.layout in FAMILY:
            name = FAMILY[t.meta.layout]
            raise TypeError(
                f"can't convert {name} layout tensor to numpy. Use Tensor.to_dense() first."
            )
        if force:
            t = t.detach().cpu().resolve_conj().resolve_neg()
        if t.requires_grad and tls.st.grad_enabled:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if t.is_conj() or t.is_neg():
            name, what = ("conjugate", "conj") if t.is_conj() else ("negative", "neg")
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {name} bit set. Use "
                f"tensor.resolve_{what}().numpy() instead."
            )
        if t.fake_mode is not None:
            raise RuntimeError(f"numpy(): {without_data(t)}")
        if t._mq_data is None and t.meta.device.type == "cpu":  # a wrapper, made without memory
            raise RuntimeError(
                f".numpy() is not supported for tensor subclasses. This {type(t).__name__} has no "
                f"memory of its own: convert a tensor that it wraps"
            )
        if t._mq_data is None or t.meta.device.type != "cpu":
            raise TypeError(
                f"can't convert {t.meta.device} device type tensor to numpy. Use Tensor.cpu() "
                f"first."
            )
        t._storage.foreign = True  # the array would go on with memory that the tensor left
        return t._mq_data

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: Array, context: object = None, return_scalar: bool = False
    ) -> Tensor:
        """What NumPy's ufuncs make of tensors is a tensor too (T51)."""
        return from_array(np.asarray(array))


WITHOUT_HANDLER.add(Tensor)
_DEFAULT_FUNCTION = getattr(Tensor.__torch_function__, "__func__", None)
SILENT_HANDLERS.add(_DEFAULT_FUNCTION)
# What higher layers fill in (an import would run upward).
TENSOR_CONSTRUCTOR: list[Callable[..., Tensor] | None] = [None]
PRINTER: list[Callable[[Tensor, str | None], str] | None] = [None]


def _has_dispatch(cls: type[Tensor]) -> bool:
    handler = getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__)
    return handler is not disabled_torch_dispatch


def bits_of(cls: type[Tensor]) -> int:
    """What a class adds to the keys of an object that is made now.

    A ``__torch_dispatch__`` that was set on the class since, or taken away, counts for the objects
    that are made from now on.
    """
    bits = cls._class_bits
    if bits and (bits & _PYTHON != 0) is not _has_dispatch(cls):
        bits = cls._class_bits = bits ^ _PYTHON
        if bits & _PYTHON and cls._alias is Tensor._alias:
            cls._alias = _alias_by_handler  # type: ignore[assignment,method-assign]  # its own
    return bits


def wrap(meta: TensorMeta, storage: UntypedStorage, data: Array | None, keys: int) -> Tensor:
    """A plain tensor of the given parts; nothing is checked."""
    t = _new(Tensor)
    t.meta = meta
    t._keys = keys
    t._storage = storage
    t._mq_data = data
    t._vc = None
    t._base = None
    t._ag = None
    t._converted = None
    return t


def _converted(t: TensorBase, cls: type) -> object:
    """A result as an object of ``cls``; a fake or another subclass's stays."""
    return _as_subclass(t, cls) if type(t) is Tensor else t


def _as_subclass(t: TensorBase, cls: type) -> object:
    """`Tensor.as_subclass`, where subclasses' handlers are off: an alias, untold to modes."""
    source = cast(Tensor, t)
    if tls.st.include & ACTIVE_MODES:
        with disable_current_modes():
            return _as_subclass(t, cls)
    if tls.st.function_modes:
        with DisableTorchFunction():
            return instance_of(cls, _alias_of(source), source)
    return instance_of(cls, _alias_of(source), source)


def _alias_of(t: Tensor) -> Tensor:
    packet = find_packet("aten::alias")
    assert packet is not None
    return cast(Tensor, packet.default(t))


def instance_of(cls: type, made: Tensor, source: object) -> object:
    """An alias that was made of ``source``, as an object of ``cls``.

    RuntimeError if it is an object of another class, which may be held elsewhere: a fake, or what
    the handler of the source's class gave. The tensors of transforms stay what they are.
    """
    if issubclass(made.__class__, cls) or made._inside:
        return made
    given = isinstance(source, Tensor) and source._keys & _PYTHON & ~tls.st.exclude
    if given or made.__class__ is not Tensor:
        raise RuntimeError(
            f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already "
            f"associated to a python object of type {type(made).__name__}, which is not a subclass "
            f"of the requested type. Take the tensor that the {type(source).__name__} is made of"
        )
    return of_class(made, cls)


def of_class(t: TensorBase, cls: type) -> object:
    """A result as an object of ``cls`` with the same parts; a fake or another subclass's stays."""
    if type(t) is not Tensor:
        return t
    made: Tensor = _new(cls)
    for part in ("meta", "_storage", "_mq_data", "_vc", "_base", "_ag"):
        setattr(made, part, getattr(t, part))
    made._keys = t._keys | bits_of(made.__class__)
    return made


def without_data(t: Tensor) -> str:
    """Which fake tensor has no data, where it was made, and what to do, in words."""
    trace = getattr(t, "_debug_trace", None)
    made = "MAQUETTE_FAKE_DEBUG=1 tells where it was made"
    if trace is not None:
        made = f"it was made at {trace.place}"
    return (
        f"{t!r} of {t.fake_mode!r} is fake and has no data; {made}. Read values of real tensors, "
        f"outside the mode"
    )


def from_storage(storage: UntypedStorage, meta: TensorMeta) -> Tensor:
    """A tensor of ``meta`` over ``storage``, with or without data."""
    data = None if storage.data is None else array_over(storage, meta)
    keys = inference_keys(meta) if tls.st.inference else keys_for(meta)
    return wrap(meta, storage, data, keys)


def from_array(array: Array, on: device | None = None) -> Tensor:
    """A tensor that shares a NumPy array's memory, any dtype that tensors have.

    Raises TypeError for other dtypes, ValueError for negative or unaligned strides (T50).
    """
    kind = from_numpy_dtype(array.dtype)
    size = kind.itemsize
    if any(s < 0 for s in array.strides):
        raise ValueError(
            f"at least one stride of the array is negative ({array.strides}); tensors with "
            f"negative strides are not supported. Copy the array first"
        )
    if array.size and any(s % size for s, n in zip(array.strides, array.shape) if n > 1):
        raise ValueError(f"array strides {array.strides} are no multiples of the itemsize {size}")
    strides = tuple([s // size for s in array.strides])
    meta = TensorMeta.of(kind, array.shape, strides, 0, on or device("cpu"))
    if array.flags.c_contiguous:
        raw = array
    else:
        span = meta.storage_bytes
        first = array[tuple(slice(0, 1) for _ in array.shape)].reshape(-1).view(np.uint8)
        raw = np.lib.stride_tricks.as_strided(first, (span,), (1,))
    storage = UntypedStorage(meta.storage_bytes, meta.device, raw)
    storage.foreign = True
    return wrap(meta, storage, array, keys_for(meta))


def alias(t: Tensor) -> Tensor:
    """A new tensor over the same storage, outside autograd, sharing the version counter."""
    return t._alias()


def _detach_of(t: Tensor) -> Tensor:
    packet = find_packet("aten::detach")
    assert packet is not None
    return cast(Tensor, packet(t))


def _alias_by_handler(t: Tensor) -> Tensor:
    """`alias` of a tensor whose class has a ``__torch_dispatch__``: it makes what ``detach`` is."""
    with AutoDispatchBelowAutograd():
        other: Tensor = _detach_of(t)
    if other is t:
        return Tensor._alias(t)
    if t._keys & ADINPLACE:
        other._vc = t._version_counter()
    return other


def adopt(t: Tensor, value: Tensor) -> None:
    """Give ``t`` the meta, storage and keys of ``value``; identity, version and grad stay."""
    keep = t._keys & (K.REQUIRES_GRAD | ADINPLACE | K.AUTOGRAD | type(t)._class_bits)
    t.meta = value.meta
    t._storage = value._storage
    t._mq_data = value._mq_data
    t._keys = (value._keys & NOT_INHERITED) | keep
