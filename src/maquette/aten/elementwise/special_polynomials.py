"""Orthogonal polynomials: Chebyshev (four kinds, plain and shifted), Hermite, Laguerre, Legendre.

Each is a polynomial of degree 1 and a step from two degrees to the next. The degree is a tensor or
a number, taken as its whole part; a negative degree gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.common.array_libraries import repeated
from maquette.aten.common.large_arrays import BLOCK
from maquette.aten.elementwise.pointwise import WIDE_FLOATS, Array, binary
from maquette.library.page import Variant, describe


class Recurrence(NamedTuple):
    """A family of polynomials; that of degree 0 is 1.

    first: degree 1 at x. step: degree k at x, from the values two degrees and one degree below.
    largest: the degree above which the answer is NaN, in float32 and float64; 0 for no limit.
    of_nan: the value at NaN from degree 2 on, where PyTorch's loop stops before it starts.
    """

    first: Callable[[Array], Array]
    step: Callable[[int, Array, Array, Array], Array]
    largest: tuple[int, int] = (0, 0)
    of_nan: float = math.nan


def chebyshev_step(k: int, x: Array, p: Array, q: Array) -> Array:
    return 2 * x * q - p


_CHEBYSHEV = {
    "t": Recurrence(lambda x: x, chebyshev_step),
    "u": Recurrence(lambda x: 2 * x, chebyshev_step, of_nan=0),
    "v": Recurrence(lambda x: 2 * x - 1, chebyshev_step),
    "w": Recurrence(lambda x: 2 * x + 1, chebyshev_step, of_nan=0),
}
_OTHERS = {
    "hermite_polynomial_h": Recurrence(
        lambda x: 2 * x, lambda k, x, p, q: 2 * x * q - 2 * (k - 1) * p, (128, 512)
    ),
    "hermite_polynomial_he": Recurrence(
        lambda x: x, lambda k, x, p, q: x * q - (k - 1) * p, (128, 512)
    ),
    "laguerre_polynomial_l": Recurrence(
        lambda x: 1 - x, lambda k, x, p, q: ((2 * k - 1 - x) * q - (k - 1) * p) / k, of_nan=0
    ),
    "legendre_polynomial_p": Recurrence(
        lambda x: x, lambda k, x, p, q: ((2 * k - 1) * x * q - (k - 1) * p) / k, of_nan=0
    ),
}


def value(xp: ModuleType, family: Recurrence, x: Array, n: Array) -> Array:
    """The polynomials of degrees ``n`` at ``x``, elementwise."""
    if xp is np and n.ndim == 0:
        return _of_one_degree(family, x, int(n) if abs(n) < 2.0**63 else -1)
    return _of_degrees(xp, family, x, n)


def _of_one_degree(family: Recurrence, x: Array, degree: int) -> Array:
    """`value` block by block, without the choices between degrees (22 to 7 ms)."""
    largest = family.largest[x.dtype.itemsize == 8]
    if degree < 0:
        return np.zeros_like(x)
    if largest and degree > largest:
        return np.full_like(x, np.nan)
    out = np.empty(x.shape, x.dtype)
    given, result = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    for start in range(0, x.size, BLOCK):
        block = given[start : start + BLOCK]
        below, current = np.ones_like(block), family.first(block)
        for k in range(2, degree + 1):
            below, current = current, family.step(k, block, below, current)
        result[start : start + BLOCK] = current if degree else below
    if degree > 1 and not math.isnan(family.of_nan):
        np.copyto(out, family.of_nan, where=np.isnan(x))
    return out


def _of_degrees(xp: ModuleType, family: Recurrence, x: Array, n: Array) -> Array:
    # NaN and what no integer holds is no degree: a cast would make of it what its library likes.
    degree = xp.where(xp.abs(n) < 2.0**63, n, -1).astype(np.int64)
    below, current = xp.ones_like(x), family.first(x)
    result = xp.where(degree == 0, below, current)
    largest = family.largest[x.dtype.itemsize == 8]
    top = degree.max() if degree.size else 0

    def step(k: Any, state: tuple[Array, ...]) -> tuple[Array, ...]:
        below, current, result = state
        below, current = current, family.step(k, x, below, current).astype(x.dtype)
        return below, current, xp.where(degree == k, current, result)

    last = xp.minimum(top, largest) if largest else top
    _, _, result = repeated(xp, 2, last + 1, step, (below, current, result))
    if largest:
        result = xp.where(degree > largest, xp.nan, result)
    result = xp.where(xp.isnan(x) & (degree > 1), family.of_nan, result)
    return xp.where(degree < 0, 0, result)


def _define(name: str, function: Callable[..., Array]) -> None:
    """Define the forms of a polynomial: of tensors, and with a number for either."""
    for overload, arguments in (
        ("", "Tensor x, Tensor n"),
        ("x_scalar", "Scalar x, Tensor n"),
        ("n_scalar", "Tensor x, Scalar n"),
    ):
        polynomial = binary(
            f"special_{name}",
            function,
            overload=overload,
            arguments=arguments,
            floats=True,
            takes=WIDE_FLOATS,
            variants=[Variant.OUT],
            flops=8,
        )
        polynomial.nondifferentiable()


def _plain(family: Recurrence) -> Callable[..., Array]:
    return lambda xp, x, n: value(xp, family, x, n)


def _shifted(family: Recurrence) -> Callable[..., Array]:
    """The polynomial on [0, 1] in place of [-1, 1]."""
    return lambda xp, x, n: value(xp, family, 2 * x - 1, n)


for _kind, _family in _CHEBYSHEV.items():
    _define(f"chebyshev_polynomial_{_kind}", _plain(_family))
    _define(f"shifted_chebyshev_polynomial_{_kind}", _shifted(_family))
describe(
    "special_shifted_chebyshev_polynomial_w",
    "The Chebyshev polynomial of the fourth kind of degree `n`, at ``2 * x - 1``.",
)
describe(
    "special_shifted_chebyshev_polynomial_v",
    "The Chebyshev polynomial of the third kind of degree `n`, at ``2 * x - 1``.",
)
describe(
    "special_shifted_chebyshev_polynomial_u",
    "The Chebyshev polynomial of the second kind of degree `n`, at ``2 * x - 1``.",
)
describe(
    "special_shifted_chebyshev_polynomial_t",
    "The Chebyshev polynomial of the first kind of degree `n`, at ``2 * x - 1``.",
)
describe(
    "special_chebyshev_polynomial_w",
    "The Chebyshev polynomial of the fourth kind of degree `n`, at `x`.",
)
describe(
    "special_chebyshev_polynomial_v",
    "The Chebyshev polynomial of the third kind of degree `n`, at `x`.",
)
describe(
    "special_chebyshev_polynomial_u",
    "The Chebyshev polynomial of the second kind of degree `n`, at `x`.",
)
describe(
    "special_chebyshev_polynomial_t",
    "The Chebyshev polynomial of the first kind of degree `n`, at `x`.",
)
for _kind, _family in _OTHERS.items():
    _define(_kind, _plain(_family))
describe("special_legendre_polynomial_p", "The Legendre polynomial of degree `n`, at `x`.")
describe("special_laguerre_polynomial_l", "The Laguerre polynomial of degree `n`, at `x`.")
describe(
    "special_hermite_polynomial_he",
    "The probabilists' Hermite polynomial of degree `n`, at `x`.",
)
describe(
    "special_hermite_polynomial_h",
    "The physicists' Hermite polynomial of degree `n`, at `x`.",
)
