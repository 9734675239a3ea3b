"""The strided tensor: an interned meta laid over a storage, with a key set.

What is here: construction, aliasing, metadata queries, the state that autograd keeps on a tensor
and the doors to Python numbers and NumPy. What is not: operators and the methods made of them (they
are derived from the operators' pages and attached by `maquette.api.attach`), printing
(`printing.py`), the engine (layer 5). ``_keys`` carries, beside the visible key set, the hidden bit
REQUIRES_GRAD, so that one `or` of the arguments answers whether anything requires grad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from maquette.core.device import device
from maquette.core.dtype import dtype, from_numpy_dtype
from maquette.core.layout import layout, memory_format, strided
from maquette.core.meta import TensorMeta
from maquette.core.ownership import held_only
from maquette.core.size import Size
from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import (
    TensorBase,
    disabled_torch_dispatch,
    disabled_torch_function,
)
from maquette.dispatch.call import ask_first
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import WATCHED
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    DisableTorchFunctionSubclass,
    default_torch_function,
)
from maquette.tensor.backend import backend_of
from maquette.tensor.declared_methods import TensorSurface
from maquette.tensor.storage import BYTES_MOVED, MOVED, UntypedStorage

if TYPE_CHECKING:
    from maquette.autograd.node import Node

Array = npt.NDArray[np.generic]
T = TypeVar("T", bound="Tensor")
_new = object.__new__

FAKE = K.functionality_bits(DispatchKey.Fake)
ADINPLACE = K.functionality_bits(DispatchKey.ADInplaceOrView)
_PYTHON = K.functionality_bits(DispatchKey.Python) | K.functionality_bits(
    DispatchKey.PythonTLSSnapshot
)
# What a result never takes over from an argument: it is new to autograd and to constants.
NOT_INHERITED = ~(K.REQUIRES_GRAD | K.CONSTANT | K.TORCH_FUNCTION)


# Key sets of plain tensors, each one object: calls compare them by identity first.
_KEYS: dict[int, int] = {}


def keys_for(meta: TensorMeta) -> int:
    """The key set of a plain tensor of this meta (D14), computed once per meta."""
    known = meta.keys
    if known:
        return known
    backend = K.BACKEND_OF_DEVICE.get(meta.device.type, "PrivateUse1")
    ks = K.key_bits(K.key_parse(backend)) | K.key_bits(K.key_parse("Autograd" + backend))
    ks |= ADINPLACE
    autocast = K.parse_dispatch_key("Autocast" + backend)
    if autocast is not None:
        ks |= K.key_bits(autocast)
    ks = meta.keys = _KEYS.setdefault(ks, ks)
    fake = ks | FAKE | (K.SYMBOLIC if meta.is_symbolic else 0)
    meta.fake_keys = _KEYS.setdefault(fake, fake)
    meta.fake_grad_keys = _KEYS.setdefault(fake | K.REQUIRES_GRAD, fake | K.REQUIRES_GRAD)
    return ks


def fake_keys_for(meta: TensorMeta) -> int:
    """The key set of a fake tensor of this meta: its own device's keys, and Fake (D4)."""
    if not meta.fake_keys:
        keys_for(meta)
    return meta.fake_keys


def keys_for_device(where: device) -> int:
    """The backend bit and dense functionality of a device."""
    return K.key_bits(K.key_parse(K.BACKEND_OF_DEVICE.get(where.type, "PrivateUse1")))


class VersionCounter:
    """The count of writes that all aliases of some memory share."""

    __slots__ = ("value",)

    value: int


def new_counter() -> VersionCounter:
    """A count of no writes yet; without an ``__init__`` 0.15 us less (timeit, CPython 3.11)."""
    counter = _new(VersionCounter)
    counter.value = 0
    return counter


