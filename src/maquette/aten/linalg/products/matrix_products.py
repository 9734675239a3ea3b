"""Products of vectors, matrices and batches of matrices: the operators that count for FLOPs.

Lives here: `mm`, `bmm`, `mv`, `dot` and their forms that add to a tensor. Outer products are in
`outer_products.py`; what folds other ranks into these (`matmul`, `linear`, `einsum`) is in
`matmul.py` and `einsum.py`. Results are contiguous. Gradients follow the layout of what they are
for, as PyTorch's do: the gradient of a transposed weight comes out transposed, so that its
transpose is contiguous and accumulates without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, Number, is_narrow, scaled_sum, wide
from maquette.aten.common.formula_helpers import times
from maquette.aten.common.large_arrays import SMALL
from maquette.aten.common.type_promotion import cast
from maquette.aten.elementwise.conjugate import _conj
from maquette.aten.linalg.products.product_batching import (
    addbmm_batching,
    addmm_batching,
    addmv_batching,
    baddbmm_batching,
    bmm_batching,
    dot_batching,
    mm_batching,
    mv_batching,
    vdot_batching,
)
from maquette.aten.view.views import t
from maquette.core.dtype import bool_, dtype
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import c_name
from maquette.core.meta import TensorMeta
from maquette.core.promotion import result_type_of
from maquette.core.strides import Shape
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, Variant, define, set_shape_rule
from maquette.library.variants import check_castable, check_same_dtype, out_shape
from maquette.tensor.keys import ADINPLACE, CONJUGATE
from maquette.tensor.tensor import Tensor

BOTH = [Variant.INPLACE, Variant.OUT]


def check_not_bool(kernel: str, meta: TensorMeta, *sizes: int) -> None:
    """Refuse bool, which has no products, unless a size of 0 leaves nothing to multiply.

    kernel: PyTorch's name of the loop; sizes: of the product, those summed over among them.
    """
    check_not_implemented(
        meta.dtype is not bool_ or any(is_true(size == 0) for size in sizes),
        lambda: f"\"{kernel}\" not implemented for 'Bool'; convert {meta} first, to int32 say",
    )


def check_multiply(a: TensorMeta, b: TensorMeta) -> None:
    """Refuse matrices whose inner sizes differ."""
    check(
        a.shape[1] == b.shape[0],
        lambda: (
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        ),
    )


def check_expands(name: str, base: TensorMeta, shape: Shape) -> None:
    """Refuse a tensor that does not broadcast to exactly `shape`."""
    check(
        base.ndim <= len(shape),
        lambda: (
            f"{name}: expand({base}, size={list(shape)}): the number of sizes provided "
            f"({len(shape)}) must be greater or equal to the number of dimensions in the tensor "
            f"({base.ndim})"
        ),
    )
    misfits = [
        dim
        for dim, size in enumerate(base.shape, len(shape) - base.ndim)
        if not is_true(size == 1) and not expect_true(size == shape[dim])
    ]
    check(
        not misfits,
        lambda: (
            f"The expanded size of the tensor ({shape[misfits[-1]]}) must match the existing size "
            f"({base.shape[misfits[-1] - len(shape)]}) at non-singleton dimension {misfits[-1]}.  "
            f"Target sizes: {list(shape)}.  Tensor sizes: {list(base.shape)}"
        ),
    )


# --- matrices ---------------------------------------------------------------------------------

mm = define("aten::mm(Tensor self, Tensor mat2) -> Tensor", tags=[Tag.core], variants=[Variant.OUT])
mm.describe("The product of two matrices: [n, m] and [m, p] give [n, p].")
mm.autocast("lower")


@mm.shape
def mm_shape(self: TensorMeta, mat2: TensorMeta) -> TensorMeta:
    check(self.ndim == 2, lambda: f"self must be a matrix; mm got {self} and {mat2}")
    check(mat2.ndim == 2, lambda: f"mat2 must be a matrix; mm got {self} and {mat2}")
    check(
        self.dtype is mat2.dtype,
        lambda: (
            f"expected m1 and m2 to have the same dtype, but got: {c_name(self.dtype)} != "
            f"{c_name(mat2.dtype)} (mm of {self} and {mat2})"
        ),
    )
    check_multiply(self, mat2)
    check_not_bool("addmm_impl_cpu_", self, *self.shape, mat2.shape[1])
    return self.fresh((self.shape[0], mat2.shape[1]))


@mm.kernel
def mm_kernel(xp: ModuleType, self: Array, mat2: Array) -> Array:
    if xp is np and self.dtype.kind in "iu" and self.size >= SMALL:
        return _whole_product(self, mat2)
    return xp.matmul(wide(self), wide(mat2))


def _whole_product(a: Array, b: Array) -> Array:
    """The product of matrices of integers: by BLAS where doubles hold every sum exactly."""
    most = [float(max(abs(int(x.min())), abs(int(x.max())))) if x.size else 0.0 for x in (a, b)]
    if most[0] * most[1] * a.shape[1] >= 2**53:
        wrapped: Array = np.matmul(a, b)
        return wrapped
    exact: Array = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return exact.astype(np.int64).astype(a.dtype)


def transposed_layout(meta: TensorMeta) -> bool:
    """Whether a matrix is laid out column by column, so that its transpose is contiguous."""
    return is_true(meta.strides[0] == 1) and is_true(meta.strides[1] == meta.shape[0])


def multiplied(value: Tensor, factor: Number) -> Tensor:
    """``value * factor``, and no operator at all for 1."""
    return value if factor == 1 else times(value, factor)


def conjugate(factor: Number) -> Number:
    """The complex conjugate of a Python number; others are their own."""
    return factor.conjugate() if isinstance(factor, complex) else factor


def conj(tensor: Tensor) -> Tensor:
    """The complex conjugate; no operator at all for real tensors."""
    return tensor.conj() if tensor.dtype.is_complex else tensor


def mm_left_gradient(grad: Tensor, right: Tensor, left: TensorMeta, alpha: Number = 1) -> Tensor:
    """The gradient of the left factor, in the left factor's layout."""
    if transposed_layout(left):
        found = t(mm(conj(right), t(grad)))
    else:
        found = mm(grad, conj(t(right)))
    return multiplied(found, conjugate(alpha))


