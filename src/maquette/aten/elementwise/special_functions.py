"""Special functions: gamma and its derivatives, Bessel, Airy, the normal distribution, zeta.

Their values come from the special functions that go with the array namespace (SciPy for NumPy).
Orthogonal polynomials are in `special_polynomials.py`, `erf` and others in `transcendental.py`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from types import ModuleType

import numpy as np

from maquette.aten.common.formula_helpers import minus, not_implemented, over, plus, times
from maquette.aten.common.large_arrays import SMALL, loops_of_floats, tabulated
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    BOTH,
    POINTWISE,
    REAL_FLOATS,
    WIDE_FLOATS,
    Array,
    Takes,
    binary,
    check_category,
    elementwise_cost,
    floating,
    special,
    unary,
    widened,
)
from maquette.core.dtype import bool_, finfo
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, describe
from maquette.library.variants import check_castable
from maquette.tensor.tensor import Tensor

_OUT = (Variant.OUT,)


# Smooth everywhere, and slow in SciPy: large single arrays are looked up in tables.
_TABULATED = frozenset({"i0", "i0e", "i1", "i1e", "j0", "j1"})
_ODD = frozenset({"i1", "i1e", "j1"})


def special_unary(
    name: str,
    function: str,
    *,
    argument: str = "self",
    variants: Iterable[Variant] = _OUT,
    slope: Callable[..., Tensor] | None = None,
    takes: Takes = REAL_FLOATS,
) -> OperatorPage:
    """Define a function of one real number by the name it has among the special functions."""

    def kernel(xp: ModuleType, x: Array) -> Array:
        plain: Callable[[Array], Array] = getattr(special(xp), function)
        if function in _TABULATED and x.dtype.itemsize == 4:
            return tabulated(xp, function, plain, x, odd=function in _ODD)
        return plain(x)

    op = unary(
        name,
        kernel,
        takes=takes,
        argument=argument,
        variants=variants,
    )
    if slope is not None:
        op.slope(self=slope)
    return op


# --- gamma ----------------------------------------------------------------------------


def digamma_kernel(xp: ModuleType, x: Array) -> Array:
    # At the pole 0 the sign of zero decides; further poles have no sign.
    pole = xp.where(x == 0, xp.copysign(math.inf, -x), xp.nan)
    at_pole = (x <= 0) & (x == xp.floor(x))
    return xp.where(at_pole, pole, _psi(xp, xp.where(at_pole, 1, x)))


def _psi(xp: ModuleType, x: Array) -> Array:
    """Below zero by reflection: SciPy's sums its way there, 0.7 us a number (10⁶: 340 to 60 ms)."""
    below = x < 0
    if xp is not np or x.size < SMALL or not below.any():
        found: Array = special(xp).psi(x)
        return found
    wide = x.astype(np.float64)
    found = special(xp).psi(np.where(below, 1 - wide, wide))
    found[below] -= np.pi / np.tan(np.pi * np.fmod(wide[below], 1))
    return found.astype(x.dtype)


_NEAR_ROOT = 1e-3


def lgamma_kernel(xp: ModuleType, x: Array) -> Array:
    loops = loops_of_floats(xp, x) if x.dtype.itemsize == 4 else None
    if loops is not None:
        looped: Array = loops.log_gamma(x)
        flat = looped.reshape(-1)
        at_roots = np.flatnonzero(np.abs(flat) < _NEAR_ROOT)
        if at_roots.size:  # where differences of the loop's terms have few digits
            flat[at_roots] = special(xp).gammaln(x.reshape(-1)[at_roots].astype(np.float64))
        return looped
    found: Array = xp.where(xp.isinf(x), math.inf, special(xp).gammaln(x))
    if x.dtype.itemsize < 8:
        return found
    # SciPy's is infinite at numbers below the least normal one.
    denormal = (x != 0) & (xp.abs(x) < sys.float_info.min)
    return xp.where(denormal, -xp.log(xp.abs(xp.where(denormal, x, 1))), found)


lgamma = unary("lgamma", lgamma_kernel, takes=REAL_FLOATS)
lgamma.describe("The logarithm of the gamma function's magnitude.")
lgamma.slope(self=lambda self: digamma(self))
digamma: OperatorPage = unary("digamma", digamma_kernel, takes=REAL_FLOATS)
digamma.describe("The derivative of the gamma function's logarithm.")
digamma.slope(self=lambda self: polygamma(1, self))