class History:
    """What autograd remembers of a tensor: these defaults, and what says otherwise."""

    __slots__ = ()

    # Class attributes over which instances put their own: a leaf sets two of ten.
    requires_grad = False
    grad: Tensor | None = None
    grad_fn: Node | None = None
    output_nr = 0
    accumulator: Callable[[], Node | None] | None = None  # a weak reference
    hooked: Node | None = None  # the accumulator, if hooks keep it alive
    post_accumulate_hooks: dict[int, Callable[..., object]] | None = None
    retains = False  # whether `retain_grad` has a hook at its node
    # Of views: the version when their history was made; how they were made; the last operator of
    # theirs that changed more than geometry, if nothing else came after it.
    view_version = 0
    creation_meta = ""
    seen_as = ""
    plain: ClassVar[bool] = False  # whether it is itself the node whose only output the tensor is


class ViewHistory(History):
    """The history of views made in one way, of which `autograd.inplace` knows what is forbidden.

    All such views share it until something else is to be remembered of one. Most views of memory
    never mutated have None: no version, and nothing is forbidden.
    """

    __slots__ = ("creation_meta", "seen_as", "view_version")

    def __init__(self, creation_meta: str, view_version: int, seen_as: str) -> None:
        self.creation_meta = creation_meta
        self.view_version = view_version
        self.seen_as = seen_as


class AutogradMeta(History):
    """The history of one tensor, open to change. A tensor without any has None in its place.

    The result of a recorded call has the node itself there (`autograd.node.OpNode`), 0.4 us less.
    """