def mm_right_gradient(grad: Tensor, left: Tensor, right: TensorMeta, alpha: Number = 1) -> Tensor:
    """The gradient of the right factor, in the right factor's layout."""
    if transposed_layout(right):
        found = t(mm(t(grad), conj(left)))
    else:
        found = mm(conj(t(left)), grad)
    return multiplied(found, conjugate(alpha))


mm.ufunc("matmul")
mm.exact_out()
mm.bilinear(
    self=lambda grad, mat2, self_meta: mm_left_gradient(grad, mat2, self_meta),
    mat2=lambda grad, self, mat2_meta: mm_right_gradient(grad, self, mat2_meta),
)


@mm.cost
def mm_cost(self: TensorMeta, mat2: TensorMeta, *results: TensorMeta) -> Cost:
    return Cost(flops=2 * self.shape[0] * self.shape[1] * mat2.shape[1])


mm.batching(mm_batching)


addmm = define(
    "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> "
    "Tensor",
    tags=[Tag.core],
    variants=BOTH,
)
addmm.describe("``beta * self + alpha * mat1 @ mat2``: [n, m] and [m, p] give [n, p].")
addmm.autocast("lower")


@addmm.shape
def addmm_shape(
    self: TensorMeta, mat1: TensorMeta, mat2: TensorMeta, beta: Number, alpha: Number
) -> TensorMeta:
    check(mat1.ndim == 2, lambda: f"mat1 must be a matrix, got {mat1.ndim}-D tensor")
    check(mat2.ndim == 2, lambda: f"mat2 must be a matrix, got {mat2.ndim}-D tensor")
    check_multiply(mat1, mat2)
    _check_same_dtype(self, mat1, mat2)
    shape = (mat1.shape[0], mat2.shape[1])
    check_expands("addmm", self, shape)
    _check_sum("addmm_impl_cpu_", self, shape, mat1.shape[1], beta, alpha)
    return self.fresh(shape)


def _check_same_dtype(self: TensorMeta, left: TensorMeta, right: TensorMeta) -> None:
    name, other = ("mat1", left) if self.dtype is right.dtype else ("self", self)
    check(
        self.dtype is left.dtype is right.dtype,
        lambda: (
            f"{name} and mat2 must have the same dtype, but got "
            f"{other.dtype.scalar_name} and {right.dtype.scalar_name}"
        ),
    )


