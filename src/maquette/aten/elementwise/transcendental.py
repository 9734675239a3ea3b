"""Functions of one operand: exponentials, logarithms, trigonometry, the error function.

Rounding, predicates and parts of numbers are in `rounding.py`; `neg`, `abs`, `sign` in
`arithmetic.py`; gamma and Bessel functions in `special_functions.py`. Integers are computed in the
default dtype, bfloat16 and float16 in float32 (the factory does it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.elementary_functions import elementary, within
from maquette.aten.common.formula_helpers import conj, minus, plus, times
from maquette.aten.common.half_steps import of_arrays, times_number
from maquette.aten.common.large_arrays import erf as error_function
from maquette.aten.common.large_arrays import erfc as complementary_error_function
from maquette.aten.common.large_arrays import loops_for, loops_of_floats
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    BOTH,
    CORE_POINTWISE,
    FLOATING,
    POINTWISE,
    REAL_FLOATS,
    Array,
    backward,
    elementwise_cost,
    floating,
    special,
    unary,
    widened,
)
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor


def function(
    name: str,
    numpy_name: str,
    gradient: Callable[..., Tensor],
    *,
    tags: tuple[Tag, ...] = CORE_POINTWISE,
) -> OperatorPage:
    """Define a function that the array namespace has, of real and complex numbers."""
    op = unary(name, lambda xp, self: getattr(xp, numpy_name)(self), takes=FLOATING, tags=tags)
    op.ufunc(numpy_name)
    op.holomorphic(self=gradient)
    return op


def looped_function(
    name: str,
    numpy_name: str,
    gradient: Callable[..., Tensor],
    *,
    tags: tuple[Tag, ...] = CORE_POINTWISE,
) -> OperatorPage:
    """Define a function that NumPy may be slow at, of real and complex numbers."""
    op = unary(name, lambda xp, self: elementary(xp, numpy_name, self), takes=FLOATING, tags=tags)
    op.holomorphic(self=gradient)
    return op


def special_function(
    name: str, gradient: Callable[..., Tensor], *, tags: tuple[Tag, ...] = POINTWISE
) -> OperatorPage:
    """Define a function of real numbers that the special functions have."""
    op = unary(
        name, lambda xp, self: getattr(special(xp), name)(self), takes=REAL_FLOATS, tags=tags
    )
    op.derivative(self=gradient)
    return op


# --- exponentials and logarithms ------------------------------------------------------

exp = function("exp", "exp", lambda grad, result: grad * conj(result))
exp.describe("Euler's number to the power of each element.")
exp.autocast(cuda="float32")
exp2 = looped_function(
    "exp2",
    "exp2",
    lambda grad, result: times(grad * conj(result), math.log(2)),
    tags=POINTWISE,
)
exp2.describe("2 to the power of each element.")
expm1 = looped_function("expm1", "expm1", lambda grad, result: grad * plus(conj(result), 1))
expm1.describe("``exp(x) - 1``, exact where x is small.")
expm1.autocast(cuda="float32")
log = function("log", "log", lambda grad, self: grad / conj(self))
log.describe("The natural logarithm; NaN of negative numbers.")
log.autocast(cuda="float32")
log2 = function("log2", "log2", lambda grad, self: grad / times(conj(self), math.log(2)))
log2.describe("The logarithm to base 2; NaN of negative numbers.")
log2.autocast(cuda="float32")


def log10_kernel(xp: ModuleType, self: Array) -> Array:
    """Of float32 in float64: NumPy's own is one unit off in the last place at most powers of 10."""
    loops = loops_for(xp, self)
    if loops is not None:
        looped: Array = loops.function("log10", self)
        return looped
    if xp is np and self.dtype == np.float32:
        found: Array = np.log10(self, dtype=np.float64).astype(np.float32)
        return found
    result: Array = xp.log10(self)
    return result


log10 = unary("log10", log10_kernel, takes=FLOATING, tags=CORE_POINTWISE)
log10.holomorphic(self=lambda grad, self: grad / times(conj(self), math.log(10)))
log10.describe("The logarithm to base 10; NaN of negative numbers.")
log10.autocast(cuda="float32")


