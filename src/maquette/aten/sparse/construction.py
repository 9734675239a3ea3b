"""Sparse tensors made of indices and values, and the checks of what they must be.

Indices and values are aliased, not copied. What only values tell (sorted, in range) is checked
where it is asked for: ``check_invariants``, `_validate_sparse_coo_tensor_args` and its likes.
"""

from __future__ import annotations

from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.sparse.parts import sparse_values_at
from maquette.aten.sparse.places import flat_index
from maquette.core.device import canonical, cpu
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import get_default_dtype, int32, int64
from maquette.core.errors import check, check_data
from maquette.core.layout import layout as Layout
from maquette.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from maquette.core.strides import Shape
from maquette.library.page import OperatorPage, define, describe
from maquette.library.sparse_kernels import overload
from maquette.tensor.sparse import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    compressed_parts,
    compressed_tensor,
    coo_tensor,
)
from maquette.tensor.tensor import Tensor

_OPTIONS = (
    "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory={}"
)
_ASKED, _SAID = _OPTIONS.format("None"), _OPTIONS.format("False")


# Without the choice of an overload: 3 of 8 us.
_empty, _zeros = overload("empty.memory_format")._call, overload("zeros")._call


def _placed(t: Tensor, dtype: DType | None, device: Device | None) -> Tensor:
    return t if dtype is None and device is None else t.to(device=device, dtype=dtype)


def _beside(indices: Tensor, values: Tensor) -> Tensor:
    """Indices on the device of the values."""
    where = values.meta.device
    return indices if indices.meta.device is where else indices.to(where)


# --- COO --------------------------------------------------------------------------------------


def _check_coo(indices: Tensor, values: Tensor, size: Shape) -> None:
    a, v = indices.meta, values.meta
    check(
        a.ndim == 2,
        lambda: f"indices must be sparse_dim x nnz, but got: {list(a.shape)}",
    )
    sparse, dense = a.shape[0], v.ndim - 1
    check(
        len(size) == sparse + dense,
        lambda: (
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse}, dense_dim = {dense}"
        ),
    )
    check(
        a.shape[1] == v.shape[0],
        lambda: (
            f"indices and values must have same nnz, but got nnz from indices: {a.shape[1]}, nnz "
            f"from values: {v.shape[0]}"
        ),
    )
    check(
        tuple(size[sparse:]) == tuple(v.shape[1:]),
        lambda: (
            f"values has incorrect size, expected {[a.shape[1], *size[sparse:]]}, got "
            f"{list(v.shape)}"
        ),
    )
    check(a.dtype is int64, lambda: f"indices must be an int64 tensor, but got {a.dtype}")


def _in_a_row(values: Tensor) -> Tensor:
    """One value without dimensions is a row of one."""
    return values if values.meta.ndim else values.expand((1,))


_with_tensors = define(
    "aten::_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, "
    f"Tensor indices, Tensor values, {_SAID}, bool? is_coalesced=None) -> Tensor"
)