class LateMethod:
    """Stands in `Tensor` for a method that an operator gives, until it is first asked for."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[str], Callable[..., Any]]) -> None:
        self.name = name
        self.make = make

    def __get__(self, t: Tensor | None, cls: type[Tensor]) -> Callable[..., Any]:
        method = self.make(self.name)
        setattr(Tensor, self.name, method)
        return method if t is None else MethodType(method, t)


class Tensor(TensorSurface):
    """A strided array of one dtype on one device, as PyTorch's: shape, strides, offset, storage.

    `Tensor([1.0])` makes a tensor of the default dtype; use `maquette.tensor` to choose.
    """

    # There is no __getattr__ and no metaclass: with either, CPython 3.11 reads every attribute, or
    # asks every isinstance, the long way (40 ns instead of 5, 100 instead of 35).

    __slots__ = (
        "__dict__", "__weakref__", "_ag", "_base", "_data", "_keys", "_storage", "_vc", "_viewed",
        "meta",
    )  # fmt: skip

    _keys: int
    meta: TensorMeta
    _storage: UntypedStorage
    _data: Array | None
    _vc: VersionCounter | None
    _base: Tensor | None
    _viewed: bool  # set, to True, when the first view of it is made
    _ag: History | None

    fake_mode: object | None = None
    constant: Tensor | None = None
    _class_bits: ClassVar[int] = 0
    _is_param: bool = False
    _inside: int = 0  # how many tensors it wraps, each over the same storage
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

    def __init_subclass__(cls) -> None:
        bits = 0
        handler = getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__)
        if handler is not disabled_torch_dispatch:
            bits |= _PYTHON
        function = getattr(cls.__torch_function__, "__func__", cls.__torch_function__)
        if function is not disabled_torch_function:
            bits |= K.TORCH_FUNCTION
        cls._class_bits = bits

    def __new__(cls, *args: object, **kwargs: object) -> Tensor:
        maker = TENSOR_CONSTRUCTOR[0]
        if maker is None:
            raise RuntimeError("the operators are not loaded: import maquette first")
        return maker(cls, *args, **kwargs)

    # --- geometry --------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return self.meta.size

    @property
    def dtype(self) -> dtype:
        return self.meta.dtype

    @property
    def device(self) -> device:
        return self.meta.device

    @property
    def layout(self) -> layout:
        return self.meta.layout

    @property
    def ndim(self) -> int:
        return self.meta.ndim

    @property
    def itemsize(self) -> int:
        return self.meta.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, ``numel * itemsize``; the storage may be larger."""
        return self.meta.numel * self.meta.itemsize

    def dim(self) -> int:
        return self.meta.ndim

    def numel(self) -> int:
        return self.meta.numel

    nelement = numel
    ndimension = dim

    def element_size(self) -> int:
        return self.meta.itemsize

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of one dimension."""
        return self.meta.size if dim is None else self.meta.shape[self._wrap(dim)]

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The strides in elements, or the stride of one dimension."""
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
        return self.meta.offset

    def is_contiguous(self, memory_format: memory_format | None = None) -> bool:
        if memory_format is None:
            return self.meta.is_contiguous
        return self.meta.is_contiguous_in(memory_format)

    def untyped_storage(self) -> UntypedStorage:
        return self._storage

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there is none."""
        if self._storage.data is None or self.meta.numel == 0:
            return 0
        return self._storage.data_ptr() + self.meta.offset * self.meta.itemsize

    def get_device(self) -> int:
        index = self.meta.device.index
        return -1 if index is None else index

    def is_floating_point(self) -> bool:
        return self.meta.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.meta.dtype.is_complex

    def is_signed(self) -> bool:
        return self.meta.dtype.is_signed

    def is_conj(self) -> bool:
        return bool(self._keys & CONJUGATE)

    def is_neg(self) -> bool:
        return bool(self._keys & NEGATIVE)

    def is_inference(self) -> bool:
        return not self._keys & ADINPLACE

    @property
    def is_cuda(self) -> bool:
        return self.meta.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        return self.meta.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        return self.meta.device.type == "meta"

    @property
    def is_sparse(self) -> bool:
        return self.meta.layout is not strided

    is_quantized: ClassVar[bool] = False
    is_nested: ClassVar[bool] = False
    is_mkldnn: ClassVar[bool] = False

    # --- autograd state --------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        if self._base is not None:
            _take_history(self)
        return bool(self._keys & K.REQUIRES_GRAD)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self._require_grad(flag)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make autograd record operations on this leaf (or stop it)."""
        if tls.st.transforms and tls.st.transforms[-1].explicit:  # type: ignore[attr-defined]  # an interpreter
            raise RuntimeError(
                "You are attempting to call Tensor.requires_grad_() (or perhaps using "
                "torch.autograd.functional.* APIs) inside of a function being transformed by a "
                "functorch transform. This is unsupported, please attempt to use the functorch "
                "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() "
                "outside of a function being transformed instead."
            )
        return self._require_grad(requires_grad)

    def _require_grad(self, requires_grad: bool = True) -> Tensor:
        """`requires_grad_`, in a function under a transform too."""
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        kind = self.meta.dtype
        if requires_grad and not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                f"only Tensors of floating point dtype can require gradients; this is {kind}"
            )
        if requires_grad and self.is_inference() and not tls.st.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed; clone() it first"
            )
        if requires_grad is not self.requires_grad or self._base is not None:
            self._autograd().requires_grad = requires_grad
            tell_requires_grad(self)
        return self

    def _autograd(self) -> AutogradMeta:
        """The autograd state, to be changed."""
        known = self._ag
        if isinstance(known, AutogradMeta):
            return known
        made = self._ag = AutogradMeta()
        if known is not None:
            made.requires_grad = known.requires_grad
            made.creation_meta = known.creation_meta
            made.seen_as = known.seen_as
            made.grad_fn = known.grad_fn
            if self._base is not None:
                made.view_version = known.view_version
        return made

    @property
    def grad_fn(self) -> Node | None:
        if self._base is not None:
            _take_history(self)
        ag = self._ag
        if self._base is not None and self._keys & K.REQUIRES_GRAD:
            made_at = 0 if ag is None else ag.view_version
            refresh = VIEW_HISTORY[0]
            if made_at != self._version and refresh is not None:
                refresh(self)
                ag = self._ag
        return None if ag is None else ag.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        return 0 if self._ag is None else self._ag.output_nr

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` keeps the gradient of this result."""
        return self._ag is not None and self._ag.retains

    @property
    def grad(self) -> Tensor | None:
        return None if self._ag is None else self._ag.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        self._autograd().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    # PyTorch's other name, without the warnings that some read `grad` with.
    _grad = grad

    def _check_grad(self, value: object) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        mine, given = self.meta, value.meta
        if mine.shape != given.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: expected {list(mine.shape)}, "
                f"got {list(given.shape)}"
            )
        if mine.dtype is not given.dtype or mine.device is not given.device:
            raise RuntimeError(
                f"assigned grad has data of a different type: expected {mine}, got {given}"
            )

    @property
    def _version(self) -> int:
        if not self._keys & ADINPLACE:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._vc is None else self._vc.value

    def _version_counter(self) -> VersionCounter:
        counter = self._vc
        if counter is None:
            counter = self._vc = new_counter()
        return counter

    def _is_view(self) -> bool:
        return self._base is not None

    def _alias(self) -> Tensor:
        """`alias`, as each class of tensors makes it."""
        other = wrap(self.meta, self._storage, self._data, self._keys & NOT_INHERITED)
        if self._keys & ADINPLACE:
            other._vc = self._version_counter()
        return other

    @property
    def data(self) -> Tensor:
        """An alias outside autograd with a version counter of its own (T8)."""
        if tls.st.include & WATCHED:
            return self.detach()  # modes learn of it as of an operator
        other = alias(self)
        other._vc = None
        if other.__class__ is Tensor and self.__class__ is not Tensor and not self._is_param:
            return cast(Tensor, _as_subclass(other, self.__class__))
        return other

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Tensor.data must be a Tensor, got {type(value).__name__}")
        kind = value.meta.dtype
        if self.requires_grad and not (kind.is_floating_point or kind.is_complex):
            raise RuntimeError(
                f"data set to a tensor that requires gradients must be floating point or complex "
                f"dtype, got {kind}"
            )
        adopt(self, value)

    def as_subclass(self, cls: type[T]) -> T:
        """An alias of the tensor as an object of ``cls``, in the same place of autograd's graph."""
        if not issubclass(cls, Tensor):
            raise TypeError(f"as_subclass() takes a subclass of Tensor, got {cls!r}")
        with DisableTorchFunctionSubclass():
            return cast(T, _as_subclass(self, cls))

    # --- Python protocol -------------------------------------------------------------

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        if not self.meta.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.meta.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.meta.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        if self.meta.numel != 1:
            what = "no" if self.meta.numel == 0 else "more than one"
            raise RuntimeError(f"Boolean value of Tensor with {what} value is ambiguous")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        kind = self.meta.dtype
        if kind.is_floating_point or kind.is_complex or self.meta.numel != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, element: object) -> bool:
        return bool((self == element).any().item())

    def __repr__(self) -> str:
        printer = PRINTER[0]
        return object.__repr__(self) if printer is None else printer(self)

    def __format__(self, spec: str) -> str:
        if self.meta.ndim == 0 and self.fake_mode is None and not self.is_meta:
            return self.item().__format__(spec)
        if spec:
            raise TypeError(f"unsupported format string {spec!r} for a {type(self).__name__}")
        return repr(self)

    # --- NumPy -----------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Array:
        """The data as an array that shares memory (T51); ``force`` resolves what is in the way."""
        t: Tensor = self
        up_to_date(t)
        if force:
            t = t.detach().cpu().resolve_conj().resolve_neg()
        if t.requires_grad and tls.st.grad_enabled:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if t.is_conj() or t.is_neg():
            what = "conj" if t.is_conj() else "neg"
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {what}ugate bit set. Use "
                f"tensor.resolve_{what}().numpy() instead."
            )
        if t.fake_mode is not None:
            raise RuntimeError(f"numpy(): {t} is fake and has no data")
        if t._data is None or t.meta.device.type != "cpu":
            raise TypeError(
                f"can't convert {t.meta.device} device type tensor to numpy. Use Tensor.cpu() "
                f"first."
            )
        return t._data

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


CONJUGATE = K.functionality_bits(DispatchKey.Conjugate)
NEGATIVE = K.functionality_bits(DispatchKey.Negative)

# What higher layers fill in (an import would run upward).
TENSOR_CONSTRUCTOR: list[Callable[..., Tensor] | None] = [None]
PRINTER: list[Callable[[Tensor], str] | None] = [None]
VIEW_HISTORY: list[Callable[[Tensor], None] | None] = [None]


def array_over(storage: UntypedStorage, meta: TensorMeta) -> Array:
    """The array of a meta over a storage's bytes; RuntimeError where the storage is too short."""
    if meta.storage_bytes > storage._nbytes and meta.numel:
        raise RuntimeError(
            f"{meta} with strides {meta.strides} and offset {meta.offset} needs "
            f"{meta.storage_bytes} bytes, but its storage has {storage._nbytes}"
        )
    if meta.ndim > 64:
        raise NotImplementedError(f"{meta}: NumPy arrays have at most 64 dims, not {meta.ndim}")
    memory = storage.raw()
    if memory.__class__ is not np.ndarray:
        return backend_of(meta.device.type).over(memory, meta)
    size = meta.itemsize
    if meta.numel == 0:
        return np.empty(meta.shape, meta.dtype.numpy)
    # NumPy's `over`, written out: views are made here (make bench, rows `view`).
    strides = tuple([s * size for s in meta.strides])
    return np.ndarray(meta.shape, meta.dtype.numpy, memory, meta.offset * size, strides)


class NoArray:
    """In the place of a tensor's array where there can be none: any use raises, saying why."""

    def __init__(self, why: str, error: type[Exception] = RuntimeError) -> None:
        self._why = why
        self._error = error

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise self._error(self._why)

    if not TYPE_CHECKING:  # a type checker would take it for leave to read any name

        def __getattr__(self, name: str) -> NoReturn:
            raise self._error(self._why)


# --- tensors that are asked first -------------------------------------------------------------
#
# Nobody knows the tensors over a storage, or the views of a base: with a weak reference kept of
# each, `wrap` takes 0.9 us instead of 0.5 (timeit, CPython 3.11). Two rare events concern them: the
# bytes of a storage move, and a base with older views begins to require grad. From the first such
# event on, operators ask their arguments before each call whether they are up to date.


def ask_tensors_first() -> None:
    """Have operators bring their arguments up to date from now on."""
    ask_first(up_to_date)


def tell_requires_grad(t: Tensor, sharing: int = 1) -> None:
    """Set by its history whether ``t`` requires grad, and so whether its views do.

    sharing: how many tensors over the storage, ``t`` among them, need not be told.
    """
    before = t._keys
    _sync_requires_grad(t)
    if t._keys == before or t._base is not None or not hasattr(t, "_viewed"):
        return
    if not held_only(t._storage, sharing + t._inside):
        ask_tensors_first()


def make_view(t: Tensor, origin: Tensor) -> None:
    """Have ``t`` be a view of ``origin``: of its base, if that is a view itself."""
    t._base = base = origin if origin._base is None else origin._base
    base._viewed = True


def _sync_requires_grad(t: Tensor) -> None:
    """A tensor requires grad by itself, by its history, or as the view of a base that does."""
    ag, base = t._ag, t._base
    if (ag is not None and (ag.requires_grad or ag.grad_fn is not None)) or (
        base is not None and base._keys & K.REQUIRES_GRAD
    ):
        t._keys |= K.REQUIRES_GRAD
    else:
        t._keys &= ~K.REQUIRES_GRAD


def up_to_date(t: object) -> None:
    """Have a tensor use the present bytes of its storage, and the present history of its base."""
    if not isinstance(t, Tensor):
        return
    storage = t._storage
    if storage in MOVED and t._data is not None and not _lies_over(t._data, storage, t.meta):
        try:
            t._data = array_over(storage, t.meta)
        except (RuntimeError, NotImplementedError) as error:
            t._data = cast(Array, NoArray(str(error), type(error)))
    if t._base is not None:
        _take_history(t)


def _lies_over(data: Array, storage: UntypedStorage, meta: TensorMeta) -> bool:
    """Whether an array is laid over the bytes that a storage has now, all of them there."""
    if isinstance(data, NoArray) or meta.storage_bytes > storage._nbytes:
        return not meta.numel
    # Memory that an array uses is not given to another, so an address says enough.
    begin = storage.data_ptr()
    return not meta.numel or begin <= data.ctypes.data < begin + storage._nbytes


def _take_history(view: Tensor) -> None:
    """Have a view require grad as its base does now."""
    base = view._base
    if base is None or not (base._keys ^ view._keys) & K.REQUIRES_GRAD:
        return
    kind = view.meta.dtype
    if kind.is_floating_point or kind.is_complex:
        _sync_requires_grad(view)


def resize_storage(t: Tensor, nbytes: int) -> None:
    """Resize the storage of ``t``, which the caller lays anew (`relayout`)."""
    # Over no bytes lie tensors without elements only, which need none.
    alone = t._storage._nbytes == 0 or held_only(t._storage, 1)
    t._storage.resize_(nbytes, shared=not alone)


BYTES_MOVED.append(ask_tensors_first)


def wrap(meta: TensorMeta, storage: UntypedStorage, data: Array | None, keys: int) -> Tensor:
    """A plain tensor of the given parts; nothing is checked."""
    t = _new(Tensor)
    t.meta = meta
    t._keys = keys
    t._storage = storage
    t._data = data
    t._vc = None
    t._base = None
    t._ag = None
    return t


def _converted(t: TensorBase, cls: type) -> object:
    """A result as an object of ``cls``; a fake or another subclass's stays."""
    return _as_subclass(t, cls) if type(t) is Tensor else t


def _as_subclass(t: TensorBase, cls: type) -> object:
    """`Tensor.as_subclass`, where subclasses' handlers are off: an alias of the class."""
    return of_class(cast(Tensor, t).alias(), cls)


def of_class(t: TensorBase, cls: type) -> object:
    """A result as an object of ``cls`` with the same parts; a fake or another subclass's stays."""
    if type(t) is not Tensor:
        return t
    made: Tensor = _new(cls)
    for part in ("meta", "_storage", "_data", "_vc", "_base", "_ag"):
        setattr(made, part, getattr(t, part))
    made._keys = t._keys | made._class_bits
    return made


def from_storage(storage: UntypedStorage, meta: TensorMeta) -> Tensor:
    """A tensor of ``meta`` over ``storage``, with or without data."""
    data = None if storage.data is None else array_over(storage, meta)
    keys = inference_keys(meta) if tls.st.inference else keys_for(meta)
    return wrap(meta, storage, data, keys)


def inference_keys(meta: TensorMeta) -> int:
    """Key set of a tensor born in inference mode: without ADInplaceOrView and Autograd (D14)."""
    return keys_for(meta) & ~(ADINPLACE | K.AUTOGRAD)


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


def adopt(t: Tensor, value: Tensor) -> None:
    """Give ``t`` the meta, storage and keys of ``value``; identity, version and grad stay."""
    keep = t._keys & (K.REQUIRES_GRAD | ADINPLACE | K.AUTOGRAD | type(t)._class_bits)
    t.meta = value.meta
    t._storage = value._storage
    t._data = value._data
    t._keys = (value._keys & NOT_INHERITED) | keep


def relayout(t: Tensor, meta: TensorMeta) -> None:
    """Lay ``t`` anew over its own storage: what in-place views and resize_ do to the object."""
    t.meta = meta
    t._data = None if t._storage.data is None else array_over(t._storage, meta)
    keep = t._keys & (K.REQUIRES_GRAD | CONJUGATE | NEGATIVE | type(t)._class_bits | FAKE)
    t._keys = keys_for(meta) | keep