def _check_sum(
    kernel: str, base: TensorMeta, shape: Shape, inner: int, beta: Number, alpha: Number
) -> None:
    """The checks of the types in ``beta * base + alpha * product``, a product over ``inner``.

    Over nothing it is ``beta * base`` alone, promoted as any product with a number is.
    """
    check_not_bool(kernel, base, *shape, inner)
    if not is_true(inner == 0):
        _check_factors(base.dtype, beta, alpha)
    elif beta != 0 and not any(is_true(size == 0) for size in shape):
        check_castable(kernel, result_type_of((base, beta)), base.dtype)


def _check_factors(kind: dtype, *factors: Number) -> None:
    """Refuse factors that the type cannot hold: its integers no infinity, its reals no i."""
    check(
        not any(_overflows(factor, kind) for factor in factors),
        lambda: (
            f"value cannot be converted to type {kind.name} without overflow: beta, alpha are "
            f"{factors}"
        ),
    )


def _overflows(factor: Number, kind: dtype) -> bool:
    if isinstance(factor, complex):
        return not kind.is_complex
    return kind.category == 1 and isinstance(factor, float) and not isfinite(factor)


@addmm.kernel
def addmm_kernel(
    xp: ModuleType, self: Array, mat1: Array, mat2: Array, beta: Number, alpha: Number
) -> Array:
    product = xp.matmul(wide(mat1), wide(mat2))
    if xp is np and beta == 1 and alpha == 1 and product.dtype == self.dtype:
        product += self  # it is nobody else's
        return product
    # The sum over nothing is 0, whatever it is to be multiplied by.
    return scaled_sum(self, beta, product, alpha if alpha == 1 or mat1.size else 1)


addmm.exact_out()
addmm.linear(self=lambda grad, beta: multiplied(grad, conjugate(beta)))
addmm.bilinear(
    mat1=lambda grad, mat2, mat1_meta, alpha: mm_left_gradient(grad, mat2, mat1_meta, alpha),
    mat2=lambda grad, mat1, mat2_meta, alpha: mm_right_gradient(grad, mat1, mat2_meta, alpha),
)


@addmm.cost
def addmm_cost(self: TensorMeta, mat1: TensorMeta, mat2: TensorMeta, *rest: object) -> Cost:
    return mm_cost(mat1, mat2)


addmm.batching_decomposition(addmm_batching)


# --- batches of matrices ----------------------------------------------------------------------

bmm = define(
    "aten::bmm(Tensor self, Tensor mat2) -> Tensor", tags=[Tag.core], variants=[Variant.OUT]
)
bmm.describe("The products of two batches of matrices: [b, n, m] and [b, m, p] give [b, n, p].")
bmm.autocast("lower")


def batch_shape(name: str, batch1: TensorMeta, batch2: TensorMeta) -> Shape:
    """The shape of a product of batches; RuntimeError if they do not fit."""
    check(batch1.ndim == 3, lambda: f"batch1 must be a 3D tensor; {name} got {batch1}")
    check(batch2.ndim == 3, lambda: f"batch2 must be a 3D tensor; {name} got {batch2}")
    check(
        batch1.dtype is batch2.dtype,
        lambda: (
            f"expected scalar type {batch1.dtype.scalar_name} but found "
            f"{batch2.dtype.scalar_name} ({name} of {batch1} and {batch2})"
        ),
    )
    batches, rows, inner = batch1.shape
    check(
        batches == batch2.shape[0] and inner == batch2.shape[1],
        lambda: (
            f"Expected size for first two dimensions of batch2 tensor to be: [{batches}, "
            f"{inner}] but got: [{batch2.shape[0]}, {batch2.shape[1]}]."
        ),
    )
    return batches, rows, batch2.shape[2]


@bmm.shape
def bmm_shape(self: TensorMeta, mat2: TensorMeta) -> TensorMeta:
    shape = batch_shape("bmm", self, mat2)
    check_not_bool("bmm", self, *shape, self.shape[2])
    return self.fresh(shape)


@bmm.kernel
def bmm_kernel(xp: ModuleType, self: Array, mat2: Array) -> Array:
    return xp.matmul(wide(self), wide(mat2))


bmm.exact_out()
bmm.bilinear(
    self=lambda grad, mat2: grad.bmm(conj(mat2.transpose(1, 2))),
    mat2=lambda grad, self: conj(self.transpose(1, 2)).bmm(grad),
)


