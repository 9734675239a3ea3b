"""Outer products of two vectors: `outer`, `ger`, and `addr`, which adds to one.

They multiply element by element and sum nothing: types promote as in arithmetic, and a 16-bit type
rounds after every step.
"""

from __future__ import annotations

import functools
from types import ModuleType

from maquette.aten.common.accumulation import Array, Number
from maquette.aten.common.large_arrays import LARGE, loops_of_places
from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.common.operators import aten
from maquette.aten.common.type_promotion import cast
from maquette.aten.linalg.products.matrix_products import (
    BOTH,
    check_expands,
    conj,
    conjugate,
    multiplied,
)
from maquette.aten.linalg.products.product_batching import addr_batching
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.broadcast import expand_strides
from maquette.core.dtype import bool_, dtype, from_numpy_dtype
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.promotion import promote_types, result_type_of
from maquette.dispatch.tags import Tag
from maquette.library.arrays import run_as_on_page
from maquette.library.page import define
from maquette.library.variants import out_schema
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

outer = define("aten::outer(Tensor self, Tensor vec2) -> Tensor")
outer.describe("The products of each pair of elements of two vectors: [n] and [m] give [n, m].")
ger = define("aten::ger(Tensor self, Tensor vec2) -> Tensor")
ger.describe("The products of each pair of elements of two vectors: [n] and [m] give [n, m].")


def _column(self: Tensor, vec2: Tensor) -> Tensor:
    """The first vector as a column, which a product with the second spreads to a matrix."""
    check(self.ndim == 1, lambda: f"outer: Expected 1-D argument self, but got {self.ndim}-D")
    check(vec2.ndim == 1, lambda: f"outer: Expected 1-D argument vec2, but got {vec2.ndim}-D")
    return self.reshape([self.shape[0], 1])


@outer.composite
def outer_composite(self: Tensor, vec2: Tensor) -> object:
    column = _column(self, vec2)
    if run_as_on_page((self, vec2), "mul.Tensor") and self.meta.dtype is vec2.meta.dtype:
        recorded = is_grad_enabled() and (wants_derivative(self) or wants_derivative(vec2))
        if not recorded and self.meta.numel * vec2.meta.numel >= LARGE:
            # Where nobody sees the difference: `addr` has a loop, a product of any shapes none.
            return addr(self.new_empty(()), self, vec2, beta=0)
    return column * vec2


ger.composite(lambda self, vec2: self.outer(vec2))
for _page in (outer, ger):
    define(out_schema(_page.op._schema_text), tags=[Tag.out]).composite(
        lambda self, vec2, out: aten.mul(_column(self, vec2), vec2, out=out)
    )

addr = define(
    "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    variants=BOTH,
)
addr.describe("``beta * self + alpha * outer(vec1, vec2)``: [n] and [m] give [n, m].")
addr.autocast(cuda="lower")


@addr.shape
def addr_shape(
    self: TensorMeta, vec1: TensorMeta, vec2: TensorMeta, beta: Number, alpha: Number
) -> TensorMeta:
    check(vec1.ndim == 1, lambda: f"addr: Expected 1-D argument vec1, but got {vec1.ndim}-D")
    check(vec2.ndim == 1, lambda: f"addr: Expected 1-D argument vec2, but got {vec2.ndim}-D")
    shape = (vec1.shape[0], vec2.shape[0])
    check_expands("addr", self, shape)
    # The outer product is taken of a column and a row, spread over the shape with stride 0.
    column = vec1.view(shape, (vec1.strides[0], 0))
    row = vec2.view(shape, (0, vec2.strides[0]))
    base = self.view(shape, expand_strides(self.shape, self.strides, shape))
    kind = result_type_of((base, column, row))
    for name, factor in (("beta", beta), ("alpha", alpha)):
        _check_factor(name, factor, kind)
    return elementwise([base, column, row], kind)


def _check_factor(name: str, factor: Number, kind: dtype) -> None:
    """Refuse a factor of a higher category than the type that is computed in, or a bool."""
    check(
        not isinstance(factor, bool) or kind is bool_,
        lambda: f"Boolean {name} only supported for Boolean results.",
    )
    check(
        kind.category >= 2 or not isinstance(factor, float | complex),
        lambda: (
            f"For integral input tensors, argument {name} must not be a floating point number; "
            f"got {factor}"
        ),
    )
    check(
        kind.is_complex or not isinstance(factor, complex) or factor.imag == 0,
        lambda: f"value cannot be converted to type {kind.name} without overflow: {name}={factor}",
    )


@addr.kernel
def addr_kernel(
    xp: ModuleType, self: Array, vec1: Array, vec2: Array, beta: Number, alpha: Number
) -> Array:
    # Arrays of a 16-bit type round after every step, as PyTorch does; matrix products do not.
    operands = (self, vec1, vec2)
    common = functools.reduce(promote_types, [from_numpy_dtype(a.dtype) for a in operands])
    base, column, row = (cast(xp, array, common.numpy) for array in operands)
    if alpha != 1:
        column = _times(xp, column, alpha)
    if beta != 1 and beta != 0:
        base = _times(xp, base, beta)
    loops = loops_of_places(xp, column.size * row.size, column, row, base)
    if loops is not None:
        shape = (column.size, row.size)
        added = None if beta == 0 else xp.broadcast_to(base, shape)
        by_loop: Array = loops.outer_sum(added, column, row)
        return by_loop
    product: Array = column[:, None] * row
    return product if beta == 0 else base + product


def _times(xp: ModuleType, array: Array, factor: Number) -> Array:
    return array * cast(xp, factor, array.dtype)


refuse_overlap(addr.variants[1], "vec1", "vec2")
addr.linear(self=lambda grad, beta: multiplied(grad, conjugate(beta)))
addr.bilinear(
    vec1=lambda grad, vec2, alpha: multiplied(grad.mv(conj(vec2)), conjugate(alpha)),
    vec2=lambda grad, vec1, alpha: multiplied(grad.t().mv(conj(vec1)), conjugate(alpha)),
)
addr.batching_decomposition(addr_batching)
