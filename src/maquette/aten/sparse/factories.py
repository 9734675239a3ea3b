"""Sparse tensors that specify nothing, and those made after the pattern of another.

What fills every element makes no sparse tensor: it is refused for COO tensors, and keeps the
indices of compressed ones.
"""

from __future__ import annotations

from typing import Any

from maquette.aten.common.operators import aten
from maquette.aten.sparse.construction import empty_compressed, empty_coo
from maquette.aten.sparse.forms import NAMES, layout_name
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.core.layout import layout as Layout
from maquette.core.layout import preserve_format, sparse_coo, strided
from maquette.core.strides import Shape
from maquette.library.sparse_kernels import for_compressed, for_coo, for_sparse, overload
from maquette.tensor.sparse import (
    BLOCKED,
    CooParts,
    block_of,
    parts_of,
    set_parts,
    sparse_dims,
    with_values,
)
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import relayout


def empty_of(
    size: Shape, dtype: DType | None, layout: Layout | None, device: Device | None
) -> Tensor:
    """A tensor of a sparse layout that specifies nothing."""
    if layout is sparse_coo:
        return empty_coo(size, len(size), dtype, device)
    assert layout is not None
    check(
        len(size) >= 2,
        lambda: (
            f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but "
            f"got size {list(size)}; a tensor of layout {layout} has at least 2 dimensions"
        ),
    )
    check_blocks_known(layout)
    return empty_compressed(size, layout, dtype, device)


def check_blocks_known(layout: Layout) -> None:
    """RuntimeError for a layout of blocks: nothing tells their size."""
    check(
        layout not in BLOCKED,
        lambda: f"empty: of layout {layout} the size of blocks is not known; use to_sparse_bsr()",
    )


@for_sparse("zeros", "empty.memory_format")
def zeros_kernel(
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    *rest: object,
) -> Tensor:
    return empty_of(size, dtype, layout, device)


@for_sparse("zeros_like")
def zeros_like_kernel(
    self: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None = None,
    memory_format: object = None,
) -> Tensor:
    kind, where = dtype or self.meta.dtype, device or self.meta.device
    wanted = layout or self.meta.layout
    shape = self.meta.shape
    if wanted is strided:
        if memory_format is preserve_format:
            memory_format = None  # a sparse tensor has no strides to preserve
        made = aten.empty(shape, dtype=kind, device=where, memory_format=memory_format)
        found: Tensor = made.zero_()
        return found
    check(
        memory_format is None or self.meta.layout is not sparse_coo,
        lambda: (
            f"memory format option is only supported by strided tensors, got {memory_format} for a "
            f"sparse one"
        ),
    )
    if self.meta.layout is strided:
        return empty_of(shape, kind, wanted, where)
    sparse, dense = sparse_dims(self)
    parts = parts_of(self)
    if wanted is sparse_coo:
        return empty_coo(shape, len(shape) - dense, kind, where)
    if isinstance(parts, CooParts):
        check_blocks_known(wanted)
        return empty_compressed(shape, wanted, kind, where, dense_dim=dense if sparse == 2 else 0)
    if wanted in BLOCKED and self.meta.layout not in BLOCKED:
        check_blocks_known(wanted)
    block = block_of(self) if wanted in BLOCKED else ()
    index = parts.compressed.meta.dtype
    return empty_compressed(shape, wanted, kind, where, block, index, dense)


@for_coo("zeros.out")
def zeros_out_kernel(size: Shape, out: Tensor) -> Tensor:
    found: Tensor = out.sparse_resize_and_clear_(size, len(size), 0)
    return found


@for_compressed("zeros.out")
def zeros_out_compressed_kernel(size: Shape, out: Tensor) -> Tensor:
    found: Tensor = out.zero_()
    if tuple(size) != out.meta.shape:
        made = empty_of(size, out.meta.dtype, out.meta.layout, out.meta.device)
        set_parts(out, parts_of(made))
        relayout(out, made.meta)
    return found


@for_coo("empty_like")
def empty_like_kernel(self: Tensor, *options: Any) -> Tensor:
    _check_pattern(self)
    return zeros_like_kernel(self, *options)


def _check_pattern(self: Tensor) -> None:
    """NotImplementedError for a sparse tensor like a strided one, which has strides to follow."""
    if self.meta.layout is strided:
        raise NotImplementedError(
            "Could not run 'aten::empty_strided' with arguments from the 'SparseCPU' backend: a "
            "sparse tensor has no strides; use zeros_like(..., layout=torch.sparse_coo)"
        )


def _values_like(name: str, numbers: int = 0) -> None:
    """A factory that keeps a compressed tensor's indices; numbers: parameters before the dtype."""
    op = overload(name)

    @for_compressed(name)
    def kernel(self: Tensor, *params: Any) -> Tensor:
        given, (dtype, layout, device, *_) = params[:numbers], params[numbers:]
        if name == "empty_like" and self.meta.layout is sparse_coo:
            return zeros_like_kernel(self, dtype, layout, device)
        check(
            layout in (None, self.meta.layout),
            lambda: (
                f"empty_like with different sparse layout is not supported (self is "
                f"{layout_name(self)} but you requested {NAMES[layout]}); convert the result"
            ),
        )
        values = op(parts_of(self).values, *given, dtype=dtype, device=device)
        return with_values(self, values)


_values_like("empty_like")
_values_like("ones_like")
_values_like("randn_like")
_values_like("full_like", 1)


def _dense_like(name: str, numbers: int = 0) -> None:
    """A factory that makes no COO tensor, but a strided one of a COO tensor's size."""
    op = overload(name)

    @for_coo(name)
    def kernel(self: Tensor, *params: Any) -> Tensor:
        given, (dtype, layout, device, *_) = params[:numbers], params[numbers:]
        _check_pattern(self)
        check(
            layout is strided,
            lambda: (
                f"{name} is not implemented for sparse layout, got {layout or sparse_coo}; ask for "
                f"layout=torch.strided, or use zeros_like"
            ),
        )
        kind, where = dtype or self.meta.dtype, device or self.meta.device
        pattern = aten.zeros(self.meta.shape, dtype=kind, device=where)
        return op(pattern, *given)


_dense_like("ones_like")
_dense_like("full_like", 1)
_dense_like("rand_like")
_dense_like("randn_like")


@for_sparse("ones", "full")
def full_kernel(*args: object) -> Tensor:
    raise RuntimeError("full(...) is not implemented for sparse layout")


@for_sparse("new_zeros", "new_empty")
def new_zeros_kernel(
    self: Tensor,
    size: Shape,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    *rest: object,
) -> Tensor:
    wanted = layout or self.meta.layout
    kind, where = dtype or self.meta.dtype, device or self.meta.device
    if wanted is strided:
        found: Tensor = aten.zeros(size, dtype=kind, device=where)
        return found
    return empty_of(size, kind, wanted, where)