def trigamma_array(xp: ModuleType, x: Array) -> Array:
    """The derivative of digamma, by reflection below 1/2: ``psi1(x) + psi1(1 - x) = (pi/sin)^2``.

    At a pole the sine is not exactly zero, so the result there is large but finite, as PyTorch's.
    """
    real = x.dtype.type
    below = x < real(0.5)
    y = xp.where(below, 1 - x, x)
    loops = loops_of_floats(xp, y)
    if loops is None:
        found = xp.where(xp.isposinf(y), real(0), zeta_kernel(xp, xp.asarray(2, x.dtype), y))
    else:
        found = loops.trigamma(y)
    sine = xp.sin(real(math.pi) * x)
    return xp.where(below, real(math.pi**2) / (sine * sine) - found, found)


polygamma: OperatorPage = define(
    "aten::polygamma(int n, Tensor self) -> Tensor", tags=POINTWISE, variants=_OUT
)
polygamma.describe("The derivative of order `n` of the digamma function.")


@polygamma.shape
def polygamma_shape(n: int, self: TensorMeta) -> TensorMeta:
    check(n >= 0, lambda: f"polygamma(n, x) does not support negative n, got {n}.")
    kind = floating(self.dtype)
    check_category("polygamma", kind, REAL_FLOATS)
    return elementwise([self], kind, common_dtype=kind)


@polygamma.kernel
def polygamma_kernel(xp: ModuleType, n: int, self: Array) -> Array:
    x = widened(self)
    if n == 0:
        return digamma_kernel(xp, x)
    if n == 1:
        return trigamma_array(xp, x)
    factorial = math.gamma(n + 1) if n < 171 else math.inf  # 171! is above all doubles
    return (-1.0) ** (n + 1) * factorial * zeta_kernel(xp, xp.asarray(n + 1, x.dtype), x)


polygamma.cost(elementwise_cost(4))
polygamma.derivative(self=lambda grad, n, self: grad * polygamma(n + 1, self))

polygamma_ = define(
    "aten::polygamma_(Tensor(a!) self, int n) -> Tensor(a!)", tags=[*POINTWISE, Tag.inplace]
)
polygamma_.node_name("PolygammaBackward1")


@polygamma_.explicit
def polygamma__explicit(self: Tensor, n: int) -> Tensor:
    check_castable("polygamma_", floating(self.meta.dtype), self.meta.dtype)
    return self.copy_(polygamma(n, self))


polygamma_.derivative(self=lambda grad, n, self: grad * polygamma(n + 1, self))

special_polygamma = define("aten::special_polygamma(int n, Tensor self) -> Tensor")
special_polygamma.describe("The derivative of order `n` of the digamma function.")
special_polygamma.composite(lambda n, self: polygamma(n, self))
define(
    "aten::special_polygamma.out(int n, Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
).composite(lambda n, self, out: aten.polygamma(n, self, out=out))


def mvlgamma_kernel(xp: ModuleType, self: Array, p: int) -> Array:
    total = xp.full_like(self, 0.25 * p * (p - 1) * math.log(math.pi))
    for i in range(p):
        total = total + lgamma_kernel(xp, self - 0.5 * i)
    return total


mvlgamma = define("aten::mvlgamma(Tensor self, int p) -> Tensor", tags=POINTWISE, variants=BOTH)
mvlgamma.describe("The logarithm of the gamma function of `p` dimensions.")


@mvlgamma.shape
def mvlgamma_shape(self: TensorMeta, p: int) -> TensorMeta:
    check(p >= 1, lambda: f"p has to be greater than or equal to 1, got {p}")
    check(
        self.dtype is not bool_,
        lambda: f"The input tensor may not be a boolean tensor, got {self}; convert it to a float",
    )
    kind = floating(self.dtype)
    check_category("mvlgamma", kind, REAL_FLOATS)
    # The terms stand along a new last dimension that is summed, so the result is contiguous.
    return self.fresh(self.shape, kind)


mvlgamma.kernel(lambda xp, self, p: mvlgamma_kernel(xp, widened(self), p))
mvlgamma.cost(elementwise_cost(8))


def mvlgamma_grad(grad: Tensor, self: Tensor, p: int) -> Tensor:
    """The gradient of ``mvlgamma``: the sum of ``digamma(self - i / 2)`` for i below p."""
    meta = self.meta
    steps = aten.arange.start_step(0.5 - p / 2, 0.5, 0.5, dtype=meta.dtype, device=meta.device)
    terms = (self.unsqueeze(-1) + steps).digamma_()
    return grad * terms.sum(-1)


mvlgamma.derivative(self=mvlgamma_grad)


