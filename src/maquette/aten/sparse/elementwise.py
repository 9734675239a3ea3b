"""Elementwise operators on sparse tensors: those that keep zeros, and sums and products.

What is linear in one element works on uncoalesced tensors as they are; the others coalesce first,
since f(a + b) is not f(a) + f(b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.aten.common.operators import aten
from maquette.aten.sparse.forms import (
    coalesced,
    compressed_of_dense,
    dense_of,
    layout_name,
    places_of,
    values_at,
)
from maquette.aten.sparse.layouts import plus_compressed, plus_coo
from maquette.aten.sparse.merging import (
    compressed_pair,
    coo_intersection,
    coo_merge,
    coo_product_of_two,
)
from maquette.core.dtype import bool_
from maquette.core.errors import check
from maquette.core.layout import sparse_coo, strided
from maquette.core.promotion import promote_types, result_type_of
from maquette.library.sparse_kernels import for_sparse, overload
from maquette.tensor.sparse import (
    BLOCKED,
    BY_ROWS,
    CompressedParts,
    CooParts,
    batch_dims,
    block_of,
    compressed_parts,
    compressed_tensor,
    coo_parts,
    coo_tensor,
    nnz_of,
    parts_of,
    sparse_dims,
    with_values,
)
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex

# f(0) = 0 and f(a) + f(b) = f(a + b).
_LINEAR = ("neg", "_conj_physical", "conj_physical", "positive")
# f(0) = 0 only.
_ZERO_KEEPING = (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor",
    "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "pow.Tensor_Scalar",
    "rad2deg", "relu", "round", "round.decimals", "sgn", "sign", "signbit", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc", "angle", "threshold_backward",
)  # fmt: skip


def _on_values(name: str, *, linear: bool) -> None:
    op = overload(name)

    def kernel(self: Tensor, *rest: object) -> Tensor:
        if self.meta.layout is strided:  # a gradient: of the same places as what it is for
            return _mixed_gradient(op, self, *rest)
        t = self
        if self.meta.layout is sparse_coo and not linear:
            t = coalesced(self)
        found: Tensor = op(parts_of(t).values, *rest)
        return with_values(t, found)

    if not linear:
        kernel.needs_coalesced = True  # type: ignore[attr-defined]  # in place, parts stay
    for_sparse(name)(kernel)


def _mixed_gradient(op: Callable[..., Tensor], grad: Tensor, *rest: object) -> Tensor:
    pattern = rest[0]
    assert isinstance(pattern, Tensor)
    found: Tensor = op(values_at(grad, pattern), parts_of(pattern).values, *rest[1:])
    return with_values(pattern, found)


for _name in _LINEAR:
    _on_values(_name, linear=True)
for _name in _ZERO_KEEPING:
    if _name not in ("threshold_backward", "pow.Tensor_Scalar"):
        _on_values(_name, linear=False)


@for_sparse("conj_physical_")
def conj_physical_in_place(self: Tensor) -> Tensor:
    parts_of(self).values.conj_physical_()
    return self


@for_sparse("threshold_backward")
def threshold_backward_kernel(grad_output: Tensor, self: Tensor, threshold: Number) -> Tensor:
    pattern = coalesced(self) if self.meta.layout is sparse_coo else self
    grads = values_at(grad_output, pattern)
    found: Tensor = aten.threshold_backward(grads, parts_of(pattern).values, threshold)
    return with_values(pattern, found)


@for_sparse("pow.Tensor_Scalar")
def pow_kernel(self: Tensor, exponent: Number) -> Tensor:
    check(
        not isinstance(exponent, complex) and exponent > 0,
        lambda: f"pow: a sparse tensor to the power of {exponent} would not be sparse",
    )
    t = coalesced(self) if self.meta.layout is sparse_coo else self
    found: Tensor = aten.pow(parts_of(t).values, exponent)
    return with_values(t, found)


# --- sums -------------------------------------------------------------------------------------


def _sum(self: Tensor | Number, other: Tensor | Number, alpha: Number) -> Tensor:
    """``self + alpha * other``, where at least one is sparse."""
    if not isinstance(self, Tensor) or self.meta.layout is strided:
        assert isinstance(other, Tensor)
        return _dense_and_sparse(self, other, alpha)
    if not isinstance(other, Tensor) or other.meta.layout is strided:
        if self.meta.layout is not sparse_coo and isinstance(other, Tensor) and alpha == 1:
            return _dense_and_sparse(other, self, alpha)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    check(
        self.meta.shape == other.meta.shape,
        lambda: (
            f"add: expected sizes of 'self' and 'other' to match, but {list(self.meta.shape)} != "
            f"{list(other.meta.shape)}"
            if self.meta.layout is sparse_coo
            else f"torch.add: Expected input tensors to have the same shape, but got tensor `self` "
            f"with shape {list(self.meta.shape)} and tensor `other` with shape "
            f"{list(other.meta.shape)}"
        ),
    )
    _check_same("add", self, other)
    if self.meta.layout is sparse_coo:
        return _sum_of_coo(self, other, alpha)
    return _sum_of_compressed(self, other, alpha)


def _check_same(name: str, self: Tensor, other: Tensor) -> None:
    check(
        self.meta.layout is other.meta.layout,
        lambda: (
            f"{name}({layout_name(self)}, {layout_name(other)}) is not supported: convert one to "
            f"the layout of the other"
        ),
    )


def _dense_and_sparse(self: Tensor | Number, other: Tensor, alpha: Number) -> Tensor:
    check(
        isinstance(self, Tensor),
        lambda: f"add of the number {self} and a sparse tensor is not supported",
    )
    assert isinstance(self, Tensor)
    kind = promote_types(self.dtype, other.dtype)
    parts = parts_of(other)
    check(
        self.meta.shape == other.meta.shape,
        lambda: (
            f"add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(self.meta.shape)} while other has size {list(other.meta.shape)} (FYI: "
            f"dense-sparse addition does not currently support broadcasting)"
        ),
    )
    values = parts.values.to(kind) if alpha == 1 else parts.values.to(kind) * alpha
    base = self if self.meta.dtype is kind else self.to(kind)
    if isinstance(parts, CompressedParts) and batch_dims(other):
        to = base.clone() if base.is_contiguous() or base.meta.is_dense else base.contiguous()
        added: Tensor = to.index_put(places_of(other), values, accumulate=True)
        return added
    if isinstance(parts, CompressedParts):
        by_rows = other.meta.layout in BY_ROWS
        given = (parts.compressed, parts.plain, values, block_of(other), by_rows)
        summed: Tensor = plus_compressed(base, *given)
        return summed
    if parts.indices.meta.shape[0] == 0:
        return base + values.sum(0)
    found: Tensor = plus_coo(base, parts.indices, values, parts.coalesced)
    return found


def _sum_of_coo(self: Tensor, other: Tensor, alpha: Number) -> Tensor:
    a, b = coo_parts(self), coo_parts(other)
    if a.indices.meta.shape[0] != b.indices.meta.shape[0]:
        kind = promote_types(self.dtype, other.dtype)
        if nnz_of(other) == 0:
            return with_values(self, a.values.to(kind, copy=True))
        if nnz_of(self) == 0:
            return with_values(other, b.values.to(kind) * alpha)
    check(
        a.indices.meta.shape[0] == b.indices.meta.shape[0],
        lambda: (
            f"add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{a.indices.meta.shape[0]} sparse dimensions while 'other' has "
            f"{b.indices.meta.shape[0]} sparse dimensions"
        ),
    )
    kind = promote_types(self.dtype, other.dtype)
    if a.indices is b.indices:
        summed: Tensor = aten.add(a.values, b.values, alpha=alpha)
        return with_values(self, summed)
    left = a.values.to(kind)
    right = b.values.to(kind) if alpha == 1 else b.values.to(kind) * alpha
    if a.coalesced and b.coalesced:
        indices = aten.cat([a.indices, b.indices], 1)
        return coalesced(coo_tensor(self.meta.shape, indices, aten.cat([left, right])))
    return _merged(self.meta.shape, a._replace(values=left), b._replace(values=right))


def _merged(shape: Sequence[int], a: CooParts, b: CooParts) -> Tensor:
    """The sum of two COO tensors that are not both coalesced; nor is it."""
    dims = a.indices.meta.shape[0]
    here, there = coo_merge(a.indices, b.indices, shape[:dims])
    indices = aten.where(here < 0, _taken(b.indices, 1, there), _taken(a.indices, 1, here))
    values = _taken(a.values, 0, here) + _taken(b.values, 0, there)
    return coo_tensor(shape, indices, values)


def _taken(t: Tensor, dim: int, at: Tensor) -> Tensor:
    """What stands at positions along a dimension; zeros where the position is -1."""
    zero = t.new_zeros([1 if i == dim else n for i, n in enumerate(t.meta.shape)])
    found: Tensor = aten.cat([zero, t], dim).index_select(dim, at + 1)
    return found


def _sum_of_compressed(self: Tensor, other: Tensor, alpha: Number) -> Tensor:
    a, b = parts_of(self), parts_of(other)
    block = block_of(self) if self.meta.layout in BLOCKED else None
    if a[0] is b[0]:
        summed: Tensor = aten.add(a.values, b.values, alpha=alpha)
        return with_values(self, summed)
    if batch_dims(self):
        both = aten.add(dense_of(self), dense_of(other), alpha=alpha)
        return compressed_of_dense(both, self.meta.layout, block, sparse_dims(self)[1])
    kind = promote_types(self.dtype, other.dtype)
    right = b.values.to(kind) if alpha == 1 else b.values.to(kind) * alpha
    return _pair(self, other, a.values.to(kind), right, product=False)


def _pair(self: Tensor, other: Tensor, left: Tensor, right: Tensor, *, product: bool) -> Tensor:
    """The sum or the product of two compressed matrices with these values, of one dtype."""
    a, b = compressed_parts(self), compressed_parts(other)
    at = 1 if self.meta.layout in BY_ROWS else 0
    minors = self.meta.shape[at] // block_of(self)[at]
    index = promote_types(a.plain.dtype, b.plain.dtype)
    first, second = (t.to(index) for t in a[:2]), (t.to(index) for t in b[:2])
    made = compressed_pair(*first, left, *second, right, minors, product)
    return compressed_tensor(self.meta.layout, self.meta.shape, *made)


for_sparse("add.Tensor")(_sum)


@for_sparse("sub.Tensor")
def sub_kernel(self: Tensor | Number, other: Tensor | Number, alpha: Number) -> Tensor:
    check(
        not any(isinstance(t, Tensor) and t.dtype is bool_ for t in (self, other)),
        lambda: (
            "Subtraction, the `-` operator, with a bool tensor is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        ),
    )
    return _sum(self, other, -alpha)


@for_sparse("add.Scalar", "sub.Scalar")
def add_scalar_kernel(self: Tensor, other: Number, alpha: Number) -> Tensor:
    return _sum(self, other, alpha)


# --- products ---------------------------------------------------------------------------------


def _is_number(t: object) -> bool:
    return not isinstance(t, Tensor) or (t.meta.layout is strided and t.meta.ndim == 0)


def _product(self: Tensor | Number, other: Tensor | Number) -> Tensor:
    """The product of a sparse tensor and a number, a dense or a sparse tensor."""
    if not isinstance(self, Tensor) or self.meta.layout is strided:
        self, other = other, self
    assert isinstance(self, Tensor)
    parts = parts_of(self)
    if _is_number(other):
        found: Tensor = aten.mul(parts.values, other)
        return with_values(self, found)
    assert isinstance(other, Tensor)
    if other.meta.layout is not strided and 0 in (self.meta.ndim, other.meta.ndim):
        first = not self.meta.ndim and (other.meta.ndim or nnz_of(self) <= nnz_of(other))
        number, t = (self, other) if first else (other, self)
        # Rows of values have a dimension more than their tensor, which promotion must not see.
        kind = result_type_of([self.meta, other.meta])
        return with_values(t, parts_of(t).values.to(kind) * dense_of(number).to(kind))
    if other.meta.layout is strided:
        return _product_with_dense(self, other)
    _check_same("mul", self, other)
    _check_places("mul", self, other)
    if self.meta.layout is sparse_coo:
        return _product_of_coo(self, other)
    if parts[0] is parts_of(other)[0]:
        return with_values(self, parts.values * parts_of(other).values)
    block = block_of(self) if self.meta.layout in BLOCKED else None
    if batch_dims(self):
        both = dense_of(self) * dense_of(other)
        return compressed_of_dense(both, self.meta.layout, block, sparse_dims(self)[1])
    kind = promote_types(self.dtype, other.dtype)
    values, others = parts.values.to(kind), parts_of(other).values.to(kind)
    return _pair(self, other, values, others, product=True)


def _product_with_dense(self: Tensor, other: Tensor) -> Tensor:
    shape = aten.broadcast_tensors([other, other.new_empty(()).expand(self.meta.shape)])[0].shape
    if tuple(shape) != self.meta.shape:
        check(
            self.meta.layout is sparse_coo,
            lambda: (
                f"mul(sparse, dense): the dense tensor of sizes {list(other.meta.shape)} must "
                f"broadcast to {list(self.meta.shape)}"
            ),
        )
        self = aten._sparse_broadcast_to(self, list(shape))
    values = values_at(other.expand(self.meta.shape), self)
    found: Tensor = aten.mul(parts_of(self).values, values)
    return with_values(self, found)


def _check_places(name: str, self: Tensor, other: Tensor) -> None:
    """RuntimeError unless elements of both have places in common; dense sizes may broadcast."""
    mine, theirs = sparse_dims(self)[0], sparse_dims(other)[0]
    if self.meta.layout is sparse_coo:
        alike = self.meta.ndim == other.meta.ndim and mine == theirs
        alike = alike and self.meta.shape[:mine] == other.meta.shape[:mine]
    else:
        alike = self.meta.shape == other.meta.shape
    check(
        alike,
        lambda: (
            f"{name}: expects sparse inputs with equal dimensionality, number of sparse "
            f"dimensions, and shape of sparse dimensions, got {list(self.meta.shape)} with {mine} "
            f"sparse dimensions and {list(other.meta.shape)} with {theirs}"
        ),
    )


def _product_of_coo(self: Tensor, other: Tensor) -> Tensor:
    a, b = coo_parts(self), coo_parts(other)
    if not (a.coalesced and b.coalesced):
        return _product_of_uncoalesced(self, other)
    if a.indices is b.indices and a.values.meta.shape == b.values.meta.shape:
        return with_values(self, a.values * b.values)
    sizes = self.meta.shape[: a.indices.meta.shape[0]]
    if a.values.meta.shape[1:] == b.values.meta.shape[1:]:
        kind = promote_types(self.dtype, other.dtype)
        indices, values = coo_product_of_two(
            a.indices, a.values.to(kind), b.indices, b.values.to(kind), sizes
        )
        return coo_tensor(self.meta.shape, indices, values, coalesced=True)
    here, there = coo_intersection(a.indices, b.indices, sizes)
    values = aten.mul(a.values.index_select(0, here), b.values.index_select(0, there))
    indices = a.indices.index_select(1, here)
    return coo_tensor((*sizes, *values.meta.shape[1:]), indices, values, coalesced=True)


def _product_of_uncoalesced(self: Tensor, other: Tensor) -> Tensor:
    """The elements of one factor, repeated ones included, each times that of the other or zero."""
    swap = coo_parts(self).coalesced and not coo_parts(other).coalesced
    if coo_parts(self).coalesced == coo_parts(other).coalesced:
        swap = nnz_of(other) <= nnz_of(self)
    kept, factor = (other, self) if swap else (self, other)
    values = coo_parts(kept).values * values_at(factor, kept)
    sizes = kept.meta.shape[: sparse_dims(kept)[0]]
    return with_values(kept, values, shape=(*sizes, *values.meta.shape[1:]))


for_sparse("mul.Tensor", "mul.Scalar")(_product)


def _quotient(name: str) -> None:
    op = overload(name)

    @for_sparse(name)
    def quotient(self: Tensor, other: Tensor | Number, *rest: object) -> Tensor:
        check(
            isinstance(self, Tensor) and self.meta.layout is not strided and _is_number(other),
            lambda: (
                "Sparse division requires a scalar or zero-dim dense tensor divisor"
                + (
                    f" (got shape {list(other.meta.shape)} for divisor)"
                    if isinstance(other, Tensor)
                    else ""
                )
            ),
        )
        rounds = name == "floor_divide" or (rest and rest[0] is not None)
        t = coalesced(self) if rounds and self.meta.layout is sparse_coo else self
        mode = {"rounding_mode": rest[0]} if rest else {}
        found: Tensor = op(parts_of(t).values, other, **mode)
        return with_values(t, found)


for _name in (
    "div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "floor_divide",
):  # fmt: skip
    _quotient(_name)
