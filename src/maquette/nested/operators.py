"""Operators on jagged nested tensors.

A kernel gets the parameters in schema order and speaks operators on values, so autograd, and
whatever else follows operators, follows those. Pointwise operators share one kernel; definitions
by other operators need none; the rest is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import normalise
from maquette.dispatch.tags import Tag
from maquette.nested.registry import Layout, answer
from maquette.nested.tensor import ANSWER, NestedTensor, around, from_values, values_of
from maquette.tensor.tensor import Tensor

aten = ops.aten
Dims = Sequence[int] | None


def _last_resort(op: OpOverload, params: Sequence[object]) -> object:
    """Pointwise operators are those on the values; what is left is refused by name."""
    if Tag.pointwise in op.tags or op._opname in _POINTWISE_TOO:
        return _pointwise(op, params)
    raise NotImplementedError(
        f"{op.name()} is not supported for nested tensors of layout jagged; work on .values(), or "
        f"on .unbind() row by row"
    )


nested = Layout(NestedTensor, _last_resort)
ANSWER[0] = answer

# --- helpers ----------------------------------------------------------------------------------

_POINTWISE_TOO = frozenset(
    ("native_dropout", "bernoulli", "silu", "gelu", "gelu_backward", "threshold_backward",
     "native_dropout_backward", "masked_fill", "fill_", "zero_", "nan_to_num")
)  # fmt: skip


def like(nt: NestedTensor, values: Tensor, ragged_idx: int | None = None) -> NestedTensor:
    """A nested tensor of the rows of ``nt`` with other values, through which gradients flow."""
    return from_values(values, lambda v: around(nt, v, ragged_idx))


def row_numbers(nt: NestedTensor) -> Tensor:
    """The row of each position along the ragged dimension of the values."""
    check_whole(nt, "this operator")
    count = nt._values.shape[nt._ragged_idx - 1]
    at = aten.arange(count, device=nt._offsets.device, dtype=nt._offsets.dtype)
    bounds = nt._offsets[1:].contiguous()
    found: Tensor = aten.searchsorted(bounds, at, right=True)
    return found


def row_lengths(self: NestedTensor) -> Tensor:
    """How long each row is."""
    if self._lengths is not None:
        return self._lengths
    found: Tensor = self._offsets[1:] - self._offsets[:-1]
    return found


def check_whole(nt: NestedTensor, name: str) -> None:
    """RuntimeError if there are gaps between the rows."""
    check(
        nt._lengths is None,
        lambda: (
            f"{name}: not supported for nested tensors whose rows have gaps between them (with "
            f"lengths); make one without: nested_tensor(nt.unbind(), layout=torch.jagged)"
        ),
    )


def inner_dim(nt: NestedTensor, dim: int, name: str, *, ragged: bool = False) -> int:
    """The dimension of the values that a dimension of a nested tensor is."""
    at = nt._wrap(dim)
    if at == 0 or (at == nt._ragged_idx and not ragged):
        what = "dim=0" if at == 0 else "ragged dim"
        raise RuntimeError(f"{name}(): not supported for NestedTensor on {what}")
    return at - 1


def same_rows(a: NestedTensor, b: NestedTensor) -> bool:
    """Whether the ragged sizes are one."""
    return bool(a.meta.shape[a._ragged_idx] == b.meta.shape[b._ragged_idx])


# --- pointwise --------------------------------------------------------------------------------


def _pointwise(op: OpOverload, params: Sequence[object]) -> object:
    """The operator on the values; dense operands are broadcast to the rows."""
    nts = [p for p in params if isinstance(p, NestedTensor)]
    first = max(nts, key=lambda t: t.meta.ndim)
    for other in nts:
        if not same_rows(first, other) or first._ragged_idx != other._ragged_idx:
            raise RuntimeError(
                f"cannot call binary pointwise function {op._opname}.{op._overloadname} with "
                f"inputs of shapes ({', '.join(map(str, nts[0].shape))}) and "
                f"({', '.join(map(str, other.shape))})"
            )
    given = [_operand(first, p) for p in params]
    written = op._schema.arguments[0].is_write if op._schema.arguments else False
    args, kwargs = normalise(op._schema, tuple(given))
    found = op(*args, **kwargs)
    if written:
        return params[0]
    if isinstance(found, (tuple, list)):
        return tuple([like(first, f) for f in found])
    return like(first, found)


def _operand(nt: NestedTensor, p: object) -> object:
    if isinstance(p, NestedTensor):
        return values_of(p)
    if not isinstance(p, Tensor) or p.meta.ndim < nt.meta.ndim:
        return p
    check(
        p.meta.ndim == nt.meta.ndim,
        lambda: f"expected an operand that broadcasts to {tuple(nt.shape)}, got {p.meta}",
    )
    at = nt._ragged_idx
    check(
        p.meta.shape[at] == 1,
        lambda: (
            f"cannot broadcast {p.meta} to a nested tensor of size "
            f"({', '.join(map(str, nt.shape))}): its ragged dimension must be 1"
        ),
    )
    if p.meta.shape[0] == 1:
        return p.squeeze(0)
    by_row = p.squeeze(at).index_select(0, row_numbers(nt))  # [positions, *others]
    return by_row.movedim(0, at - 1)


# --- copies and factories ---------------------------------------------------------------------


@nested("clone")
def clone(self: NestedTensor, memory_format: object) -> Tensor:
    if self._lengths is not None:
        from maquette.nested.construction import from_list  # noqa: PLC0415  # which imports this

        return from_list(unbind(self, 0), None, None)
    return like(self, values_of(self).clone())


@nested("detach")
def detach(self: NestedTensor) -> Tensor:
    return around(self, self._values.detach())


@nested("alias")
def alias(self: NestedTensor) -> Tensor:
    return like(self, values_of(self))


@nested("_to_copy")
def to_copy(
    self: NestedTensor, dtype: DType | None, layout: object, device: Any, *rest: object
) -> Tensor:
    values = values_of(self).to(device=device, dtype=dtype, copy=True)
    if device is None or values.device == self._offsets.device:
        return like(self, values)
    offsets = self._offsets.to(device)
    return from_values(values, lambda v: NestedTensor(v, offsets, _ragged_idx=self._ragged_idx))


@nested("contiguous")
def contiguous(self: NestedTensor, memory_format: object) -> Tensor:
    if self._lengths is not None:
        return clone(self, None)
    return self if self._values.is_contiguous() else like(self, values_of(self).contiguous())


def _likes(name: str) -> None:
    op: OpOverload = getattr(aten, name).default

    @nested(name)
    def made(self: NestedTensor, *rest: object) -> Tensor:
        names = [a.name for a in op._schema.arguments[1:]]
        options = {
            n: v for n, v in zip(names, rest) if n not in ("layout", "pin_memory") and v is not None
        }
        return around(self, op(self._values, **options))


for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"):
    _likes(_name)


@nested("copy_")
def copy_(self: NestedTensor, src: Tensor, non_blocking: bool) -> Tensor:
    check(
        isinstance(src, NestedTensor) and same_rows(self, src),
        lambda: f"copy_: expected a nested tensor of size {tuple(self.shape)}, got {src.meta}",
    )
    self._values.copy_(cast(NestedTensor, src)._values)
    return self


# --- rows -------------------------------------------------------------------------------------


@nested("unbind.int")
def unbind(self: NestedTensor, dim: int) -> list[Tensor]:
    check(
        self._wrap(dim) == 0,
        lambda: "unbind(): only supported for NestedTensor on dim=0",
    )
    values, at, bounds = values_of(self), self._ragged_idx - 1, self._bounds()
    check(at >= 0, lambda: "unbind(): nested tensor ragged_idx out of bounds, 0 is the batch")
    extent = values.shape[at]
    check(
        all(0 <= a <= b <= extent for a, b in bounds),
        lambda: (
            f"unbind(): nested tensor offsets and lengths do not match ragged_idx dimension: rows "
            f"{bounds} of {extent} values"
        ),
    )
    return [values.narrow(at, a, b - a) for a, b in bounds]


@nested("select.int")
def select(self: NestedTensor, dim: int, index: int) -> Tensor:
    at = self._wrap(dim)
    if at == 0:
        bounds = self._bounds()
        check(
            -len(bounds) <= index < len(bounds),
            lambda: f"select(): index {index} out of range for {len(bounds)} rows",
        )
        a, b = bounds[index]
        return values_of(self).narrow(self._ragged_idx - 1, a, b - a)
    inner = inner_dim(self, dim, "select")
    ragged = self._ragged_idx - (1 if at < self._ragged_idx else 0)
    return like(self, values_of(self).select(inner, index), ragged)


def padded(self: NestedTensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """The rows as one dense tensor, each filled up with ``padding``."""
    rows, at = unbind(self, 0), self._ragged_idx - 1
    longest = self._get_max_seqlen()
    if output_size is not None:
        longest = output_size[self._ragged_idx]
        check(
            longest >= self._get_max_seqlen(),
            lambda: (
                f"to_padded_tensor: output_size {list(output_size or ())} is too small for a row "
                f"of {self._get_max_seqlen()}"
            ),
        )
    filled = []
    for row in rows:
        shape = list(row.shape)
        shape[at] = longest - shape[at]
        filled.append(aten.cat([row, row.new_full(shape, padding)], at))
    found: Tensor = aten.stack(filled)
    return found


NestedTensor.to_padded_tensor = padded  # type: ignore[attr-defined]  # PyTorch's name

# --- products and layers ----------------------------------------------------------------------


@nested("matmul", "mm", "bmm")
def matmul(self: Tensor, other: Tensor) -> Tensor:
    if isinstance(self, NestedTensor) and isinstance(other, NestedTensor):
        check(
            not (
                self._ragged_idx == self.meta.ndim - 2 and other._ragged_idx == other.meta.ndim - 1
            ),
            lambda: (
                f"matmul(): not supported between inputs of shapes "
                f"({', '.join(map(str, self.shape))}) and ({', '.join(map(str, other.shape))}): "
                f"the result would have two ragged dimensions"
            ),
        )
        rows = [a @ b for a, b in zip(unbind(self, 0), unbind(other, 0), strict=True)]
        if len({tuple(r.shape) for r in rows}) == 1 and self._ragged_idx == self.meta.ndim - 1:
            stacked: Tensor = aten.stack(rows)
            return stacked
        at = self._ragged_idx - 1
        return like(self, aten.cat(rows, at))
    check(
        isinstance(self, NestedTensor),
        lambda: (
            f"matmul: a dense matrix on the left of a nested tensor is not supported: {self.meta}"
        ),
    )
    nt = cast(NestedTensor, self)
    last_ragged = nt._ragged_idx == nt.meta.ndim - 1
    if other.ndim <= 2 and not last_ragged:
        return like(nt, values_of(nt) @ other)
    check(
        other.meta.ndim == nt.meta.ndim and other.meta.shape[0] == nt.meta.shape[0],
        lambda: (
            f"matmul: cannot multiply a nested tensor of size "
            f"({', '.join(map(str, nt.shape))}) by {other.meta}"
        ),
    )
    rows = [a @ b for a, b in zip(unbind(nt, 0), other.unbind(0), strict=True)]
    return like(nt, aten.cat(rows, nt._ragged_idx - 1))


@nested("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    nt = cast(NestedTensor, input)
    check(
        nt._ragged_idx != nt.meta.ndim - 1,
        lambda: "linear(): not supported for NestedTensor on ragged dim",
    )
    found: Tensor = aten.linear(values_of(nt), weight, bias)
    return like(nt, found)


@nested("layer_norm")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *rest: object,
) -> Tensor:
    nt = cast(NestedTensor, input)
    check(
        nt.meta.ndim - len(normalized_shape) > nt._ragged_idx,
        lambda: "layer_norm(): not supported over the ragged dimension of a nested tensor",
    )
    return like(nt, aten.layer_norm(values_of(nt), normalized_shape, weight, bias, eps))


@nested("embedding")
def embedding(weight: Tensor, indices: Tensor, *options: Any) -> Tensor:
    nt = cast(NestedTensor, indices)
    return like(nt, aten.embedding(weight, values_of(nt), *options))


@nested("dropout")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    nt = cast(NestedTensor, input)
    return like(nt, aten.dropout(values_of(nt), p, train))


@nested("scaled_dot_product_attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Attention within each row: sizes (rows, heads, j1, width), or (rows, j1, n, width)."""
    check(attn_mask is None, lambda: "attention of nested tensors takes no attn_mask")
    nts = (query, key, value)
    if all(isinstance(t, NestedTensor) and t._ragged_idx < t.meta.ndim - 2 for t in nts):
        found = aten.scaled_dot_product_attention(
            *[values_of(cast(NestedTensor, t)) for t in nts], None, dropout_p, is_causal,
            scale=scale, enable_gqa=enable_gqa,
        )  # fmt: skip
        return like(cast(NestedTensor, query), found)
    check(
        all(isinstance(t, NestedTensor) and t._ragged_idx == t.meta.ndim - 2 for t in nts),
        lambda: "attention: expected nested tensors of size (rows, heads, ragged, width)",
    )
    options = {"scale": scale, "enable_gqa": enable_gqa}
    by_row = [
        aten.scaled_dot_product_attention(q, k, v, None, dropout_p, is_causal, **options)
        for q, k, v in zip(*[unbind(cast(NestedTensor, t), 0) for t in nts], strict=True)
    ]
    nt = cast(NestedTensor, query)
    return like(nt, aten.cat(by_row, nt._ragged_idx - 1))


