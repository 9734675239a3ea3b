"""What array libraries do in different ways, behind one name each, for kernels.

A kernel computes with its namespace ``xp``. Where NumPy's way is not everybody's — assigning to
elements, combining values at positions, running extremes, LAPACK — it calls a function of this
module, which asks the namespace's backend (`maquette.tensor.backend`). Arrays of some libraries
cannot be changed, so the functions that write give back the array to go on with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from maquette.aten.common.large_arrays import added_at
from maquette.tensor.backend import (
    Array,
    Convolutions,
    backend_for,
    byte_strides,
    is_array,
    known_backends,
)

__all__ = [
    "added_to",
    "assigned_at",
    "assigned_where",
    "byte_strides",
    "combined_at",
    "complex_of",
    "compressed_at",
    "data_says",
    "eigh",
    "eigvalsh",
    "exp_in",
    "fourier",
    "from_host",
    "into_on_host",
    "is_array",
    "on_host",
    "computed_once",
    "own_convolutions",
    "product_at",
    "repeated",
    "running",
    "spread_at",
    "stable_argsort",
    "to_host",
]

F = TypeVar("F", bound=Callable[..., Any])


def from_host(xp: ModuleType, array: Array) -> Array:
    """A NumPy array, computed on the host, as an array of ``xp``."""
    return array if xp is np else backend_for(xp).from_host(array)


def to_host(xp: ModuleType, array: Array) -> Array:
    """An array of ``xp`` as a NumPy array."""
    return array if xp is np else backend_for(xp).to_host(array)


def data_says(condition: Callable[[], object]) -> bool:
    """Whether values refuse a call; False where a compiler has no values to ask yet.

    ``condition`` reads them. A compiled program goes by what its library does with such values.
    """
    try:
        return bool(condition())
    except TypeError as error:
        if any(isinstance(error, b.without_values) for b in known_backends()):
            return False
        raise


def own_convolutions(xp: ModuleType) -> Convolutions | None:
    """The convolutions of a library that has its own (`tensor.backend.Convolutions`); or None."""
    return None if xp is np else backend_for(xp).convolutions


def computed_once(xp: ModuleType, *arrays: Array) -> tuple[Array, ...]:
    """Arrays that a compiler is not to compute again wherever they are used."""
    return arrays if xp is np else backend_for(xp).computed_once(*arrays)


def on_host(kernel: F) -> F:
    """A kernel that computes on the host with NumPy and SciPy, wherever its operands are.

    For what only they have, as LAPACK's factorizations. Arrays are copied to the host and the
    results back; the kernel may not mutate its operands.
    """

    @functools.wraps(kernel)
    def computed(xp: ModuleType, *params: object) -> object:
        if xp is np:
            return kernel(xp, *params)
        return backend_for(xp).on_host(kernel, params)

    computed.computes_on_host = True  # type: ignore[attr-defined]  # for who counts them
    return computed  # type: ignore[return-value]  # the same parameters


def into_on_host(target: int) -> Callable[[F], F]:
    """`on_host` for a kernel that mutates one argument, at the position ``target``, and gives none.

    The host's copy is mutated and written back.
    """

    def decorate(kernel: F) -> F:
        @functools.wraps(kernel)
        def computed(xp: ModuleType, *params: Any) -> None:
            if xp is np:
                kernel(xp, *params)
                return
            backend, given = backend_for(xp), list(params)
            made = given[target] = backend.to_host(params[target])
            backend.on_host(kernel, given)
            backend.copy_to(params[target], backend.from_host(made))

        return computed  # type: ignore[return-value]  # the same parameters

    return decorate


def combined_at(xp: ModuleType, name: str, target: Array, index: Any, values: Any) -> Array:
    """``target[index] = name(target[index], values)`` where each position may come often.

    name: "add", "subtract", "multiply", "maximum" or "minimum". The target is written where its
    library can; the result is the array to go on with.
    """
    if xp is np:
        if name == "add":
            added_at(target, index, values)
        else:
            getattr(np, name).at(target, index, values)
        return target
    return backend_for(xp).combine_at(name, target, index, values)


def assigned_at(xp: ModuleType, target: Array, index: Any, values: Any) -> Array:
    """``target[index] = values``; the result is the array to go on with."""
    if xp is np:
        target[index] = values
        return target
    return backend_for(xp).assign_at(target, index, values)


def spread_at(xp: ModuleType, target: Array, mask: Array, values: Array) -> Array:
    """The target with the first of flat values, in order, where a mask of its shape holds."""
    if xp is np:
        target[mask] = values[: int(mask.sum())]
        return target
    return backend_for(xp).spread_at(target, mask, values)


def compressed_at(xp: ModuleType, values: Array, mask: Array, size: int, fill: Any = 0) -> Array:
    """The first ``size`` elements, in order, where a mask of one shape holds; then ``fill``."""
    return backend_for(xp).compressed_at(values, mask, size, fill)


def repeated(
    xp: ModuleType,
    start: int,
    stop: Any,
    step: Callable[[Any, tuple[Array, ...]], tuple[Array, ...]],
    state: tuple[Array, ...],
) -> tuple[Array, ...]:
    """``state = step(i, state)`` for each i from ``start`` on below ``stop``."""
    return backend_for(xp).repeated(start, stop, step, state)


def stable_argsort(xp: ModuleType, array: Array, axis: int) -> Array:
    """The order of elements along an axis, equal ones as they stand."""
    if xp is np:
        return np.argsort(array, axis=axis, kind="stable")
    return backend_for(xp).stable_argsort(array, axis)


def exp_in(xp: ModuleType, array: Array) -> Array:
    """The exponential in the array's own memory where its library can write there."""
    if xp is np:
        np.exp(array, out=array)
        return array
    found: Array = xp.exp(array)
    return found