def log1p_kernel(xp: ModuleType, self: Array) -> Array:
    """Of complex numbers near 0 the real part apart: ``log(abs(1 + z))`` would lose it."""
    if self.dtype.kind != "c":
        return within(xp, lambda x: elementary(xp, "log1p", x), self, (-1.0, math.inf))
    x, y = self.real.astype(xp.float64), self.imag.astype(xp.float64)
    near = xp.maximum(abs(x), abs(y)) < 0.5
    real = xp.log1p(xp.where(near, x * (2 + x) + y * y, 0)) / 2
    result: Array = xp.where(near, real + 1j * xp.arctan2(y, 1 + x), xp.log1p(self))
    return result.astype(self.dtype)


def log1p_grad(grad: Tensor, self: Tensor) -> Tensor:
    """The gradient of ``log1p``; of sparse tensors by dense factors, for ``1 + x`` is no zero."""
    if self.meta.layout is not strided:
        return grad * conj(plus(self.to_dense(), 1).reciprocal())
    return grad / conj(plus(self, 1))


log1p = unary("log1p", log1p_kernel, takes=FLOATING, tags=CORE_POINTWISE)
log1p.holomorphic(self=log1p_grad)
log1p.describe("The natural logarithm of ``1 + x``, exact where x is small.")
log1p.autocast(cuda="float32")


# --- roots ----------------------------------------------------------------------------

sqrt = unary("sqrt", lambda xp, self: xp.sqrt(self), takes=FLOATING, tags=CORE_POINTWISE)
sqrt.ufunc("sqrt")
sqrt.facts.on_halves = of_arrays("sqrt")
sqrt.describe("The square root; NaN of negative numbers.")
sqrt.holomorphic(self=lambda grad, result: grad / times(conj(result), 2))