@nested("index_put_")
def index_put_(
    self: NestedTensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> NestedTensor:
    """Elements of rows, by the row's number, the position in it, and the other dimensions."""
    ragged, given = self._ragged_idx, list(indices)
    check(
        len(given) > ragged and all(i is not None for i in given[: ragged + 1]),
        lambda: (
            f"index_put_(): expected an index for each dimension up to the ragged one, {ragged}, "
            f"got {len(given)} indices"
        ),
    )
    row, *inner = cast("list[Tensor]", given)
    inner[ragged - 1] = inner[ragged - 1] + self._offsets.index_select(0, row.reshape(-1)).view(
        row.shape
    )
    values_of(self).index_put_(inner, values, accumulate)
    return self


@nested("is_same_size")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return self.meta.shape == other.meta.shape


@nested("equal")
def equal(self: Tensor, other: Tensor) -> bool:
    if not (isinstance(self, NestedTensor) and isinstance(other, NestedTensor)):
        return False
    return bool(
        aten.equal(row_lengths(self), row_lengths(other))
        and aten.equal(self._values, other._values)
    )


@nested("_local_scalar_dense")
def number(self: NestedTensor) -> NoReturn:
    raise RuntimeError(
        f"a nested tensor of size ({', '.join(map(str, self.shape))}) is no single number"
    )
