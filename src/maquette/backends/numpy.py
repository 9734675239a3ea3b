"""NumPy as the array library of ``cpu``."""

from __future__ import annotations

import contextvars
import importlib
import importlib.util
import threading
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import cast

import numpy

from maquette.aten.common import narrow_floats
from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.tensor.backend import Array, Backend, provide_backend, run_kernel

_SINGLE = numpy.dtype(numpy.float32)


class _Quiet(threading.local):
    """Runs kernels where NumPy does not warn: PyTorch divides by zero and overflows in silence.

    NumPy keeps its error state in a context variable, so each thread has a context of its own whose
    state is "ignore", and the program's state is left alone. Running in it costs 0.02 us a call,
    `numpy.errstate` 0.9 us (timeit around `numpy.add`, CPython 3.11). A context cannot be entered
    twice: a kernel that starts while another one runs, as one of a finalizer or a signal handler
    does, is run in a copy.
    """

    def __init__(self) -> None:
        self._context = contextvars.Context()
        self._context.run(numpy.seterr, all="ignore")
        self.run: Callable[..., object] = self._context.run

    def again(
        self,
        error: RuntimeError,
        function: Callable[..., object],
        /,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Run what `run` refused with ``error``; the error itself where the function raised it."""
        trace = error.__traceback__
        entered = trace is None or trace.tb_next is None  # it was raised before a frame was made
        if not (entered and str(error).startswith("cannot enter context")):
            raise error
        return self._context.copy().run(function, *args, **kwargs)


class NumpyBackend(Backend):
    """NumPy's arrays; SciPy's special functions."""

    name = "NumPy"
    array_type = numpy.ndarray
    namespace = numpy

    def __init__(self) -> None:
        self.runner = _Quiet()

    def over(self, memory: Array, meta: TensorMeta) -> Array:
        size = meta.itemsize
        strides = tuple([s * size for s in meta.strides])
        return numpy.ndarray(meta.shape, meta.dtype.numpy, memory, meta.offset * size, strides)

    def from_host(self, array: Array, on: device | None = None) -> Array:
        """The array itself: it is on the host."""
        return array

    @cached_property
    def special(self) -> ModuleType:
        """SciPy's, without a look aside: erf and its like are on hot paths."""
        return importlib.import_module("scipy.special")

    @cached_property
    def fourier(self) -> ModuleType:
        """SciPy's, which take several rows at once (64 of 4,096 float32: 9.1 to 0.9 ms)."""
        return importlib.import_module("scipy.fft")

    @cached_property
    def loops(self) -> ModuleType | None:  # type: ignore[override]  # found when it is asked for
        """Loops compiled by Numba, where it is installed (the extra ``fast``)."""
        if importlib.util.find_spec("numba") is None:
            return None
        return importlib.import_module("maquette.backends.loops")

    def laid_out(self, meta: TensorMeta, array: Array) -> tuple[Array, Array]:
        """As every library's; what kernels computed in single precision is rounded into place."""
        kind = meta.dtype.numpy
        if kind.itemsize == 2 and array.dtype is _SINGLE and array.flags.c_contiguous:
            made = cast(Array, run_kernel(self.runner, narrow_floats.converted, array, kind))
            strides = tuple([2 * s for s in meta.strides])
            if made.base is None and made.strides == strides and not meta.offset:
                return made, made
        return super().laid_out(meta, array)

    def copy_to(self, target: Array, values: Array) -> None:
        run_kernel(self.runner, narrow_floats.write, target, values)

    def write(self, target: Array, values: Array) -> None:
        narrow_floats.write(target, values)


provide_backend("cpu", NumpyBackend)
