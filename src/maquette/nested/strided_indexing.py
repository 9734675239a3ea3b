"""How nested tensors of the strided layout are indexed: by a number or a range of rows, and by
numbers beyond them. All are views of the buffer but ranges of rows that require grad.
"""

from __future__ import annotations

import types
from typing import NoReturn

from maquette.core.errors import check, check_index
from maquette.dispatch.registry import ops
from maquette.nested.strided import StridedNestedTensor, from_rows, rows_of, view_of_rows
from maquette.nested.strided_operators import nested
from maquette.tensor.tensor import Tensor

aten = ops.aten
Nested = StridedNestedTensor


@nested("select.int")
def select(self: Nested, dim: int, index: int) -> Tensor:
    at = self._wrap(dim)
    if at == 0:
        count = len(self._rows)
        check_index(
            -count <= index < count,
            lambda: f"index {index} is out of bounds for dimension 0 with size {count}",
        )
        return rows_of(self)[index]
    for i, size in enumerate(row.size for row in self._rows):
        check_index(
            -size[at - 1] <= index < size[at - 1],
            lambda i=i, size=size: (
                f"index {index} is out of bounds for dimension {at - 1} of the {i}th constituent "
                f"tensor with size {size[at - 1]}"
            ),
        )
    return view_of_rows(self, lambda row, i: row.select(at - 1, index))


@nested("slice.Tensor")
def slice_(self: Nested, *rest: object) -> NoReturn:
    raise NotImplementedError(
        "aten::slice.Tensor is not supported for nested tensors of layout strided: index the rows "
        "by an integer first, nt[0, 1:]"
    )


@nested("narrow")
def narrow(self: Nested, dim: int, start: int, length: int) -> Tensor:
    at = self._wrap(dim)
    check(
        at == 0,
        lambda: f"narrow(): only dim=0 supported for nested tensors, but got: {at}",
    )
    check(self.is_contiguous(), lambda: "narrow(): only contiguous nested tensors supported")
    count = len(self._rows)
    check(
        0 <= start and start + length <= count,
        lambda: f"start ({start}) + length ({length}) exceeds dimension size ({count}).",
    )
    if self.requires_grad:
        return from_rows(rows_of(self)[start : start + length], self._buffer)
    found = StridedNestedTensor(self._buffer.detach(), self._rows[start : start + length])
    found._base = self if self._base is None else self._base
    return found


# --- nt[...] ----------------------------------------------------------------------------------


def item(self: Nested, index: object) -> Tensor:
    """``nt[0, 1:]``, ``nt[..., 0]``, ``nt[:2]``: numbers and whole ranges, and ranges of rows."""
    parts = _written_out(self, index if isinstance(index, tuple) else (index,))
    first, rest = parts[0], parts[1:]
    if _is_number(first):
        row: Tensor = aten.select(self, 0, first)
        return row[rest] if rest else row
    found = _rows_of_range(self, first)
    for dim in range(len(parts) - 1, 0, -1):  # the last first: the others keep their places
        if _is_number(parts[dim]):
            found = aten.select(found, dim, parts[dim])
        elif parts[dim] != slice(None):
            raise _not_indexed_by(parts[dim])
    return found


def _written_out(self: Nested, parts: tuple[object, ...]) -> tuple[object, ...]:
    """The index without an ellipsis before the rows are chosen: whole ranges in its place."""
    places = [i for i, part in enumerate(parts) if isinstance(part, types.EllipsisType)]
    if not parts or len(places) != 1 or any(part is None for part in parts):
        return parts or (slice(None),)
    whole = (slice(None),) * (self.meta.ndim - len(parts) + 1)
    return (*parts[: places[0]], *whole, *parts[places[0] + 1 :])


def _rows_of_range(self: Nested, rows: object) -> Tensor:
    if not isinstance(rows, slice):
        raise _not_indexed_by(rows)
    start, stop, step = rows.indices(len(self._rows))
    found: Tensor
    if step != 1:
        raise _not_indexed_by(rows)
    if (start, stop) == (0, len(self._rows)):
        found = aten.alias(self)
    else:
        found = narrow(self, 0, start, max(stop - start, 0))
    return found


def _is_number(part: object) -> bool:
    return isinstance(part, int) and not isinstance(part, bool)


def _not_indexed_by(part: object) -> NotImplementedError:
    given = part if isinstance(part, slice) else type(part).__name__
    return NotImplementedError(
        f"a nested tensor of layout strided is indexed by numbers and whole ranges, its rows by a "
        f"range, as in nt[0, 1:], nt[:2], nt[..., 0]; got {given}. Use chunk(), or unbind()"
    )


StridedNestedTensor.__getitem__ = item  # type: ignore[assignment,method-assign]  # of this class alone
