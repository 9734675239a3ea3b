"""A strict array library: NumPy's numbers in arrays that NumPy does not know.

It stands in for CuPy and JAX where neither is. Its arrays are no `np.ndarray`: NumPy's functions
refuse them, and its own functions refuse NumPy's arrays (`asarray` alone takes them). It has what
CuPy and JAX both have: no methods of ufuncs but ``reduce`` of sums and products, no
`copyto`, no scalars (a sum of everything is a 0-dim array). Memory has strides, so that tensors can
be laid over it, and operands that an operator does not say it mutates are read-only. `register`
puts it on a device type.
"""

from __future__ import annotations

import importlib
import operator
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import all_overloads
from maquette.library import register_backend
from maquette.tensor.backend import Backend

Host = Any  # a NumPy array


class StrictError(TypeError):
    """A kernel did what not every array library can do."""


class Array:
    """A NumPy array that answers to no NumPy function."""

    __slots__ = ("host",)
    __array_ufunc__ = None  # NumPy's operators leave it to ours; its functions refuse

    def __init__(self, host: Host) -> None:
        self.host = host

    def __array__(self, *args: object, **kwargs: object) -> Host:
        raise StrictError("a NumPy function was given an array of another library; use xp")

    def __array_function__(self, function: Callable[..., object], *rest: object) -> object:
        raise StrictError(f"numpy.{function.__name__} of an array of another library; use xp")

    def __getitem__(self, index: object) -> Array:
        return _strict(self.host[_index(index)])  # type: ignore[return-value]  # an array

    def __setitem__(self, index: object, value: object) -> None:
        self.host[_index(index)] = _host(value)  # read-only ones raise, by NumPy's flag

    def __iter__(self) -> Iterator[Array]:
        return iter([_strict(row) for row in self.host])  # type: ignore[misc]  # arrays

    def __len__(self) -> int:
        return len(self.host)

    def __repr__(self) -> str:
        return f"strict({self.host!r})"

    def __hash__(self) -> int:
        raise TypeError("unhashable: arrays change")


_ATTRIBUTES = (
    "shape",
    "dtype",
    "ndim",
    "size",
    "strides",
    "itemsize",
    "nbytes",
    "T",
    "real",
    "imag",
)
_METHODS = (
    "all any argmax argmin argsort astype clip conj copy cumprod cumsum diagonal dot flatten item "
    "max mean min nonzero prod ravel repeat reshape round searchsorted sort squeeze std sum "
    "swapaxes take tolist trace transpose var view"
).split()
_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
_COMPARED = "eq ne lt le gt ge".split()
_UNARY = "neg pos abs invert".split()
_NUMBERS = "bool int float complex index".split()


def _index(index: object) -> object:
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    if isinstance(index, np.ndarray):
        raise StrictError("an index is a NumPy array; make it one of xp")
    return index.host if isinstance(index, Array) else index


def _host(value: object) -> Any:
    """A value for NumPy to compute with; StrictError for a NumPy array, which is not ours."""
    if isinstance(value, Array):
        return value.host
    if isinstance(value, np.ndarray):
        raise StrictError("a NumPy array among arrays of another library; make it one with xp")
    if isinstance(value, (list, tuple)):
        return type(value)([_host(v) for v in value])
    return value


def _strict(value: Any) -> object:
    """What NumPy gave, as arrays of ours; scalars become 0-dim arrays, as other libraries have."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Array(np.asarray(value))
    if isinstance(value, list):
        return [_strict(v) for v in value]
    return tuple([_strict(v) for v in value]) if isinstance(value, tuple) else value


def _function(function: Callable[..., object]) -> Callable[..., object]:
    def strict(*args: object, **kwargs: object) -> object:
        return _strict(function(*map(_host, args), **{k: _host(v) for k, v in kwargs.items()}))

    strict.__name__ = getattr(function, "__name__", "function")
    return strict


def _method(name: str) -> Callable[..., object]:
    def method(self: Array, *args: object, **kwargs: object) -> object:
        function = getattr(self.host, name)
        if "initial" in kwargs:
            raise StrictError("initial= is not for all array libraries")
        found = function(*map(_host, args), **{k: _host(v) for k, v in kwargs.items()})
        return found if name in ("item", "tolist") else _strict(found)

    return method


def _operator(name: str) -> Callable[..., object]:
    def binary(self: Array, *others: object) -> object:
        return _strict(getattr(self.host, name)(*map(_host, others)))

    return binary


def _number(name: str) -> Callable[[Array], object]:
    convert = operator.index if name == "index" else getattr(__import__("builtins"), name)

    def number(self: Array) -> object:
        return convert(self.host)

    return number


def _attribute(name: str) -> property:
    def get(self: Array) -> object:
        value = getattr(self.host, name)
        return Array(value) if isinstance(value, np.ndarray) else value

    return property(get)


for _name in _ATTRIBUTES:
    setattr(Array, _name, _attribute(_name))
for _name in _METHODS:
    setattr(Array, _name, _method(_name))
for _name in _BINARY:
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Array, f"__r{_name}__", _operator(f"__r{_name}__"))
for _name in _COMPARED + _UNARY:
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
for _name in _NUMBERS:
    setattr(Array, f"__{_name}__", _number(_name))


# --- the namespace -----------------------------------------------------------------------------

_MISSING = frozenset(
    "copyto put putmask place nditer ndindex ndenumerate vectorize frompyfunc errstate seterr "
    "asanyarray asfortranarray require matrix memmap char ma rec ctypeslib random save load "
    "frombuffer ndarray generic lib put_along_axis".split()
)


class Ufunc:
    """A universal function: a call, and ``reduce`` of the two that all libraries reduce."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._call = _function(ufunc)
        self.__name__ = ufunc.__name__
        if ufunc in (np.add, np.multiply):
            self.reduce = _function(ufunc.reduce)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._call(*args, **kwargs)


