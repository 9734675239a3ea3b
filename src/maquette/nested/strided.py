"""Nested tensors of the strided layout: rows of any sizes in one buffer (`torch.nested`).

A row is a view of the buffer with sizes, strides and an offset of its own, so that any number of
dimensions may differ from row to row. Such a tensor has no sizes, only those of its rows; its meta
says those of the rows padded to the largest. Operators on it (`strided_operators.py`) speak
operators on the buffer or on the rows: autograd follows those, between the functions here that go
from a nested tensor to its parts and back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

from maquette.api.creation import tensor
from maquette.autograd.function import Function
from maquette.core.dtype import int64
from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides
from maquette.dispatch.abstract import disabled_torch_function
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tls import tls
from maquette.nested.tensor import ANSWER, NESTED
from maquette.tensor.keys import inference_keys, keys_for
from maquette.tensor.pickled_form import pickled_form
from maquette.tensor.tensor import Tensor, of_class, wrap

aten = ops.aten
Sizes = tuple[int, ...]
View = Callable[[Tensor, int], Tensor]
"""A view of a row, of the row and its number."""


class Row(NamedTuple):
    """Where a row is in the buffer."""

    size: Sizes
    stride: Sizes
    offset: int

    @property
    def numel(self) -> int:
        """How many elements the row has."""
        total = 1
        for n in self.size:
            total *= n
        return total

    @property
    def end(self) -> int:
        """Behind the last element of the row; 0 if it has none."""
        reach = sum((n - 1) * s for n, s in zip(self.size, self.stride))
        return self.offset + reach + 1 if self.numel else 0


def dense_rows(sizes: Sequence[Sizes]) -> tuple[Row, ...]:
    """Rows of these sizes, row-major, one after the other."""
    rows, offset = [], 0
    for size in sizes:
        rows.append(Row(size, tuple(contiguous_strides(size)), offset))
        offset += rows[-1].numel
    return tuple(rows)


class StridedNestedTensor(Tensor):
    """Rows of any sizes: ``_buffer`` [elements] has them all, ``_rows`` says where each is."""

    _buffer: Tensor
    _rows: tuple[Row, ...]
    is_nested: ClassVar[bool] = True
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    def __new__(
        cls, buffer: Tensor, rows: Sequence[Row], *, requires_grad: bool = False
    ) -> StridedNestedTensor:
        b = buffer.meta
        padded = padded_size(rows)
        meta = TensorMeta.of(b.dtype, padded, contiguous_strides(padded), b.offset, b.device)
        keys = inference_keys(meta) if tls.st.inference else keys_for(meta) | NESTED
        made = cast(StridedNestedTensor, of_class(wrap(meta, buffer._storage, None, keys), cls))
        made._buffer, made._rows = buffer, tuple(rows)
        made._vc = buffer._vc
        if requires_grad:
            made._require_grad()
        return made

    # --- sizes ------------------------------------------------------------------------

    @property
    def shape(self) -> NoReturn:
        """RuntimeError: only rows have sizes."""
        raise _no("sizes", "size(0), the number of rows, or that of each of unbind()")

    def size(self, dim: int | None = None) -> int:  # type: ignore[override]  # never all of them
        """The size of a dimension in which all rows agree; dimension 0 counts them."""
        if dim is None:
            raise _no("sizes", "size(0), the number of rows, or that of each of unbind()")
        at = self._wrap(dim)
        if at == 0:
            return len(self._rows)
        found = {row.size[at - 1] for row in self._rows}
        if len(found) != 1:
            raise RuntimeError(
                f"Given dimension {dim} is irregular and does not have a size: the rows have "
                f"{[row.size[at - 1] for row in self._rows]}"
            )
        return found.pop()

    def stride(self, dim: int | None = None) -> NoReturn:
        """RuntimeError: only rows have strides."""
        raise _no("strides", "that of each of unbind()")

    def numel(self) -> int:
        """How many elements the rows have together."""
        return sum(row.numel for row in self._rows)

    nelement = numel

    @property
    def nbytes(self) -> int:
        """Bytes of the rows together."""
        return self.numel() * self.meta.itemsize

    def storage_offset(self) -> int:
        """0: each row has its own."""
        return 0

    def is_contiguous(self, memory_format: object | None = None) -> bool:
        """Whether the rows follow one another in memory, each row-major."""
        return self._rows == dense_rows([row.size for row in self._rows])

    def __len__(self) -> int:
        return len(self._rows)

    def data_ptr(self) -> int:
        return self._buffer.data_ptr()

    def _nested_tensor_size(self) -> Tensor:
        """The sizes of the rows, int64 [rows, dimensions]."""
        return _table([row.size for row in self._rows])

    def _nested_tensor_strides(self) -> Tensor:
        """The strides of the rows, int64 [rows, dimensions]."""
        return _table([row.stride for row in self._rows])

    def _nested_tensor_storage_offsets(self) -> Tensor:
        """Where each row begins in the buffer, int64 [rows]."""
        return tensor([row.offset for row in self._rows], dtype=int64)

    def values(self) -> Tensor:
        """The elements of all rows in one dimension, as they lie in memory."""
        return buffer_of(self) if self.is_contiguous() else self._buffer.detach()

    def numpy(self, *, force: bool = False) -> NoReturn:
        """RuntimeError: rows of different sizes are no array."""
        raise _no("strides", "that of each of unbind(), as unbind()[0].numpy()")

    def tolist(self) -> NoReturn:
        """RuntimeError: PyTorch has no list of nested rows."""
        raise _no("strides", "that of each of unbind(), as unbind()[0].tolist()")

    def __setitem__(self, index: object, value: object) -> None:
        row = self[index[0] if isinstance(index, tuple) else index]
        row[index[1:] if isinstance(index, tuple) else ...] = value

    # --- copies and texts -------------------------------------------------------------

    def _alias(self) -> StridedNestedTensor:
        return StridedNestedTensor(self._buffer, self._rows)

    def __deepcopy__(self, memo: dict[int, object]) -> StridedNestedTensor:
        if id(self) in memo:
            return cast(StridedNestedTensor, memo[id(self)])
        made = StridedNestedTensor(copy.deepcopy(self._buffer.detach(), memo), self._rows)
        memo[id(self)] = made
        made.requires_grad_(self.requires_grad)
        return made

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        form = pickled_form()
        if form is not None:
            return form.tensor(self)
        parts = self._buffer.detach(), [tuple(row) for row in self._rows], self.requires_grad
        return _rebuilt, parts

    def __repr__(self) -> str:
        shown = [row.detach().requires_grad_(self.requires_grad) for row in _views(self)]
        rows = ",\n".join("  " + repr(row).replace("\n", "\n  ") for row in shown)
        return f"nested_tensor([\n{rows}\n]{_suffix(self)})"

    # --- operators --------------------------------------------------------------------

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # a marker in Tensor, a method in subclasses
        cls,
        func: OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        params = bind(func._schema, args, kwargs or {}, takes_numbers=func.takes_numbers)
        assert ANSWER[0] is not None
        return ANSWER[0](func, tuple(params))


def _no(what: str, instead: str) -> RuntimeError:
    return RuntimeError(
        f"Internal error: NestedTensorImpl doesn't support {what}. A nested tensor of the strided "
        f"layout has none as a whole; ask for {instead}"
    )


def _suffix(t: Tensor) -> str:
    if t.grad_fn is not None:
        return f", grad_fn=<{t.grad_fn.name()}>"
    return ", requires_grad=True" if t.requires_grad else ""


def _table(numbers: Sequence[Sizes]) -> Tensor:
    return tensor([list(n) for n in numbers], dtype=int64)


def _rebuilt(buffer: Tensor, rows: Sequence[Any], requires_grad: bool) -> StridedNestedTensor:
    places = [Row(*row) for row in rows]
    return StridedNestedTensor(buffer, places, requires_grad=requires_grad)


def padded_size(rows: Sequence[Row]) -> Sizes:
    """The sizes of a dense tensor that holds each row."""
    if not rows:
        return (0,)
    return (len(rows), *[max(row.size[d] for row in rows) for d in range(len(rows[0].size))])


# --- to parts and back, for autograd -----------------------------------------------------------


class NestedBuffer(Function):
    """From a contiguous nested tensor to its buffer."""

    @staticmethod
    def forward(ctx: Any, nested: StridedNestedTensor) -> Tensor:  # type: ignore[override]
        ctx.rows = nested._rows
        return nested._buffer.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return over_buffer(grad, ctx.rows)


class NestedFromBuffer(Function):
    """From a buffer to a nested tensor."""

    @staticmethod
    def forward(ctx: Any, buffer: Tensor, rows: tuple[Row, ...]) -> Tensor:  # type: ignore[override]
        ctx.rows = rows
        return StridedNestedTensor(buffer.detach(), rows)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Tensor, None]:  # type: ignore[override]
        if grad._rows == ctx.rows:
            return buffer_of(grad), None
        return _laid_out(rows_of(grad), ctx.rows), None


class NestedRows(Function):
    """From a nested tensor to its rows, which are views."""

    @staticmethod
    def forward(ctx: Any, nested: StridedNestedTensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        ctx.sizes = [row.size for row in nested._rows]
        ctx.like = nested._buffer.detach()
        ctx.set_materialize_grads(False)
        return tuple(_views(nested))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Tensor:  # type: ignore[override]
        return from_rows(
            [ctx.like.new_zeros(s) if g is None else g for g, s in zip(grads, ctx.sizes)]
        )


class NestedView(Function):
    """A view of each row, as a nested tensor on the same buffer."""

    @staticmethod
    def forward(ctx: Any, nested: StridedNestedTensor, view: View) -> Tensor:  # type: ignore[override]
        ctx.sizes, ctx.view = [row.size for row in nested._rows], view
        return _viewed(nested, view)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Tensor, None]:  # type: ignore[override]
        parts = []
        for i, (size, part) in enumerate(zip(ctx.sizes, rows_of(grad))):
            whole = part.new_zeros(size)
            ctx.view(whole, i).copy_(part)
            parts.append(whole)
        return from_rows(parts), None


def _views(nested: StridedNestedTensor) -> list[Tensor]:
    buffer = nested._buffer.detach()
    start = buffer.storage_offset()
    rows = [buffer.as_strided(r.size, r.stride, start + r.offset) for r in nested._rows]
    for row in rows:
        row._base = nested if nested._base is None else nested._base
    return rows


def _viewed(nested: StridedNestedTensor, view: View) -> StridedNestedTensor:
    start = nested._buffer.storage_offset()
    rows = []
    for i, row in enumerate(_views(nested)):
        found = view(row, i).meta
        rows.append(Row(tuple(found.shape), tuple(found.strides), found.offset - start))
    return StridedNestedTensor(nested._buffer.detach(), rows)


def _laid_out(parts: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
    """A buffer that has these values in rows that lie as ``rows`` say."""
    end = max(
        (
            r.offset + sum((n - 1) * s for n, s in zip(r.size, r.stride)) + 1
            for r in rows
            if r.numel
        ),
        default=0,
    )
    buffer: Tensor = parts[0].new_zeros((end,))
    for part, r in zip(parts, rows):
        buffer.as_strided(r.size, r.stride, r.offset).copy_(part)
    return buffer


def _recorded(t: Tensor) -> bool:
    return bool(t.requires_grad and tls.st.grad_enabled)


def buffer_of(nested: StridedNestedTensor) -> Tensor:
    """The elements of a contiguous nested tensor, through which gradients flow."""
    if not nested.is_contiguous():
        raise RuntimeError(
            "NestedTensor must be contiguous to get buffer. Its rows lie apart, as a transpose's "
            "or a chunk's do: call .contiguous() first"
        )
    if _recorded(nested):
        return cast(Tensor, NestedBuffer.apply(nested))
    return nested._buffer.detach()


def over_buffer(buffer: Tensor, rows: Sequence[Row]) -> StridedNestedTensor:
    """A nested tensor on a buffer, through which gradients flow."""
    if _recorded(buffer):
        return cast(StridedNestedTensor, NestedFromBuffer.apply(buffer, tuple(rows)))
    return StridedNestedTensor(buffer.detach(), rows)


def rows_of(nested: StridedNestedTensor) -> list[Tensor]:
    """The rows, as views, through which gradients flow."""
    if _recorded(nested) and nested._rows:
        return list(cast("tuple[Tensor, ...]", NestedRows.apply(nested)))
    return _views(nested)


def from_rows(parts: Sequence[Tensor], like: Tensor | None = None) -> StridedNestedTensor:
    """A nested tensor with a copy of the rows, through which gradients flow.

    like: what says dtype and device where there are no rows.
    """
    if not parts:
        empty = aten.empty([0]) if like is None else like.new_empty((0,))
        return StridedNestedTensor(empty, ())
    buffer: Tensor = aten.cat([part.reshape(-1) for part in parts])
    return over_buffer(buffer, dense_rows([tuple(part.shape) for part in parts]))


def view_of_rows(nested: StridedNestedTensor, view: View) -> StridedNestedTensor:
    """The nested tensor of a view of each row, on the same buffer."""
    if _recorded(nested):
        return cast(StridedNestedTensor, NestedView.apply(nested, view))
    made = _viewed(nested, view)
    made._base = nested if nested._base is None else nested._base
    return made
