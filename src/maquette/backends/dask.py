"""Dask as an array library: arrays in chunks, computed when they are asked for.

For functional programs alone, by `maquette.compile(..., backend="dask")`: arrays are immutable and
have no strides. Importing this module does not import Dask; making the backend does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from maquette.core.device import device
from maquette.tensor.backend import Array, Backend


class DaskBackend(Backend):
    """The arrays of `dask.array`; special functions are SciPy's, chunk by chunk."""

    name = "Dask"
    mutable = False

    def __init__(self) -> None:
        self.dask = imported()
        self.array_type = self.dask.array.Array
        self.namespace = _Functions(self.dask.array)

    def from_host(self, array: Array, on: device | None = None) -> Array:
        made: Array = self.namespace.asarray(array)
        return made

    def to_host(self, array: Array) -> Array:
        return np.asarray(array)

    def copy_to(self, target: Array, values: Array) -> None:
        raise NotImplementedError("Dask arrays are not changed; use the functional form")

    def assign_at(self, target: Array, index: Any, values: Any) -> Array:
        made: Array = target.copy()  # Dask would change the operand, which others hold
        made[index] = values
        return made

    @property
    def fourier(self) -> Any:
        """Refused: Dask's transforms take whole axes in a chunk, and leave out how to scale."""
        raise NotImplementedError("Fourier transforms need whole axes, and Dask's do not scale")

    def combine_at(self, name: str, target: Array, index: Any, values: Any) -> Array:
        raise NotImplementedError(
            "Dask has no way to combine values at positions, which may be in any chunk"
        )

    def complex_of(self, real: Array, imag: Array) -> Array:
        kind = np.result_type(real.dtype, imag.dtype)
        made: Array = real.astype(kind) + imag.astype(kind) * kind.type(1j)
        return made

    def scan(self, name: str, array: Array, axis: int, kind: Any = None) -> Array:
        steps = {"add": "cumsum", "multiply": "cumprod"}
        if name not in steps:
            raise NotImplementedError(f"Dask has no running {name}")
        values = array if kind is None else array.astype(kind)
        found: Array = getattr(self.namespace, steps[name])(values, axis=axis)
        return found

    def stable_argsort(self, array: Array, axis: int) -> Array:
        raise NotImplementedError("Dask does not sort: it would need all chunks at once")

    def on_host(self, kernel: Callable[..., object], params: Sequence[object]) -> object:
        """Run a special function chunk by chunk; NotImplementedError for what needs it all."""
        if not getattr(kernel, "elementwise", False):
            raise NotImplementedError(
                f"{getattr(kernel, '__name__', 'this kernel')} needs a whole array at once"
            )
        return self.namespace.map_blocks(lambda *blocks: kernel(np, *blocks), *params)

    @property
    def special(self) -> ModuleType:
        """SciPy's special functions, chunk by chunk."""
        return _InChunks(self.namespace)


_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
}


class _Functions(ModuleType):
    """Dask's functions, with NumPy's where Dask has another name: ``add.reduce`` is a sum."""

    def __init__(self, array: ModuleType) -> None:
        super().__init__("maquette's dask.array")
        self._array = array

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Any:
        """An array of one value; Dask's own function does not see a dtype given by position."""
        return self._array.full(shape, value, dtype=dtype)

    def array(self, value: Any, dtype: Any = None, copy: bool = True) -> Any:
        """An array of its own, as NumPy's function makes."""
        made = self._array.asarray(value, dtype=dtype)
        return made.copy() if copy else made

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._array, name, None)
        if found is None:
            found = getattr(np, name)
            if not isinstance(found, (type, float, np.dtype)):  # a function: it would compute
                raise AttributeError(f"Dask has no function {name}")
        if name in _REDUCTIONS:
            found = _Ufunc(found, getattr(self._array, _REDUCTIONS[name]))
        setattr(self, name, found)
        return found


class _Ufunc:
    """A function of elements, and its reduction along axes."""

    def __init__(self, function: Callable[..., Any], reduction: Callable[..., Any]) -> None:
        self._function = function
        self._reduction = reduction

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        return self._function(*arrays, **options)

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **unused: Any
    ) -> Any:
        """Along an axis, several or all (None)."""
        options = {} if dtype is None else {"dtype": dtype}
        return self._reduction(array, axis=axis, keepdims=keepdims, **options)


class _InChunks(ModuleType):
    """SciPy's special functions of arrays in chunks."""

    def __init__(self, namespace: ModuleType) -> None:
        super().__init__("special functions in chunks")
        self._array = namespace

    def __getattr__(self, name: str) -> Callable[..., object]:
        function = getattr(importlib.import_module("scipy.special"), name)
        map_blocks = self._array.map_blocks
        return lambda *arrays: map_blocks(function, *arrays)


def imported() -> ModuleType:
    """Dask with its arrays; NotImplementedError, with what to do, where it is not installed."""
    try:
        dask = importlib.import_module("dask")
        importlib.import_module("dask.array")
    except ImportError as error:
        raise NotImplementedError(
            "Dask is not installed; install it with: pip install 'maquette[dask]'"
        ) from error
    return dask


__all__ = ["DaskBackend", "imported"]
