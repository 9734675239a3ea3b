"""Operators on nested tensors of the strided layout.

Elementwise operators are those on the buffer; views and products those on each row. What PyTorch
refuses for this layout is refused in its words; the rest is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from maquette.core.dtype import bool as boolean
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.core.layout import contiguous_format, memory_format, preserve_format
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import normalise
from maquette.dispatch.tags import Tag
from maquette.nested.registry import Layout
from maquette.nested.strided import (
    Row,
    StridedNestedTensor,
    buffer_of,
    dense_rows,
    from_rows,
    over_buffer,
    padded_size,
    rows_of,
    view_of_rows,
)
from maquette.tensor.tensor import Tensor

aten = ops.aten
Nested = StridedNestedTensor
_POINTWISE_TOO = frozenset(
    ("native_dropout", "native_dropout_backward", "silu", "gelu", "gelu_backward", "masked_fill",
     "threshold_backward", "silu_backward", "fill_", "zero_", "normal_", "dropout", "nan_to_num")
)  # fmt: skip
_IN_C = {"torch.channels_last": "ChannelsLast", "torch.channels_last_3d": "ChannelsLast3d"}


def _last_resort(op: OpOverload, params: Sequence[object]) -> object:
    if Tag.pointwise in op.tags or op._opname in _POINTWISE_TOO:
        return _pointwise(op, params)
    raise NotImplementedError(
        f"{op.name()} is not supported for nested tensors of layout strided; work on .unbind() row "
        f"by row, on torch.nested.to_padded_tensor, or make it with layout=torch.jagged"
    )


nested = Layout(StridedNestedTensor, _last_resort)

# --- helpers ----------------------------------------------------------------------------------


def _sizes(t: Nested) -> list[tuple[int, ...]]:
    return [row.size for row in t._rows]


def _like(t: Nested, buffer: Tensor, last: int | None = None) -> Nested:
    """A contiguous nested tensor of the rows of ``t``, with another last size if one is given."""
    sizes = [size if last is None else (*size[:-1], last) for size in _sizes(t)]
    return over_buffer(buffer.reshape(-1), dense_rows(sizes))


def _by_row(function: Callable[..., Tensor], *operands: Nested) -> Nested:
    """A function of the rows of each operand, the results nested."""
    found = [function(*rows) for rows in zip(*[rows_of(t) for t in operands], strict=True)]
    return from_rows(found, operands[0]._buffer)


def _all_nested(name: str, *operands: object) -> None:
    if all(isinstance(t, Nested) for t in operands):
        return
    kinds = ["nested" if isinstance(t, Nested) else "non-nested" for t in operands]
    raise RuntimeError(
        f"Expected both {name} to be nested, but got a {kinds[0]} self and {kinds[1]} other"
    )


def _contiguous(t: Nested, name: str) -> None:
    check(
        t.is_contiguous(),
        lambda: f"for now {name} only supports contiguous nested tensor: call .contiguous() first",
    )


# --- elementwise ------------------------------------------------------------------------------


def _pointwise(op: OpOverload, params: Sequence[object]) -> object:
    """The operator on the buffers; dense operands must be single numbers."""
    name = op._opname
    tensors = [p for p in params if isinstance(p, Tensor) and (p.ndim or isinstance(p, Nested))]
    if len(tensors) > 1:
        if name in ("where", "masked_fill"):
            check(all(isinstance(t, Nested) for t in tensors), lambda: _dense_beside(name))
        else:
            _all_nested("self and other", *tensors[:2])
    first, *others = tensors
    assert isinstance(first, Nested)
    for other in others:
        assert isinstance(other, Nested)
        _check_same_rows(name, first, other)
    written = bool(op._schema.arguments) and op._schema.arguments[0].is_write
    if len(tensors) == 2 and name in ("mul", "div"):
        _check_same_places(name, first, others[0])
    if written or (len(tensors) == 1 and _is_unary(params)):
        return _on_buffers(op, params, first, written=written)
    if all(t.is_contiguous() for t in (first, *others)):
        return _on_buffers(op, params, first, written=False)
    return _on_rows(op, params, first)


def _is_unary(params: Sequence[object]) -> bool:
    return not any(isinstance(p, (int, float, complex, Tensor)) for p in params[1:])


def _dense_beside(name: str) -> str:
    return f"{name}: expected nested tensors of one layout, got a dense tensor beside a nested one"


def _check_same_rows(name: str, a: Nested, b: Nested) -> None:
    check(
        _sizes(a) == _sizes(b),
        lambda: (
            f"{name} does not support broadcasting when given a NestedTensor: the rows have sizes "
            f"{_sizes(a)} and {_sizes(b)}"
        ),
    )


def _check_same_places(name: str, a: Nested, b: Tensor) -> None:
    """RuntimeError unless the rows lie alike, as PyTorch wants of two operands."""
    assert isinstance(b, Nested)
    for what in ("stride", "offset"):
        check(
            all(getattr(x, what) == getattr(y, what) for x, y in zip(a._rows, b._rows)),
            lambda what=what: (
                f"{name} requires {what}s to match when given NestedTensors; call .contiguous() on "
                f"both"
            ),
        )


def _on_buffers(
    op: OpOverload, params: Sequence[object], first: Nested, *, written: bool
) -> object:
    given = tuple([buffer_of(p) if isinstance(p, Nested) else p for p in params])
    args, kwargs = normalise(op._schema, given)
    found = op(*args, **kwargs)
    if written:
        return params[0]
    if isinstance(found, (tuple, list)):
        return tuple([_like(first, f) for f in found])
    return _like(first, found)


def _on_rows(op: OpOverload, params: Sequence[object], first: Nested) -> object:
    """The operator row by row, for rows that do not follow one another."""
    rows = [rows_of(p) if isinstance(p, Nested) else None for p in params]
    found = []
    for i in range(len(first._rows)):
        given = tuple([p if r is None else r[i] for p, r in zip(params, rows)])
        args, kwargs = normalise(op._schema, given)
        found.append(op(*args, **kwargs))
    return from_rows(found)


@nested("eq.Tensor", "ne.Tensor")
def compared(self: Tensor, other: Tensor) -> NoReturn:
    raise RuntimeError("eq does not support nested tensor as other value.")


@nested("fill_.Tensor")
def fill_(self: Nested, value: Tensor) -> Tensor:
    check(
        value.ndim == 0,
        lambda: (
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            f"dimensions."
        ),
    )
    buffer_of(self).fill_(value)
    return self


@nested("copy_")
def copy_(self: Nested, src: Tensor, non_blocking: bool) -> Tensor:
    check(isinstance(src, Nested), lambda: f"copy_: expected a nested tensor, got {src.meta}")
    assert isinstance(src, Nested)
    check(
        _sizes(self) == _sizes(src),
        lambda: (
            f"copy_ only supports tensors that are the same size for Nested implementations: the "
            f"rows have sizes {_sizes(self)} and {_sizes(src)}"
        ),
    )
    for ours, theirs in zip(rows_of(self), rows_of(src)):
        ours.copy_(theirs, non_blocking)
    return self


# --- copies and factories ---------------------------------------------------------------------


@nested("clone")
def clone(self: Nested, memory_format: memory_format | None) -> Tensor:
    check(
        memory_format in (None, preserve_format, contiguous_format),
        lambda: (
            f"Nested tensor clone supports Preserve and Contiguous memory formats, called clone "
            f"with memory format: {_IN_C.get(str(memory_format), memory_format)}"
        ),
    )
    if memory_format is contiguous_format:
        return _by_row(lambda row: row, self)
    if self.is_contiguous():
        return _like(self, buffer_of(self).clone())
    if not self.requires_grad:
        return StridedNestedTensor(self._buffer.detach().clone(), self._rows)
    return _by_row(lambda row: row, self)


@nested("contiguous")
def contiguous(self: Nested, memory_format: memory_format | None) -> Tensor:
    return self if self.is_contiguous() else _by_row(lambda row: row, self)


@nested("detach")
def detach(self: Nested) -> Tensor:
    return StridedNestedTensor(self._buffer.detach(), self._rows)


@nested("alias")
def alias(self: Nested) -> Tensor:
    return view_of_rows(self, lambda row, i: row)


@nested("_to_copy")
def to_copy(
    self: Nested, dtype: DType | None, layout: object, device: Any, *rest: object
) -> Tensor:
    if self.is_contiguous():
        return _like(self, buffer_of(self).to(device=device, dtype=dtype, copy=True))
    return _by_row(lambda row: row.to(device=device, dtype=dtype), self)


def _likes(name: str) -> None:
    op: OpOverload = getattr(aten, name).default

    @nested(name)
    def made(self: Nested, *rest: object) -> Tensor:
        names = [a.name for a in op._schema.arguments[1:]]
        known = ("dtype", "device", "fill_value")
        options = {n: v for n, v in zip(names, rest) if v is not None and n in known}
        first = [options.pop("fill_value")] if "fill_value" in options else []
        blank = self._buffer.detach().new_empty((self.numel(),))
        return _like(self, op(blank, *first, **options))


for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"):
    _likes(_name)


@nested("new_empty_strided")
def new_empty_strided(
    self: Nested, size: Sequence[int], stride: object, dtype: DType | None, *rest: object
) -> Tensor:
    """Memory for such rows as these: what autograd puts a first gradient into."""
    check(
        tuple(size) == self.meta.shape,
        lambda: f"new_empty_strided: a nested tensor makes none of other sizes, got {list(size)}",
    )
    return _like(self, self._buffer.detach().new_empty((self.numel(),), dtype=dtype))


# --- rows -------------------------------------------------------------------------------------


@nested("unbind.int")
def unbind(self: Nested, dim: int) -> list[Tensor]:
    at = self._wrap(dim)
    check(
        at == 0,
        lambda: f"NestedTensor can only be unbound along dimension 0 got dimension {at} instead.",
    )
    return rows_of(self)


def padded(self: Nested, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """The rows as one dense tensor, each filled up with ``padding``."""
    _contiguous(self, "to_padded_tensor")
    wanted = padded_size(self._rows)
    if output_size is not None:
        check(
            len(output_size) == len(wanted),
            lambda: (
                f"Length of output_size does not match NestedTensor dims. Broadcasting is not "
                f"supported: expected {len(wanted)} sizes, got {list(output_size)}"
            ),
        )
        check(
            all(a >= b for a, b in zip(output_size, wanted)),
            lambda: (
                f"Value in output_size is less than NestedTensor padded size. Truncation is not "
                f"supported: the rows need {wanted}, got {list(output_size)}"
            ),
        )
        wanted = tuple(output_size)
    if not self._rows:
        found: Tensor = self._buffer.new_empty((0,))
        return found
    check(
        any(math.prod(row.size) for row in self._rows),
        lambda: "to_padded_tensor: at least one constituent tensor should have non-zero numel",
    )
    filled = []
    for row in rows_of(self):
        missing = [w - n for w, n in zip(wanted[1:], row.shape)]
        pads = [n for extra in reversed(missing) for n in (0, extra)]
        filled.append(aten.constant_pad_nd(row, pads, padding) if pads else row)
    filled += [filled[0].new_full(wanted[1:], padding)] * (wanted[0] - len(filled))
    stacked: Tensor = aten.stack(filled)
    return stacked


StridedNestedTensor.to_padded_tensor = padded  # type: ignore[attr-defined]  # PyTorch's name

# --- reductions -------------------------------------------------------------------------------


def _check_reduction(self: Nested, dims: Sequence[int], *, keepdim: bool) -> None:
    check(
        self.is_contiguous(),
        lambda: "NestedTensor does not support reductions when the input is noncontiguous for now.",
    )
    check(
        len(dims) == 1, lambda: "NestedTensor only allows reduction of a single dimension for now."
    )
    at = self._wrap(dims[0])
    check(
        at == self.meta.ndim - 1,
        lambda: (
            f"NestedTensor can only be reduced across the last dimension for now got dimension "
            f"{at} instead."
        ),
    )
    check(keepdim, lambda: "NestedTensor always requires keepdim=True for now.")


@nested("sum.dim_IntList")
def sum_dims(self: Nested, dim: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> Tensor:
    check(dtype is None, lambda: "NestedTensor does not support dtype argument for now.")
    _check_reduction(self, list(dim or ()), keepdim=keepdim)
    return _by_row(lambda row: row.sum(-1, keepdim=True), self)


@nested("all.dim")
def all_dim(self: Nested, dim: int, keepdim: bool) -> Tensor:
    check(
        self.dtype is boolean,
        lambda: f"all only supports bool tensor for result, got: {self.dtype}",
    )
    _check_reduction(self, [dim], keepdim=keepdim)
    return _by_row(lambda row: row.all(-1, keepdim=True), self)


@nested("dropout")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    assert isinstance(input, Nested)
    whole = contiguous(input, None)
    assert isinstance(whole, Nested)
    return _like(whole, aten.dropout(buffer_of(whole), p, train))


@nested("_softmax", "_safe_softmax", "softmax.int")
def softmax(self: Nested, dim: int, option: Any = None) -> Tensor:
    if not self._rows:
        return self
    at = self._wrap(dim)
    check(at != 0, lambda: "Cannot apply softmax across nested dimension 0")
    kind = option if isinstance(option, DType) else None
    return _by_row(lambda row: row.softmax(at - 1, dtype=kind), self)


# --- views ------------------------------------------------------------------------------------


@nested("transpose.int")
def transpose(self: Nested, dim0: int, dim1: int) -> Tensor:
    a, b = self._wrap(dim0), self._wrap(dim1)
    if a == b:
        return alias(self)
    check(a != 0 and b != 0, lambda: "Nested tensor dimension 0 cannot be transposed")
    return view_of_rows(self, lambda row, i: row.transpose(a - 1, b - 1))


@nested("unsqueeze")
def unsqueeze(self: Nested, dim: int) -> Tensor:
    at = dim % (self.meta.ndim + 1)
    check(
        at != 0,
        lambda: "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported",
    )
    return view_of_rows(self, lambda row, i: row.unsqueeze(at - 1))


@nested("squeeze")
def squeeze(self: Nested) -> NoReturn:
    raise RuntimeError(
        "squeeze(): For nested tensors, squeeze without the dim argument is not supported; name "
        "the dimension, squeeze(1)"
    )


@nested("squeeze.dim")
def squeeze_dim(self: Nested, dim: int) -> Tensor:
    at = self._wrap(dim)
    check(
        at != 0,
        lambda: "squeeze(): For nested tensors, squeezing dimension 0 is not supported",
    )
    check(
        self.meta.ndim > 2 or any(size != (1,) for size in _sizes(self)),
        lambda: (
            "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is not "
            "supported"
        ),
    )
    if any(size[at - 1] != 1 for size in _sizes(self)):
        return alias(self)
    return view_of_rows(self, lambda row, i: row.squeeze(at - 1))


def _new_sizes(self: Nested, size: Sequence[int], name: str) -> list[list[int]]:
    """The sizes of each row after a view; -1 keeps a row's own size."""
    count, rank = len(self._rows), self.meta.ndim
    check(
        len(size) > 0,
        lambda: f"shape '{list(size)}' is invalid for a nested tensor of {count} rows",
    )
    check(count > 0, lambda: f"empty nested tensor cannot be reshaped, here to {list(size)}")
    check(
        size[0] == count,
        lambda: (
            f"{name}: For now nested {name} cannot change or infer the implicit batch dimension"
        ),
    )
    check(len(size) > 1, lambda: f"{name}: expected sizes of the rows too, got {list(size)}")
    open_dims = [d for d in range(1, len(size)) if size[d] == -1]
    check(
        len(size) <= rank or len(open_dims) < 2 or open_dims[-1] < rank > len(size),
        lambda: "only one dimension can be inferred",
    )
    found = []
    for row in self._rows:
        wanted = [row.size[d - 1] if n == -1 and d < rank else n for d, n in enumerate(size)][1:]
        if -1 in wanted:
            rest = math.prod(n for n in wanted if n != -1)
            wanted[wanted.index(-1)] = row.numel // rest if rest else 0
        check(
            math.prod(wanted) == row.numel,
            lambda row=row: f"shape '{list(size)}' is invalid for input of size {row.numel}",
        )
        found.append(wanted)
    return found