@_with_tensors.explicit
def _with_tensors_explicit(
    sparse_dim: int,
    dense_dim: int,
    size: Shape,
    indices: Tensor,
    values: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Tensor:
    _check_coo(indices, values, size)
    kept = _placed(values, dtype, device)
    at = _beside(indices, kept)
    return coo_tensor(size, at._alias(), kept._alias(), coalesced=is_coalesced)


_with_tensors.linear(
    values=lambda grad, indices, result: sparse_values_at(grad, result),
)


_unsafe_coo = define(
    "aten::_sparse_coo_tensor_unsafe(Tensor indices, Tensor values, SymInt[] size, "
    f"{_ASKED}, bool? is_coalesced=None) -> Tensor"
)


@_unsafe_coo.composite
def _unsafe_coo_composite(
    indices: Tensor,
    values: Tensor,
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Tensor:
    values = _in_a_row(values)
    made: Tensor = _with_tensors(
        indices.meta.shape[0] if indices.meta.ndim else 0,
        values.meta.ndim - 1,
        size,
        indices,
        values,
        dtype=dtype,
        layout=sparse_coo,
        device=device,
        is_coalesced=is_coalesced,
    )
    return made


coo_indices_size = define(
    "aten::sparse_coo_tensor.indices_size(Tensor indices, Tensor values, int[] size, "
    f"{_ASKED}, bool? is_coalesced=None) -> Tensor"
)
coo_indices_size.describe(
    "A sparse tensor of elements `values` at positions `indices` [sparse_dim, count]."
)
coo_indices = define(
    "aten::sparse_coo_tensor.indices(Tensor indices, Tensor values, "
    f"{_ASKED}, bool? is_coalesced=None) -> Tensor"
)
coo_size = define(f"aten::sparse_coo_tensor.size(int[] size, {_SAID}) -> Tensor")


@coo_indices_size.composite
def coo_indices_size_composite(
    indices: Tensor, values: Tensor, size: Shape, *options: object
) -> Tensor:
    is_coalesced = options[-1]
    if is_coalesced:
        validate_coo(indices, values, size, True)
    made: Tensor = _unsafe_coo(
        indices, values, size, dtype=options[0], device=options[2], is_coalesced=is_coalesced
    )
    return made


@coo_indices.composite
def coo_indices_composite(indices: Tensor, values: Tensor, *options: object) -> Tensor:
    values = _in_a_row(values)
    size = coo_extent(indices, values)
    made: Tensor = coo_indices_size(
        indices, values, size, dtype=options[0], device=options[2], is_coalesced=options[-1]
    )
    return made


def coo_extent(indices: Tensor, values: Tensor) -> Shape:
    """The smallest sizes that hold these indices."""
    check(
        indices.meta.ndim == 2,
        lambda: f"indices must be sparse_dim x nnz, but got: {list(indices.meta.shape)}",
    )
    sparse, count = indices.meta.shape
    if sparse and count:
        lead = (indices.max(1)[0] + 1).tolist()
        least = indices.min().item()
        check(least >= 0, lambda: f"found negative index {least}")
    else:
        lead = [0] * sparse
    return (*lead, *values.meta.shape[1:])


_with_dims = define(
    "aten::_sparse_coo_tensor_with_dims(int sparse_dim, int dense_dim, int[] size, "
    f"{_SAID}) -> Tensor"
)


@_with_dims.explicit
def _with_dims_explicit(
    sparse_dim: int, dense_dim: int, size: Shape, dtype: DType | None, *options: object
) -> Tensor:
    device = options[1]
    return empty_coo(size, sparse_dim, dtype, device)  # type: ignore[arg-type]  # a device


def empty_coo(size: Shape, sparse_dim: int, dtype: DType | None, device: Device | None) -> Tensor:
    """A COO tensor that specifies nothing."""
    where = cpu if device is None else canonical(device)
    kind = get_default_dtype() if dtype is None else dtype
    indices = _empty([sparse_dim, 0], dtype=int64, device=where)
    values = _empty([0, *size[sparse_dim:]], dtype=kind, device=where)
    return coo_tensor(size, indices, values, coalesced=True)


@coo_size.explicit
def coo_size_explicit(size: Shape, dtype: DType | None, *options: object) -> Tensor:
    return empty_coo(size, len(size), dtype, options[1])  # type: ignore[arg-type]  # a device


_check_coo_values = define(
    "maquette::check_coo_indices(Tensor indices, SymInt[] size, bool coalesced) -> ()"
)
_check_coo_values.shape(lambda indices, size, coalesced: None)


@_check_coo_values.kernel
@on_host
def _check_coo_values_kernel(xp: ModuleType, indices: Array, size: Shape, coalesced: bool) -> None:
    for dim, (row, extent) in enumerate(zip(indices, size, strict=True)):
        if not row.size:
            continue
        least, most = int(row.min()), int(row.max())
        check_data(least >= 0, lambda v=least, d=dim: f"found negative index {v} for dim {d}")
        check_data(
            most < extent,
            lambda v=most, d=dim, n=extent: (
                f"size is inconsistent with indices: for dim {d}, size is {n} but found index {v}"
            ),
        )
    if coalesced and indices.shape[1] > 1:
        flat = flat_index(indices, tuple(map(int, size)))
        check_data(
            bool((np.diff(flat) > 0).all()),
            lambda: (
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            ),
        )


_validate_coo = define(
    "aten::_validate_sparse_coo_tensor_args(Tensor indices, Tensor values, int[] size, "
    "bool? is_coalesced=None, bool? check_pinning=None) -> ()"
)


def validate_coo(
    indices: Tensor, values: Tensor, size: Shape, is_coalesced: bool | None = None, *rest: object
) -> None:
    """RuntimeError unless these are the parts of a COO tensor of this size."""
    values = _in_a_row(values)
    _check_coo(indices, values, size)
    _check_coo_values(indices, tuple(size[: indices.meta.shape[0]]), bool(is_coalesced))


_validate_coo.explicit(validate_coo)

# --- compressed -------------------------------------------------------------------------------

INDEX_NAMES = {
    sparse_csr: ("crow_indices", "col_indices"),
    sparse_bsr: ("crow_indices", "col_indices"),
    sparse_csc: ("ccol_indices", "row_indices"),
    sparse_bsc: ("ccol_indices", "row_indices"),
}
"""What the compressed and the plain indices of a layout are called."""


def check_compressed(
    compressed: Tensor, plain: Tensor, values: Tensor, size: Shape, kind: Layout
) -> None:
    """RuntimeError unless these can be the parts of a compressed tensor of this size."""
    name, other = INDEX_NAMES[kind]
    c, p, v = compressed.meta, plain.meta, values.meta
    block = 2 if kind in BLOCKED else 0
    check(
        c.ndim >= 1,
        lambda: f"{name} must have dimensionality >= 1 but got {c.ndim}",
    )
    check(
        p.ndim == c.ndim,
        lambda: (
            f"{name} and {other} dimensionalities must be equal but got {c.ndim} and {p.ndim}, "
            f"respectively"
        ),
    )
    batch = c.ndim - 1
    dense = v.ndim - batch - block - 1
    check(
        dense >= 0,
        lambda: (
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} "
            f"+ {block}) but got {v.ndim}"
        ),
    )
    check(
        len(size) == batch + 2 + dense,
        lambda: (
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(size)}"
        ),
    )
    check(
        c.dtype is p.dtype,
        lambda: (
            f"{name} and {other} must have the same dtype, bot got {c.dtype.scalar_name} and "
            f"{p.dtype.scalar_name}, respectively"
        ),
    )
    check(
        c.dtype in (int32, int64),
        lambda: f"{name} and {other} must be an int32 or int64 type, but got {c.dtype.scalar_name}",
    )
    _check_extents(compressed, plain, values, size, kind, batch)


