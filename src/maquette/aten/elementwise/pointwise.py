"""The factories of elementwise pages: `unary`, `binary`, and what goes with them.

The operators themselves stand in `arithmetic.py`, `transcendental.py`, `comparison.py`,
`activations.py` and so on. How operands are promoted is in `type_promotion.py`, whose names
are handed on here, so that a family imports one module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

from maquette.aten.common.large_arrays import loops_for_floats
from maquette.aten.common.type_promotion import (
    ANY,
    BITS,
    BOOLS,
    COMPLEX,
    F32,
    F64,
    FLOATING,
    FLOATS,
    INTS,
    NUMERIC,
    ORDERED,
    REAL_FLOATS,
    REALS,
    WIDE_FLOATS,
    Array,
    Kernel,
    Number,
    Operand,
    Takes,
    array_type,
    boolean,
    cast,
    check_category,
    check_real_numbers,
    common_type,
    computed,
    direct,
    direct_sum,
    floating,
    promoted,
    real,
    same,
    special,
    wide_type,
    widened,
)
from maquette.autograd.formulas import Derivatives, formula_rule
from maquette.core.dtype import dtype
from maquette.core.elementwise import elementwise
from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, OperatorPage, Variant, define
from maquette.library.variants import writing

POINTWISE = (Tag.pointwise,)
CORE_POINTWISE = (Tag.core, Tag.pointwise)
BOTH = (Variant.INPLACE, Variant.OUT)


# --- pages of one and two operands ----------------------------------------------------


def unary(
    name: str,
    function: Kernel,
    *,
    result: Callable[[dtype], dtype] = floating,
    takes: Takes = ANY,
    label: str = "",
    argument: str = "self",
    more: str = "",
    overload: str = "",
    tags: Iterable[Tag] = POINTWISE,
    variants: Iterable[Variant | str] = BOTH,
    flops: int = 1,
) -> OperatorPage:
    """Define an elementwise function of one tensor, with its in-place and ``out=`` forms.

    function: ``function(xp, array, *more)``; result: the result's type by the operand's; takes:
    categories of the type it computes in; label: the operator's name in refusals; argument: the
    tensor's name; more: further parameters of the schema; flops: per element.
    """
    arguments = f"Tensor {argument}{more and ', ' + more}"
    op = define(_schema(name, overload, arguments), tags=tags, variants=variants)
    computes = floating if result is floating else same

    def shape(self: TensorMeta, *rest: object) -> TensorMeta:
        check_category(label or name, computes(self.dtype), takes)
        if rest and takes is REAL_FLOATS:
            check_real_numbers(name, *rest)
        return elementwise([self], result(self.dtype), common_dtype=computes(self.dtype))

    prepare = widened if result is floating else computed

    def kernel(xp: ModuleType, self: Array, *rest: object) -> Array:
        return function(xp, prepare(self), *rest)

    op.shape(_named(shape, name, "shape"))
    op.kernel(_named(kernel, name, "kernel"))
    op.cost(elementwise_cost(flops))
    if not tags:  # which would say it
        op.facts.by_element = True
    return op


def binary(
    name: str,
    function: Kernel,
    *,
    result: Callable[[dtype], dtype] = same,
    floats: bool = False,
    takes: Takes = ANY,
    label: str = "",
    arguments: str = "Tensor self, Tensor other",
    overload: str = "",
    tags: Iterable[Tag] = POINTWISE,
    variants: Iterable[Variant | str] = BOTH,
    flops: int = 1,
    takes_numbers: bool = False,
) -> OperatorPage:
    """Define an elementwise function of two operands, tensors or numbers.

    function: ``function(xp, a, b, *rest)`` on arrays of the common type; floats: integers are
    promoted to the default dtype; result: the result's type by the common type; arguments: of the
    schema, the operands first. The rest as for `unary`.
    """
    op = define(
        _schema(name, overload, arguments),
        tags=tags,
        variants=variants,
        takes_numbers=takes_numbers,
    )

    def shape(self: Operand, other: Operand, *rest: object) -> TensorMeta:
        common = common_type((self, other), floats=floats)
        check_category(label or name, common, takes)
        return elementwise((self, other), result(common), common_dtype=common, op_name=name)

    def kernel(xp: ModuleType, self: Array, other: Array, *rest: object) -> Array:
        given = getattr(self, "dtype", None)
        if given is F32 or given is F64:
            kind = other.__class__
            if kind is float or kind is int:
                return function(xp, self, xp.asarray(other, given), *rest)
            if getattr(other, "dtype", None) is given:
                return function(xp, self, other, *rest)
        a, b = promoted(xp, self, other, floats=floats)
        return function(xp, a, b, *rest)

    op.shape(_named(shape, name, "shape"))
    op.kernel(_named(kernel, name, "kernel"))
    op.cost(elementwise_cost(flops))
    if not tags:  # which would say it
        op.facts.by_element = True
    return op


def _schema(name: str, overload: str, arguments: str) -> str:
    return f"aten::{name}{overload and '.' + overload}({arguments}) -> Tensor"


def backward(
    name: str,
    kernel: Kernel,
    *,
    saved: str = "self",
    more: str = "",
    takes: Takes = REAL_FLOATS,
    grad: str = "grad_output",
    tags: Iterable[Tag] = POINTWISE,
) -> OperatorPage:
    """Define an operator that ends in ``_backward``: of a gradient and one saved tensor.

    kernel: ``kernel(xp, grad, saved, *more)`` on arrays of one type; more: further parameters of
    the schema, with a leading comma.
    """
    arguments = f"Tensor {grad}, Tensor {saved}{more}"
    page = binary(name, kernel, takes=takes, arguments=arguments, tags=tags, variants=())
    return page


def in_place_derivative(page: OperatorPage, formula: Callable[..., object]) -> None:
    """Give the in-place form of a page a formula of its own, of ``result`` in place of ``self``."""
    written = in_place_form(page)
    written.own_derivatives = Derivatives()
    written.own_derivatives.add(formula_rule(("self",), formula))


def number_derivative(page: OperatorPage, formula: Callable[..., object]) -> None:
    """Give the forms with a number of a page, made ``like`` another, a formula of their own."""
    for op in (page.op, in_place_form(page)):
        op.own_derivatives = Derivatives()
        op.own_derivatives.add(formula_rule(("self",), formula))


def ternary_shape(name: str, operands: Sequence[Operand], *, takes: Takes = NUMERIC) -> TensorMeta:
    """The result of an operator that promotes all its operands to a common type and keeps it."""
    common = common_type(operands)
    check_category(name, common, takes)
    return elementwise(operands, common, common_dtype=common, op_name=name)


def elementwise_cost(flops: int) -> Callable[..., Cost]:
    """The cost rule of ``flops`` operations an element of the result."""

    def cost(*metas: object) -> Cost:
        out = metas[-1]
        if isinstance(out, (tuple, list)):
            out = out[0]
        return Cost(flops=flops * out.numel if isinstance(out, TensorMeta) else 0)

    return cost


def _named(function: Callable[..., object], name: str, role: str) -> Callable[..., object]:
    """Tracebacks and profiles name the operator, as for rules written one by one."""
    function.__name__ = function.__qualname__ = f"{name}_{role}"
    return function


# --- writing in place -----------------------------------------------------------------


def write_directly(page: OperatorPage, ufunc: str) -> None:
    """Let the in-place form compute into its target where types agree: no copy in between."""
    page.ufunc(ufunc)
    written = in_place_form(page)
    general = writing(page.op)

    def kernel(xp: ModuleType, self: Array, other: Array, *alpha: Number) -> None:
        given, kind, act = self.dtype, other.__class__, getattr(xp, ufunc)
        same = kind is float or kind is int or getattr(other, "dtype", None) is given
        if not (same and (given is F32 or given is F64)):
            general(xp, self, other, *alpha)
        elif alpha in ((), (1,)):
            act(self, other, out=self)
        elif kind is float or kind is int or isinstance(alpha[0], complex):
            general(xp, self, other, *alpha)
        else:
            factor = cast(xp, alpha[0], given)
            loops = loops_for_floats(xp, self, other) if self.shape == other.shape else None
            if loops is None or not loops.add_scaled(self, other, factor, ufunc):
                act(self, xp.multiply(other, factor), out=self)

    written.own_kernel = kernel


def in_place_form(page: OperatorPage) -> OpOverload:
    """The in-place overload that was derived from a page."""
    return next(op for op in page.variants if op._opname.endswith("_"))


__all__ = [
    "ANY",
    "Array",
    "BITS",
    "BOOLS",
    "BOTH",
    "COMPLEX",
    "CORE_POINTWISE",
    "FLOATING",
    "FLOATS",
    "INTS",
    "Kernel",
    "NUMERIC",
    "Number",
    "ORDERED",
    "Operand",
    "POINTWISE",
    "REALS",
    "REAL_FLOATS",
    "Takes",
    "WIDE_FLOATS",
    "array_type",
    "backward",
    "binary",
    "boolean",
    "cast",
    "check_category",
    "common_type",
    "computed",
    "direct",
    "direct_sum",
    "elementwise_cost",
    "floating",
    "in_place_derivative",
    "in_place_form",
    "number_derivative",
    "promoted",
    "real",
    "same",
    "special",
    "ternary_shape",
    "unary",
    "wide_type",
    "widened",
    "write_directly",
]