@nested("view")
def view(self: Nested, size: Sequence[int]) -> Tensor:
    sizes = _new_sizes(self, size, "view")
    return view_of_rows(self, lambda row, i: row.view(sizes[i]))


@nested("reshape")
def reshape(self: Nested, shape: Sequence[int]) -> Tensor:
    sizes = _new_sizes(self, shape, "reshape")
    if self.is_contiguous():
        return view_of_rows(self, lambda row, i: row.view(sizes[i]))
    rows = [row.reshape(size) for row, size in zip(rows_of(self), sizes)]
    return from_rows(rows, self._buffer)


@nested("chunk")
def chunk(self: Nested, chunks: int, dim: int) -> list[Tensor]:
    at = self._wrap(dim)
    check(
        at == self.meta.ndim - 1,
        lambda: "Chunk for nested tensors is currently only supported for the last dimension.",
    )
    check(chunks > 0, lambda: f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    check(self.is_contiguous(), lambda: "chunk expects `self` to be contiguous.")
    last = _last_size(self)
    check(
        last % chunks == 0,
        lambda: (
            f"Chunk for nested tensors is only supported for nested tensors with trailing "
            f"dimension divisible by chunks, got: {last} % {chunks} != 0"
        ),
    )
    return _pieces(self, [last // chunks] * chunks)


@nested("split_with_sizes")
def split_with_sizes(self: Nested, split_sizes: Sequence[int], dim: int) -> list[Tensor]:
    at = self._wrap(dim)
    check(
        at == self.meta.ndim - 1,
        lambda: (
            "split_with_sizes for nested tensors is currently only supported for the last "
            "dimension."
        ),
    )
    last = _last_size(self)
    check(
        sum(split_sizes) == last,
        lambda: (
            f"split_with_sizes expects split_sizes to sum exactly to {last} (input tensor's size "
            f"at dimension {at}), but got split_sizes={list(split_sizes)}"
        ),
    )
    return _pieces(self, split_sizes)


def _pieces(self: Nested, sizes: Sequence[int]) -> list[Tensor]:
    found: list[Tensor] = []
    start = 0
    for n in sizes:
        found.append(view_of_rows(self, lambda row, i, a=start, n=n: row.narrow(-1, a, n)))  # type: ignore[misc]  # this piece's
        start += n
    return found


def _last_size(self: Nested) -> int:
    """The size of the last dimension, in which the rows must agree."""
    found = {size[-1] for size in _sizes(self) if size}
    check(
        len(found) == 1,
        lambda: (
            f"Expected all tensors in nested tensor to have the same trailing dimension, instead "
            f"last dimension equals: {[size[-1:] for size in _sizes(self)]}"
        ),
    )
    return found.pop()


@nested("cat")
def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    check(
        all(isinstance(t, Nested) for t in tensors),
        lambda: "Expected each tensor in given list to be nested.",
    )
    check(
        dim == 0,
        lambda: (
            "cat(): nested tensors of the strided layout are joined along dim 0 only; for other "
            "dimensions join the rows, or use layout=torch.jagged"
        ),
    )
    return from_rows([row for t in tensors for row in rows_of(t)], tensors[0])  # type: ignore[arg-type]  # nested


# --- products and layers ----------------------------------------------------------------------


@nested("bmm", "matmul")
def matmul(self: Tensor, other: Tensor) -> Tensor:
    """The product of each row with the row of the other."""
    if not (isinstance(self, Nested) and isinstance(other, Nested)):
        kinds = ["nested" if isinstance(t, Nested) else "non-nested" for t in (self, other)]
        if self.ndim == other.ndim == 3:
            return _with_dense(self, other)
        if isinstance(self, Nested) and self.ndim > 2 and other.ndim == 2:
            return from_rows([row @ other for row in rows_of(self)], self._buffer)
        raise RuntimeError(
            f"Expected both to be nested, but got a {kinds[0]} self and {kinds[1]} other"
        )
    for t, which in ((self, "1st"), (other, "2nd")):
        check(
            t.meta.ndim >= 3,
            lambda t=t, which=which: (
                f"matmul: For nested tensors, only inputs with >= 3 dims are currently supported. "
                f"{which} input has rank: {t.meta.ndim}"
            ),
        )
    a, b = len(self._rows), len(other._rows)
    check(
        a == b,
        lambda: (
            f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {a} but got: "
            f"{b}."
        ),
    )
    for i, (x, y) in enumerate(zip(_sizes(self), _sizes(other))):
        check(
            x[:-2] == y[:-2],
            lambda i=i, x=x, y=y: (
                f"matmul: For nested tensors, batch dimensions must have the same sizes, but got "
                f"{list(x[:-2])} and {list(y[:-2])} in the {i}-th rows"
            ),
        )
        check(
            x[-1] == y[-2],
            lambda i=i, x=x, y=y: (
                f"matmul(): {i}-th nested matrices in batch cannot be multiplied ("
                f"{x[-2]}x{x[-1]} and {y[-2]}x{y[-1]})"
            ),
        )
    return _by_row(lambda x, y: x @ y, self, other)


def _with_dense(self: Tensor, other: Tensor) -> Tensor:
    """A batch of products in which one side is dense."""
    left = rows_of(self) if isinstance(self, Nested) else list(self.unbind(0))
    right = rows_of(other) if isinstance(other, Nested) else list(other.unbind(0))
    check(
        len(left) == len(right),
        lambda: f"bmm: expected as many matrices on both sides, got {len(left)} and {len(right)}",
    )
    for i, (x, y) in enumerate(zip(left, right)):
        check(
            x.shape[-1] == y.shape[-2],
            lambda i=i, x=x, y=y: (
                f"{i}-th nested matrices in batch cannot be multiplied ({x.shape[0]}x{x.shape[1]} "
                f"and {y.shape[0]}x{y.shape[1]})"
            ),
        )
    return from_rows([x @ y for x, y in zip(left, right)])


@nested("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    check(isinstance(input, Nested), lambda: "linear: a nested weight is not supported")
    assert isinstance(input, Nested)
    _contiguous(input, "linear")
    check(
        input.meta.ndim == 3 and weight.ndim == 2,
        lambda: (
            f"Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: "
            f"{input.meta.ndim}. Dense tensor dim: {weight.ndim}"
        ),
    )
    last = _last_size(input)
    check(
        last == weight.shape[1],
        lambda: (
            f"Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) "
            f"'last_dim' to equal 'weight.size(1), but got: last_dim = {last}, and "
            f"weight.size(1) = {weight.shape[1]}"
        ),
    )
    found = aten.linear(buffer_of(input).reshape(-1, last), weight, bias)
    return _like(input, found, weight.shape[0])


@nested("layer_norm")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *rest: object,
) -> Tensor:
    assert isinstance(input, Nested)
    _contiguous(input, "layer_norm")
    shape, rank = tuple(normalized_shape), input.meta.ndim
    trailing = {size[len(size) - len(shape) :] for size in _sizes(input)}
    check(
        len(trailing) == 1 and len(shape) < rank - 1,
        lambda: "normalized_shape extends into irregular dimensions for the nested tensor",
    )
    found_shape = trailing.pop()
    for d, (wanted, size) in enumerate(zip(shape, found_shape)):
        check(
            wanted == size,
            lambda d=d: (
                f"The shape at dimension {d} of normalized_shape doesn't match the input: expected "
                f"{found_shape}, got {shape}"
            ),
        )
    flat = buffer_of(input).reshape(-1, *shape)
    return _like(input, aten.layer_norm(flat, shape, weight, bias, eps))


@nested("embedding")
def embedding(weight: Tensor, indices: Tensor, *options: Any) -> Tensor:
    assert isinstance(indices, Nested)
    check(
        indices.meta.ndim < 3,
        lambda: f"embedding: expected rows of one dimension, got {indices.meta.ndim - 1}",
    )
    found = aten.embedding(weight, buffer_of(indices), *options)
    sizes = [(*size, weight.shape[1]) for size in _sizes(indices)]
    return over_buffer(found.reshape(-1), dense_rows(sizes))


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
    """Attention within each row: rows of sizes (heads, positions, width)."""
    check(
        attn_mask is None,
        lambda: "attention of nested tensors is not supported when an explicit attn_mask is set",
    )
    check(
        not is_causal,
        lambda: "attention: nested tensors for query and key are not supported when is_causal=True",
    )
    check(
        all(isinstance(t, Nested) for t in (query, key, value)),
        lambda: "attention: expected query, key and value to be nested tensors of layout strided",
    )
    options = {"scale": scale, "enable_gqa": enable_gqa}

    def of_row(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found: Tensor = aten.scaled_dot_product_attention(q, k, v, None, dropout_p, **options)
        return found

    return _by_row(of_row, query, key, value)  # type: ignore[arg-type]  # checked above


@nested("is_same_size")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return isinstance(self, Nested) and isinstance(other, Nested) and _sizes(self) == _sizes(other)


@nested("equal")
def equal(self: Tensor, other: Tensor) -> bool:
    """Whether the rows have equal sizes and values. differs: PyTorch refuses it."""
    if not (isinstance(self, Nested) and isinstance(other, Nested)):
        return False
    same = _sizes(self) == _sizes(other)
    return same and all(aten.equal(a, b) for a, b in zip(rows_of(self), rows_of(other)))


@nested("_local_scalar_dense")
def number(self: Nested) -> NoReturn:
    raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")


__all__ = ["Row", "nested"]
