"""Elementwise functions, as the array API standard has them.

What is here: the standard's functions of one and of two arrays. The one idea: most are an operator
by another name, made by `_of_one` and `_of_two`; the second brings both arguments to the dtype that
the standard gives them. Only those that PyTorch refuses for some dtypes are written out.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.api import functions as mq
from maquette.array_api.data_types import Number, promoted
from maquette.tensor.tensor import Tensor

_OfOne = Callable[[Tensor], Tensor]
_OfTwo = Callable[[Tensor | Number, Tensor | Number], Tensor]


def _of_one(name: str, function: _OfOne, does: str) -> _OfOne:
    def elementwise(x: Tensor, /) -> Tensor:
        return function(x)

    elementwise.__name__ = elementwise.__qualname__ = name
    elementwise.__doc__ = does
    return elementwise


def _of_two(name: str, function: Callable[[Tensor, Tensor], Tensor], does: str) -> _OfTwo:
    def elementwise(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
        return function(*promoted(name, x1, x2))

    elementwise.__name__ = elementwise.__qualname__ = name
    elementwise.__doc__ = does
    return elementwise


def _kept(function: _OfOne) -> _OfOne:
    """A rounding: integers are round already."""

    def rounded(x: Tensor) -> Tensor:
        return function(x) if x.dtype.is_floating_point else x.clone()

    return rounded


def _round(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return mq.complex(mq.round(x.real), mq.round(x.imag))
    return _kept(mq.round)(x)


def _tanh(x: Tensor) -> Tensor:
    found = mq.tanh(x)
    if not x.dtype.is_complex:
        return found
    # At infinity C's function, and PyTorch's, take a sign from sine and cosine for the zero.
    end = mq.complex(mq.sign(x.real), mq.copysign(mq.zeros_like(x.imag), x.imag))
    return mq.where(mq.isinf(x.real), end, found)


def _sign(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return mq.sgn(x)
    found = mq.sign(x)
    # PyTorch has 0 where there is no number.
    return mq.where(mq.isnan(x), x, found) if x.dtype.is_floating_point else found


def _expm1(x: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return mq.expm1(x)
    # PyTorch's has NaN where a part is infinite, and keeps -0; there subtracting loses nothing.
    return mq.where(mq.isfinite(x) & (x != 0), mq.expm1(x), mq.exp(x) - 1)


def _real(x: Tensor) -> Tensor:
    return x.real if x.dtype.is_complex else x


def _imag(x: Tensor) -> Tensor:
    return x.imag if x.dtype.is_complex else mq.zeros_like(x)


def _floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    found = mq.floor_divide(x1, x2)
    if not found.dtype.is_floating_point:
        return found
    # Of infinities PyTorch takes the remainder first, as Python does, which gives NaN or -1.
    return mq.where(mq.isinf(x1) | mq.isinf(x2), mq.true_divide(x1, x2), found)


def _remainder(x1: Tensor, x2: Tensor) -> Tensor:
    found = mq.remainder(x1, x2)
    if not found.dtype.is_floating_point:
        return found
    # PyTorch's zero has the sign of the dividend.
    return mq.where(found == 0, mq.copysign(found, x2), found)


abs = _of_one("abs", mq.abs, "The magnitude of each element.")
acos = _of_one("acos", mq.acos, "The angle whose cosine each element is.")
acosh = _of_one("acosh", mq.acosh, "The number whose hyperbolic cosine each element is.")
asin = _of_one("asin", mq.asin, "The angle whose sine each element is.")
asinh = _of_one("asinh", mq.asinh, "The number whose hyperbolic sine each element is.")
atan = _of_one("atan", mq.atan, "The angle whose tangent each element is.")
atanh = _of_one("atanh", mq.atanh, "The number whose hyperbolic tangent each element is.")
bitwise_invert = _of_one("bitwise_invert", mq.bitwise_not, "Every bit turned.")
ceil = _of_one("ceil", _kept(mq.ceil), "The least integer not below each element.")
conj = _of_one("conj", mq.conj, "The complex conjugate of each element.")
cos = _of_one("cos", mq.cos, "The cosine of each element, in radians.")
cosh = _of_one("cosh", mq.cosh, "The hyperbolic cosine of each element.")
exp = _of_one("exp", mq.exp, "e to the power of each element.")
expm1 = _of_one("expm1", _expm1, "e to the power of each element, less one, exact near zero.")
floor = _of_one("floor", _kept(mq.floor), "The greatest integer not above each element.")
imag = _of_one("imag", _imag, "The imaginary part of each element.")
isfinite = _of_one("isfinite", mq.isfinite, "Whether each element is neither infinite nor NaN.")
isinf = _of_one("isinf", mq.isinf, "Whether each element is infinite.")
isnan = _of_one("isnan", mq.isnan, "Whether each element is NaN.")
log = _of_one("log", mq.log, "The natural logarithm of each element.")
log1p = _of_one(
    "log1p", mq.log1p, "The natural logarithm of one more than each element, exact near zero."
)
log2 = _of_one("log2", mq.log2, "The logarithm of each element to base 2.")
log10 = _of_one("log10", mq.log10, "The logarithm of each element to base 10.")
logical_not = _of_one("logical_not", mq.logical_not, "Whether each element is false.")
negative = _of_one("negative", mq.neg, "Each element with the other sign.")
positive = _of_one("positive", mq.positive, "Each element as it is.")
real = _of_one("real", _real, "The real part of each element.")
reciprocal = _of_one("reciprocal", mq.reciprocal, "One divided by each element.")
round = _of_one("round", _round, "The nearest integer of each element, the even one of two.")
sign = _of_one(
    "sign", _sign, "The sign of each element: -1, 0 or 1; of a complex one its direction."
)
signbit = _of_one("signbit", mq.signbit, "Whether each element has its sign bit set.")
sin = _of_one("sin", mq.sin, "The sine of each element, in radians.")
sinh = _of_one("sinh", mq.sinh, "The hyperbolic sine of each element.")
sqrt = _of_one("sqrt", mq.sqrt, "The principal square root of each element.")
square = _of_one("square", mq.square, "Each element times itself.")
tan = _of_one("tan", mq.tan, "The tangent of each element, in radians.")
tanh = _of_one("tanh", _tanh, "The hyperbolic tangent of each element.")
trunc = _of_one("trunc", _kept(mq.trunc), "Each element without its fraction.")

add = _of_two("add", mq.add, "The sum of each two elements.")
atan2 = _of_two("atan2", mq.atan2, "The angle of each two elements, by the signs of both.")
bitwise_and = _of_two("bitwise_and", mq.bitwise_and, "The bits that are set in both.")
bitwise_left_shift = _of_two(
    "bitwise_left_shift", mq.bitwise_left_shift, "The bits moved to the left."
)
bitwise_or = _of_two("bitwise_or", mq.bitwise_or, "The bits that are set in either.")
bitwise_right_shift = _of_two(
    "bitwise_right_shift", mq.bitwise_right_shift, "The bits moved to the right."
)
bitwise_xor = _of_two("bitwise_xor", mq.bitwise_xor, "The bits that are set in one of both.")
copysign = _of_two(
    "copysign", mq.copysign, "The magnitudes of the first with the signs of the second."
)
divide = _of_two("divide", mq.true_divide, "The quotient of each two elements.")
equal = _of_two("equal", mq.eq, "Whether each two elements are equal.")
floor_divide = _of_two(
    "floor_divide", _floor_divide, "The quotient of each two elements, rounded down."
)
greater = _of_two("greater", mq.gt, "Whether the first is greater.")
greater_equal = _of_two("greater_equal", mq.ge, "Whether the first is not less.")
hypot = _of_two("hypot", mq.hypot, "The length of the longest side of a right triangle.")
less = _of_two("less", mq.lt, "Whether the first is less.")
less_equal = _of_two("less_equal", mq.le, "Whether the first is not greater.")
logaddexp = _of_two("logaddexp", mq.logaddexp, "The logarithm of the sum of the exponentials.")
logical_and = _of_two("logical_and", mq.logical_and, "Whether both are true.")
logical_or = _of_two("logical_or", mq.logical_or, "Whether either is true.")
logical_xor = _of_two("logical_xor", mq.logical_xor, "Whether one of both is true.")
maximum = _of_two("maximum", mq.maximum, "The greater of each two elements.")
minimum = _of_two("minimum", mq.minimum, "The lesser of each two elements.")
multiply = _of_two("multiply", mq.mul, "The product of each two elements.")
nextafter = _of_two(
    "nextafter", mq.nextafter, "The next number after the first, towards the second."
)
not_equal = _of_two("not_equal", mq.ne, "Whether each two elements differ.")
pow = _of_two("pow", mq.pow, "The first to the power of the second.")
remainder = _of_two("remainder", _remainder, "What division leaves, with the sign of the divisor.")
subtract = _of_two("subtract", mq.sub, "The difference of each two elements.")


def clip(
    x: Tensor,
    /,
    min: float | Tensor | None = None,  # the standard's names
    max: float | Tensor | None = None,
) -> Tensor:
    """Each element, or the limit that it lies beyond; in the dtype of ``x``."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        low = _limit(x, min)
        high = _limit(x, max)
        found = x if low is None else mq.maximum(x, low)
        return found.clone() if high is None else mq.minimum(found, high)
    if min is None and max is None:
        return x.clone()
    return mq.clamp(x, min, max).to(x.dtype)


def _limit(x: Tensor, limit: float | Tensor | None) -> Tensor | None:
    if limit is None:
        return None
    if isinstance(limit, Tensor):
        return limit.to(x.dtype)
    return mq.full((), limit, dtype=x.dtype, device=x.device)
