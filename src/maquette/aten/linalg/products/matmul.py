"""Products of any rank, folded into the few operators that compute: `matmul`, `linear` and others.

These are definitions by other operators, so modes and autograd see `mm`, `bmm`, `addmm` and views.
Which of them, and when operands are copied or folded into one matrix, follows PyTorch, since it
decides what memory a program takes. `einsum` and outer products have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import Array, is_narrow, wide
from maquette.aten.common.large_arrays import LARGE
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.aten.linalg.products.contraction import Factor, contracted, contracted_in_order
from maquette.aten.linalg.products.matrix_products import addmm, check_not_bool, conj, mm, vdot
from maquette.aten.view.copies import write_exact_out, write_out
from maquette.aten.view.reshaping import reshape
from maquette.aten.view.views import _unsafe_view, t, view, viewable
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.broadcast import broadcast_shapes, wrap_dim, wrap_dims
from maquette.core.errors import check
from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.remembered import remembered
from maquette.core.symbols import is_true
from maquette.dispatch import keysets as K
from maquette.dispatch.tags import Tag
from maquette.library.arrays import run_as_on_page
from maquette.library.page import OperatorPage, define
from maquette.library.variants import out_schema
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

Ints = tuple[int, ...]
# The operators that every product calls, by their entries: 0.4 us less a `linear` (timeit).
Entry = Callable[..., Tensor]
_mm: Entry = mm.entry
_addmm: Entry = addmm.entry
_t: Entry = t.entry
_view: Entry = view.entry
_reshape: Entry = reshape.entry
_folded_view: Entry = _unsafe_view.entry


def composite_out(
    page: OperatorPage,
    function: Callable[..., Tensor],
    write: Callable[[object, object], Tensor] = write_out,
) -> OperatorPage:
    """The ``out=`` form of an operator defined by others: the result, copied into ``out``.

    write: `write_exact_out` where the output must have the dtype of the result.
    """
    form = define(out_schema(page.op._schema_text), tags=[Tag.out])
    form.composite(lambda *arguments: write(arguments[-1], function(*arguments[:-1])))
    return form


# --- matmul -----------------------------------------------------------------------------------

matmul = define("aten::matmul(Tensor self, Tensor other) -> Tensor")
matmul.describe(
    "The product of matrices or vectors: [..., n, m] and [..., m, p] give [..., n, p], "
    "batches broadcast."
)
matmul.autocast("lower")
matmul.by_metas()


@matmul.composite
def matmul_composite(self: Tensor, other: Tensor) -> Tensor:
    left, right = self.meta.ndim, other.meta.ndim
    check(
        left > 0 and right > 0,
        lambda: (
            f"both arguments to matmul need to be at least 1D, but they are {left}D and {right}D"
        ),
    )
    if left == 1 and right == 1:
        return self.dot(other)
    if left == 2 and right == 1:
        return self.mv(other)
    if left == 1 and right == 2:
        return self.unsqueeze(0).mm(other).squeeze_(0)
    if left == 2 and right == 2:
        return _mm(self, other)
    if left == 3 and right == 3:
        self, other = _without_single_batch(self, other), _without_single_batch(other, self)
    if _folds(self, other):
        return _folded(self, other)
    return _batched(self, other)


def _without_single_batch(one: Tensor, other: Tensor) -> Tensor:
    """A batch of one matrix, met by a batch of several, as the matrix."""
    if is_true(one.shape[0] == 1) and is_true(other.shape[0] > 1):
        return one.squeeze(0)
    return one


def _folds(left: Tensor, right: Tensor) -> bool:
    """Whether the product of many dimensions by at most two is one product of matrices.

    Not if the many would have to be copied for it, unless the gradient of the few is wanted: that
    of an expanded matrix would be as large as the batch.
    """
    if left.meta.ndim >= right.meta.ndim:
        larger, smaller = left, right
    else:
        larger, smaller = right.mT, left
    if larger.meta.ndim < 3 or smaller.meta.ndim > 2:
        return False
    if smaller._keys & K.REQUIRES_GRAD:
        return True
    if left.meta.ndim == 2:
        return False
    meta = larger.meta
    if meta.is_contiguous or meta.numel == 0:
        return True
    shape, strides = meta.shape, meta.strides
    return all(is_true(strides[i] == strides[i + 1] * shape[i + 1]) for i in range(len(shape) - 2))


def _folded(left: Tensor, right: Tensor) -> Tensor:
    if right.meta.ndim == 2 and left.meta.ndim > 2:
        rows, folded = _rows_by_columns(left.meta.shape, right.meta.shape[1])
        return _folded_view(_mm(_reshape(left, rows), right), folded)
    turned = left.meta.ndim < right.meta.ndim
    many = right.mT if turned else left
    few = (left.t() if left.meta.ndim == 2 else left) if turned else right
    *shape, inner = many.meta.shape
    is_matrix = few.meta.ndim == 2
    matrix = reshape(many, (prod(shape), inner))
    if is_matrix:
        shape.append(few.meta.shape[1])
    product = mm(matrix, few) if is_matrix else matrix.mv(few)
    result = _unsafe_view(product, tuple(shape))
    if turned and is_matrix:
        return result.mT.contiguous()
    return result


@remembered
def _rows_by_columns(many: Ints, columns: int) -> tuple[Ints, Ints]:
    """The shape of many dimensions as a matrix, and that of its product with so many columns."""
    return (prod(many[:-1]), many[-1]), (*many[:-1], columns)


def _batched(left: Tensor, right: Tensor) -> Tensor:
    rows = left.shape[-2] if left.ndim > 1 else 1
    inner_left, inner_right = left.shape[-1], right.shape[-2] if right.ndim > 1 else right.shape[-1]
    batch = list(broadcast_shapes(tuple(left.shape[:-2]), tuple(right.shape[:-2])))
    count = prod(batch)
    first = left.expand([*batch, rows, inner_left]).reshape([count, rows, inner_left])
    shape = [*batch, rows] if left.ndim > 1 else batch
    if right.ndim == 1:
        vectors = right.expand([*batch, inner_right]).reshape([count, inner_right])
        return first.bmm(vectors.unsqueeze(2)).squeeze(-1)._unsafe_view(shape)
    columns = right.shape[-1]
    second = right.expand([*batch, inner_right, columns]).reshape([count, inner_right, columns])
    return first.bmm(second)._unsafe_view([*shape, columns])


matmul_out = composite_out(matmul, matmul_composite, write_exact_out)

# --- linear -----------------------------------------------------------------------------------

linear = define("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")
linear.describe("``input @ weight.T + bias``: [..., in] and [out, in] give [..., out].")
linear.autocast("lower")
linear.by_metas()
_matmul: Entry = matmul.entry


@linear.composite
def linear_composite(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rank = input.meta.ndim
    check(
        rank > 0 and weight.meta.ndim > 0,
        lambda: (
            f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and "
            f"{weight.ndim}D"
        ),
    )
    if bias is None:
        return _matmul(input, _t(weight))
    if rank == 2:
        return _addmm(bias, input, _t(weight))
    whole = input.meta.is_contiguous and weight.meta.layout is strided  # what is sparse has no view
    if whole and (bias.meta.ndim == 1 or bias.squeeze().ndim == 1):
        *shape, inner = input.meta.shape
        flat = _view(input, (prod(shape), inner))
        folded = (*shape, weight.meta.shape[0])
        return _view(_addmm(bias, flat, _t(weight)), folded)
    return input.matmul(weight.t()).add(bias)


linear_out = define(out_schema(linear.op._schema_text), tags=[Tag.out])


@linear_out.composite
def linear_out_composite(input: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    if bias is None or input.ndim == 2:
        return write_exact_out(out, linear_composite(input, weight, bias))
    # Into an output the bias is added as a step of its own, whatever its type.
    write_exact_out(out, linear_composite(input, weight, None))
    return out.add_(bias)


# --- products of vectors ----------------------------------------------------------------------

inner = define("aten::inner(Tensor self, Tensor other) -> Tensor")
inner.describe(
    "The products of the last dimensions of two tensors, summed; [..., n] and [*, n] give [..., *]."
)


@inner.composite
def inner_composite(self: Tensor, other: Tensor) -> Tensor:
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    check(
        self.shape[-1] == other.shape[-1],
        lambda: (
            f"inner() the last dimension must match on both input tensors but got shapes "
            f"{list(self.shape)} and {list(other.shape)}"
        ),
    )
    return tensordot(self, other, [-1], [-1])


inner_out = define(out_schema(inner.op._schema_text), tags=[Tag.out])


@inner_out.composite
def inner_out_composite(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
    if self.ndim == 0 or other.ndim == 0:
        product: Tensor = aten.mul(self, other, out=out)
        return product
    return write_exact_out(out, inner_composite(self, other))


linalg_vecdot = define("aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor")
linalg_vecdot.describe(
    "The inner products of vectors along `dim`, the first conjugated; batches broadcast."
)
linalg_vecdot.autocast("lower")


@linalg_vecdot.composite
def linalg_vecdot_composite(x: Tensor, y: Tensor, dim: int) -> Tensor:
    check(
        x.dtype.category >= 2 and y.dtype.category >= 2,
        lambda: (
            f"linalg.vecdot: Expected floating point or complex tensors as input. Got "
            f"{x.dtype.scalar_name} and {y.dtype.scalar_name}"
        ),
    )
    check(
        x.dtype is y.dtype,
        lambda: (
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{x.dtype.scalar_name} and y of type {y.dtype.scalar_name} instead"
        ),
    )
    if x.ndim == y.ndim == 1:
        return vdot(x, y)
    return (conj(x) * y).sum(dim)


linalg_vecdot_out = composite_out(linalg_vecdot, linalg_vecdot_composite, write_exact_out)

# --- contractions -----------------------------------------------------------------------------

tensordot = define(
    "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor"
)
tensordot.describe(
    "The products of two tensors summed over dimensions `dims_self` and `dims_other`."
)
tensordot.autocast(cuda="promote")


@tensordot.composite
def tensordot_composite(self: Tensor, other: Tensor, dims_self: Ints, dims_other: Ints) -> Tensor:
    _check_contracts(self, other, dims_self, dims_other)
    left, right = wrap_dims(dims_self, self.ndim), wrap_dims(dims_other, other.ndim)
    self, other = _summed_against_ones(self, other, left, right)
    inner_size = prod([self.shape[d] for d in left])
    kept_left = [d for d in range(self.ndim) if d not in left]
    kept_right = [d for d in range(other.ndim) if d not in right]
    shape = [self.shape[d] for d in kept_left] + [other.shape[d] for d in kept_right]
    rows = prod([self.shape[d] for d in kept_left])
    columns = prod([other.shape[d] for d in kept_right])
    first = self.permute([*kept_left, *dims_self])
    if is_true(rows == 1) and is_true(columns == 1):
        second = other.permute([*dims_other, *kept_right])
        return _contracted_wholly(first, second, inner_size).view(shape)
    first = first.reshape([rows, inner_size])
    second = other.permute([*dims_other, *kept_right]).reshape([inner_size, columns])
    return first.mm(second).view(shape)


def _contracted_wholly(first: Tensor, second: Tensor, size: int) -> Tensor:
    """The sum of all products of two tensors of ``size`` elements in the same order."""
    if not (first.meta.is_contiguous and second.meta.is_contiguous):
        # A product of vectors would need copies of both.
        return (first.squeeze() * second.squeeze()).sum(dtype=first.dtype)
    vectors = [t if t.ndim == 1 else t.reshape([size]) for t in (first, second)]
    return vectors[0].dot(vectors[1])


def _check_contracts(self: Tensor, other: Tensor, left: Ints, right: Ints) -> None:
    check(
        len(left) == len(right),
        lambda: (
            "both dimension lists should have same length; tensordot got "
            f"{list(left)} and {list(right)}"
        ),
    )
    check(
        self.dtype is other.dtype,
        lambda: (
            f"tensordot: both inputs should have same dtype, got {self.dtype} and {other.dtype}"
        ),
    )
    for a, b in zip(left, right):
        _check_contracted_dims(self, other, a, b)


def _check_contracted_dims(self: Tensor, other: Tensor, a: int, b: int) -> None:
    size_a = self.shape[wrap_dim(a, self.ndim)] if self.ndim else 1
    size_b = other.shape[wrap_dim(b, other.ndim)] if other.ndim else 1
    check(
        is_true(size_a == 1) or is_true(size_b == 1) or size_a == size_b,
        lambda: (
            f"contracted dimensions need to match, but first has size {size_a} in dim {a} and "
            f"second has size {size_b} in dim {b}"
        ),
    )


def _summed_against_ones(
    self: Tensor, other: Tensor, left: Ints, right: Ints
) -> tuple[Tensor, Tensor]:
    """Dimensions contracted with one of size 1, which stretches, are sums of their own."""
    pairs = list(zip(left, right))
    from_left = [
        a for a, b in pairs if not is_true(self.shape[a] == 1) and is_true(other.shape[b] == 1)
    ]
    from_right = [
        b for a, b in pairs if is_true(self.shape[a] == 1) and not is_true(other.shape[b] == 1)
    ]
    if from_left:
        self = self.sum(from_left, True, dtype=self.dtype)
    if from_right:
        other = other.sum(from_right, True, dtype=other.dtype)
    return self, other


tensordot_out = composite_out(tensordot, tensordot_composite, write_exact_out)

linalg_multi_dot = define("aten::linalg_multi_dot(Tensor[] tensors) -> Tensor")
linalg_multi_dot.describe("The product of several matrices, in the cheapest order.")
linalg_multi_dot.autocast(cuda="lower")


@linalg_multi_dot.composite
def linalg_multi_dot_composite(tensors: Sequence[Tensor]) -> Tensor:
    check(
        len(tensors) >= 2,
        lambda: f"multi_dot(): expected at least 2 tensors but got {len(tensors)}",
    )
    matrices = list(tensors)
    first, last = matrices[0], matrices[-1]
    check(
        first.ndim in (1, 2),
        lambda: f"multi_dot(): the first tensor must be 1D or 2D but got {first.ndim}D",
    )
    check(
        last.ndim in (1, 2),
        lambda: f"multi_dot(): the last tensor must be 1D or 2D but got {last.ndim}D",
    )
    # A vector at an end is a matrix of one row, or of one column.
    matrices[0] = first.unsqueeze(0) if first.ndim == 1 else first
    matrices[-1] = last.unsqueeze(-1) if last.ndim == 1 else last
    shape = [first.shape[0]] * (first.ndim - 1) + [last.shape[-1]] * (last.ndim - 1)
    _check_chain(matrices)
    order = _cheapest_order([m.shape[0] for m in matrices] + [matrices[-1].shape[1]])
    return _chained(matrices, order, 0, len(matrices) - 1).view(shape)


def _check_chain(matrices: Sequence[Tensor]) -> None:
    odd = [n for n, matrix in enumerate(matrices) if matrix.ndim != 2]
    check(
        not odd,
        lambda: f"multi_dot(): tensor {odd[0]} must be 2D but got {matrices[odd[0]].ndim}D",
    )
    other = next((n for n, m in enumerate(matrices) if m.dtype is not matrices[0].dtype), 0)
    check(
        other == 0,
        lambda: (
            f"multi_dot(): all tensors must be of one dtype but tensor 0 is "
            f"{matrices[0].dtype.name} and tensor {other} {matrices[other].dtype.name}"
        ),
    )
    for number in range(1, len(matrices)):
        _check_neighbours(matrices[number - 1], matrices[number], number)


def _check_neighbours(before: Tensor, after: Tensor, number: int) -> None:
    check(
        before.shape[1] == after.shape[0],
        lambda: (
            f"multi_dot(): tensors {number - 1} and {number} with shapes "
            f"{list(before.shape)} and {list(after.shape)} cannot be multiplied"
        ),
    )


def _cheapest_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of a chain (Cormen et al., Introduction to Algorithms, 15.2)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            best = min(range(len(costs)), key=costs.__getitem__)
            cost[i, j], split[i, j] = costs[best], i + best
    return split


def _chained(
    matrices: Sequence[Tensor], split: dict[tuple[int, int], int], i: int, j: int
) -> Tensor:
    if i == j:
        return matrices[i]
    k = split[i, j]
    return _chained(matrices, split, i, k).mm(_chained(matrices, split, k + 1, j))


linalg_multi_dot_out = composite_out(linalg_multi_dot, linalg_multi_dot_composite, write_exact_out)

linalg_matmul = define("aten::linalg_matmul(Tensor self, Tensor other) -> Tensor")
linalg_matmul.describe("The product of matrices or vectors, as `matmul`.")
linalg_matmul.composite(lambda self, other: self.matmul(other))

kron = define("aten::kron(Tensor self, Tensor other) -> Tensor")
kron.describe("The Kronecker product: each element of `self` times the whole of `other`.")


@kron.composite
def kron_composite(self: Tensor, other: Tensor) -> Tensor:
    rank = max(self.ndim, other.ndim)
    left = [1] * (rank - self.ndim) + list(self.shape)
    right = [1] * (rank - other.ndim) + list(other.shape)
    spread = self._unsafe_view([size for n in left for size in (n, 1)])
    tiled = other._unsafe_view([size for n in right for size in (1, n)])
    shape = [a * b for a, b in zip(left, right)]
    if min(self.ndim, other.ndim) > 0 and rank > 1 and _is_worth_rows(self, other):
        ends = (left[-1], right[-1])  # both spread along the last dimension, whole rows meet
        spread = spread.expand([*spread.shape[:-2], *ends]).reshape([*spread.shape[:-2], shape[-1]])
        tiled = tiled.expand([*tiled.shape[:-2], *ends]).reshape([*tiled.shape[:-2], shape[-1]])
    # Operands that lie in different orders: PyTorch refuses to see their product in the shape.
    return viewable(spread * tiled, tuple(shape))._unsafe_view(shape)


def _is_worth_rows(self: Tensor, other: Tensor) -> bool:
    """Whether a Kronecker product is large and of short rows, and nobody sees how it is made.

    900 by 900 float64 of 30 by 30: 0.6 to 0.35 ms.
    """
    mine, given = self.meta, other.meta
    if mine.is_symbolic or given.is_symbolic or mine.numel * given.numel < LARGE:
        return False
    if given.shape[-1] >= _LONG_ROW or not run_as_on_page((self, other), "mul.Tensor"):
        return False
    return not (is_grad_enabled() and (wants_derivative(self) or wants_derivative(other)))


_LONG_ROW = 128  # elements that NumPy multiplies by one number as fast as by others


kron_out = composite_out(kron, kron_composite)

# --- bilinear forms ---------------------------------------------------------------------------

bilinear = define(
    "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"
)
bilinear.describe(
    "``x1 @ weight[k] @ x2 + bias[k]`` for each k: the last dimension is that of `bias`."
)
bilinear.autocast(cuda="promote")


@bilinear.composite
def bilinear_composite(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    _check_bilinear(input1, input2, weight, bias)
    shape = [*input1.shape[:-1], weight.shape[0]]
    first = input1.reshape([-1, input1.shape[-1]])
    second = input2.reshape([-1, input2.shape[-1]])
    result = _trilinear(first, weight, second, [1, 3], [0], [1, 2], [2, 3]).reshape(shape)
    return result if bias is None else result + bias


def _check_bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    given = [x1, x2, weight] + ([] if bias is None else [bias])
    check(
        all(t.dtype is x1.dtype for t in given),
        lambda: (
            f"bilinear(): input1, input2, weight and bias must have one dtype, got "
            f"{', '.join(t.dtype.name for t in given)}"
        ),
    )
    check(
        x1.ndim == x2.ndim,
        lambda: f"bilinear(): input dimensions do not match: got {x1.ndim} and {x2.ndim}",
    )
    check(x1.ndim > 0, lambda: "bilinear(): inputs must have at least 1 dimension")
    check(
        x1.shape[:-1] == x2.shape[:-1],
        lambda: (
            f"bilinear(): input batch dimensions do not match: got {list(x1.shape)} and "
            f"{list(x2.shape)}"
        ),
    )
    check(
        weight.ndim == 3 and x1.shape[-1] == weight.shape[1] and x2.shape[-1] == weight.shape[2],
        lambda: (
            f"bilinear(): weight of shape {list(weight.shape)} must be (out, "
            f"{x1.shape[-1]}, {x2.shape[-1]}) for inputs of those last sizes"
        ),
    )
    check(
        bias is None or bias.shape[:1] == weight.shape[:1],
        lambda: (
            f"bilinear(): bias size does not match weight size: got {list(bias.shape)} but "  # type: ignore[union-attr]  # not None, by the condition
            f"expected [{weight.shape[0]}]"
        ),
    )


_trilinear = define(
    "aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, "
    "int[] expand3, int[] sumdim, int unroll_dim=1) -> Tensor"
)


@_trilinear.shape
def _trilinear_shape(
    i1: TensorMeta,
    i2: TensorMeta,
    i3: TensorMeta,
    expand1: Ints,
    expand2: Ints,
    expand3: Ints,
    sumdim: Ints,
    unroll_dim: int,
) -> TensorMeta:
    rank = i1.ndim + len(expand1)
    check(
        0 <= unroll_dim < rank,
        lambda: f"unroll_dim must be in [0,{rank - 1}]; _trilinear got {unroll_dim}",
    )
    spread = [
        _spread(meta.shape, dims) for meta, dims in ((i1, expand1), (i2, expand2), (i3, expand3))
    ]
    check(
        all(len(shape) == rank for shape in spread),
        lambda: (
            f"_trilinear: expected factors of one number of dimensions, with those that "
            f"expand1, expand2 and expand3 add; got {i1}, {i2} and {i3}"
        ),
    )
    full = broadcast_shapes(*spread)
    check_not_bool("bmm", i1, *full)
    summed = wrap_dims(sumdim, rank)
    return i1.fresh(tuple([size for dim, size in enumerate(full) if dim not in summed]))


def _spread(shape: Ints, expand: Ints) -> Ints:
    """A shape with a 1 at each of the dimensions that the operand lacks."""
    sizes = list(shape)
    for dim in expand:
        sizes.insert(dim, 1)
    return tuple(sizes)


@_trilinear.kernel
def _trilinear_kernel(
    xp: ModuleType,
    i1: Array,
    i2: Array,
    i3: Array,
    expand1: Ints,
    expand2: Ints,
    expand3: Ints,
    sumdim: Ints,
    unroll_dim: int,
) -> Array:
    operands: list[Factor] = []
    for array, expand in ((i1, expand1), (i2, expand2), (i3, expand3)):
        spread = _spread(array.shape, expand)
        # Sizes of 1 broadcast: leaving them out lets every pair contract as a matrix product.
        kept = [dim for dim, size in enumerate(spread) if size != 1]
        operands.append((wide(array).reshape([spread[dim] for dim in kept]), kept))
    full = [
        max(sizes) if min(sizes) else 0
        for sizes in zip(
            *[_spread(a.shape, e) for a, e in ((i1, expand1), (i2, expand2), (i3, expand3))]
        )
    ]
    summed = wrap_dims(sumdim, len(full))
    kept_out = [dim for dim in range(len(full)) if dim not in summed]
    result = [dim for dim in kept_out if full[dim] != 1]
    if is_narrow(i1):
        # PyTorch takes the product of the first two by itself, which rounds it.
        product, dims = contracted(xp, operands[0], operands[1], {*result, *operands[2][1]})
        pair = wide(converted(product, i1.dtype)), dims
        found, dims = contracted(xp, pair, operands[2], {*result})
    else:
        found, dims = contracted_in_order(xp, operands, {*result})
    return found.transpose([dims.index(d) for d in result]).reshape([full[dim] for dim in kept_out])


@_trilinear.derivative("i1", "i2", "i3")
def _trilinear_gradients(
    grad: Tensor,
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Ints,
    expand2: Ints,
    expand3: Ints,
    sumdim: Ints,
    needs: list[bool],
) -> tuple[Tensor | None, ...]:
    """Each factor's gradient is the same product with `grad` in its place, the others conjugate."""
    i1, i2, i3 = conj(i1), conj(i2), conj(i3)
    sumdim = wrap_dims(sumdim, i1.ndim + len(expand1))
    return (
        _trilinear(grad, i2, i3, sumdim, expand2, expand3, expand1) if needs[0] else None,
        _trilinear(i1, grad, i3, expand1, sumdim, expand3, expand2) if needs[1] else None,
        _trilinear(i1, i2, grad, expand1, expand2, sumdim, expand3) if needs[2] else None,
    )


