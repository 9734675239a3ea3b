"""Where data lives: the array library behind a device type, and how another one takes its place.

A `Backend` is what storages, tensors and array kernels ask of an array library: memory, arrays laid
over it, the namespace ``xp`` that kernels compute with, and the few things that array libraries do
in different ways. The one idea: kernels are handed arrays of one library only, and what crosses
from one library to another crosses here, through the host. NumPy's backend, CuPy's and JAX's are in
`maquette.backends`; `maquette.library.register_backend` takes any other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides

Array = npt.NDArray[Any]  # to a type checker; the class is the library's own


class Runner(Protocol):
    """How kernels of an array library are run."""

    def run(self, function: Callable[..., object], /, *args: object, **kwargs: object) -> object:
        """Call the function where floating point errors pass in silence, as PyTorch's do.

        RuntimeError where this thread is in such a call already: then `again` runs it.
        """

    def again(
        self,
        error: RuntimeError,
        function: Callable[..., object],
        /,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Call a function that `run` refused; ``error`` itself if it was the function's."""


def run_kernel(
    runner: Runner, function: Callable[..., object], /, *args: object, **kwargs: object
) -> object:
    """Run a kernel, also while another one runs: finalizers and signal handlers use tensors too."""
    try:
        return runner.run(function, *args, **kwargs)
    except RuntimeError as error:
        return runner.again(error, function, *args, **kwargs)


class PlainRunner:
    """For libraries that never warn: just calls."""

    def run(self, function: Callable[..., object], /, *args: object, **kwargs: object) -> object:
        """Call the function."""
        return function(*args, **kwargs)

    def again(
        self, error: RuntimeError, function: Callable[..., object], /, *args: object, **kw: object
    ) -> object:
        """Raise the error: `run` refuses nothing."""
        raise error


Steps = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Stride, padding and dilation."""


class Convolutions(Protocol):
    """A convolution's map and its two adjoints, on (batch, channels, *space) arrays.

    places: the spatial shape of the result. steps: stride, padding and dilation. The last window
    may hang over the space: what is not there is zero.
    """

    def correlate(
        self, x: Any, weight: Any, places: Sequence[int], steps: Steps, groups: int
    ) -> Any:
        """Each place's window times the weight: (batch, weight's rows, *places)."""

    def spread(self, y: Any, weight: Any, space: Sequence[int], steps: Steps, groups: int) -> Any:
        """The adjoint of `correlate` in its input, of a spatial shape."""

    def weight_sums(self, x: Any, y: Any, size: Sequence[int], steps: Steps, groups: int) -> Any:
        """The adjoint of `correlate` in its weight, of a window's shape."""


_IMPORTING = 3e5  # microseconds that importing compiled loops takes


