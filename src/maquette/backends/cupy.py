"""CuPy as the array library of ``cuda``: the extra ``cuda`` and an NVIDIA device.

Importing this module does not import CuPy; the first tensor with data on cuda does. CuPy 14 or
later, whose numbers promote as NumPy 2's do. What it has no arrays of (bfloat16, float8) is refused
with advice. What it has no function for (LAPACK's rarer factorizations, some special functions,
products and bytes at repeated positions) is computed on the host, as `array_libraries` says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.tensor.backend import Array, Backend, backend_of, provide_backend

_FLOATS_OF_8_BITS = {
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
}


class CupyBackend(Backend):
    """CuPy's arrays, with strides over memory on a CUDA device."""

    name = "CuPy"
    special_module = "cupyx.scipy.special"
    unsupported = frozenset({"bfloat16", *_FLOATS_OF_8_BITS})

    def __init__(self) -> None:
        cupy = self.namespace = _imported()
        self.array_type = cupy.ndarray
        self.runner = backend_of("cpu").runner  # for what a kernel computes on the host

    def run(self, on: device, function: Callable[..., object], /, *args: object) -> object:
        """Call a kernel with its device as CuPy's current one."""
        with self._current(on):
            return super().run(on, function, *args)

    def _current(self, on: device | None) -> Any:
        index = on.index if on is not None and on.type == "cuda" else None
        if index is None:
            index = self.namespace.cuda.Device().id
        return self.namespace.cuda.Device(index)

    # --- memory ----------------------------------------------------------------------

    def zeros(self, nbytes: int, on: device) -> Array:
        with self._current(on):
            return super().zeros(nbytes, on)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def over(self, memory: Any, meta: TensorMeta) -> Array:
        size, kind = meta.itemsize, meta.dtype.numpy
        with self._current(meta.device):
            if not meta.numel:
                nothing: Array = self.namespace.empty(meta.shape, kind)
                return nothing
            strides = tuple([s * size for s in meta.strides])
            begin = memory.data + meta.offset * size
            view: Array = self.namespace.ndarray(meta.shape, kind, begin, strides)
            return view

    # --- values ----------------------------------------------------------------------

    def from_host(self, array: Array, on: device | None = None) -> Array:
        if array.dtype.name in self.unsupported:
            raise self.refusal(array.dtype.name)
        with self._current(on):
            made: Array = self.namespace.asarray(array)
            return made

    def to_host(self, array: Array) -> Array:
        found: Array = self.namespace.asnumpy(array, order="A")
        return found

    def copy_to(self, target: Array, values: Array) -> None:
        if values.dtype.kind == "c" and target.dtype.kind != "c":
            values = values.real
        with self.namespace.cuda.Device(target.device.id):  # type: ignore[attr-defined]  # CuPy's
            super().copy_to(target, values)

    # --- what libraries do in different ways ------------------------------------------

    def combine_at(self, name: str, target: Any, index: Any, values: Any) -> Array:
        """By atomic operations where CUDA has them for the dtype; elsewhere on the host."""
        summed = name in ("add", "subtract")
        if summed and target.dtype == np.int64:  # modulo 2**64 it is the same sum
            given = self.namespace.asarray(values, np.int64).view(np.uint64)
            getattr(self.namespace, name).at(target.view(np.uint64), index, given)
        elif target.dtype.name in (_SUMMED if summed else _COMPARED.get(name, ())):
            getattr(self.namespace, name).at(target, index, values)
        else:
            host = self.to_host(target)
            getattr(np, name).at(host, self._at_host(index), self._at_host(values))
            target[...] = self.namespace.asarray(host)
        made: Array = target
        return made


_SUMMED = frozenset("float16 float32 float64 complex64 complex128 int32 uint32 uint64".split())
_ORDERED = frozenset("float32 float64 int32 uint32 int64 uint64".split())
_COMPARED = {"maximum": _ORDERED, "minimum": _ORDERED}


def _imported() -> ModuleType:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise NotImplementedError(
            "no array library holds data on 'cuda': CuPy is not installed. Install it with "
            "pip install 'maquette[cuda]', or name another with maquette.library.register_backend; "
            "fake tensors (FakeTensorMode) need none"
        ) from error
    if not cupy.is_available():
        raise NotImplementedError(
            "no array library holds data on 'cuda': CuPy finds no CUDA device here; fake tensors "
            "(FakeTensorMode) need none"
        )
    if int(cupy.__version__.partition(".")[0]) < 14:
        raise NotImplementedError(
            f"CuPy 14 or later is needed, which promotes as NumPy 2 does; got {cupy.__version__}"
        )
    return cupy


provide_backend("cuda", CupyBackend)
