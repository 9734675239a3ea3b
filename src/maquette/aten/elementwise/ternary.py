"""Elementwise operators of three operands: `lerp`, `addcmul`, `addcdiv`.

Optimizers live on them: their steps are these, in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from maquette.aten.common.formula_helpers import Value, conj, times
from maquette.aten.common.half_steps import of_arrays, with_numbers
from maquette.aten.common.large_arrays import loops_of_floats
from maquette.aten.common.type_promotion import F32, F64
from maquette.aten.elementwise.pointwise import (
    BOTH,
    FLOATING,
    FLOATS,
    NUMERIC,
    POINTWISE,
    Array,
    Number,
    Operand,
    array_type,
    cast,
    check_category,
    common_type,
    elementwise_cost,
    in_place_form,
    promoted,
    ternary_shape,
    wide_type,
)
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.fitting import check_fits, computing_type
from maquette.core.meta import TensorMeta
from maquette.library.page import OperatorPage, Variant, define
from maquette.library.variants import writing
from maquette.tensor.tensor import Tensor

# --- lerp -----------------------------------------------------------------------------


def lerp_shape(self: TensorMeta, end: TensorMeta, weight: TensorMeta | Number) -> TensorMeta:
    check_category("lerp_kernel_scalar", self.dtype, FLOATING)
    check_same("end", self, end)
    operands = [self, end]
    if isinstance(weight, TensorMeta):
        if weight.ndim:
            check_same("weight", self, weight)
        operands.append(weight)
    else:
        check_fits(weight, computing_type(self.dtype))
    return elementwise(operands, self.dtype, op_name="lerp")


def check_same(name: str, self: TensorMeta, other: TensorMeta) -> None:
    """Refuse operands of different types: `lerp` promotes nothing."""
    check(
        self.dtype is other.dtype,
        lambda: f"expected dtype {self.dtype.name} for `{name}` but got dtype {other.dtype.name}",
    )


def lerp_kernel(xp: ModuleType, self: Array, end: Array, weight: Array | Number) -> Array:
    wide = wide_type(array_type(self))
    start, stop, w = (cast(xp, value, wide) for value in (self, end, weight))
    alike = isinstance(weight, type(self)) and self.shape == end.shape == weight.shape
    loops = loops_of_floats(xp, start) if alike else None
    if loops is not None:
        found: Array = loops.lerp(start, stop, w)
        return found
    step = stop - start
    if isinstance(weight, bool | int | float | complex):
        return start + w * step if abs(weight) < 0.5 else stop - step * (1 - w)
    # From the nearer end, so that a weight of 1 gives exactly `end`.
    return xp.where(abs(w) < 0.5, start + w * step, stop - step * (1 - w))


def lerp_self_grad(grad: Tensor, weight: Value) -> Tensor:
    """The gradient of `lerp` by its start."""
    if isinstance(weight, Tensor):
        return grad * conj(1 - weight)
    return times(grad, conj(1 - weight))


def lerp_end_grad(grad: Tensor, weight: Value) -> Tensor:
    """The gradient of `lerp` by its end."""
    return grad * conj(weight) if isinstance(weight, Tensor) else times(grad, conj(weight))


lerp = define(
    "aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    tags=POINTWISE,
    variants=(Variant.INPLACE, "Tensor_out"),
)
lerp.node_name("LerpBackward1")
lerp.describe(
    "The point between `self` and `end` that `weight` says: ``self + weight * (end - self)``."
)
lerp_number = define(
    "aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    tags=POINTWISE,
    variants=BOTH,
)
for _page in (lerp, lerp_number):
    _page.shape(lerp_shape)
    _page.kernel(lerp_kernel)
    _page.cost(elementwise_cost(3))
lerp.exact_out()
lerp.facts.on_halves = of_arrays("lerp_by")
lerp_number.facts.on_halves = with_numbers("lerp", 2)
lerp_number.linear(self=lerp_self_grad, end=lerp_end_grad)
lerp.derivative(
    self=lerp_self_grad,
    end=lerp_end_grad,
    weight=lambda grad, self, end: grad * conj(end - self),
)


@lerp.tangent
def lerp_tangent(
    self: Tensor, self_t: Tensor, end: Tensor, end_t: Tensor, weight: Tensor, weight_t: Tensor
) -> Tensor:
    return lerp(self_t, end_t, weight) + weight_t * (end - self)


# --- addcmul, addcdiv -----------------------------------------------------------------


def check_value_fits(value: Number, operands: Sequence[Operand]) -> None:
    """Refuse a factor that the type of the operation cannot hold."""
    check_fits(value, computing_type(common_type(operands)))


def addcmul_shape(self: Operand, tensor1: Operand, tensor2: Operand, value: Number) -> TensorMeta:
    check_value_fits(value, (self, tensor1, tensor2))
    return ternary_shape("addcmul", (self, tensor1, tensor2), takes=NUMERIC)


def addcmul_kernel(
    xp: ModuleType, self: Array, tensor1: Array, tensor2: Array, value: Number
) -> Array:
    x, a, b = promoted(xp, self, tensor1, tensor2)
    product = a * b if value == 1 else cast(xp, value, x.dtype) * a * b
    return x + product


def addcdiv_shape(self: Operand, tensor1: Operand, tensor2: Operand, value: Number) -> TensorMeta:
    check(
        any(isinstance(t, TensorMeta) and t.dtype.category >= FLOATS for t in (tensor1, tensor2)),
        lambda: (
            "Integer division with addcdiv is no longer supported: addcdiv divides exactly. "
            "For the old behaviour use (input + value * trunc(tensor1 / tensor2)).to(input.dtype), "
            "for exact division convert an operand to a float type."
        ),
    )
    check_value_fits(value, (self, tensor1, tensor2))
    return ternary_shape("addcdiv", (self, tensor1, tensor2), takes=NUMERIC)


def addcdiv_kernel(
    xp: ModuleType, self: Array, tensor1: Array, tensor2: Array, value: Number
) -> Array:
    x, a, b = promoted(xp, self, tensor1, tensor2)
    return x + (a / b if value == 1 else cast(xp, value, x.dtype) * a / b)


_THREE = "Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1"

addcmul = define(f"aten::addcmul({_THREE}) -> Tensor", tags=POINTWISE, variants=BOTH)
addcmul.describe("The sum ``self + value * tensor1 * tensor2``.")
addcmul.autocast(cuda="promote")
addcmul.shape(addcmul_shape)
addcmul.kernel(addcmul_kernel)
addcmul.facts.on_halves = with_numbers("addcmul", 3)
addcmul.cost(elementwise_cost(3))
addcmul.linear(self=lambda grad: grad)
addcmul.bilinear(
    tensor1=lambda grad, tensor2, value: grad * conj(times(tensor2, value)),
    tensor2=lambda grad, tensor1, value: grad * conj(times(tensor1, value)),
)


def addcdiv_dividend_grad(grad: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    """The gradient of `addcdiv` by what is divided."""
    slope = tensor2.reciprocal() if value == 1 else value / tensor2
    return grad * conj(slope)


def addcdiv_divisor_grad(grad: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    """The gradient of `addcdiv` by what divides."""
    square = tensor2 * tensor2
    slope = conj(times(tensor1, value) / square)
    return -grad * slope


addcdiv = define(f"aten::addcdiv({_THREE}) -> Tensor", tags=POINTWISE, variants=BOTH)
addcdiv.describe("The sum ``self + value * tensor1 / tensor2``.")
addcdiv.autocast(cuda="promote")
addcdiv.shape(addcdiv_shape)
addcdiv.kernel(addcdiv_kernel)
addcdiv.facts.on_halves = with_numbers("addcdiv", 3)
addcdiv.cost(elementwise_cost(3))
addcdiv.derivative(
    self=lambda grad: grad,
    tensor1=addcdiv_dividend_grad,
    tensor2=addcdiv_divisor_grad,
)


# --- in place -------------------------------------------------------------------------
# The steps of optimizers, computed in one array beside the target as in the general kernels.


def _plain_floats(self: Array, *others: Array | Number) -> bool:
    """Whether arrays are of one shape and of the target's type, a float that NumPy computes in."""
    arrays = [x for x in others if not isinstance(x, int | float | complex)]
    plain = self.dtype is F32 or self.dtype is F64
    return plain and all(x.dtype is self.dtype and x.shape == self.shape for x in arrays)