def incomplete_gamma(
    xp: ModuleType, a: Array, x: Array, known: Array, nothing: float, everything: float
) -> Array:
    """The values known within the domain, and the limits at its ends: nothing or everything."""
    limit = xp.where(xp.isinf(x), everything, known)
    limit = xp.where(xp.isinf(a), xp.where(xp.isinf(x), xp.nan, nothing), limit)
    limit = xp.where(x == 0, nothing, limit)
    limit = xp.where(a == 0, xp.where(x > 0, everything, xp.nan), limit)
    return xp.where((a < 0) | (x < 0), xp.nan, limit)


igamma = binary(
    "igamma",
    lambda xp, a, x: incomplete_gamma(xp, a, x, special(xp).gammainc(a, x), 0, 1),
    takes=REAL_FLOATS,
)
igamma.describe("The regularized lower incomplete gamma function of `self`, at `other`.")
igammac = binary(
    "igammac",
    lambda xp, a, x: incomplete_gamma(xp, a, x, special(xp).gammaincc(a, x), 1, 0),
    takes=REAL_FLOATS,
)
igammac.describe("The regularized upper incomplete gamma function of `self`, at `other`.")


def gamma_density(self: Tensor, other: Tensor) -> Tensor:
    """The density of the gamma distribution of shape ``self`` at ``other``."""
    scale = lgamma(self)
    logarithm = other.log()
    return (minus(self, 1) * logarithm - other - scale).exp()


igamma.derivative(
    self=lambda grad: not_implemented("igamma: input"),
    other=lambda grad, self, other: grad * gamma_density(self, other),
)
igammac.derivative(
    self=lambda grad: not_implemented("igammac: input"),
    other=lambda grad, self, other: grad * -gamma_density(self, other),
)


# --- Bessel and Airy ------------------------------------------------------------------


def _i0e_slope(self: Tensor, result: Tensor) -> Tensor:
    part = self.sgn() * result
    return special_i1e(self) - part