def _check_extents(
    compressed: Tensor, plain: Tensor, values: Tensor, size: Shape, kind: Layout, batch: int
) -> None:
    name, other = INDEX_NAMES[kind]
    c, p, v = compressed.meta, plain.meta, values.meta
    at = 0 if kind in BY_ROWS else 1
    r = v.shape[batch + 1 + at] if kind in BLOCKED else 1
    majors = size[batch + at] // r if r else 0
    what = ("rows", "columns")[at] if r == 1 else ("row blocks", "column blocks")[at]
    check(
        tuple(size[:batch]) == tuple(c.shape[:-1]) == tuple(p.shape[:-1]) == tuple(v.shape[:batch]),
        lambda: (
            f"all batch dimensions of {name} (={list(c.shape[:-1])}), {other} "
            f"(={list(p.shape[:-1])}), and values (={list(v.shape[:batch])}) must be equal to "
            f"tensor batch dimensions (={list(size[:batch])})"
        ),
    )
    check(
        c.shape[-1] == majors + 1,
        lambda: (
            f"{name}.shape[-1] must be equal to the number of {what} + 1 (={majors + 1}), but got "
            f"{c.shape[-1]}"
        ),
    )
    check(
        p.shape[-1] == v.shape[batch],
        lambda: (
            f"{other}.shape[-1] must be equal to nnz (={v.shape[batch]}) as defined by "
            f"values.shape[{batch}], but got {p.shape[-1]}"
        ),
    )