@bmm.cost
def bmm_cost(self: TensorMeta, mat2: TensorMeta, *results: TensorMeta) -> Cost:
    return Cost(flops=2 * self.shape[0] * self.shape[1] * self.shape[2] * mat2.shape[2])


bmm.batching(bmm_batching)


baddbmm = define(
    "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    variants=BOTH,
)
baddbmm.describe(
    "``beta * self + alpha * batch1 @ batch2``: [b, n, m] and [b, m, p] give [b, n, p]."
)
baddbmm.autocast("lower")


@baddbmm.shape
def baddbmm_shape(
    self: TensorMeta, batch1: TensorMeta, batch2: TensorMeta, beta: Number, alpha: Number
) -> TensorMeta:
    check(
        self.dtype is batch1.dtype is batch2.dtype,
        lambda: (
            f"Input dtypes must be the same, got: input {c_name(self.dtype)}, batch1: "
            f"{c_name(batch1.dtype)}, batch2: {c_name(batch2.dtype)}"
        ),
    )
    shape = batch_shape("baddbmm", batch1, batch2)
    check_expands("baddbmm", self, shape)
    _check_sum("baddbmm", self, shape, batch1.shape[2], beta, alpha)
    return self.fresh(shape)


@baddbmm.kernel
def baddbmm_kernel(
    xp, self: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number
) -> Array:
    product = xp.matmul(wide(batch1), wide(batch2))
    return scaled_sum(self, beta, product, alpha if batch1.size else 1)


baddbmm.exact_out()
baddbmm.linear(self=lambda grad, beta: multiplied(grad, conjugate(beta)))
baddbmm.bilinear(
    batch1=lambda grad, batch2, alpha: multiplied(
        grad.bmm(conj(batch2.transpose(1, 2))), conjugate(alpha)
    ),
    batch2=lambda grad, batch1, alpha: multiplied(
        conj(batch1.transpose(1, 2)).bmm(grad), conjugate(alpha)
    ),
)


@baddbmm.cost
def baddbmm_cost(self: TensorMeta, batch1: TensorMeta, batch2: TensorMeta, *rest: object) -> Cost:
    return bmm_cost(batch1, batch2)


baddbmm.batching_decomposition(baddbmm_batching)


addbmm = define(
    "aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    variants=[Variant.OUT],
)
addbmm.describe(
    "``beta * self`` plus `alpha` times the sum of the products of two batches of matrices: [n, p]."
)
addbmm.autocast("lower")
addbmm_ = define(
    "aten::addbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
    "Scalar alpha=1) -> Tensor(a!)",
    tags=[Tag.inplace],
)
addbmm_.functional_form(addbmm)


@addbmm.shape
def addbmm_shape(
    self: TensorMeta, batch1: TensorMeta, batch2: TensorMeta, beta: Number, alpha: Number
) -> TensorMeta:
    _check_same_dtype(self, batch1, batch2)
    batches, *shape = batch_shape("addbmm", batch1, batch2)
    check_expands("addbmm", self, tuple(shape))
    if not is_true(batches == 0):
        _check_sum("addmm_impl_cpu_", self, tuple(shape), batch1.shape[2], beta, alpha)
    return self.fresh(tuple(shape))


@addbmm.kernel
def addbmm_kernel(
    xp, self: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number
) -> Array:
    batches, rows, inner = batch1.shape
    alpha = alpha if batch1.size else 1
    if is_narrow(batch1) and batches:
        # PyTorch adds one product after the other, which shows in 16 bits.
        total = self
        for left, right in zip(batch1, batch2):
            product = xp.matmul(wide(left), wide(right))
            total = scaled_sum(total, beta, product, alpha).astype(batch1.dtype)
            beta = 1
        return total
    # One product of (n, batch * k) by (batch * k, m) sums the batch as it goes.
    left = wide(batch1).transpose(1, 0, 2).reshape(rows, batches * inner)
    right = wide(batch2).reshape(batches * inner, batch2.shape[2])
    return scaled_sum(self, beta, xp.matmul(left, right), alpha)