def _away_from_zero(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where ``x`` may be divided by, and there ``x``: the quotients are finite everywhere."""
    least = finfo(x.meta.dtype).eps
    away = x.abs() > least
    return away, aten.where(away, x, least)


def _i1_slope(self: Tensor, result: Tensor) -> Tensor:
    """The derivative ``i0(x) - i1(x) / x``, and 1/2 at 0."""
    away, divisor = _away_from_zero(self)
    quotient = result * divisor.reciprocal()
    return aten.where(away, i0(self) - quotient, 0.5)


def _i1e_slope(self: Tensor, result: Tensor) -> Tensor:
    """The derivative ``i0e(x) - i1e(x) * (sgn(x) + 1 / x)``, and 1/2 at 0."""
    away, divisor = _away_from_zero(self)
    inverse = divisor.reciprocal()
    part = result * (self.sgn() + inverse)
    return aten.where(away, special_i0e(self) - part, 0.5)


i0 = special_unary("i0", "i0", variants=BOTH, slope=lambda self: special_i1(self))
i0.describe("The modified Bessel function of the first kind, of order 0.")
special_i0e = special_unary(
    "special_i0e",
    "i0e",
    slope=_i0e_slope,
)
special_i0e.describe("The function `i0` scaled by ``exp(-abs(x))``.")
special_i1: OperatorPage = special_unary(
    "special_i1",
    "i1",
    slope=_i1_slope,
)
special_i1.describe("The modified Bessel function of the first kind, of order 1.")
special_i1e: OperatorPage = special_unary(
    "special_i1e",
    "i1e",
    slope=_i1e_slope,
)
special_i1e.describe("The function `i1` scaled by ``exp(-abs(x))``.")
for _name in ("j0", "j1", "y0", "y1"):
    special_unary(f"special_bessel_{_name}", _name, takes=WIDE_FLOATS).nondifferentiable()
describe("special_bessel_y1", "The Bessel function of the second kind, of order 1.")
describe("special_bessel_y0", "The Bessel function of the second kind, of order 0.")
describe("special_bessel_j1", "The Bessel function of the first kind, of order 1.")
describe("special_bessel_j0", "The Bessel function of the first kind, of order 0.")
for _name in ("i0", "i1", "k0", "k1"):
    special_unary(f"special_modified_bessel_{_name}", _name, takes=WIDE_FLOATS).nondifferentiable()
describe(
    "special_modified_bessel_k1",
    "The modified Bessel function of the second kind, of order 1.",
)
describe(
    "special_modified_bessel_k0",
    "The modified Bessel function of the second kind, of order 0.",
)
describe(
    "special_modified_bessel_i1",
    "The modified Bessel function of the first kind, of order 1.",
)
describe(
    "special_modified_bessel_i0",
    "The modified Bessel function of the first kind, of order 0.",
)
for _name in ("k0", "k1"):
    special_unary(
        f"special_scaled_modified_bessel_{_name}", f"{_name}e", argument="x", takes=WIDE_FLOATS
    ).nondifferentiable()
describe(
    "special_scaled_modified_bessel_k1",
    "The function `modified_bessel_k1` scaled by ``exp(x)``.",
)
describe(
    "special_scaled_modified_bessel_k0",
    "The function `modified_bessel_k0` scaled by ``exp(x)``.",
)


def spherical_bessel_j0_kernel(xp: ModuleType, x: Array) -> Array:
    return xp.where(xp.isinf(x), 0, xp.sinc(x / math.pi))


unary(
    "special_spherical_bessel_j0",
    spherical_bessel_j0_kernel,
    takes=WIDE_FLOATS,
    argument="x",
    variants=_OUT,
).nondifferentiable()
describe(
    "special_spherical_bessel_j0",
    "The spherical Bessel function of the first kind, of order 0.",
)


# --- the normal distribution, entropy, zeta -------------------------------------------

_ROOT_2_PI = math.sqrt(2 * math.pi)

special_erfcx = special_unary(
    "special_erfcx",
    "erfcx",
    takes=WIDE_FLOATS,
    slope=lambda self, result: minus(times(self, 2) * result, 2 / math.sqrt(math.pi)),
)
special_erfcx.describe("The scaled complementary error function ``exp(x**2) * erfc(x)``.")
special_log_ndtr = special_unary(
    "special_log_ndtr",
    "log_ndtr",
    takes=WIDE_FLOATS,
    # By `erfcx`, where PyTorch writes exp(-(result + x**2 / 2)): exact far to the left as well.
    slope=lambda self: times(
        special_erfcx(times(self, -math.sqrt(0.5))).reciprocal(), math.sqrt(2 / math.pi)
    ),
)
special_log_ndtr.describe(
    "The logarithm of the area under the normal curve to the left of each element."
)
special_ndtri = special_unary(
    "special_ndtri",
    "ndtri",
    takes=WIDE_FLOATS,
    slope=lambda result: times(over(result.pow(2), 2).exp(), _ROOT_2_PI),
)
special_ndtri.describe("The point that has each area to its left under the normal curve.")
special_entr = special_unary("special_entr", "entr")
special_entr.describe("The entropy ``-x * log(x)``; 0 at 0, minus infinity below.")
special_entr.derivative(self=lambda grad, self: entr_grad(grad, self))


def entr_grad(grad: Tensor, self: Tensor) -> Tensor:
    """The gradient of ``-x log x``."""
    return grad * -plus(self.log(), 1)


special_ndtr = define("aten::special_ndtr(Tensor self) -> Tensor")
special_ndtr.describe("The area under the normal curve to the left of each element.")
# By `erfc`, where PyTorch writes (1 + erf) / 2: exact far to the left as well.
special_ndtr.composite(lambda self: times(aten.erfc(times(self, -math.sqrt(0.5))), 0.5))
define(
    "aten::special_ndtr.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
).composite(lambda self, out: aten.mul(aten.erfc(self * -math.sqrt(0.5)), 0.5, out=out))


def zeta_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    known = xp.where(b == math.inf, xp.nan, special(xp).zeta(a, b))
    pole = xp.where(b == xp.floor(b), math.inf, xp.where(a == xp.floor(a), known, xp.nan))
    return xp.where(a == 1, math.inf, xp.where(a < 1, xp.nan, xp.where(b <= 0, pole, known)))


def zeta(overload: str, arguments: str) -> OperatorPage:
    """Define the zeta function of Hurwitz for one kind of arguments."""
    return binary(
        "special_zeta",
        zeta_kernel,
        overload=overload,
        arguments=arguments,
        floats=True,
        takes=WIDE_FLOATS,
        variants=_OUT,
    )


def zeta_grad(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """The gradient of ``zeta`` by its second argument."""
    next_one = special_zeta(plus(self, 1), other)
    return grad * (-self * next_one)


special_zeta: OperatorPage = zeta("", "Tensor self, Tensor other")
special_zeta.describe("The Hurwitz zeta function of `self`, from `other` on.")
special_zeta.derivative(
    self=lambda grad: not_implemented("zeta"),
    other=zeta_grad,
)
special_zeta_at_number = zeta("other_scalar", "Tensor self, Scalar other")
special_zeta_at_number.node_name("SpecialZetaBackward2")
special_zeta_at_number.derivative(self=lambda grad: not_implemented("zeta"))
special_zeta_of_number = zeta("self_scalar", "Scalar self, Tensor other")
special_zeta_of_number.node_name("SpecialZetaBackward1")
special_zeta_of_number.derivative(
    other=lambda grad, self, other: grad * times(aten.special_zeta(self + 1.0, other), -self)
)