def fourier(xp: ModuleType) -> Any:
    """The Fourier transforms of an array library, with the names of NumPy's ``numpy.fft``."""
    return backend_for(xp).fourier


def eigh(xp: ModuleType, A: Array, UPLO: str) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices of which a triangle is read.

    UPLO: "L" or "U".
    """
    options = {} if xp is np else backend_for(xp).eigh_options
    values, vectors = xp.linalg.eigh(A, UPLO, **options)
    return values, vectors


def eigvalsh(xp: ModuleType, A: Array, UPLO: str) -> Array:
    """`eigh` without the vectors."""
    options = {} if xp is np else backend_for(xp).eigh_options
    values: Array = xp.linalg.eigvalsh(A, UPLO, **options)
    return values


def added_to(xp: ModuleType, target: Array, index: Any, values: Any) -> Array:
    """``target[index] += values`` where each position comes once; the array to go on with."""
    if xp is np:
        target[index] += values
        return target
    return backend_for(xp).assign_at(target, index, target[index] + values)


def product_at(xp: ModuleType, target: Array, index: Any, a: Array, b: Array) -> Array:
    """``target[index] = a @ b``, without a copy where the library can; the array to go on with."""
    if xp is np:
        np.matmul(a, b, out=target[index])
        return target
    return backend_for(xp).assign_at(target, index, xp.matmul(a, b))


def assigned_where(xp: ModuleType, target: Array, mask: Array, values: Array) -> Array:
    """Values of the target's dtype assigned where a mask holds; the array to go on with."""
    if xp is np:
        np.copyto(target, values, where=mask)
        return target
    return backend_for(xp).assign_at(target, ..., xp.where(mask, values, target))


def complex_of(xp: ModuleType, real: Array, imag: Array) -> Array:
    """The complex array of two parts of one shape and dtype."""
    return backend_for(xp).complex_of(real, imag)


def running(xp: ModuleType, name: str, array: Array, axis: int, kind: Any = None) -> Array:
    """``name`` of all elements up to each one: "add", "multiply", "maximum", "minimum", ...

    kind: the type to compute in. NaN goes on to the end.
    """
    if xp is np:
        found: Array = getattr(np, name).accumulate(array, axis=axis, dtype=kind)
        return found
    return backend_for(xp).scan(name, array, axis, kind)