def addbmm_out_shape(
    self: TensorMeta,
    batch1: TensorMeta,
    batch2: TensorMeta,
    beta: Number,
    alpha: Number,
    out: TensorMeta,
) -> object:
    """The rule of ``addbmm.out``: the output starts as a copy of ``self``, whatever its dtype."""
    return _fitted_addbmm(self.like(dtype=batch1.dtype), batch1, batch2, beta, alpha, out)


def addbmm_out_kernel(
    xp, self: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number, out: Array
) -> None:
    base = self if batch1.dtype.kind == "c" else self.real
    base = cast(xp, base, batch1.dtype)
    out[...] = addbmm_kernel(xp, base, batch1, batch2, beta, alpha).astype(out.dtype)


_fitted_addbmm = out_shape(addbmm.op, 1, check_same_dtype)
set_shape_rule(addbmm.variants[0], addbmm_out_shape)
addbmm.variants[0].own_kernel = addbmm_out_kernel


@addbmm_.explicit
def addbmm__explicit(
    self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number
) -> Tensor:
    """In place on ``self``, which grows to the sum's shape where it broadcasts to it."""
    total = addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    if self.meta.shape != total.meta.shape:
        self.resize_(total.meta.shape)
    return self.copy_(total)


def _for_each_batch(grad: Tensor, batch1: TensorMeta, batch2: TensorMeta) -> Tensor:
    return grad.unsqueeze(0).expand((batch1.shape[0], batch1.shape[1], batch2.shape[2]))


addbmm.linear(self=lambda grad, beta: multiplied(grad, conjugate(beta)))
addbmm.bilinear(
    batch1=lambda grad, batch2, batch1_meta, alpha: multiplied(
        _for_each_batch(grad, batch1_meta, batch2.meta).bmm(conj(batch2.transpose(1, 2))),
        conjugate(alpha),
    ),
    batch2=lambda grad, batch1, batch2_meta, alpha: multiplied(
        conj(batch1.transpose(1, 2)).bmm(_for_each_batch(grad, batch1.meta, batch2_meta)),
        conjugate(alpha),
    ),
)
addbmm.batching_decomposition(addbmm_batching)


addbmm_.facts.derivatives = addbmm.facts.derivatives

# --- vectors ----------------------------------------------------------------------------------

mv = define("aten::mv(Tensor self, Tensor vec) -> Tensor", variants=[Variant.OUT])
mv.describe("The product of a matrix and a vector: [n, m] and [m] give [n].")
mv.autocast(cuda="lower")


def _check_matrix_vector(base: Shape, base_type: dtype, mat: TensorMeta, vec: TensorMeta) -> None:
    check(
        mat.ndim == 2 and vec.ndim == 1 and len(base) <= 1,
        lambda: f"vector + matrix @ vector expected, got {len(base)}, {mat.ndim}, {vec.ndim}",
    )
    check(
        mat.shape[1] == vec.shape[0]
        and (not base or is_true(base[0] == 1) or base[0] == mat.shape[0]),
        lambda: (
            f"size mismatch, got input ({base[0] if base else 1}), mat ({mat.shape[0]}x"
            f"{mat.shape[1]}), vec ({vec.shape[0]})"
        ),
    )
    check(
        mat.dtype is vec.dtype is base_type,
        lambda: (
            f"addmv input tensors must have the same dtype, but got "
            f"{base_type.scalar_name}, {mat.dtype.scalar_name}, and {vec.dtype.scalar_name}"
        ),
    )
    check_not_bool("addmv_impl_cpu", mat, *mat.shape)


@mv.shape
def mv_shape(self: TensorMeta, vec: TensorMeta) -> TensorMeta:
    _check_matrix_vector(self.shape[:1], vec.dtype, self, vec)
    return self.fresh((self.shape[0],))


@mv.kernel
def mv_kernel(xp: ModuleType, self: Array, vec: Array) -> Array:
    return xp.matmul(wide(self), wide(vec))


mv.exact_out()
mv.bilinear(
    self=lambda grad, vec: grad.ger(conj(vec)),
    vec=lambda grad, self: conj(self).t().mv(grad),
)
mv.batching(mv_batching)

addmv = define(
    "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    variants=BOTH,
)
addmv.describe("``beta * self + alpha * mat @ vec``: [n, m] and [m] give [n].")
addmv.autocast(cuda="lower")


