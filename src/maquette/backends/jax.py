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
from functools import cached_property
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
    special_names: ClassVar[dict[str, str]] = {"psi": "digamma"}
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
        self.convolutions = _Convolutions(jax, self.computed_once)
        self.runner = backend_of("cpu").runner  # for what a kernel computes on the host

    @cached_property
    def special(self) -> ModuleType:
        """The special functions on its arrays, with SciPy's names."""
        return _Special(self.jax, super().special)

    @property
    def compiler_options(self) -> dict[str, str]:
        """What `jax.jit` is told: on the cpu, that barriers stay until machine code is made.

        XLA drops them there before it fuses operators; a value is then computed anew in each of the
        loops that use it (a small CNN's step 9.3 ms in place of 3.1, process_time).
        """
        on_cpu = self.jax.default_backend() == "cpu"
        return {"xla_disable_hlo_passes": "cse_barrier_expander"} if on_cpu else {}

    def computed_once(self, *arrays: Array) -> tuple[Array, ...]:
        """Arrays behind a barrier, on the cpu: elsewhere XLA knows best."""
        if self.jax.default_backend() != "cpu":
            return arrays
        made: tuple[Array, ...] = self.jax.lax.optimization_barrier(arrays)
        return made

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
        masked = _lone_mask(index)
        if masked is not None:
            combine = getattr(self.namespace, name)
            return self._at_mask(target, *masked, values, combine)
        made: Array = getattr(target.at[index], method)(values)
        return made

    def assign_at(self, target: Any, index: Any, values: Any) -> Array:
        masked = _lone_mask(index)
        if masked is not None:
            return self._at_mask(target, *masked, values, lambda old, new: new)
        made: Array = target.at[index].set(values)
        return made

    def _at_mask(
        self, target: Any, mask: Any, axis: int, values: Any, combine: Callable[..., Any]
    ) -> Array:
        """Elements combined with values where a mask of some dims holds, whose count is unknown."""
        xp, after = self.namespace, target.ndim - axis - mask.ndim
        values = xp.asarray(values, target.dtype)
        dims = [
            *range(axis, axis + mask.ndim),
            *range(axis),
            *range(target.ndim - after, target.ndim),
        ]
        rest = (*target.shape[:axis], *target.shape[target.ndim - after :])
        rows = target.transpose(dims).reshape(mask.size, *rest)
        count = values.shape[-after - 1] if values.ndim > after else 1
        if not count:
            return target
        lined = (*rest[:axis], count, *rest[axis:])
        given = xp.moveaxis(xp.broadcast_to(values, lined), axis, 0)
        flat = mask.reshape(-1)
        turns = xp.clip(xp.cumsum(flat) - 1, 0, count - 1)
        held = flat.reshape(-1, *[1] * len(rest))
        rows = xp.where(held, combine(rows, given[turns]), rows)
        made: Array = rows.reshape([target.shape[d] for d in dims]).transpose(np.argsort(dims))
        return made

    def spread_at(self, target: Any, mask: Any, values: Any) -> Array:
        return self._at_mask(target, mask, 0, values.reshape(-1), lambda old, new: new)

    def compressed_at(self, values: Any, mask: Any, size: int, fill: Any) -> Array:
        xp, flat = self.namespace, mask.reshape(-1)
        # What is beyond the size, or masked out, goes to a place that is cut off.
        place = xp.where(flat, xp.minimum(xp.cumsum(flat) - 1, size), size)
        made: Array = xp.full(size + 1, fill, values.dtype).at[place].set(values.reshape(-1))
        return made[:size]

    def repeated(
        self, start: int, stop: Any, step: Callable[..., Any], state: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        found: tuple[Array, ...] = self.jax.lax.fori_loop(start, stop, step, state)
        return found

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


class _Special(ModuleType):
    """Special functions with SciPy's names: those of `jax.scipy.special`, mended where they err."""

    def __init__(self, jax: ModuleType, others: ModuleType) -> None:
        super().__init__("special functions of JAX")
        self._jax = jax
        self._others = others

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self._others, name)
        return found

    def zeta(self, x: Any, q: Any) -> Any:
        """Hurwitz's, whose series JAX begins at ``q``, which fails far below zero."""
        xp, own = self._jax.numpy, importlib.import_module("jax.scipy.special").zeta
        kind = xp.result_type(x, q)
        x, q = xp.broadcast_arrays(xp.asarray(x, xp.float64), xp.asarray(q, xp.float64))
        below = xp.where(xp.isfinite(q) & (q < 0), xp.ceil(-q), 0)

        def step(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            at, summed = state
            low = at < 0
            return xp.where(low, at + 1, at), xp.where(low, summed + at**-x, summed)

        count = below.max(initial=0).astype(xp.int64)
        at, summed = self._jax.lax.fori_loop(0, count, step, (q, xp.zeros_like(q)))
        found = summed + xp.where(at == xp.inf, 0.0, own(x, at))
        # Infinitely high powers of what is below, at and above one.
        limit = xp.where(q > 1, 0.0, xp.where(q == 1, 1.0, xp.where(q > 0, xp.inf, xp.nan)))
        return xp.where(x == xp.inf, limit, found).astype(kind)


class _Convolutions:
    """XLA's convolution, and its transposes; on the cpu, sums of products where those are slow."""

    def __init__(self, jax: ModuleType, computed_once: Callable[..., tuple[Any, ...]]) -> None:
        self._jax = jax
        self._computed_once = computed_once

    def correlate(
        self, x: Any, weight: Any, places: Sequence[int], steps: Steps, groups: int
    ) -> Any:
        short = self._is_short(weight.shape, steps, weight.dtype)
        forward = self._summed if short else self._convolved
        return self._computed_once(forward(x, weight, places, steps, groups))[0]

    def spread(self, y: Any, weight: Any, space: Sequence[int], steps: Steps, groups: int) -> Any:
        shape = (y.shape[0], weight.shape[1] * groups, *space)
        size = weight.shape[2:]
        parted = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
        turned = parted.swapaxes(1, 2)[(..., *[slice(None, None, -1)] * len(size))]
        turned = turned.reshape(shape[1], parted.shape[1], *size)
        if self._is_short(turned.shape, steps, weight.dtype):
            stride, padding, dilation = steps
            back = tuple([(k - 1) * d - p for k, d, p in zip(size, dilation, padding)])
            made = self._summed(y, turned, space, (stride, back, dilation), groups)
            return self._computed_once(made)[0]
        like = self._jax.ShapeDtypeStruct(shape, y.dtype)
        return self._transposed(
            lambda x: self._convolved(x, weight, y.shape[2:], steps, groups), like, y
        )

    def weight_sums(self, x: Any, y: Any, size: Sequence[int], steps: Steps, groups: int) -> Any:
        like = self._jax.ShapeDtypeStruct((y.shape[1], x.shape[1] // groups, *size), y.dtype)
        short = groups > 1 and self._is_short(like.shape, steps, y.dtype)
        forward = self._summed if short else self._convolved
        return self._transposed(
            lambda weight: forward(x, weight, y.shape[2:], steps, groups), like, y
        )

    def _is_short(self, shape: Sequence[int], steps: Steps, kind: Any) -> bool:
        """Whether each result is a sum of few products of neighbours, on the cpu.

        XLA makes one loop of the products there: of 3 channels of 4x112x112 to 64 by 3x3 4.0 ms in
        place of 19.5; of 8x32x16x16, each channel by itself, 0.10 for 2.6; of 16 channels in 4
        groups the weight's sums 0.4 for 24 (process_time).
        """
        if self._jax.default_backend() != "cpu" or kind not in (np.float32, np.float64):
            return False
        return prod(shape[1:]) <= _FEW and prod(shape[2:]) > 1 and set(steps[0]) == {1}

    def _convolved(
        self, x: Any, weight: Any, places: Sequence[int], steps: Steps, groups: int
    ) -> Any:
        stride, _, dilation = steps
        around = [(low, high) for low, high, _ in _around(x, weight, places, steps)[2:]]
        return self._jax.lax.conv_general_dilated(
            x, weight, stride, around, rhs_dilation=dilation, feature_group_count=groups
        )

    def _summed(self, x: Any, weight: Any, places: Sequence[int], steps: Steps, groups: int) -> Any:
        """The sum over channels and places in the window of shifted inputs times a weight each."""
        xp, lax = self._jax.numpy, self._jax.lax
        padded = lax.pad(x, xp.zeros((), x.dtype), _around(x, weight, places, steps))
        count, (features, channels, *size) = x.shape[0], weight.shape
        inputs = padded.reshape(count, groups, 1, channels, *padded.shape[2:])
        weights = weight.reshape(groups, features // groups, channels, *size, *[1] * len(size))
        total: Any = 0
        for channel, *at in np.ndindex(channels, *size):
            here = [slice(i * d, i * d + n) for i, d, n in zip(at, steps[2], places)]
            shifted = inputs[(slice(None), slice(None), slice(None), channel, *here)]
            total = total + shifted * weights[(slice(None), slice(None), channel, *at)]
        made: Any = total.reshape(count, features, *places)
        return made

    def _transposed(self, function: Callable[[Any], Any], like: Any, y: Any) -> Any:
        return self._jax.linear_transpose(function, like)(y)[0]


_FEW = 48  # products in a sum that is written out: with 150 of them XLA's convolution is quicker


def _around(x: Any, weight: Any, places: Sequence[int], steps: Steps) -> list[tuple[int, int, int]]:
    """What is put around an input, or cut off, for `lax.pad`: before, after and within."""
    stride, padding, dilation = steps
    reached = [
        (p - 1) * s + (k - 1) * d + 1
        for p, s, k, d in zip(places, stride, weight.shape[2:], dilation)
    ]
    space = [(p, r - p - n, 0) for p, r, n in zip(padding, reached, x.shape[2:])]
    return [(0, 0, 0)] * (x.ndim - len(space)) + space


def _lone_mask(index: Any) -> tuple[Any, int] | None:
    """The mask of an index, and its axis, where nothing else selects; else None."""
    items = index if isinstance(index, tuple) else (index,)
    masks = [
        i for i, a in enumerate(items) if getattr(getattr(a, "dtype", None), "kind", "") == "b"
    ]
    others = [a for i, a in enumerate(items) if i not in masks]
    if len(masks) != 1 or any(a != slice(None) for a in others if not hasattr(a, "dtype")):
        return None
    return None if any(hasattr(a, "dtype") for a in others) else (items[masks[0]], masks[0])


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
