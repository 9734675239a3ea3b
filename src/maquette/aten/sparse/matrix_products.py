"""Products of sparse matrices, on arrays: what `products.py` computes with, by SciPy's functions.

Private operators (namespace ``maquette``). A matrix comes as the parts of a compressed one; COO
ones are compressed first, which takes one counting sort.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, Number, scaled, wide
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.large_arrays import loops_for_floats
from maquette.aten.sparse.places import (
    Sizes,
    checked_compressed,
    checked_within,
    compiled_tools,
    majors_of_offsets,
)
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.library.page import define
from maquette.library.sparse_kernels import counting_nothing
from maquette.tensor.tensor import Tensor

Block = tuple[int, int]
_FULL = 32  # a product of all elements takes as long as this part of them one by one


def _product_shape(values: TensorMeta, size: Sizes, right: TensorMeta) -> TensorMeta:
    check(
        size[1] == right.shape[0],
        lambda: (
            f"mat1 and mat2 shapes cannot be multiplied ({size[0]}x{size[1]} and "
            f"{'x'.join(map(str, right.shape))})"
        ),
    )
    check(
        values.dtype is right.dtype,
        lambda: (
            f"expected m1 and m2 to have the same dtype, but got: {values.dtype.scalar_name} != "
            f"{right.dtype.scalar_name}"
        ),
    )
    return right.fresh((size[0], *right.shape[1:]))


coo_product = define(
    "maquette::coo_product(Tensor indices, Tensor values, SymInt[] size, Tensor right) -> Tensor"
)
coo_product.shape(lambda indices, values, size, right: _product_shape(values, size, right))


@coo_product.kernel
@on_host
def coo_product_kernel(
    xp: ModuleType, indices: Array, values: Array, size: Sizes, right: Array
) -> Array:
    """A COO matrix times a strided one, or a vector."""
    offsets, columns, x = _by_rows(indices, wide(values), size)
    return _times((offsets, columns, x), size, right, True).astype(values.dtype, copy=False)


def _by_rows(indices: Array, values: Array, size: Sizes) -> tuple[Array, Array, Array]:
    """COO elements as compressed rows, in which columns come in any order, maybe again."""
    rows, columns = indices
    checked_within(rows, size[0])
    checked_within(columns, size[1])
    offsets = np.empty(size[0] + 1, np.int64)
    plain, x = np.empty(rows.size, np.int64), np.empty(rows.size, values.dtype)
    compiled_tools().coo_tocsr(
        int(size[0]), int(size[1]), rows.size, rows, columns, values, offsets, plain, x
    )
    return offsets, plain, x


def _times(parts: tuple[Array, Array, Array], size: Sizes, right: Array, by_rows: bool) -> Array:
    """A compressed matrix, checked, times a vector or a strided matrix; blocks are multiplied."""
    compressed, plain, values = parts
    x = np.ascontiguousarray(wide(right))
    rows, columns = int(size[0]), int(size[1])
    found = np.zeros((rows, *x.shape[1:]), values.dtype)
    tools = compiled_tools()
    width = () if x.ndim == 1 else (x.shape[1],)
    if values.ndim == 3 and width:
        compressed, plain, values = _without_blocks(
            parts, size
        )  # a block at a time: 4 times slower
    if values.ndim == 3:
        r, c = values.shape[1:]
        given = (rows // r, columns // c, r, c)
        multiply = tools.bsr_matvec
    else:
        given = (rows, columns, *width)
        multiply = getattr(tools, f"{'csr' if by_rows else 'csc'}_matvec{'s' if width else ''}")
    multiply(*given, compressed, plain, values.reshape(-1), x.reshape(-1), found.reshape(-1))
    return found


def _without_blocks(parts: tuple[Array, Array, Array], size: Sizes) -> tuple[Array, Array, Array]:
    """Compressed rows of blocks as compressed rows of elements."""
    compressed, plain, values = parts
    (r, c), kind = values.shape[1:], compressed.dtype
    rows, columns = int(size[0]), int(size[1])
    made = (
        np.empty(rows + 1, kind),
        np.empty(values.size, kind),
        np.empty(values.size, values.dtype),
    )
    compiled_tools().bsr_tocsr(
        rows // r, columns // c, r, c, compressed, plain, values.reshape(-1), *made
    )
    return made


compressed_product = define(
    "maquette::compressed_product(Tensor compressed, Tensor plain, Tensor values, SymInt[] size, "
    "Tensor right, bool by_rows) -> Tensor"
)
compressed_product.shape(
    lambda compressed, plain, values, size, right, by_rows: _product_shape(values, size, right)
)


@compressed_product.kernel
@on_host
def compressed_product_kernel(
    xp: ModuleType,
    compressed: Array,
    plain: Array,
    values: Array,
    size: Sizes,
    right: Array,
    by_rows: bool,
) -> Array:
    """Compressed rows or columns, or rows of blocks, times a strided matrix or a vector."""
    extent = size[1] if by_rows else size[0]
    checked_compressed(compressed, plain, extent // (values.shape[2] if values.ndim == 3 else 1))
    found = _times((compressed, plain, wide(values)), size, right, by_rows)
    return found.astype(values.dtype, copy=False)


# --- two sparse ones --------------------------------------------------------------------------

coo_coo_product = define(
    "maquette::coo_coo_product(Tensor indices, Tensor values, SymInt[] size, Tensor other_indices, "
    "Tensor other_values, SymInt[] other_size) -> (Tensor, Tensor)"
)


@counting_nothing(
    coo_coo_product,
    lambda indices, values, size, other_indices, other_values, other_size: (
        indices.fresh((2, 0)),
        values.fresh((0,)),
    ),
)
@on_host
def coo_coo_product_kernel(
    xp: ModuleType,
    indices: Array,
    values: Array,
    size: Sizes,
    other_indices: Array,
    other_values: Array,
    other_size: Sizes,
) -> tuple[Array, Array]:
    """A sparse matrix times a sparse one: sorted indices, each once, and values."""
    left = _by_rows(indices, wide(values), size)
    right = _by_rows(other_indices, wide(other_values), other_size)
    offsets, columns, x = _of_two(left, right, (int(size[0]), int(other_size[1])))
    found = np.empty((2, columns.size), np.int64)
    found[0], found[1] = majors_of_offsets(offsets), columns
    return found, x.astype(values.dtype, copy=False)


def _of_two(
    left: tuple[Array, Array, Array], right: tuple[Array, Array, Array], size: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """The product of compressed rows, both checked: sorted, each element there once."""
    rows, columns = size
    tools = compiled_tools()
    count = tools.csr_matmat_maxnnz(rows, columns, *left[:2], *right[:2])
    kind = left[0].dtype
    parts = np.empty(rows + 1, kind), np.empty(count, kind), np.empty(count, left[2].dtype)
    tools.csr_matmat(rows, columns, *left, *right, *parts)
    count = int(parts[0][-1])  # sums that are zero are left out
    parts = parts[0], parts[1][:count], parts[2][:count]
    # Sorted by counting: by columns, then by rows.
    for majors, minors in ((rows, columns), (columns, rows)):
        into = np.empty(minors + 1, kind), np.empty(count, kind), np.empty(count, left[2].dtype)
        tools.csr_tocsc(majors, minors, *parts, *into)
        parts = into
    return parts


compressed_pair_product = define(
    "maquette::compressed_pair_product(Tensor compressed, Tensor plain, Tensor values, SymInt[] "
    "size, Tensor other_compressed, Tensor other_plain, Tensor other_values, SymInt[] other_size) "
    "-> (Tensor, Tensor, Tensor)"
)


@counting_nothing(
    compressed_pair_product,
    lambda compressed, plain, values, size, *rest: (
        compressed.fresh((size[0] + 1,)),
        plain.fresh((0,)),
        values.fresh((0,)),
    ),
)
@on_host
def compressed_pair_product_kernel(
    xp: ModuleType,
    compressed: Array,
    plain: Array,
    values: Array,
    size: Sizes,
    other_compressed: Array,
    other_plain: Array,
    other_values: Array,
    other_size: Sizes,
) -> tuple[Array, Array, Array]:
    """Compressed rows times compressed rows, as compressed rows."""
    checked_compressed(compressed, plain, size[1])
    checked_compressed(other_compressed, other_plain, other_size[1])
    left = (compressed, plain, wide(values))
    right = (other_compressed, other_plain, wide(other_values))
    offsets, columns, x = _of_two(left, right, (int(size[0]), int(other_size[1])))
    return offsets, columns, x.astype(values.dtype, copy=False)


# --- sampled ----------------------------------------------------------------------------------

sampled_products = define(
    "maquette::sampled_products(Tensor rows, Tensor columns, Tensor left, Tensor right) -> Tensor"
)


@sampled_products.shape
def sampled_products_shape(
    rows: TensorMeta, columns: TensorMeta, left: TensorMeta, right: TensorMeta
) -> TensorMeta:
    return left.fresh(rows.shape)


@sampled_products.kernel
@on_host
def sampled_products_kernel(
    xp: ModuleType, rows: Array, columns: Array, left: Array, right: Array
) -> Array:
    """The elements of ``left @ right`` at these places."""
    return _sampled(rows, columns, left, right)


def _sampled(rows: Array, columns: Array, left: Array, right: Array) -> Array:
    checked_within(rows, left.shape[0])
    checked_within(columns, right.shape[1])
    a, b = wide(left), wide(right)
    loops = loops_for_floats(np, a, b)
    if loops is not None:
        found: Array = loops.sampled_products(rows, columns, a, b)
    elif rows.size * _FULL >= left.shape[0] * right.shape[1]:
        found = (a @ b)[rows, columns]
    else:
        found = np.einsum("ij,ij->i", a[rows], b.T[columns])
    return found.astype(left.dtype, copy=False)


def _spread(grad: Tensor, at: Tensor, like: TensorMeta, others: Tensor) -> Tensor:
    """The gradient of a factor's rows: each place gives the row of the other factor, scaled."""
    found: Tensor = grad.new_zeros(like.shape).index_add(0, at, grad.unsqueeze(1) * others.conj())
    return found


sampled_products.bilinear(
    left=lambda grad, rows, columns, left_meta, right: _spread(
        grad, rows, left_meta, right.t().index_select(0, columns)
    ),
    right=lambda grad, rows, columns, left, right_meta: _spread(
        grad, columns, right_meta.fresh(right_meta.shape[::-1]), left.index_select(0, rows)
    ).t(),
)

sampled_sum = define(
    "maquette::sampled_sum(Tensor compressed, Tensor plain, Tensor values, Tensor left, Tensor "
    "right, Scalar beta, Scalar alpha) -> Tensor"
)
sampled_sum.shape(lambda compressed, plain, values, *rest: values.fresh(values.shape))


@sampled_sum.kernel
@on_host
def sampled_sum_kernel(
    xp: ModuleType,
    compressed: Array,
    plain: Array,
    values: Array,
    left: Array,
    right: Array,
    beta: Number,
    alpha: Number,
) -> Array:
    """``beta * values + alpha * left @ right`` where compressed rows store elements."""
    found = scaled(_sampled(majors_of_offsets(compressed), plain, left, right), alpha)
    return found + scaled(values, beta)