@addmv.shape
def addmv_shape(
    self: TensorMeta, mat: TensorMeta, vec: TensorMeta, beta: Number, alpha: Number
) -> TensorMeta:
    _check_matrix_vector(self.shape, self.dtype, mat, vec)
    if not is_true(mat.shape[1] == 0):
        _check_factors(self.dtype, beta, alpha)
    return self.fresh((mat.shape[0],))


@addmv.kernel
def addmv_kernel(
    xp: ModuleType, self: Array, mat: Array, vec: Array, beta: Number, alpha: Number
) -> Array:
    return scaled_sum(self, beta, xp.matmul(wide(mat), wide(vec)), alpha if mat.size else 1)


addmv.exact_out()
addmv.linear(self=lambda grad, beta: multiplied(grad, conjugate(beta)))
addmv.bilinear(
    mat=lambda grad, vec, alpha: multiplied(grad.ger(conj(vec)), conjugate(alpha)),
    vec=lambda grad, mat, alpha: multiplied(conj(mat.t()).mv(grad), conjugate(alpha)),
)
addmv.batching_decomposition(addmv_batching)


def _dot_shape(self: TensorMeta, other: TensorMeta) -> TensorMeta:
    check(
        self.ndim == 1 and other.ndim == 1,
        lambda: f"1D tensors expected, but got {self.ndim}D and {other.ndim}D tensors",
    )
    check(
        self.dtype is other.dtype,
        lambda: (
            f"dot : expected both vectors to have same dtype, but found "
            f"{self.dtype.scalar_name} and {other.dtype.scalar_name}"
        ),
    )
    check(
        self.numel == other.numel,
        lambda: (
            f"inconsistent tensor size, expected tensor [{self.numel}] and src "
            f"[{other.numel}] to have the same number of elements, but got {self.numel} and "
            f"{other.numel} elements respectively"
        ),
    )
    check_not_bool("dot", self)
    return self.fresh(())


dot = define("aten::dot(Tensor self, Tensor tensor) -> Tensor", variants=[Variant.OUT])
dot.describe("The inner product of two vectors: 0-dim.")
dot.autocast(cuda="promote")
dot.shape(_dot_shape)


@dot.kernel
def dot_kernel(xp: ModuleType, self: Array, tensor: Array) -> Array:
    return xp.matmul(wide(self), wide(tensor))


dot.exact_out()
dot.bilinear(
    self=lambda grad, tensor: grad * conj(tensor),
    tensor=lambda grad, self: grad * conj(self),
)
dot.batching(dot_batching)

vdot = define("aten::vdot(Tensor self, Tensor other) -> Tensor", variants=[Variant.OUT])
vdot.describe("The inner product of two vectors, the first one conjugated: 0-dim.")
vdot.autocast(cuda="promote")
vdot.shape(_dot_shape)


@vdot.kernel
def vdot_kernel(xp: ModuleType, self: Array, other: Array) -> Array:
    return xp.matmul(xp.conj(wide(self)), wide(other))


vdot.exact_out()
vdot.bilinear(
    self=lambda grad, other: conj(grad) * other,
    other=lambda grad, self: grad * self,
)
vdot.batching(vdot_batching)


def _without_conjugating(op: OpOverload, ks: int) -> Callable[..., object]:
    """Products of vectors at the key Conjugate: by bare vectors, and another product where needed.

    The sum of conj(a) conj(b) is the conjugate of that of a b: a view of it, as in PyTorch.
    """

    def bare(vector: Tensor, ks: int) -> Tensor:
        result = _conj.op.run(ks, (vector,)) if vector._keys & CONJUGATE else vector
        assert isinstance(result, Tensor)
        return result

    def kernel(ks: int, self: Tensor, other: Tensor) -> object:
        first = bool(self._keys & CONJUGATE) != (op is vdot.op)
        second = bool(other._keys & CONJUGATE)
        # Past the key that links views: the result is no view of a tensor that anyone has.
        below = ks & ~(CONJUGATE | ADINPLACE)
        a, b = bare(self, below), bare(other, below)
        if first and not second:
            return vdot.op.run(below, (a, b))
        if second and not first:
            return vdot.op.run(below, (b, a))
        result = dot.op.run(below, (a, b))
        return _conj.op.run(below, (result,)) if first else result

    return kernel


for _page in (dot, vdot):
    _page.op.register(DispatchKey.Conjugate, Kernel(_without_conjugating))
