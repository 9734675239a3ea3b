"""Comparisons and logic: relations, logical and bitwise operators, nearness.

Choosing by a condition (`where`, `masked_fill`) is in `where.py`. Results of relations are bool
and carry no gradient; their in-place forms write 0 and 1 in the type of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.formula_helpers import plus, times
from maquette.aten.common.large_arrays import SMALL
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.aten.common.type_promotion import promoted
from maquette.aten.elementwise.pointwise import (
    ANY,
    BITS,
    BOTH,
    CORE_POINTWISE,
    FLOATS,
    ORDERED,
    POINTWISE,
    Array,
    Kernel,
    Operand,
    Takes,
    array_type,
    binary,
    boolean,
    elementwise_cost,
    unary,
)
from maquette.core.dtype import bool_, get_default_dtype
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.kernels import Kernel as DispatchKernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define, describe
from maquette.tensor.tensor import Tensor

INTS_ONLY = frozenset((1,))


# --- relations ------------------------------------------------------------------------


def relation(
    name: str, function: Kernel, *, takes: Takes = ORDERED
) -> tuple[OperatorPage, OperatorPage]:
    """Define a relation of two tensors, and of a tensor and a number."""
    pages = (
        binary(
            name,
            function,
            result=boolean,
            takes=takes,
            overload="Tensor",
            tags=CORE_POINTWISE,
            variants=(Variant.INPLACE, "Tensor_out"),
        ),
        binary(
            name,
            function,
            result=boolean,
            takes=takes,
            overload="Scalar",
            arguments="Tensor self, Scalar other",
            tags=CORE_POINTWISE,
        ),
    )
    for page in pages:
        page.flat("self", "other")
    return pages


eq, eq_scalar = relation("eq", lambda xp, a, b: xp.equal(a, b), takes=ANY)
eq.node_name(in_place="EqBackward1")
describe("eq", "Where two tensors are equal: a bool tensor.")
ne, ne_scalar = relation("ne", lambda xp, a, b: xp.not_equal(a, b), takes=ANY)
ne.node_name(in_place="NeBackward1")
describe("ne", "Where two tensors differ: a bool tensor.")
lt, lt_scalar = relation("lt", lambda xp, a, b: xp.less(a, b))
lt.node_name(in_place="LtBackward1")
describe("lt", "Where `self` is less than `other`: a bool tensor.")
le, le_scalar = relation("le", lambda xp, a, b: xp.less_equal(a, b))
le.node_name(in_place="LeBackward1")
describe("le", "Where `self` is less than or equal to `other`: a bool tensor.")
gt, gt_scalar = relation("gt", lambda xp, a, b: xp.greater(a, b))
gt.node_name(in_place="GtBackward1")
describe("gt", "Where `self` is greater than `other`: a bool tensor.")
ge, ge_scalar = relation("ge", lambda xp, a, b: xp.greater_equal(a, b))
ge.node_name(in_place="GeBackward1")
describe("ge", "Where `self` is greater than or equal to `other`: a bool tensor.")


# --- logic ----------------------------------------------------------------------------


def _truth(x: Array) -> Array:
    """Where an array is not zero; itself if it is one of bools, which NumPy compares slowly."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        return converted(x, np.dtype(bool))
    return x if array_type(x) is bool_ else x != 0


def logical(name: str, function: Kernel) -> OperatorPage:
    """Define a logical operator: operands of any types count as true where they are not zero."""
    op = define(
        f"aten::{name}(Tensor self, Tensor other) -> Tensor", tags=CORE_POINTWISE, variants=BOTH
    )

    @op.shape
    def logical_shape(self: Operand, other: Operand) -> TensorMeta:
        return elementwise((self, other), bool_, op_name=name)

    @op.kernel
    def logical_kernel(xp: ModuleType, self: Array, other: Array) -> Array:
        return function(xp, _truth(self), _truth(other))

    op.cost(elementwise_cost(1))
    op.flat("self", "other")
    return op


logical_and = logical("logical_and", lambda xp, a, b: xp.logical_and(a, b))
logical_and.describe("Where both tensors are true, or not zero: a bool tensor.")
logical_or = logical("logical_or", lambda xp, a, b: xp.logical_or(a, b))
logical_or.describe("Where one of two tensors is true, or not zero: a bool tensor.")
logical_xor = logical("logical_xor", lambda xp, a, b: xp.logical_xor(a, b))
logical_xor.describe("Where exactly one of two tensors is true, or not zero: a bool tensor.")
logical_not = unary(
    "logical_not",
    lambda xp, self: xp.logical_not(_truth(self)),
    result=boolean,
    tags=CORE_POINTWISE,
)
logical_not.describe("Where the tensor is false, or zero: a bool tensor.")
logical_not.flat("self")


# --- bits -----------------------------------------------------------------------------


def bitwise(
    name: str,
    function: Kernel,
    *,
    scalar: str = "Scalar",
    takes: Takes = BITS,
    label: str = "",
    tags: tuple[Tag, ...] = CORE_POINTWISE,
) -> None:
    """Define a bitwise operator on two tensors, a tensor and a number, a number and a tensor."""
    binary(
        name,
        function,
        takes=takes,
        label=label,
        overload="Tensor",
        tags=tags,
        variants=(Variant.INPLACE, "Tensor_out"),
    )
    binary(
        name,
        function,
        takes=takes,
        label=label,
        overload=scalar,
        arguments="Tensor self, Scalar other",
        tags=tags,
    )
    binary(
        name,
        function,
        takes=takes,
        label=label,
        overload="Scalar_Tensor",
        arguments="Scalar self, Tensor other",
        variants=(),
    )


