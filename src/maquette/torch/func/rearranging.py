"""`rearrange`: dimensions named, split, joined and put in another order by a pattern (einops').

A pattern is read once and remembered: each side is a list of groups of names, ``...`` among them.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor

_MANY = "..."
_PARTS = re.compile(r"\.\.\.|\(|\)|\w+|\S")
_Group = tuple[str, ...]  # names that are one dimension; `_REST` stands for a group each
_REST: _Group = ("(rest)",)


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """The elements of a tensor by a pattern ``"b (h h2) w -> (b h) h2 w"``.

    The left side names the dimensions, the right side the result's; both have the same names. Names
    in brackets are one dimension, the first the slowest; ``1`` or ``()`` has one element; ``...``
    stands for all other dimensions. A sequence of tensors is stacked along a new first dimension.

    axes_lengths: sizes of names; of a group on the left at most one may be unknown.

    ValueError for a pattern that cannot be read or does not fit the sizes; TypeError for a length
    that is no int.

    >>> import maquette as mq
    >>> rearrange(mq.arange(6).view(2, 3), "a b -> b a").shape
    torch.Size([3, 2])
    """
    whole: Tensor = tensor if isinstance(tensor, Tensor) else mq.stack(tensor)
    read = _read(pattern)
    left, right = read.left, read.right
    _check_lengths(read, pattern, axes_lengths)
    many = [f"{_MANY}{i}" for i in range(whole.dim() - len(left) + 1)]
    expanded = _expanded(left, many)
    if len(expanded) != whole.dim():
        some = "at least " if read.has_many else ""
        count = len(left) - read.has_many
        raise ValueError(
            f"Number of dimensions in pattern ({some}{count}) must be equal to the number of "
            f"dimensions in the tensor ({whole.dim()}): {pattern!r} for {tuple(whole.shape)}"
        )
    sizes: dict[str, int] = {}
    for group, size in zip(expanded, whole.shape):
        sizes.update(_sizes(group, size, axes_lengths, pattern))
    names = [name for group in expanded for name in group]
    groups = _expanded(right, many)
    order = [names.index(name) for group in groups for name in group]
    split = whole.reshape([sizes[name] for name in names])
    return split.permute(order).reshape([math.prod(sizes[n] for n in group) for group in groups])


# --- patterns -----------------------------------------------------------------------------------


class _Pattern(NamedTuple):
    """A pattern that was read; ``has_many``: whether there is a ``...``."""

    left: list[_Group]
    right: list[_Group]
    has_many: bool


@functools.lru_cache(256)
def _read(pattern: str) -> _Pattern:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"Pattern must contain a single '->' separator: {pattern!r}")
    left, right = (_groups(side) for side in sides)
    if any(_MANY in group for group in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    before, after = _names_of(left), _names_of(right)
    if _MANY in after and _MANY not in before:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if before != after:
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{before ^ after}"
        )
    return _Pattern(left, right, _MANY in before)


def _names_of(groups: Sequence[_Group]) -> set[str]:
    return {name for group in groups for name in ((_MANY,) if group is _REST else group)}


def _groups(side: str) -> list[_Group]:
    """The groups of one side of a pattern."""
    groups: list[_Group] = []
    inside: list[str] | None = None  # the names of the brackets that are open
    seen: set[str] = set()
    for part in _PARTS.findall(side):
        if part == "(":
            if inside is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed): "
                    f"{side!r}"
                )
            inside = []
        elif part == ")":
            if inside is None:
                raise ValueError(f"Brackets are not balanced: {side!r}")
            groups.append(tuple(inside))
            inside = None
        else:
            names = _names(part, side)
            if not seen.isdisjoint(names):
                raise ValueError(f"Indexing expression contains duplicate dimension {part!r}")
            seen.update(names)
            if inside is None:
                groups.append(_REST if part == _MANY else names)
            else:
                inside += names
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: {side!r}")
    return groups


def _names(part: str, side: str) -> _Group:
    """A part of a pattern as names: one, or none for a dimension of one element."""
    if part == _MANY:
        return (part,)
    if part == ".":
        raise ValueError(f"Expression may contain dots only inside ellipsis (...): {side!r}")
    if part.isdecimal():
        if part != "1":
            raise ValueError(
                f"rearrange only supports unnamed axes of size 1, got {part}: {side!r}"
            )
        return ()
    if not part.isidentifier():
        raise ValueError(f"Unknown character {part!r} in {side!r}")
    if part.startswith("_") or part.endswith("_"):
        raise ValueError(
            f"Invalid axis identifier: {part}\naxis name should not start or end with underscore"
        )
    return (part,)


# --- sizes --------------------------------------------------------------------------------------


def _check_lengths(read: _Pattern, pattern: str, lengths: Mapping[str, int]) -> None:
    known = _names_of(read.left)
    for name, length in lengths.items():
        if not isinstance(length, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
        if name not in known:
            raise ValueError(
                f"Identifiers not found in rearrange expression: {{{name!r}}}: {pattern!r}"
            )


def _expanded(groups: Sequence[_Group], many: Sequence[str]) -> list[_Group]:
    """Groups with ``many`` in the place of ``...``: one each, or in brackets all in one."""
    found: list[_Group] = []
    for group in groups:
        if group is _REST:
            found += [(name,) for name in many]
        elif _MANY in group:
            at = group.index(_MANY)
            found.append((*group[:at], *many, *group[at + 1 :]))
        else:
            found.append(group)
    return found


def _sizes(group: _Group, size: int, lengths: Mapping[str, int], pattern: str) -> dict[str, int]:
    """The sizes of the names of a group that is one dimension of this size."""
    unknown = [name for name in group if name not in lengths]
    known = {name: lengths[name] for name in group if name in lengths}
    product = math.prod(known.values())
    if len(unknown) > 1:
        raise ValueError(
            f"rearrange: the sizes of {' and '.join(unknown)} cannot be told from {size} alone: "
            f"expected lengths of all but one of them, for {pattern!r}"
        )
    fits = product and size % product == 0 if unknown else product == size
    if not fits:
        raise ValueError(
            f"rearrange: expected the dimension ({' '.join(group) or '1'}) of {pattern!r} to have "
            f"{product} elements{' times something' if unknown else ''}, got {size}"
        )
    return known | dict.fromkeys(unknown, size // product)


__all__ = ["rearrange"]