_check_places = define(
    "maquette::check_compressed_indices(Tensor compressed, Tensor plain, SymInt minors, str name, "
    "str other, str extent) -> ()"
)
_check_places.shape(lambda *args: None)


@_check_places.kernel
@on_host
def _check_places_kernel(
    xp: ModuleType, compressed: Array, plain: Array, minors: int, name: str, other: str, extent: str
) -> None:
    count = plain.shape[-1]
    steps = np.diff(compressed, axis=-1)
    _must(bool((compressed[..., 0] == 0).all()), f"{name}[..., 0] == 0")
    _must(bool((compressed[..., -1] == count).all()), f"{name}[..., -1] == nnz")
    _must(
        bool((steps >= 0).all() and (steps <= minors).all()),
        f"0 <= {name}[..., 1:] - {name}[..., :-1] <= {extent}",
    )
    _must(bool((plain >= 0).all() and (plain < minors).all()), f"0 <= {other} < {extent}")
    batches = compressed.reshape(prod(compressed.shape[:-1]), compressed.shape[-1])
    for offsets, row in zip(batches, plain.reshape(len(batches), count), strict=True):
        rising = np.diff(row) > 0
        inner = np.ones(max(count - 1, 0), bool)
        cuts = offsets[1:-1]
        inner[cuts[(cuts > 0) & (cuts < count)] - 1] = False
        _must(
            bool(rising[inner].all()),
            f"{other}[..., {name}[..., i - 1]:{name}[..., i]] for all i = 1, ..., "
            f"{'nrows' if extent == 'ncols' else 'ncols'} are sorted and distinct along the last "
            f"dimension values",
        )


_validate_indices = define(
    "aten::_validate_compressed_sparse_indices(bool is_crow, Tensor compressed_idx, Tensor "
    "plain_idx, int cdim, int dim, int nnz) -> ()"
)


@_validate_indices.explicit
def _validate_indices_parts(
    is_crow: bool, compressed_idx: Tensor, plain_idx: Tensor, cdim: int, dim: int, nnz: int
) -> None:
    """RuntimeError unless these are offsets of ``cdim`` rows, and places below ``dim``."""
    name, other = INDEX_NAMES[sparse_csr if is_crow else sparse_csc]
    _check_places(compressed_idx, plain_idx, dim, name, other, "ncols" if is_crow else "nrows")


def _must(holds: bool, what: str) -> None:
    check_data(holds, lambda: f"`{what}` is not satisfied.")


def validate_compressed(
    compressed: Tensor,
    plain: Tensor,
    values: Tensor,
    size: Shape,
    layout: Layout,
    *rest: object,
) -> None:
    """RuntimeError unless these are the parts of a compressed tensor of this size."""
    check_compressed(compressed, plain, values, size, layout)
    batch = compressed.meta.ndim - 1
    at = 1 if layout in BY_ROWS else 0
    width = values.meta.shape[batch + 1 + at] if layout in BLOCKED else 1
    name, other = INDEX_NAMES[layout]
    minors = size[batch + at] // width if width else 0
    _check_places(compressed, plain, minors, name, other, "ncols" if at else "nrows")


_validate_compressed = define(
    "aten::_validate_sparse_compressed_tensor_args(Tensor compressed_indices, Tensor "
    "plain_indices, Tensor values, int[] size, Layout layout, bool? check_pinning=None) -> ()"
)
_validate_compressed.explicit(validate_compressed)