class Namespace(types.ModuleType):
    """What kernels get as ``xp``: a module of NumPy with its functions made strict."""

    def __init__(self, source: types.ModuleType) -> None:
        super().__init__(f"strict.{source.__name__}")
        self._source = source

    def __getattr__(self, name: str) -> object:
        if name in _MISSING or name.startswith("_"):
            raise AttributeError(f"{self.__name__} has no {name!r}; not all array libraries do")
        found = getattr(self._source, name)
        if isinstance(found, types.ModuleType):
            made: object = Namespace(found)
        elif isinstance(found, np.ufunc):
            made = Ufunc(found)
        elif isinstance(found, type) or not callable(found):
            made = found  # dtypes, constants, errors
        else:
            made = _function(found)
        setattr(self, name, made)
        return made


def _taking_host(function: Callable[..., object]) -> Callable[..., Array]:
    """`asarray` and `array`, which alone take NumPy arrays."""

    def make(value: object, *args: object, **kwargs: object) -> Array:
        host = value if isinstance(value, np.ndarray) else _host(value)
        made = _strict(function(host, *args, **kwargs))
        assert isinstance(made, Array)
        return made

    return make


# --- the backend -------------------------------------------------------------------------------


class StrictBackend(Backend):
    """The strict library as what holds a device's data."""

    name = "the strict library"
    array_type = Array

    def __init__(self) -> None:
        xp = self.namespace = Namespace(np)
        xp.__dict__.update(asarray=_taking_host(np.asarray), array=_taking_host(np.array))
        self._mutated: dict[object, frozenset[int]] | None = None

    def run(self, on: device, function: Callable[..., object], /, *args: object) -> object:
        """Call a kernel with operands that are read-only, but for those that it may mutate."""
        if self._mutated is None:
            self._mutated = _mutated_arguments()
        open_ = self._mutated.get(function, frozenset())
        with np.errstate(all="ignore"):
            return function(*[a if i in open_ else _closed(a) for i, a in enumerate(args, -1)])

    def zeros(self, nbytes: int, on: device) -> Any:
        return Array(np.zeros(nbytes, np.uint8))

    def address(self, array: Any) -> int:
        return int(array.host.ctypes.data)

    def flat_bytes(self, array: Any) -> Any:
        return Array(array.host.ravel(order="K").view(np.uint8))

    def over(self, memory: Any, meta: TensorMeta) -> Any:
        if not meta.numel:
            return Array(np.empty(meta.shape, meta.dtype.numpy))
        steps = tuple([s * meta.itemsize for s in meta.strides])
        at = meta.offset * meta.itemsize
        return Array(np.ndarray(meta.shape, meta.dtype.numpy, memory.host, at, steps))

    def from_host(self, array: Host, on: device | None = None) -> Any:
        return Array(array.copy(order="K"))

    def to_host(self, array: Any) -> Host:
        host: Host = array.host.copy(order="K")
        return host

    def copy_to(self, target: Any, values: Any) -> None:
        with np.errstate(all="ignore"):
            np.copyto(target.host, values.host, casting="unsafe")

    def combine_at(self, name: str, target: Any, index: Any, values: Any) -> Any:
        getattr(np, name).at(target.host, _index(index), _host(values))
        return target

    def complex_of(self, real: Any, imag: Any) -> Any:
        made = np.empty(real.shape, np.result_type(real.dtype, 1j))
        made.real, made.imag = real.host, imag.host
        return Array(made)

    def windows(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return Array(np.lib.stride_tricks.as_strided(array.host, shape, strides, writeable=False))

    @cached_property
    def special(self) -> types.ModuleType:
        """SciPy's, made strict."""
        return Namespace(importlib.import_module("scipy.special"))


def _closed(value: object) -> object:
    """An operand that cannot be written."""
    if isinstance(value, list):
        return [_closed(v) for v in value]
    if not isinstance(value, Array):
        return value
    host = value.host.view()
    host.flags.writeable = False
    return Array(host)


def _mutated_arguments() -> dict[object, frozenset[int]]:
    """Per array kernel, the positions of arguments that some operator of it mutates."""
    found: dict[object, frozenset[int]] = {}
    for op in all_overloads():
        if op.array_kernel is not None:
            found[op.array_kernel] = found.get(op.array_kernel, frozenset()) | _mutated(op)
    return found


def _mutated(op: OpOverload) -> frozenset[int]:
    arguments = op._schema.arguments
    return frozenset([i for i, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write])


def register(device_type: str = "cuda") -> None:
    """Put the strict library where data of a device type lives."""
    register_backend(device_type, StrictBackend)