class Backend:
    """The array library that holds the data of a device type.

    Subclasses give `name`, `array_type`, `namespace` and what their library does in its own way;
    the methods here are written for libraries with NumPy's functions and memory that has strides.
    """

    name: ClassVar[str]
    """What errors call the library."""
    special_module: ClassVar[str] = ""
    """The module of special functions (erf, gamma ...) on its arrays; empty: SciPy's serve."""
    special_names: ClassVar[Mapping[str, str]] = {}
    """What that module calls functions that have another name in SciPy."""
    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Names of dtypes that the library has no arrays of."""
    mutable: ClassVar[bool] = True
    """Whether elements of an array can be assigned; else only functional operators run."""

    eigh_options: ClassVar[dict[str, object]] = {}
    """What `linalg.eigh` must be told so that it reads one triangle alone."""

    without_values: tuple[type[Exception], ...] = ()
    """What its arrays raise when they are asked for values that are not there yet."""

    convolutions: Convolutions | None = None
    """Convolutions of the library's own; None: they are products of windows with the weight."""

    loops: ModuleType | None = None
    """Compiled loops over large arrays (`maquette.backends.loops`); None: there are none."""

    _small_work = 0.0

    def loops_if_worth(self, microseconds: float) -> ModuleType | None:
        """`loops` for small arrays, whose plain path takes so long: if they are imported already,
        or once all that asked here would have taken as long as importing.

        Only where a loop gives the plain path's bits, as who asked before must not be seen.
        """
        self._small_work += microseconds
        if self._small_work > _IMPORTING:
            return self.loops
        loops: ModuleType | None = self.__dict__.get("loops")
        return loops

    array_type: type
    namespace: ModuleType
    runner: Runner = PlainRunner()

    def run(self, on: device, function: Callable[..., object], /, *args: object) -> object:
        """Call a kernel for data on a device."""
        return run_kernel(self.runner, function, *args)

    def computed_once(self, *arrays: Array) -> tuple[Array, ...]:
        """Arrays that a compiler is not to compute again wherever they are used."""
        return arrays

    # --- memory ----------------------------------------------------------------------

    def zeros(self, nbytes: int, on: device) -> Array:
        """New memory on a device: a flat array of uint8, all zero."""
        zeros: Array = self.namespace.zeros(nbytes, np.uint8)
        return zeros

    def flat_bytes(self, array: Array) -> Array:
        """The memory of a dense array as a flat array of uint8 that shares it, in memory order."""
        return array.ravel(order="K").view(np.uint8)

    def address(self, array: Array) -> int:
        """Where the first byte of an array is."""
        return int(array.ctypes.data)

    def over(self, memory: Array, meta: TensorMeta) -> Array:
        """The array of a meta over memory, sharing it; the caller knows that it is long enough."""
        raise NotImplementedError(f"{self.name} arrays have no strides to lay over memory")

    def laid_out(self, meta: TensorMeta, array: Array) -> tuple[Array, Array]:
        """New memory with an array's values as a meta lays them out, and the array over it."""
        memory = self.zeros(meta.storage_bytes, meta.device)
        # Where there are no elements the offset may lie beyond the end of no memory.
        target = self.over(memory, meta if meta.numel else meta.fresh(meta.shape))
        if meta.numel:
            self.copy_to(target, array)
        return memory, target

    # --- values ----------------------------------------------------------------------

    def from_host(self, array: npt.NDArray[Any], on: device | None = None) -> Array:
        """A copy of a NumPy array as an array of this library, on a device or on its default."""
        made: Array = self.namespace.asarray(array)
        return made

    def to_host(self, array: Array) -> npt.NDArray[Any]:
        """A NumPy array with the values of one of this library."""
        return np.asarray(array)

    def as_array(self, value: object) -> Array:
        """What a kernel gave as an array: itself, or a scalar or NumPy array made one."""
        if isinstance(value, self.array_type):
            return value  # type: ignore[return-value]  # its arrays
        return self.from_host(np.asarray(value))

    def copy_to(self, target: Array, values: Array) -> None:
        """Write values to an array, broadcasting, converting to its type whatever is lost."""
        target[...] = values if values.dtype == target.dtype else values.astype(target.dtype)

    def write(self, target: Array, values: Array) -> None:
        """`copy_to`, called where a kernel runs."""
        self.copy_to(target, values)

    def seen_as(self, array: Array, kind: np.dtype[Any]) -> Array:
        """The memory of a row-major array in elements of another dtype, flat."""
        return np.ascontiguousarray(array).reshape(-1).view(kind)

    # --- what libraries do in different ways --------------------------------------------

    def combine_at(self, name: str, target: Array, index: Any, values: Any) -> Array:
        """Combine values with the elements at positions, in turn; the array to go on with.

        name: "add", "subtract", "multiply", "maximum" or "minimum".
        """
        getattr(self.namespace, name).at(target, index, values)
        return target

    def assign_at(self, target: Array, index: Any, values: Any) -> Array:
        """Assign to elements; the array to go on with."""
        target[index] = values
        return target

    def spread_at(self, target: Array, mask: Array, values: Array) -> Array:
        """The first of flat values, in order, assigned where a mask holds."""
        return self.assign_at(target, mask, values[: int(mask.sum())])

    def compressed_at(self, values: Array, mask: Array, size: int, fill: Any) -> Array:
        """The first ``size`` elements where a mask holds, in order, filled up."""
        xp, found = self.namespace, values[mask][:size]
        rest: Array = xp.full((size - found.shape[0],), fill, values.dtype)
        joined: Array = xp.concatenate([found, rest])
        return joined

    def repeated(
        self, start: int, stop: Any, step: Callable[..., Any], state: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """``state = step(i, state)`` for each i from ``start`` on below ``stop``."""
        for i in range(start, int(stop)):
            state = step(i, state)
        return state

    def complex_of(self, real: Array, imag: Array) -> Array:
        """The complex array of two parts of one shape and dtype."""
        made: Array = self.namespace.empty(real.shape, np.result_type(real.dtype, 1j))
        made.real, made.imag = real, imag
        return made

    def scan(self, name: str, array: Array, axis: int, kind: Any = None) -> Array:
        """The running sum ("add"), product, maximum, ... along an axis, computed in a dtype."""
        values = array if kind is None else array.astype(kind)
        if name in ("add", "multiply"):
            summed: Array = (values.cumsum if name == "add" else values.cumprod)(axis=axis)
            return summed
        return self._doubling_scan(getattr(self.namespace, name), values, axis)

    def _doubling_scan(self, combine: Callable[..., Array], values: Array, axis: int) -> Array:
        """Each element combined with the one 1, then 2, then 4 ... before it."""
        xp, step = self.namespace, 1
        found = xp.moveaxis(values, axis, 0)
        while step < found.shape[0]:
            found = xp.concatenate([found[:step], combine(found[step:], found[:-step])])
            step *= 2
        return xp.moveaxis(found, 0, axis)

    def stable_argsort(self, array: Array, axis: int) -> Array:
        """The order of elements along an axis, equal ones as they stand."""
        found: Array = self.namespace.argsort(array, axis=axis, kind="stable")
        return found

    def windows(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """An array of another shape and byte strides over the memory of one; only read."""
        kind, as_strided = array.dtype, self.namespace.lib.stride_tricks.as_strided
        if kind.name != "complex32":
            view: Array = as_strided(array, shape, strides)
            return view
        # NumPy goes by a letter for each type here, and does not know the one of complex32.
        return cast(Array, as_strided(array.view("u4"), shape, strides).view(kind))

    def on_host(self, kernel: Callable[..., object], params: Sequence[object]) -> object:
        """Run a kernel on NumPy's copies of its operands, and bring the results back."""
        host = backend_of("cpu")
        results = run_kernel(host.runner, kernel, host.namespace, *map(self._at_host, params))
        return self._from_kernel(results)

    def _at_host(self, value: object) -> object:
        if isinstance(value, self.array_type):
            return self.to_host(value)  # type: ignore[arg-type]  # its arrays
        if isinstance(value, (list, tuple)):
            return type(value)([self._at_host(v) for v in value])
        return value

    def _from_kernel(self, value: object) -> object:
        if isinstance(value, (np.ndarray, np.generic)):
            return self.from_host(np.asarray(value))
        if isinstance(value, (list, tuple)):
            return type(value)([self._from_kernel(v) for v in value])
        return value

    # --- what goes with the namespace ------------------------------------------------

    @cached_property
    def special(self) -> ModuleType:
        """The special functions on its arrays, with SciPy's names."""
        return _SpecialFunctions(self)

    @cached_property
    def fourier(self) -> Any:
        """Fourier transforms of its arrays, with the names and parameters of ``numpy.fft``."""
        return self.namespace.fft

    def refusal(self, kind: str) -> NotImplementedError:
        """The error for a dtype that the library has no arrays of, by its name."""
        return NotImplementedError(
            f"{self.name} has no {kind} arrays; convert to a dtype that it has, or compute on cpu"
        )

    def check_dtype(self, kind: dtype) -> None:
        """NotImplementedError for a dtype that the library has no arrays of."""
        if kind.name in self.unsupported:
            raise self.refusal(kind.name)


class _SpecialFunctions(ModuleType):
    """A backend's special functions; those that its library lacks are SciPy's, on the host."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(f"special functions of {backend.name}")
        self._backend = backend
        home = backend.special_module
        self._own = importlib.import_module(home) if home else ModuleType("none")

    def __getattr__(self, name: str) -> Callable[..., object]:
        own_name = self._backend.special_names.get(name, name)
        found: Callable[..., object] | None = getattr(self._own, own_name, None)
        if found is None:
            found = self._host_function(name)
        setattr(self, name, found)
        return found

    def _host_function(self, name: str) -> Callable[..., object]:
        backend = self._backend
        scipy_function = getattr(importlib.import_module("scipy.special"), name)

        def kernel(xp: ModuleType, *arrays: object) -> object:
            return scipy_function(*arrays)

        kernel.__name__ = name
        return lambda *arrays: backend.on_host(kernel, arrays)


def is_array(value: object) -> TypeGuard[Array]:
    """Whether a kernel's value is an array of some library, or an element of one."""
    return hasattr(value, "astype")


def byte_strides(array: Array) -> tuple[int, ...]:
    """The strides of an array in bytes; row-major where its library tells none."""
    told: tuple[int, ...] | None = getattr(array, "strides", None)
    if told is not None:
        return told
    return tuple([s * array.dtype.itemsize for s in contiguous_strides(array.shape)])


Provider = Callable[[], Backend]
_PROVIDERS: dict[str, Provider] = {}
_BACKENDS: dict[str, Backend] = {}
_BY_NAMESPACE: dict[object, Backend] = {}


def provide_backend(device_type: str, provider: Provider) -> None:
    """Have ``provider`` make the backend of a device type when data is first put there."""
    _PROVIDERS[device_type] = provider
    _BACKENDS.pop(device_type, None)


def backend_of(device_type: str) -> Backend:
    """The backend of a device type; NotImplementedError, with what to do, where there is none."""
    found = _BACKENDS.get(device_type)
    if found is None:
        found = _made(device_type)
    return found


def _made(device_type: str) -> Backend:
    provider = _PROVIDERS.get(device_type)
    if provider is None:
        raise NotImplementedError(
            f"no array library holds data on '{device_type}'; data lives on "
            f"{', '.join(sorted(_PROVIDERS))}. Fake tensors (FakeTensorMode) need none; "
            f"maquette.library.register_backend names one"
        )
    made = _BACKENDS[device_type] = provider()
    introduce(made)
    return made


def known_backends() -> list[Backend]:
    """The backends that have been made so far."""
    return list(_BY_NAMESPACE.values())


def introduce(backend: Backend) -> None:
    """Let kernels find a backend by its namespace, also one that no device has."""
    _BY_NAMESPACE[backend.namespace] = backend


def backend_for(xp: object) -> Backend:
    """The backend whose namespace ``xp`` is, as a kernel asks; NotImplementedError if none is."""
    found = _BY_NAMESPACE.get(xp)
    if found is None:
        raise NotImplementedError(
            f"{getattr(xp, '__name__', xp)!r} is the namespace of no backend; known: "
            f"{', '.join(sorted(b.name for b in _BY_NAMESPACE.values()))}"
        )
    return found