_unsafe_compressed = define(
    "aten::_sparse_compressed_tensor_unsafe(Tensor compressed_indices, Tensor plain_indices, "
    f"Tensor values, SymInt[] size, {_ASKED}) -> Tensor"
)


@_unsafe_compressed.explicit
def _unsafe_compressed_explicit(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Tensor:
    check(
        layout in COMPRESSED,
        lambda: f"expected compressed sparse tensor layout but got {layout}",
    )
    assert layout is not None
    kept = _placed(values, dtype, device)
    offsets, plain = _beside(compressed_indices, kept), _beside(plain_indices, kept)
    return compressed_tensor(layout, size, offsets._alias(), plain._alias(), kept._alias())


_unsafe_compressed.linear(values=lambda grad, result: sparse_values_at(grad, result))

_compressed_with_dims = define(
    "aten::_sparse_compressed_tensor_with_dims(int nnz, int dense_dim, int[] size, int[] "
    "blocksize, ScalarType index_dtype, *, ScalarType? dtype=None, Layout? layout=None, Device? "
    "device=None, bool? pin_memory=None) -> Tensor"
)


@_compressed_with_dims.explicit
def _compressed_with_dims_explicit(
    nnz: int,
    dense_dim: int,
    size: Shape,
    blocksize: Shape,
    index_dtype: DType,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Tensor:
    """A compressed tensor of ``nnz`` elements (or blocks) whose places and values are not set."""
    kind = _compressed(layout)
    check(
        len(blocksize) == (2 if kind in BLOCKED else 0),
        lambda: (
            f"sparse_compressed_tensor_with_dims: layout {kind} expects "
            f"{'two' if kind in BLOCKED else 'no'} sizes of blocks, got {list(blocksize)}"
        ),
    )
    made = empty_compressed(size, kind, dtype, device, tuple(blocksize), index_dtype, dense_dim)
    offsets, plain, values = compressed_parts(made)
    at = offsets.meta.ndim - 1
    lead, inner = plain.meta.shape[:at], values.meta.shape[at + 1 :]
    plain, values = plain.new_zeros((*lead, nnz)), values.new_zeros((*lead, nnz, *inner))
    return compressed_tensor(kind, size, offsets, plain, values)


comp_plain_value_size = define(
    "aten::sparse_compressed_tensor.comp_plain_value_size(Tensor compressed_indices, Tensor "
    f"plain_indices, Tensor values, SymInt[] size, {_SAID}) -> Tensor"
)
comp_plain_value_size.describe(
    "A sparse tensor of a compressed layout, from where rows or columns begin, positions and "
    "values."
)
comp_plain_value = define(
    "aten::sparse_compressed_tensor.comp_plain_value(Tensor compressed_indices, Tensor "
    f"plain_indices, Tensor values, {_SAID}) -> Tensor"
)


def _compressed(layout: Layout | None) -> Layout:
    """A compressed layout; RuntimeError for any other, or none."""
    check(
        layout in COMPRESSED,
        lambda: (
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}"
        ),
    )
    assert layout is not None
    return layout


@comp_plain_value_size.composite
def comp_plain_value_size_composite(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Tensor:
    layout = _compressed(layout)
    check_compressed(compressed_indices, plain_indices, values, size, layout)
    made: Tensor = _unsafe_compressed(
        compressed_indices, plain_indices, values, size, dtype=dtype, layout=layout, device=device
    )
    return made


@comp_plain_value.composite
def comp_plain_value_composite(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Tensor:
    layout = _compressed(layout)
    size = compressed_extent(compressed_indices, plain_indices, values, layout)
    made: Tensor = comp_plain_value_size(
        compressed_indices, plain_indices, values, size, dtype=dtype, layout=layout, device=device
    )
    return made


def compressed_extent(compressed: Tensor, plain: Tensor, values: Tensor, kind: Layout) -> Shape:
    """The smallest size that holds these indices."""
    batch = compressed.meta.ndim - 1
    block = values.meta.shape[batch + 1 : batch + 3] if kind in BLOCKED else (1, 1)
    dense = values.meta.shape[batch + (3 if kind in BLOCKED else 1) :]
    minors = int(plain.max().item()) + 1 if plain.meta.numel else 0
    majors = compressed.meta.shape[-1] - 1
    pair = (majors, minors) if kind in BY_ROWS else (minors, majors)
    lead = compressed.meta.shape[:-1]
    return (*lead, pair[0] * block[0], pair[1] * block[1], *dense)


def _of_layout(kind: Layout, first: str, second: str) -> tuple[OperatorPage, OperatorPage]:
    """The pages ``sparse_csr_tensor`` and ``_sparse_csr_tensor_unsafe`` and their likes."""
    name = kind.name
    word = f"{first.removesuffix('_indices')}_{second.removesuffix('_indices')}"
    parts = f"Tensor {first}, Tensor {second}, Tensor values"
    sized = define(f"aten::{name}_tensor.{word}_value_size({parts}, int[] size, {_SAID}) -> Tensor")
    plain = define(f"aten::{name}_tensor.{word}_value({parts}, {_SAID}) -> Tensor")
    unsafe = define(f"aten::_{name}_tensor_unsafe({parts}, int[] size, {_ASKED}) -> Tensor")

    @sized.composite
    def sized_composite(a: Tensor, b: Tensor, v: Tensor, size: Shape, *options: object) -> Tensor:
        made: Tensor = comp_plain_value_size(
            a, b, v, size, dtype=options[0], layout=kind, device=options[2]
        )
        return made

    @plain.composite
    def plain_composite(a: Tensor, b: Tensor, v: Tensor, *options: object) -> Tensor:
        made: Tensor = comp_plain_value(a, b, v, dtype=options[0], layout=kind, device=options[2])
        return made

    @unsafe.composite
    def unsafe_composite(a: Tensor, b: Tensor, v: Tensor, size: Shape, *options: object) -> Tensor:
        made: Tensor = _unsafe_compressed(
            a, b, v, size, dtype=options[0], layout=kind, device=options[2]
        )
        return made

    validate = define(
        f"aten::_validate_{name}_tensor_args({parts}, int[] size, bool? check_pinning=None) -> ()"
    )
    validate.composite(lambda a, b, v, size, check: validate_compressed(a, b, v, size, kind))
    return sized, plain


for _kind, _names in INDEX_NAMES.items():
    _of_layout(_kind, *_names)
describe(
    "sparse_csr_tensor",
    "A sparse tensor of compressed rows, from where they begin, the columns and values of "
    "elements.",
)
describe(
    "sparse_csc_tensor",
    "A sparse tensor of compressed columns, from where they begin, the rows and values of "
    "elements.",
)
describe(
    "sparse_bsr_tensor",
    "A sparse tensor of compressed rows of blocks, from where they begin, their columns and "
    "values.",
)
describe(
    "sparse_bsc_tensor",
    "A sparse tensor of compressed columns of blocks, from where they begin, their rows and "
    "values.",
)


def empty_compressed(
    size: Shape,
    kind: Layout,
    dtype: DType | None,
    device: Device | None,
    block: Shape = (),
    index: DType = int64,
    dense_dim: int = 0,
) -> Tensor:
    """A compressed tensor that specifies nothing."""
    where = cpu if device is None else canonical(device)
    batch = len(size) - 2 - dense_dim
    at = batch + (0 if kind in BY_ROWS else 1)
    majors = size[at] // (block[at - batch] if block else 1)
    lead = size[:batch]
    offsets = _zeros([*lead, majors + 1], dtype=index, device=where)
    plain = _empty([*lead, 0], dtype=index, device=where)
    dtype = get_default_dtype() if dtype is None else dtype
    values = _empty([*lead, 0, *block, *size[batch + 2 :]], dtype=dtype, device=where)
    return compressed_tensor(kind, size, offsets, plain, values)