def rsqrt_grad(grad: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``rsqrt``."""
    cube = conj(result.pow(3))
    return times(grad, -0.5) * cube


rsqrt = unary(
    "rsqrt", lambda xp, self: xp.divide(1, xp.sqrt(self)), takes=FLOATING, tags=CORE_POINTWISE
)
rsqrt.facts.on_halves = of_arrays("rsqrt")
rsqrt.describe("One divided by the square root of each element.")
rsqrt.autocast(cuda="float32")
rsqrt.holomorphic(self=rsqrt_grad)


# --- trigonometry ---------------------------------------------------------------------


def _slope_of_asin(self: Tensor) -> Tensor:
    return conj(rsqrt(plus(-self * self, 1)))


def acosh_grad(grad: Tensor, self: Tensor) -> Tensor:
    """The gradient of ``acosh``; of complex numbers by two roots, which keeps to the branch."""
    if not self.meta.dtype.is_complex:
        return grad * rsqrt(minus(self * self, 1))
    low = rsqrt(minus(self, 1))
    return grad * conj(low * rsqrt(plus(self, 1)))


sin = looped_function("sin", "sin", lambda grad, self: grad * conj(cos(self)))
sin.describe("The sine of each element in radians.")
cos: OperatorPage = looped_function("cos", "cos", lambda grad, self: grad * -conj(sin(self)))
cos.describe("The cosine of each element in radians.")
tan = looped_function("tan", "tan", lambda grad, result: grad * conj(plus(result.pow(2), 1)))
tan.describe("The tangent of each element in radians.")
tan.autocast(cuda="float32")
asin = looped_function("asin", "arcsin", lambda grad, self: grad * _slope_of_asin(self))
asin.describe("The angle in radians whose sine each element is.")
asin.autocast(cuda="float32")
acos = looped_function("acos", "arccos", lambda grad, self: grad * -_slope_of_asin(self))
acos.describe("The angle in radians whose cosine each element is.")
acos.autocast(cuda="float32")
atan = looped_function("atan", "arctan", lambda grad, self: grad / conj(plus(self * self, 1)))
atan.describe("The angle in radians whose tangent each element is.")
sinh = looped_function("sinh", "sinh", lambda grad, self: grad * conj(cosh(self)))
sinh.describe("The hyperbolic sine.")
sinh.autocast(cuda="float32")
cosh: OperatorPage = looped_function("cosh", "cosh", lambda grad, self: grad * conj(sinh(self)))
cosh.describe("The hyperbolic cosine.")
cosh.autocast(cuda="float32")
asinh = looped_function(
    "asinh", "arcsinh", lambda grad, self: grad * conj(rsqrt(plus(self.pow(2), 1)))
)
asinh.node_name(in_place="AsinhBackward1")
asinh.describe("The inverse of the hyperbolic sine.")
acosh = looped_function("acosh", "arccosh", acosh_grad)
acosh.node_name(in_place="AcoshBackward1")
acosh.describe("The inverse of the hyperbolic cosine.")


def atanh_kernel(xp: ModuleType, self: Array) -> Array:
    return within(xp, lambda x: elementary(xp, "arctanh", x), self, (-1.0, 1.0))


atanh = unary("atanh", atanh_kernel, takes=FLOATING, tags=CORE_POINTWISE)
atanh.holomorphic(self=lambda grad, self: grad / conj(1 - self.pow(2)))
atanh.node_name(in_place="AtanhBackward1")
atanh.describe("The inverse of the hyperbolic tangent.")

tanh = unary("tanh", lambda xp, self: xp.tanh(self), takes=FLOATING, tags=CORE_POINTWISE)
tanh.ufunc("tanh")
tanh.describe("The hyperbolic tangent.")
tanh.derivative(self=lambda grad, result: tanh_backward(grad, result))


def conversion(name: str, factor: float) -> OperatorPage:
    """Define a change of the unit of angles."""

    def shape(self: TensorMeta) -> TensorMeta:
        check(not self.dtype.is_complex, lambda: f"{name} is not supported for complex tensors.")
        kind = floating(self.dtype)
        return elementwise([self], kind, common_dtype=kind)

    op = define(f"aten::{name}(Tensor self) -> Tensor", tags=POINTWISE, variants=BOTH)
    op.shape(shape)
    op.kernel(lambda xp, self: widened(self) * factor)
    op.facts.on_halves = times_number(factor)
    op.cost(elementwise_cost(1))
    op.derivative(self=lambda grad: times(grad, factor))
    return op


deg2rad = conversion("deg2rad", math.pi / 180)
deg2rad.describe("Angles in degrees as radians.")
rad2deg = conversion("rad2deg", 180 / math.pi)
rad2deg.describe("Angles in radians as degrees.")


def sinc_kernel(xp: ModuleType, self: Array) -> Array:
    scaled = self * math.pi
    zero = scaled == 0
    return xp.where(zero, 1, xp.sin(scaled) / xp.where(zero, 1, scaled))


def sinc_grad(grad: Tensor, self: Tensor) -> Tensor:
    """``(cos(pi x) - sinc(x)) / x``; near 0, where equals are subtracted, by its series."""
    near = self.abs() < _NEAR_ZERO
    x, y = aten.where(near, 1, self), aten.where(near, self, 0)
    square, series = y * y, aten.zeros_like(y)
    for coefficient in _SINC_SERIES:
        series = series * square + coefficient
    far = (aten.cos(x * math.pi) - aten.sinc(x)) / x
    return grad * conj(aten.where(near, series * y, far))


_NEAR_ZERO = 0.1  # there the first term that is left out is 3e-17 of the first
_SINC_SERIES = [
    (-1) ** k * 2 * k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(6, 0, -1)
]

sinc = unary("sinc", sinc_kernel, takes=FLOATING)
sinc.describe("``sin(pi * x) / (pi * x)``, and 1 at 0.")
sinc.derivative(self=sinc_grad)


# --- the error function ---------------------------------------------------------------

_ROOT_PI = math.sqrt(math.pi)

erf = unary("erf", error_function, takes=REAL_FLOATS, tags=CORE_POINTWISE)
erf.derivative(self=lambda grad, self: times(exp(-self.pow(2)), 2 / _ROOT_PI) * grad)
erf.describe("The error function.")
erfc = unary("erfc", complementary_error_function, takes=REAL_FLOATS, tags=POINTWISE)
erfc.derivative(self=lambda grad, self: times(exp(-self.pow(2)), -2 / _ROOT_PI) * grad)
erfc.describe("One minus the error function, exact where that is small.")


def erfinv_kernel(xp: ModuleType, self: Array) -> Array:
    loops = loops_for(xp, self)
    if loops is not None:
        return within(xp, loops.erfinv, self, (-1.0, 1.0))
    return xp.copysign(within(xp, special(xp).erfinv, self, (-1.0, 1.0)), self)  # of -0 too


erfinv = unary("erfinv", erfinv_kernel, takes=REAL_FLOATS)
erfinv.derivative(self=lambda grad, self: times(exp(erfinv(self).pow(2)), _ROOT_PI / 2) * grad)
erfinv.describe("The inverse of the error function.")
erfinv.autocast(cuda="float32")


# --- the logistic function ------------------------------------------------------------


def logistic(xp: ModuleType, x: Array) -> Array:
    """1 / (1 + exp(-x)) on arrays."""
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.logistic(x)
        return found
    return 1 / (1 + xp.exp(-x))


sigmoid = unary("sigmoid", logistic, takes=FLOATING, tags=CORE_POINTWISE, flops=4)
sigmoid.describe("The logistic function ``1 / (1 + exp(-x))``.")
sigmoid.derivative(self=lambda grad, result: sigmoid_backward(grad, result))


def logit_kernel(xp: ModuleType, self: Array, eps: float | None) -> Array:
    x = self
    if eps is not None:  # the lower bound first: above 1/2 the two are the wrong way round
        x = xp.where(self < eps, eps, xp.where(self > 1 - eps, 1 - eps, self)).astype(self.dtype)
    return xp.log(x / (1 - x))


logit = unary("logit", logit_kernel, more="float? eps=None", takes=REAL_FLOATS)
logit.describe(
    "The logarithm of ``x / (1 - x)``, with x brought between `eps` and ``1 - eps`` if that "
    "is given."
)
logit.derivative(self=lambda grad, self, eps: logit_backward(grad, self, eps))


# --- backward operators ---------------------------------------------------------------

# Operators of their own, as in PyTorch, so that traces and modes see them. Each is its gradient
# times `conj(slope)`, so in complex numbers its adjoint is the same at `conj(output)`, and by the
# output the conjugate of what came is what is multiplied.

tanh_backward: OperatorPage = backward(
    "tanh_backward", lambda xp, grad, y: grad * xp.conj(1 - y * y), saved="output", takes=FLOATING
)
tanh_backward.facts.on_halves = of_arrays("tanh_slope")
tanh_backward.derivative(
    grad_output=lambda grad, output: tanh_backward(grad, conj(output)),
    output=lambda grad, grad_output, output: conj(grad) * grad_output * (-2 * conj(output)),
)
sigmoid_backward: OperatorPage = backward(
    "sigmoid_backward",
    lambda xp, grad, y: grad * xp.conj((1 - y) * y),
    saved="output",
    takes=FLOATING,
)
sigmoid_backward.facts.on_halves = of_arrays("sigmoid_slope")
sigmoid_backward.derivative(
    grad_output=lambda grad, output: sigmoid_backward(grad, conj(output)),
    output=lambda grad, grad_output, output: conj(grad) * grad_output * (1 - 2 * conj(output)),
)


def logit_backward_kernel(xp: ModuleType, grad: Array, x: Array, eps: float | None) -> Array:
    slope = grad / (x * (1 - x))
    if eps is None:
        return xp.where((x < 0) | (x > 1), xp.nan, slope)
    return xp.where((x < eps) | (x > 1 - eps), 0, slope)


logit_backward: OperatorPage = backward(
    "logit_backward", logit_backward_kernel, saved="self", more=", float? eps=None"
)


def logit_backward_by_self(
    grad: Tensor, grad_output: Tensor, self: Tensor, eps: float | None
) -> Tensor:
    """The gradient of ``logit_backward`` by its input."""
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    product = self * (1 - self)
    slope = grad * grad_output * (2 * self - 1) / (product * product)
    return slope.masked_fill((self < low).logical_or(self > high), 0)


logit_backward.derivative(
    grad_output=lambda grad, self, eps: logit_backward(grad, self, eps),
    self=logit_backward_by_self,
)