def left_shift_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    outside = xp.logical_or(b < 0, b >= bits)
    if xp is np and not outside.any():
        return np.left_shift(a, b)
    return xp.where(outside, 0, xp.left_shift(a, xp.where(outside, 0, b))).astype(a.dtype)


def right_shift_kernel(xp: ModuleType, a: Array, b: Array) -> Array:
    # A shift by too much leaves the sign, as a shift by all bits but one does.
    most = 8 * a.dtype.itemsize - 1
    outside = xp.logical_or(b < 0, b > most)
    if xp is np and not outside.any():
        return np.right_shift(a, b)
    shifted = xp.right_shift(a, xp.where(outside, most, b).astype(a.dtype))
    return shifted if a.dtype.kind == "i" else xp.where(outside, 0, shifted).astype(a.dtype)


bitwise("bitwise_and", lambda xp, a, b: xp.bitwise_and(a, b))
describe("bitwise_and", "The bits that both of two tensors of integers or bools have.")
bitwise("bitwise_or", lambda xp, a, b: xp.bitwise_or(a, b))
describe("bitwise_or", "The bits that one of two tensors of integers or bools has.")
bitwise("bitwise_xor", lambda xp, a, b: xp.bitwise_xor(a, b))
describe("bitwise_xor", "The bits that exactly one of two tensors of integers or bools has.")
bitwise(
    "bitwise_left_shift",
    left_shift_kernel,
    scalar="Tensor_Scalar",
    takes=INTS_ONLY,
    label="lshift",
    tags=POINTWISE,
)
describe("bitwise_left_shift", "The bits of `self` moved up by `other` places.")
bitwise(
    "bitwise_right_shift",
    right_shift_kernel,
    scalar="Tensor_Scalar",
    takes=INTS_ONLY,
    label="rshift",
    tags=POINTWISE,
)
describe("bitwise_right_shift", "The bits of `self` moved down by `other` places, the sign kept.")
bitwise_not = unary(
    "bitwise_not",
    lambda xp, self: xp.invert(self),
    result=lambda kind: kind,
    takes=BITS,
    tags=CORE_POINTWISE,
).exact_out()
bitwise_not.describe("Each bit turned of integers, or each bool.")


# --- nearness -------------------------------------------------------------------------

_NEAR = (
    "Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, "
    "bool equal_nan=False"
)


isclose = define(f"aten::isclose({_NEAR}) -> Tensor")
isclose.describe("Where elements agree to ``atol + rtol * abs(other)``: a bool tensor.")


@isclose.composite
def isclose_by_parts(
    self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool
) -> Tensor:
    check(
        self.dtype is other.dtype,
        lambda: f"{self.dtype.scalar_name} did not match {other.dtype.scalar_name}",
    )
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        words = f"{name} must be greater than or equal to zero, but got {tolerance}"
        check(tolerance >= 0, lambda words=words: words)
    close = eq(self, other)
    if equal_nan and self.dtype.category >= FLOATS:
        missing = aten.bitwise_and.Tensor(aten.isnan(self), aten.isnan(other))
        close = aten.bitwise_or_.Tensor(close, missing)
    if rtol == 0 and atol == 0:
        return close
    if self.dtype.category < FLOATS:
        other = other.to(get_default_dtype())
    if self.dtype is bool_:  # of which there are no differences
        self = self.to(get_default_dtype())
    allowed = plus(aten.abs(times(other, rtol)), atol)
    actual = aten.abs(self - other)
    near = aten.bitwise_and_.Tensor(aten.isfinite(actual), le(actual, allowed))
    found: Tensor = aten.bitwise_or_.Tensor(close, near)
    return found


allclose = define(f"aten::allclose({_NEAR}) -> bool", tags=[Tag.data_dependent_output])
allclose.describe("Whether all elements agree to ``atol + rtol * abs(other)``: a Python bool.")


@allclose.explicit
def allclose_by_parts(
    self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool
) -> bool:
    return bool(isclose(self, other, rtol, atol, equal_nan).all().item())


equal = define(
    "aten::equal(Tensor self, Tensor other) -> bool",
    tags=[Tag.data_dependent_output, Tag.pointwise],
)
equal.describe("Whether two tensors have the same size and elements: a Python bool.")


@equal.shape
def equal_shape(self: TensorMeta, other: TensorMeta) -> bool:
    return False  # a placeholder: the kernel gives the answer, fake tensors have none


def _equal_on_meta(op: OpOverload, ks: int) -> Callable[..., object]:
    return lambda ks, self, other: op._raise_no_kernel(DispatchKey.Meta)


equal.op.register(DispatchKey.Meta, DispatchKernel(_equal_on_meta))


@equal.kernel
def equal_kernel(xp: ModuleType, self: Array, other: Array) -> bool:
    if self is other and self.dtype.kind in "biu":  # of floats NaN is not equal to itself
        return True
    if self.shape != other.shape:
        return False
    a, b = (self, other) if self.dtype == other.dtype else promoted(xp, self, other)
    if xp is np and a.size > SMALL:  # what differs mostly does so at once
        first = (0,) * (a.ndim - 1) + (slice(0, SMALL),)
        if not np.equal(a[first], b[first]).all():
            return False
    return bool(xp.all(xp.equal(a, b)))
