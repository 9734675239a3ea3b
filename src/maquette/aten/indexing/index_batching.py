"""Batching rules of indexing by tensors.

An index that differs over the batch needs the number of the batch as one more index; one that does
not leaves the batch alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.aten.common.batching_forms import rank_of, to_front, wrapped
from maquette.aten.common.operators import aten
from maquette.core.dtype import bool_
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo, refuse_unbatched_target


def _expanded(indices: Sequence[Any], dims: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Masks as the positions of their True elements; a mask that differs has no fixed number."""
    found: list[Any] = []
    found_dims: list[Any] = []
    for index, d in zip(indices, dims):
        if isinstance(index, Tensor) and index.dtype.name in ("bool", "uint8"):
            if d is not None:
                raise RuntimeError(
                    "vmap: It looks like you're attempting to use a Tensor in some data-dependent "
                    "control flow: a boolean mask that is batched selects a different number of "
                    "elements for each member. We don't support that yet; use where or masked_fill"
                )
            parts = index.nonzero().unbind(1) if index.meta.ndim else index.nonzero()
            found += parts
            found_dims += [None] * len(parts)
        else:
            found.append(index)
            found_dims.append(d)
    return found, found_dims


class _Layout:
    """Where the dimensions of ``self[indices]`` come from."""

    def __init__(self, rank: int, indices: Sequence[Any], dims: Sequence[Any]) -> None:
        self.indexed = [i for i, index in enumerate(indices) if index is not None]
        self.rest = [i for i in range(rank) if i not in self.indexed]
        first, last = self.indexed[0], self.indexed[-1]
        self.adjacent = last - first + 1 == len(self.indexed)
        self.first = first if self.adjacent else 0
        self.index_rank = max(rank_of(indices[i], dims[i]) for i in self.indexed)

    def order(self) -> list[int]:
        """The dimensions of the example, indexed ones first, behind the batch."""
        return [0, *(i + 1 for i in (*self.indexed, *self.rest))]

    def back(self, result: Tensor) -> Tensor:
        """``[batch, index dims, rest]`` as indexing orders them."""
        if not self.first or not self.index_rank:
            return result
        index_dims = list(range(1, 1 + self.index_rank))
        others = list(range(1 + self.index_rank, result.meta.ndim))
        return result.permute([0, *others[: self.first], *index_dims, *others[self.first :]])

    def forth(self, values: Tensor) -> Tensor:
        """What `back` undoes."""
        if not self.first or not self.index_rank:
            return values
        before = list(range(1, 1 + self.first))
        index_dims = list(range(1 + self.first, 1 + self.first + self.index_rank))
        after = list(range(1 + self.first + self.index_rank, values.meta.ndim))
        return values.permute([0, *index_dims, *before, *after])


def _with_batch(
    indices: Sequence[Any], dims: Sequence[Any], layout: _Layout, size: int
) -> list[Any]:
    """Indices behind that of the batch, all of one rank."""
    example = indices[layout.indexed[0]]
    batch = aten.arange(size, device=example.device)
    if layout.index_rank:
        batch = batch.view(-1, *[1] * layout.index_rank)
    return [batch, *(to_front(indices[i], dims[i], rank=layout.index_rank) for i in layout.indexed)]


def _of_one_for_all(self: Tensor, indices: Sequence[Any], dims: Sequence[Any]) -> Any:
    """``self`` is the same for the whole batch, whose dimension is then one more of the indices."""
    layout = _Layout(self.meta.ndim, indices, dims)
    every = [
        index if d is None else to_front(index, d, rank=layout.index_rank)
        for index, d in zip(indices, dims)
    ]
    return aten.index.Tensor(self, every), layout.first


def index_batching(info: VmapInfo, in_dims: Any, self: Tensor, indices: Any) -> Any:
    rank = rank_of(self, in_dims[0])
    if not isinstance(in_dims[1], (list, tuple)):
        in_dims = (in_dims[0], [None] * len(indices))
    indices, dims = _expanded(indices, in_dims[1])
    if in_dims[0] is None and any(d is not None for d in dims):
        return _of_one_for_all(self, indices, dims)
    x = to_front(self, in_dims[0], info.batch_size)
    if not any(isinstance(i, Tensor) for i in indices):
        return aten.alias(x), 0
    layout = _Layout(rank, indices, dims)
    if all(d is None for d in dims):
        # The batch is a dimension that nothing indexes; apart indices put it behind theirs.
        result = aten.index.Tensor(x, [None, *indices])
        return result, (0 if layout.adjacent else layout.index_rank)
    every = _with_batch(indices, dims, layout, info.batch_size)
    order = layout.order()
    if order != list(range(x.meta.ndim)):
        x = x.permute(order)
    return layout.back(aten.index.Tensor(x, every)), 0


