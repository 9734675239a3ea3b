"""Sums, differences, products; signs and magnitudes.

Division is in `division.py`, powers in `powers.py`, other functions of one operand in
`transcendental.py`. Kernels of `+ - *` try what costs least first: operands of one type go straight
to NumPy, which then does what PyTorch does; everything else is promoted by PyTorch's rules
(`pointwise.promoted`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.batching_forms import same_shape
from maquette.aten.common.formula_helpers import conj, no_slope, real_part, times
from maquette.aten.common.fresh_writes import unless_wrapped
from maquette.aten.common.half_steps import of_arrays, of_product, of_sum
from maquette.aten.common.large_arrays import loops_of_numbers
from maquette.aten.common.large_arrays import reciprocal as inverse
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    ANY,
    BOTH,
    COMPLEX,
    CORE_POINTWISE,
    FLOATS,
    NUMERIC,
    POINTWISE,
    Array,
    Kernel,
    Number,
    Operand,
    common_type,
    direct,
    direct_sum,
    elementwise_cost,
    in_place_form,
    number_derivative,
    real,
    same,
    unary,
    write_directly,
)
from maquette.core.device_rules import any_elsewhere
from maquette.core.dtype import dtype
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.scalar_types import is_complex_type
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, set_shape_rule
from maquette.library.variants import check_same_dtype, inplace_shape, out_shape
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

# --- addition -------------------------------------------------------------------------


def check_alpha(alpha: Number, common: dtype) -> None:
    """Refuse a scale of a higher category than the type that is added in."""
    check(
        not isinstance(alpha, bool) or common.category == 0,
        lambda: "Boolean alpha only supported for Boolean results.",
    )
    check(
        not isinstance(alpha, float) or common.category >= FLOATS,
        lambda: "For integral input tensors, argument alpha must not be a floating point number.",
    )
    check(
        not isinstance(alpha, complex) or common.category == COMPLEX,
        lambda: "For non-complex input tensors, argument alpha must not be a complex number.",
    )


def check_no_bool(self: Operand, other: Operand) -> None:
    """Refuse the difference of truth values."""
    flags = [_is_bool(self), _is_bool(other)]
    check(
        not all(flags),
        lambda: (
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
            "`^` or `logical_xor()` operator instead."
        ),
    )
    check(
        not any(flags),
        lambda: (
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead."
        ),
    )


def _is_bool(operand: Operand) -> bool:
    if isinstance(operand, TensorMeta):
        return operand.dtype.category == 0
    return isinstance(operand, bool)


def add_shape(self: Operand, other: Operand, alpha: Number) -> TensorMeta:
    common = common_type((self, other))
    check_alpha(alpha, common)
    return elementwise((self, other), common, common_dtype=common, op_name="add")


def sub_shape(self: Operand, other: Operand, alpha: Number) -> TensorMeta:
    check_no_bool(self, other)
    common = common_type((self, other))
    check_alpha(alpha, common)
    return elementwise((self, other), common, common_dtype=common, op_name="sub")


add_kernel = direct_sum(operator.add)
sub_kernel = direct_sum(operator.sub)


def scaled_grad(grad: Tensor, alpha: Number) -> Tensor:
    """The gradient of the operand that a sum scales by ``alpha``."""
    return grad if alpha == 1 else times(grad, conj(alpha))


def _sum_page(schema: str, shape: Callable[..., TensorMeta], kernel: Kernel) -> OperatorPage:
    op = define(schema, tags=CORE_POINTWISE, variants=BOTH, takes_numbers=True)
    op.shape(shape)
    op.kernel(kernel)
    op.cost(elementwise_cost(1))
    return op


add = _sum_page(
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    add_shape,
    add_kernel,
)
add.describe("The sum ``self + alpha * other``.")
add_scalar = define(
    "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
    like=add,
)
add_scalar.node_name("AddBackward1")
sub = _sum_page(
    "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    sub_shape,
    sub_kernel,
)
sub.describe("The difference ``self - alpha * other``; bool tensors are refused.")
sub_scalar = define(
    "aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
    like=sub,
)
sub_scalar.node_name("SubBackward1")

for _page in (add, add_scalar):
    write_directly(_page, "add")
for _page in (sub, sub_scalar):
    write_directly(_page, "subtract")


def _adds_meta(self: TensorMeta, other: Operand, alpha: Number) -> bool:
    """Whether what is added in place is on meta, beside a tensor that is elsewhere (F51)."""
    is_meta = isinstance(other, TensorMeta) and other.device.type == "meta"
    return is_meta and any_elsewhere((self,))


def add__shape(self: TensorMeta, other: Operand, alpha: Number) -> object:
    """As derived, with an operand on meta in the place of self's."""
    if _adds_meta(self, other, alpha):
        assert isinstance(other, TensorMeta)
        other = other.with_device(self.device)
    return inplace_shape(add.op)(self, other, alpha)


