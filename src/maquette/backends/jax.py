"""JAX as an array library: immutable arrays without strides, so for functional programs alone.

A tensor's values are one JAX array of its shape; its storage holds them flat, in memory order, and
a view reads them anew from there. What mutates a tensor is refused: functionalize the program
first. Values may be tracers of `jax.jit`; then JAX refuses a kernel that asks what they are.
`maquette.library.register_backend("cuda", JaxBackend)` puts the data
of a device into JAX arrays. Importing this module does not import JAX; making the backend does, and
switches JAX to 64-bit types, for indices are int64 and Python's floats float64 here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from math import prod
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from maquette.core.meta import TensorMeta
from maquette.tensor.backend import Array, Backend, Steps, backend_of


class JaxBackend(Backend):
    """The arrays of `jax.numpy`; the special functions of `jax.scipy`."""

    name = "JAX"
    special_module = "jax.scipy.special"
    mutable = False
    eigh_options: ClassVar[dict[str, object]] = {"symmetrize_input": False}

    def __init__(self) -> None:
        jax = _imported()
        self.jax = jax
        self.array_type = jax.Array
        self.namespace = jax.numpy
        errors = jax.errors
        self.without_values = (
            errors.ConcretizationTypeError,
            errors.TracerBoolConversionError,
            errors.TracerIntegerConversionError,
        )
        self.convolutions = _Convolutions(jax)
        self.runner = backend_of("cpu").runner  # for what a kernel computes on the host

    # --- memory ----------------------------------------------------------------------

    def flat_bytes(self, array: Array) -> Array:
        """The memory itself: in elements of the dtype that it was made with."""
        return array

    def address(self, array: Array) -> int:
        """A number of the array's own: JAX tells no addresses."""
        return id(array)

    def laid_out(self, meta: TensorMeta, array: Array) -> tuple[Array, Array]:
        """Flat memory with an array's values as a meta lays them out, and the array."""
        kind = meta.dtype.numpy
        values = array if array.dtype == kind else array.astype(kind)
        order = _memory_order(meta)
        if order is None:
            at = self._positions(meta.shape, meta.strides, meta.offset)
            size = meta.storage_bytes // meta.itemsize
            return self.namespace.zeros(size, kind).at[at].set(values), values
        # Not flat yet: few storages are ever looked at, and `over` flattens.
        return values if order == sorted(order) else values.transpose(order), values

    def over(self, memory: Array, meta: TensorMeta) -> Any:
        if not meta.numel:
            return self.namespace.zeros(meta.shape, meta.dtype.numpy)
        order = _memory_order(meta)
        memory = self._seen_as(memory, meta.dtype.numpy)
        if memory.shape == meta.shape and order == sorted(order or ()):
            return memory
        memory = memory.reshape(-1)
        if order is None or meta.offset or meta.numel != memory.size:
            return memory[self._positions(meta.shape, meta.strides, meta.offset)]
        stored = [meta.shape[d] for d in order]
        laid = memory.reshape(stored)
        return laid if order == sorted(order) else laid.transpose(np.argsort(order).tolist())

    def _positions(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Any:
        """Where each element of a shape and strides, in elements, is in flat memory."""
        found = np.full(shape, offset)
        for d, (n, step) in enumerate(zip(shape, strides, strict=True)):
            alone = [n if i == d else 1 for i in range(len(shape))]
            found += (np.arange(n) * step).reshape(alone)
        return found

    def seen_as(self, array: Array, kind: np.dtype[Any]) -> Array:
        """The memory of a row-major array in elements of another dtype, flat."""
        return self._seen_as(array, kind)

    def _seen_as(self, memory: Array, kind: np.dtype[Any]) -> Array:
        """Flat memory in elements of another dtype."""
        if memory.dtype == kind:
            return memory
        xp, memory = self.namespace, memory.reshape(-1)
        if memory.dtype.kind == "c":
            memory = xp.stack([memory.real, memory.imag], -1).reshape(-1)
        elif memory.dtype.kind == "b":
            memory = memory.astype(np.uint8)
        if kind.kind == "c":
            parts = memory.view(np.dtype(f"f{kind.itemsize // 2}"))
            return self.complex_of(parts[0::2], parts[1::2])
        if kind.kind == "b":
            return memory.view(np.uint8) != 0
        return memory.view(kind)

    # --- values ----------------------------------------------------------------------

    def to_host(self, array: Array) -> Array:
        return np.array(array)  # a copy that can be written

    def copy_to(self, target: Array, values: Array) -> None:
        raise NotImplementedError(
            "JAX arrays cannot be changed, so no operator can mutate a tensor that one holds; "
            "use the functional form, or functionalize the program (maquette.func.functionalize)"
        )

    # --- what libraries do in different ways ------------------------------------------

    def combine_at(self, name: str, target: Any, index: Any, values: Any) -> Array:
        if target.dtype.kind == "b":  # whose sum is "or" and product "and"
            name = {"add": "maximum", "multiply": "minimum"}.get(name, name)
        method = {"maximum": "max", "minimum": "min"}.get(name, name)
        made: Array = getattr(target.at[index], method)(values)
        return made

    def assign_at(self, target: Any, index: Any, values: Any) -> Array:
        made: Array = target.at[index].set(values)
        return made

    def complex_of(self, real: Array, imag: Array) -> Array:
        kind = np.finfo(np.result_type(real.dtype, 1j)).dtype
        made: Array = self.jax.lax.complex(real.astype(kind), imag.astype(kind))
        return made

    def scan(self, name: str, array: Array, axis: int, kind: Any = None) -> Array:
        values = array if kind is None else array.astype(kind)
        steps = {
            "add": "cumsum",
            "multiply": "cumprod",
            "maximum": "cummax",
            "minimum": "cummin",
            "logaddexp": "cumlogsumexp",
        }
        found: Array = getattr(self.jax.lax, steps[name])(values, axis=axis % array.ndim)
        return found

    def stable_argsort(self, array: Array, axis: int) -> Array:
        found: Array = self.namespace.argsort(array, axis=axis, stable=True)
        return found

    def windows(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """The elements that byte strides would lead to, gathered."""
        steps = tuple([s // array.dtype.itemsize for s in strides])
        found: Array = array.reshape(-1)[self._positions(shape, steps)]
        return found

    def on_host(self, kernel: Callable[..., object], params: Sequence[object]) -> object:
        """Run a kernel on NumPy's copies; NotImplementedError for tracers, which have none."""
        if any(isinstance(leaf, self.jax.core.Tracer) for leaf in _leaves(params)):
            raise NotImplementedError(
                f"{getattr(kernel, '__name__', 'this kernel')} computes on the host, with SciPy, "
                f"which a function compiled by JAX cannot do"
            )
        return super().on_host(kernel, params)


class _Convolutions:
    """XLA's convolution, and its transposes."""

    def __init__(self, jax: ModuleType) -> None:
        self._jax = jax

    def correlate(
        self, x: Any, weight: Any, places: Sequence[int], steps: Steps, groups: int
    ) -> Any:
        stride, padding, dilation = steps
        reached = [
            (p - 1) * s + (k - 1) * d + 1
            for p, s, k, d in zip(places, stride, weight.shape[2:], dilation)
        ]
        around = [(p, r - p - n) for p, r, n in zip(padding, reached, x.shape[2:])]
        return self._jax.lax.conv_general_dilated(
            x, weight, stride, around, rhs_dilation=dilation, feature_group_count=groups
        )

    def spread(self, y: Any, weight: Any, space: Sequence[int], steps: Steps, groups: int) -> Any:
        shape = (y.shape[0], weight.shape[1] * groups, *space)
        like = self._jax.ShapeDtypeStruct(shape, y.dtype)
        return self._transposed(
            lambda x: self.correlate(x, weight, y.shape[2:], steps, groups), like, y
        )

    def weight_sums(self, x: Any, y: Any, size: Sequence[int], steps: Steps, groups: int) -> Any:
        like = self._jax.ShapeDtypeStruct((y.shape[1], x.shape[1] // groups, *size), y.dtype)
        return self._transposed(
            lambda weight: self.correlate(x, weight, y.shape[2:], steps, groups), like, y
        )

    def _transposed(self, function: Callable[[Any], Any], like: Any, y: Any) -> Any:
        return self._jax.linear_transpose(function, like)(y)[0]


def _imported() -> ModuleType:
    try:
        jax = importlib.import_module("jax")
    except ImportError as error:
        raise NotImplementedError(
            "JAX is not installed; install it with: pip install 'maquette[jax]'"
        ) from error
    importlib.import_module("jax.scipy.special")
    jax.config.update("jax_enable_x64", True)
    return jax


def _memory_order(meta: TensorMeta) -> list[int] | None:
    """The dims from the outermost in memory; None where memory has gaps or overlaps."""
    order = sorted(range(meta.ndim), key=lambda d: (-meta.strides[d], d))
    order.sort(key=lambda d: meta.shape[d] == 1)  # where dims of size 1 stand says nothing
    expected = prod(meta.shape)
    for d in order:
        if meta.shape[d] == 1:
            continue
        expected //= max(meta.shape[d], 1)
        if meta.strides[d] != expected:
            return None
    return order


def _leaves(values: Sequence[object]) -> list[object]:
    found: list[object] = []
    for v in values:
        found += _leaves(v) if isinstance(v, (list, tuple)) else [v]
    return found
