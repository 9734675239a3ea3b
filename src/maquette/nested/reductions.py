"""Reductions of jagged nested tensors: over dense dimensions, of each row, or of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.nested.operators import check_whole, like, nested, row_lengths, row_numbers
from maquette.nested.tensor import NestedTensor, values_of
from maquette.tensor.tensor import Tensor

aten = ops.aten
Dims = Sequence[int] | None


def _wrapped(self: NestedTensor, dim: Dims) -> list[int]:
    given = [dim] if isinstance(dim, int) else list(dim or ())
    return sorted({self._wrap(d) for d in given}) or list(range(self.meta.ndim))


def _reduced(
    self: NestedTensor,
    dim: Dims,
    keepdim: bool,
    name: str,
    on_values: Callable[[Tensor, list[int]], Tensor],
    by_rows: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """A reduction: over all rows, over dense dimensions, or of each row over the ragged one."""
    dims, ragged = _wrapped(self, dim), self._ragged_idx
    values = values_of(self)
    if 0 in dims:
        check(
            ragged in dims,
            lambda: (
                f"{name}(): reducing along the batch dimension but not the ragged dimension is "
                f"not supported for nested tensors"
            ),
        )
        check_whole(self, name)
        found = on_values(values, [d - 1 for d in dims if d > 0])
        return _kept(found, dims) if keepdim else found
    if ragged not in dims:
        found = on_values(values, [d - 1 for d in dims])
        if keepdim:
            return like(self, _kept(found, [d - 1 for d in dims]))
        return like(self, found, ragged - sum(d < ragged for d in dims))
    check(
        len(dims) == 1,
        lambda: (
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
            f"nested tensors"
        ),
    )
    found = by_rows(values, ragged - 1)
    return found.unsqueeze(ragged) if keepdim else found


def _kept(found: Tensor, dims: Sequence[int]) -> Tensor:
    for d in sorted(dims):
        found = found.unsqueeze(d)
    return found


def _row_sums(self: NestedTensor, values: Tensor, at: int) -> Tensor:
    """The sum of each row: [rows, ...], the ragged dimension gone."""
    moved = values.movedim(at, 0)
    zeros = moved.new_zeros((self.meta.shape[0], *moved.shape[1:]))
    if self._lengths is not None:
        sums = [values.narrow(at, a, b - a).sum(at) for a, b in self._bounds()]
        stacked: Tensor = aten.stack(sums)
        return stacked
    found: Tensor = zeros.index_add(0, row_numbers(self), moved)
    return found


@nested("sum.dim_IntList")
def sum_dims(self: NestedTensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Tensor:
    return _reduced(
        self, dim, keepdim, "sum",
        lambda v, dims: v.sum(dims, dtype=dtype),
        lambda v, at: _row_sums(self, v if dtype is None else v.to(dtype), at),
    )  # fmt: skip


@nested("sum")
def sum_all(self: NestedTensor, dtype: DType | None) -> Tensor:
    if self._lengths is not None:
        return _row_sums(self, values_of(self), self._ragged_idx - 1).sum(dtype=dtype)
    found: Tensor = values_of(self).sum(dtype=dtype)
    return found


@nested("mean.dim")
def mean_dims(self: NestedTensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Tensor:
    def of_rows(v: Tensor, at: int) -> Tensor:
        sums = _row_sums(self, v if dtype is None else v.to(dtype), at)
        lengths = row_lengths(self).to(sums.dtype)
        return sums / lengths.view([-1] + [1] * (sums.ndim - 1))

    return _reduced(self, dim, keepdim, "mean", lambda v, dims: v.mean(dims, dtype=dtype), of_rows)


@nested("mean")
def mean_all(self: NestedTensor, dtype: DType | None) -> Tensor:
    found: Tensor = sum_all(self, dtype) / self.numel()
    return found


def _by_rows(name: str, overload: str = "default", *, has_dtype: bool = False) -> None:
    """A reduction that takes each row apart; of pairs, values and indices are reduced each."""
    op: OpOverload = getattr(getattr(aten, name), overload)
    full = name if overload == "default" else f"{name}.{overload}"

    @nested(full)
    def reduced(self: NestedTensor, dim: Any, keepdim: bool, *rest: Any) -> object:
        options = {"dtype": rest[0]} if has_dtype else {}
        if dim is None:  # argmax() counts through all elements
            check_whole(self, name)
            return op(values_of(self), None, keepdim)

        def part(which: int | None) -> Tensor:
            def of(values: Tensor, dims: Any) -> Tensor:
                found = op(values, dims, **options)
                return cast(Tensor, found if which is None else found[which])

            def of_rows(values: Tensor, at: int) -> Tensor:
                one = [at] if name in ("amax", "amin") else at
                rows = [of(values.narrow(at, a, b - a), one) for a, b in self._bounds()]
                stacked: Tensor = aten.stack(rows)
                return stacked

            def of_dims(values: Tensor, dims: list[int]) -> Tensor:
                return of(values, dims if name in ("amax", "amin") else dims[0])

            return _reduced(self, dim, keepdim, name, of_dims, of_rows)

        pair = len(op._schema.returns) == 2
        return (part(0), part(1)) if pair else part(None)


for _name in ("amax", "amin", "argmax", "argmin"):
    _by_rows(_name)
for _name, _overload in (("max", "dim"), ("min", "dim"), ("all", "dim"), ("any", "dim")):
    _by_rows(_name, _overload)
_by_rows("prod", "dim_int", has_dtype=True)


def _whole(name: str) -> None:
    @nested(name)
    def whole(self: NestedTensor, *rest: Any) -> Tensor:
        check_whole(self, name)
        found: Tensor = getattr(aten, name)(values_of(self), **({"dtype": rest[0]} if rest else {}))
        return found


for _name in ("max", "min", "any", "all", "prod"):
    _whole(_name)


def _softmaxes(name: str, *, log: bool) -> None:
    @nested(f"{name}.int")
    def softmax(self: NestedTensor, dim: int, dtype: DType | None) -> Tensor:
        values, at = values_of(self), self._wrap(dim)
        check(at != 0, lambda: f"{name}(): not supported when reducing over the batch dimension")
        if dtype is not None:
            values = values.to(dtype)
        inner = at - 1
        if at != self._ragged_idx:
            return like(self, getattr(values, name)(inner))
        parts = [getattr(values.narrow(inner, a, b - a), name)(inner) for a, b in self._bounds()]
        check_whole(self, name)
        return like(self, aten.cat(parts, inner))


_softmaxes("softmax", log=False)
_softmaxes("log_softmax", log=True)