_add_ = in_place_form(add)
_add_.own_free_devices = _adds_meta
set_shape_rule(_add_, add__shape)

add.facts.on_halves, sub.facts.on_halves = of_sum(1), of_sum(-1)
add.linear(self=lambda grad: grad, other=scaled_grad)
sub.linear(self=lambda grad: grad, other=lambda grad, alpha: scaled_grad(-grad, alpha))


def rsub_shape(self: Operand, other: Operand, alpha: Number) -> TensorMeta:
    return sub_shape(other, self, alpha)


def rsub_kernel(xp: ModuleType, self: Array, other: Array, alpha: Number) -> Array:
    return sub_kernel(xp, other, self, alpha)


rsub = define("aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
rsub.describe("The difference ``other - alpha * self``.")
rsub.shape(rsub_shape)
rsub.kernel(rsub_kernel)
rsub.facts.on_halves = lambda self, other, alpha: of_sum(-1)(other, self, alpha)
rsub.cost(elementwise_cost(1))
rsub.linear(self=lambda grad, alpha: scaled_grad(-grad, alpha), other=lambda grad: grad)
rsub.batching(BROADCASTS)
rsub_scalar = define(
    "aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    tags=POINTWISE,
    like=rsub,
)
rsub_scalar.node_name("RsubBackward1")


# --- multiplication -------------------------------------------------------------------


def mul_shape(self: Operand, other: Operand) -> TensorMeta:
    common = common_type((self, other))
    return elementwise((self, other), common, common_dtype=common, op_name="mul")


mul_kernel = direct(operator.mul)

mul = define(
    "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
    takes_numbers=True,
)
mul.describe("The product of `self` and `other`.")
mul_scalar = define(
    "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor",
    tags=CORE_POINTWISE,
    variants=BOTH,
    like=mul,
)
mul_scalar.node_name("MulBackward1")
mul.shape(mul_shape)
mul.kernel(mul_kernel)
mul.facts.on_halves = of_product("multiply", "times")
mul.cost(elementwise_cost(1))
mul.bilinear(
    self=lambda grad, other: grad * conj(other),
    other=lambda grad, self: grad * conj(self),
)
number_derivative(mul_scalar, lambda grad, other: times(grad, conj(other)))
for _page in (mul, mul_scalar):
    write_directly(_page, "multiply")


# --- signs and magnitudes -------------------------------------------------------------


def check_negatable(kind: dtype) -> dtype:
    """The result type of a negation; RuntimeError for bool."""
    check(
        kind.category != 0,
        lambda: (
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        ),
    )
    return kind


def in_place_abs_shape(rule: Callable[..., object]) -> Callable[..., object]:
    """The rule of ``abs_``: a magnitude is no complex number."""

    def abs_in_place_shape(self: TensorMeta) -> object:
        check(
            not self.dtype.is_complex,
            lambda: "In-place abs is not supported for complex tensors.",
        )
        return rule(self)

    return abs_in_place_shape


def abs_out_shape(self: TensorMeta, out: TensorMeta) -> object:
    """The rule of ``abs.out``: an output of the operand's own dtype.

    Magnitudes of complex numbers also go into real outputs of any precision.
    """
    if not self.dtype.is_complex:
        return _exact_abs(self, out)
    if out.dtype.is_complex:
        check_same_dtype("abs", self.dtype, out.dtype)
    return _cast_abs(self, out)


def check_real_sign(kind: dtype) -> dtype:
    """The result type of a sign; NotImplementedError for complex types."""
    check_not_implemented(
        not kind.is_complex,
        lambda: (
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
            "torch.sgn instead."
        ),
    )
    return kind


def sign_kernel(xp: ModuleType, self: Array) -> Array:
    return self if self.dtype.kind == "b" else _sign(xp, self)


def _sign(xp: ModuleType, self: Array) -> Array:
    loops = loops_of_numbers(xp, self)
    if loops is not None:
        found: Array = loops.sign(self)
        return found
    # xp.sign gives nan for nan, PyTorch 0.
    return xp.subtract((self > 0).astype(self.dtype), (self < 0).astype(self.dtype))


def sgn_kernel(xp: ModuleType, self: Array) -> Array:
    if not is_complex_type(self.dtype):
        return sign_kernel(xp, self)
    size = xp.abs(self)
    return xp.where(size == 0, 0, self / xp.where(size == 0, 1, size))


def sgn_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``sgn``: what of it is tangent to the unit circle, over the magnitude."""
    if not self.meta.dtype.is_complex:
        return no_slope(grad)
    size = aten.abs(self)
    twice, conjugate = times(size, 2), conj(grad)
    opposed = conjugate * (result * result)
    return unless_wrapped("masked_fill", (grad - opposed) / twice, size == 0, 0)


def by_sign_bits(page: OperatorPage, act: Callable[[Any], Any]) -> None:
    """Compute 16-bit floats of NumPy in their bits: converted to float32 they take ten times it."""
    general = page.facts.kernel
    assert general is not None

    def kernel(xp: ModuleType, self: Array) -> Array:
        if self.itemsize == 2 and xp is np and self.dtype.kind not in "iu":
            found: Array = act(self.view(np.uint16)).view(self.dtype)
            return found
        result: Array = general(xp, self)  # type: ignore[assignment]  # a kernel of one array
        return result

    page.kernel(kernel)
    page.facts.by_bits = True


def _negative(xp: ModuleType, self: Array) -> Array:
    if xp is np and self.dtype.kind == "c" and self.ndim:
        if self.strides[-1] == self.itemsize:
            # NumPy turns complex numbers one at a time, their parts 16 (1.7 to 0.2 ms).
            return np.negative(self.view(self.real.dtype)).view(self.dtype)
        if self.strides[0] == self.itemsize:
            return _negative(xp, self.T).T
    found: Array = xp.negative(self)
    return found


neg = unary("neg", _negative, result=check_negatable, tags=CORE_POINTWISE)
by_sign_bits(neg, lambda bits: bits ^ 0x8000)
neg.ufunc("negative")
neg.describe("Each element with its sign turned; bool tensors are refused.")
neg.exact_out()
neg.linear(self=lambda grad: -grad)
abs = unary("abs", lambda xp, self: xp.abs(self), result=real, takes=NUMERIC, tags=CORE_POINTWISE)
by_sign_bits(abs, lambda bits: bits & 0x7FFF)
abs.describe("The magnitude of each element; of complex numbers a real tensor.")
set_shape_rule(in_place_form(abs), in_place_abs_shape(inplace_shape(abs.op)))
set_shape_rule(abs.variants[1], abs_out_shape)
_exact_abs, _cast_abs = out_shape(abs.op, 1, check_same_dtype), out_shape(abs.op, 1)
abs.derivative(self=lambda grad, self: grad * sgn(self))


@abs.tangent
def abs_tangent(self: Tensor, self_t: Tensor) -> Tensor:
    """How the magnitude grows: by what of the tangent is along ``self``."""
    slope = sgn(self)
    return real_part(self_t * conj(slope)) if self.meta.dtype.is_complex else self_t * slope


sign = unary("sign", sign_kernel, result=check_real_sign, tags=CORE_POINTWISE)
sign.describe("The sign of each element: -1, 0 or 1; complex tensors are refused, see `sgn`.")
sign.exact_out()
sign.flat("self")
sgn: OperatorPage = unary("sgn", sgn_kernel, result=same, takes=ANY)
sgn.describe("The sign of each element, for complex numbers the number divided by its magnitude.")
sgn.exact_out()
sgn.derivative(self=sgn_grad)


@sgn.tangent
def sgn_tangent(self: Tensor, self_t: Tensor, result: Tensor) -> Tensor:
    """As the gradient: the projection on the tangent of the circle is its own transpose."""
    return sgn_grad(self_t, self, result)


reciprocal = unary("reciprocal", inverse, tags=CORE_POINTWISE)
reciprocal.facts.on_halves = of_arrays("reciprocal")
reciprocal.describe("One divided by each element, in floating point.")
reciprocal.autocast(cuda="float32")


def reciprocal_grad(grad: Tensor, result: Tensor) -> Tensor:
    """The gradient of ``reciprocal``."""
    square = conj(result * result)
    return -grad * square


reciprocal.holomorphic(self=reciprocal_grad)

positive = define("aten::positive(Tensor(a) self) -> Tensor(a)", tags=POINTWISE)
positive.describe("The tensor itself, as ``+x`` gives it; bool tensors are refused.")


@positive.composite
def positive_itself(self: Tensor) -> Tensor:
    check(
        self.meta.dtype.category != 0,
        lambda: "The `+` operator, on a bool tensor is not supported.",
    )
    return self


positive.batching(same_shape)


square = define("aten::square(Tensor self) -> Tensor", tags=POINTWISE)
square.describe("Each element times itself.")
square.composite(lambda self: aten.pow(self, 2))
define("aten::square_(Tensor(a!) self) -> Tensor(a!)", tags=[*POINTWISE, Tag.inplace]).composite(
    lambda self: self.pow_(2)
)
define(
    "aten::square.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", tags=[*POINTWISE, Tag.out]
).composite(lambda self, out: aten.pow(self, 2, out=out))