def _put(
    info: VmapInfo, in_dims: Any, x: Tensor, indices: Any, values: Tensor, accumulate: bool
) -> None:
    """Write into ``x``, which has the batch in front."""
    rank = x.meta.ndim - 1
    listed = in_dims[1] if isinstance(in_dims[1], (list, tuple)) else [None] * len(indices)
    indices, dims = _expanded(indices, listed)
    if not any(isinstance(i, Tensor) for i in indices):
        x.copy_(to_front(values, in_dims[2], rank=rank))
        return
    layout = _Layout(rank, indices, dims)
    every = _with_batch(indices, dims, layout, info.batch_size)
    shown = layout.index_rank + len(layout.rest)
    source = to_front(values, in_dims[2], rank=shown)
    if in_dims[2] is None:
        source = source[(None,) * (shown + 1 - source.meta.ndim)]
    aten.index_put_(x.permute(layout.order()), every, layout.forth(source), accumulate)


def index_put_batching(
    info: VmapInfo,
    in_dims: Any,
    self: Tensor,
    indices: Any,
    values: Tensor,
    accumulate: bool = False,
) -> Any:
    x = to_front(self, in_dims[0], info.batch_size).clone()
    _put(info, in_dims, x, indices, values, accumulate)
    return x, 0


def index_put_in_place_batching(
    info: VmapInfo,
    in_dims: Any,
    self: Tensor,
    indices: Any,
    values: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    if in_dims[0] is None:
        refuse_unbatched_target(aten.index_put_.default)
    _put(info, in_dims, to_front(self, in_dims[0]), indices, values, accumulate)
    return self, in_dims[0]


def _at(self: Tensor, dim: int, index: Tensor) -> list[Any]:
    dim = wrapped(dim, self.meta.ndim)
    return [*[None] * dim, index.reshape(-1)]


def _over_rank_0(
    self: Tensor, dim: int, index: Tensor, values: Tensor, *, accumulate: bool
) -> Tensor:
    if self.meta.ndim:
        if not values.meta.ndim:
            values = values.reshape(1)
        return aten.index_put(self, _at(self, dim, index), values, accumulate)
    made = aten.index_put(self.reshape(1), [index.reshape(-1)], values.reshape(-1), accumulate)
    return made.reshape(())


def index_add_batching(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    values = source if alpha == 1 and alpha.__class__ is not bool else source * alpha
    return _over_rank_0(self, dim, index, values, accumulate=True)


def index_copy_batching(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _over_rank_0(self, dim, index, source, accumulate=False)


def put_batching(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    flat = aten.index_put(self.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(self.shape)


def check_masked(self: TensorMeta, mask: TensorMeta, source: TensorMeta) -> None:
    """Refuse another dtype to be taken from than written to, and a mask of numbers."""
    check(
        self.dtype is source.dtype,
        lambda: (
            f"masked_scatter_: expected self and source to have same dtypes but got "
            f"{self.dtype.scalar_name} and {source.dtype.scalar_name}"
        ),
    )
    check(
        mask.dtype is bool_,
        lambda: (
            f"masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{mask.dtype.scalar_name}"
        ),
    )


def masked_scatter_batching(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    check_masked(self.meta, mask.meta, source.meta)
    chosen = mask.expand(aten.broadcast_tensors([self, mask])[0].shape)
    which = (chosen.reshape(-1).cumsum(0) - 1).clamp(0).reshape(chosen.shape)
    return aten.where(chosen, source.reshape(-1)[which].to(self.dtype), self)


def index_fill_scalar_batching(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    filled = aten.full((), value, dtype=self.dtype, device=self.device)
    return _over_rank_0(self, dim, index, filled, accumulate=False)


def index_fill_tensor_batching(self: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    return _over_rank_0(self, dim, index, value.to(self.dtype), accumulate=False)


def index_reduce_batching(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    if not self.meta.ndim:
        found = index_reduce_batching(
            self.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self
        )
        return found.reshape(())
    dim = wrapped(dim, self.meta.ndim)
    wide = index.reshape(-1, *[1] * (self.meta.ndim - dim - 1)).expand(source.shape)
    return aten.scatter_reduce.two(self, dim, wide, source, reduce, include_self=include_self)