_trilinear.real_derivative()


@_trilinear.batching_decomposition
def trilinear_batching(
    i1: Tensor, i2: Tensor, i3: Tensor, e1: Any, e2: Any, e3: Any, sumdim: Any, unroll_dim: int
) -> Tensor:
    def wide(t: Tensor, dims: Any) -> Tensor:
        for d in dims:
            t = t.unsqueeze(d)
        return t

    product = wide(i1, e1) * wide(i2, e2) * wide(i3, e3)
    # A sum of integers would be int64.
    return product.sum(list(sumdim), dtype=i1.dtype) if sumdim else product


chain_matmul = define("aten::chain_matmul(Tensor[] matrices) -> Tensor")
chain_matmul.describe("The product of several matrices, in the cheapest order: `multi_dot` of old.")
chain_matmul.autocast(cuda="lower")


@chain_matmul.composite
def chain_matmul_composite(matrices: Sequence[Tensor]) -> Tensor:
    check(len(matrices) > 0, lambda: "chain_matmul(): Expected one or more matrices")
    odd = [m for m in matrices if m.ndim != 2]
    check(
        not odd,
        lambda: f"chain_matmul(): Tensor dimension is {odd[0].ndim}, expected 2 instead.",
    )
    only: Tensor = matrices[0]
    return only.clone() if len(matrices) == 1 else linalg_multi_dot_composite(matrices)


chain_matmul_out = composite_out(chain_matmul, chain_matmul_composite)