def _move_directly(xp: ModuleType, self: Array, end: Array, weight: Number) -> None:
    if not _plain_floats(self, end, weight):
        writing(lerp_number.op)(xp, self, end, weight)
        return
    w, step = cast(xp, weight, self.dtype), xp.subtract(end, self)
    if abs(weight) < 0.5:
        step *= w
        self += step
    else:
        step *= 1 - w
        xp.subtract(end, step, out=self)


def _add_directly(page: OperatorPage, ufunc: str) -> None:
    """Let the in-place form add ``value * tensor1``, combined with tensor2, to its target."""
    general = writing(page.op)

    def kernel(xp: ModuleType, self: Array, tensor1: Array, tensor2: Array, value: Number) -> None:
        if not _plain_floats(self, tensor1, tensor2, value) or isinstance(value, complex):
            general(xp, self, tensor1, tensor2, value)
        elif value == 1:
            self += getattr(xp, ufunc)(tensor1, tensor2)
        else:
            part = cast(xp, value, self.dtype) * tensor1
            self += getattr(xp, ufunc)(part, tensor2, out=part if part.ndim else None)

    in_place_form(page).own_kernel = kernel


in_place_form(lerp_number).own_kernel = _move_directly
_add_directly(addcmul, "multiply")
_add_directly(addcdiv, "true_divide")
