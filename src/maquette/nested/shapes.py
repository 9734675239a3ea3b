"""Sizes of jagged nested tensors: views, slices, parts, and joining them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from maquette.core.errors import check
from maquette.dispatch.registry import ops
from maquette.nested.operators import alias, check_whole, inner_dim, like, nested, same_rows
from maquette.nested.tensor import NestedTensor, from_values, values_of
from maquette.symbolic.expr import MAX_INT
from maquette.symbolic.numbers import SymInt
from maquette.tensor.tensor import Tensor

aten = ops.aten


@nested("transpose.int")
def transpose(self: NestedTensor, dim0: int, dim1: int) -> Tensor:
    a, b = sorted((self._wrap(dim0), self._wrap(dim1)))
    if a == b:
        return alias(self)
    check(a != 0, lambda: "transpose(): not supported for NestedTensor on dim=0")
    ragged = {a: b, b: a}.get(self._ragged_idx, self._ragged_idx)
    return like(self, values_of(self).transpose(a - 1, b - 1), ragged)


@nested("permute")
def permute(self: NestedTensor, dims: Sequence[int]) -> Tensor:
    order = [self._wrap(d) for d in dims]
    check(order[0] == 0, lambda: "permute(): not supported for NestedTensor on dim=0")
    ragged = order.index(self._ragged_idx)
    return like(self, values_of(self).permute([d - 1 for d in order[1:]]), ragged)


@nested("unsqueeze")
def unsqueeze(self: NestedTensor, dim: int) -> Tensor:
    at = dim % (self.meta.ndim + 1)
    check(at != 0, lambda: "unsqueeze(): not supported for NestedTensor on dim=0")
    ragged = self._ragged_idx + (1 if at <= self._ragged_idx else 0)
    return like(self, values_of(self).unsqueeze(at - 1), ragged)


@nested("squeeze.dim")
def squeeze(self: NestedTensor, dim: int) -> Tensor:
    at = inner_dim(self, dim, "squeeze") + 1
    ragged = self._ragged_idx - (1 if at < self._ragged_idx else 0)
    return like(self, values_of(self).squeeze(at - 1), ragged)


@nested("view", "reshape", "_unsafe_view")
def view(self: NestedTensor, size: Sequence[Any]) -> Tensor:
    """Other sizes after the ragged dimension, which -1 or the nested int itself stands for."""
    ragged = self._ragged_idx
    wanted = list(size)
    same = len(wanted) > ragged and (isinstance(wanted[ragged], SymInt) or wanted[ragged] == -1)
    before = wanted[1:ragged]
    check(
        same
        and wanted[0] in (self.meta.shape[0], -1)
        and before == list(self.meta.shape[1:ragged]),
        lambda: (
            f"view(): cannot view a nested tensor of size ({', '.join(map(str, self.shape))}) as "
            f"{wanted}: the batch, and what is up to the ragged dimension, must stay"
        ),
    )
    values = values_of(self)
    inner = [*before, values.shape[ragged - 1], *wanted[ragged + 1 :]]
    return like(self, values.reshape(inner))


@nested("expand")
def expand(self: NestedTensor, size: Sequence[Any], implicit: bool) -> Tensor:
    """Dimensions of size 1 made larger; the batch and the ragged dimension stay."""
    wanted, ragged = list(size), self._ragged_idx
    stays = [
        len(wanted) == self.meta.ndim and wanted[at] in (-1, self.meta.shape[at])
        for at in (0, ragged)
    ]
    check(
        all(stays),
        lambda: (
            f"expand(): cannot expand a nested tensor of size "
            f"({', '.join(map(str, self.shape))}) to {wanted}: the batch and the ragged dimension "
            f"must stay"
        ),
    )
    inner = [-1 if at == ragged else n for at, n in enumerate(wanted)][1:]
    return like(self, values_of(self).expand(inner))


@nested("sym_size")
def sym_size(self: NestedTensor) -> list[Any]:
    return list(self.meta.shape)


@nested("sym_stride")
def sym_stride(self: NestedTensor) -> list[Any]:
    return list(self.meta.strides)


@nested("numel", "sym_numel")
def numel(self: NestedTensor) -> int:
    return self.numel()


@nested("size")
def size(self: NestedTensor) -> NoReturn:
    raise RuntimeError(
        "a nested tensor has no sizes that are all numbers, so directly calling "
        "torch.ops.aten.size is refused; ask torch.ops.aten.sym_size, or .shape"
    )


@nested("is_non_overlapping_and_dense")
def is_non_overlapping_and_dense(self: NestedTensor) -> bool:
    return False


@nested("flatten.using_ints")
def flatten(self: NestedTensor, start_dim: int, end_dim: int) -> Tensor:
    a, b = self._wrap(start_dim), self._wrap(end_dim)
    check(
        not (a <= self._ragged_idx <= b) and a != 0,
        lambda: (
            f"flatten(): not supported for NestedTensor on {'dim=0' if a == 0 else 'ragged dim'}"
        ),
    )
    ragged = self._ragged_idx - (b - a if b < self._ragged_idx else 0)
    return like(self, values_of(self).flatten(a - 1, b - 1), ragged)


@nested("slice.Tensor")
def slice_(self: NestedTensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    at, whole = self._wrap(dim), start in (None, 0) and end in (None, MAX_INT) and step == 1
    if whole and at in (0, self._ragged_idx):
        return alias(self)
    inner = inner_dim(self, dim, "slice")
    return like(self, aten.slice(values_of(self), inner, start, end, step))


@nested("narrow")
def narrow(self: NestedTensor, dim: int, start: int, length: int) -> Tensor:
    return like(self, values_of(self).narrow(inner_dim(self, dim, "narrow"), start, length))


@nested("split.Tensor")
def split(self: NestedTensor, split_size: int, dim: int) -> list[Tensor]:
    parts = values_of(self).split(split_size, inner_dim(self, dim, "split"))
    return [like(self, p) for p in parts]


@nested("split_with_sizes")
def split_with_sizes(self: NestedTensor, split_sizes: Sequence[int], dim: int) -> list[Tensor]:
    inner = inner_dim(self, dim, "split_with_sizes")
    return [like(self, p) for p in values_of(self).split_with_sizes(split_sizes, inner)]


@nested("chunk")
def chunk(self: NestedTensor, chunks: int, dim: int) -> list[Tensor]:
    if self._wrap(dim) == 0:
        return _row_chunks(self, chunks)
    parts = values_of(self).chunk(chunks, inner_dim(self, dim, "chunk"))
    return [like(self, p) for p in parts]


def _row_chunks(self: NestedTensor, chunks: int) -> list[Tensor]:
    """Some rows each, as views of their values."""
    check_whole(self, "chunk")
    values, at = values_of(self), self._ragged_idx - 1
    found: list[Tensor] = []
    for offsets in _windows(self._offsets, -(-self.meta.shape[0] // chunks)):
        first, last = int(offsets[0]), int(offsets[-1])
        part, starts = values.narrow(at, first, last - first), offsets - first
        found.append(_of_offsets(part, starts, self._ragged_idx))
    return found


def _of_offsets(values: Tensor, offsets: Tensor, ragged_idx: int) -> Tensor:
    return from_values(values, lambda v: NestedTensor(v, offsets, _ragged_idx=ragged_idx))


def _windows(offsets: Tensor, rows: int) -> list[Tensor]:
    """The offsets of every so many rows, each with the end of its last."""
    count = offsets.shape[0] - 1
    return [offsets[a : min(a + rows, count) + 1] for a in range(0, count, rows)]


@nested("cat")
def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    first = _all_of_one(tensors, "cat")
    inner = inner_dim(first, dim, "cat")
    return like(first, aten.cat([values_of(cast(NestedTensor, t)) for t in tensors], inner))


@nested("stack")
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    first = _all_of_one(tensors, "stack")
    at = dim % (first.meta.ndim + 1)
    check(at > first._ragged_idx, lambda: "stack(): only after the ragged dimension")
    return like(first, aten.stack([values_of(cast(NestedTensor, t)) for t in tensors], at - 1))


def _all_of_one(tensors: Sequence[Tensor], name: str) -> NestedTensor:
    nts = [t for t in tensors if isinstance(t, NestedTensor)]
    check(
        len(nts) == len(tensors) and all(same_rows(nts[0], t) for t in nts),
        lambda: f"{name}(): expected nested tensors of the same rows",
    )
    return nts[0]
