"""Orthogonal polynomials: Chebyshev (four kinds, plain and shifted), Hermite, Laguerre, Legendre.

The degree is a tensor or a number, taken as its whole part; a negative degree gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.pointwise import REAL_FLOATS, Array, binary, special
from maquette.library.page import Variant

Polynomial = Callable[[ModuleType, Array, Array], Array]


def evaluated(name: str) -> Polynomial:
    """A polynomial of SciPy's, in double precision for whole degrees."""
    return lambda xp, n, x: getattr(special(xp), f"eval_{name}")(n, x)


def chebyshev_third(xp: ModuleType, n: Array, x: Array) -> Array:
    """V_n = U_n - U_(n-1)."""
    u = evaluated("chebyu")
    return u(xp, n, x) - xp.where(n > 0, u(xp, n - 1, x), 0)


def chebyshev_fourth(xp: ModuleType, n: Array, x: Array) -> Array:
    """W_n = U_n + U_(n-1)."""
    u = evaluated("chebyu")
    return u(xp, n, x) + xp.where(n > 0, u(xp, n - 1, x), 0)


def shifted(polynomial: Polynomial) -> Polynomial:
    """The polynomial on [0, 1] in place of [-1, 1]."""
    return lambda xp, n, x: polynomial(xp, n, 2 * x - 1)


def polynomial_kernel(polynomial: Polynomial) -> Callable[..., Array]:
    """The array kernel of a polynomial: whole degrees, double precision."""

    def kernel(xp: ModuleType, x: Array, n: Array) -> Array:
        degree = n.astype(np.int64)
        values = polynomial(xp, xp.maximum(degree, 0), x.astype(np.float64))
        return xp.where(degree < 0, 0, values)

    return kernel


_CHEBYSHEV: dict[str, Polynomial] = {
    "t": evaluated("chebyt"),
    "u": evaluated("chebyu"),
    "v": chebyshev_third,
    "w": chebyshev_fourth,
}
POLYNOMIALS: dict[str, Polynomial] = {
    **{f"chebyshev_polynomial_{kind}": p for kind, p in _CHEBYSHEV.items()},
    **{f"shifted_chebyshev_polynomial_{kind}": shifted(p) for kind, p in _CHEBYSHEV.items()},
    "hermite_polynomial_h": evaluated("hermite"),
    "hermite_polynomial_he": evaluated("hermitenorm"),
    "laguerre_polynomial_l": evaluated("laguerre"),
    "legendre_polynomial_p": evaluated("legendre"),
}

for _name, _polynomial in POLYNOMIALS.items():
    for _overload, _arguments in (
        ("", "Tensor x, Tensor n"),
        ("x_scalar", "Scalar x, Tensor n"),
        ("n_scalar", "Tensor x, Scalar n"),
    ):
        binary(
            f"special_{_name}",
            polynomial_kernel(_polynomial),
            overload=_overload,
            arguments=_arguments,
            floats=True,
            takes=REAL_FLOATS,
            variants=[Variant.OUT],
            flops=8,
        )
