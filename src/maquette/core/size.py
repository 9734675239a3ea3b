"""`Size`, the tuple that a user sees as a tensor's shape.

Shape rules use plain tuples; a `Size` is made where a shape reaches user code.
"""

from collections.abc import Iterable
from math import prod
from typing import Self, SupportsIndex, overload

from maquette.core.symbols import plain


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints that stays a `Size` when sliced, added or repeated.

    Raises TypeError for an item that is no int; symbolic ints are kept.
    """

    __slots__ = ()

    def __new__(cls, iterable: Iterable[SupportsIndex] = (), /) -> Self:
        return tuple.__new__(cls, [_item(*each) for each in enumerate(iterable)])

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> "Size": ...

    def __getitem__(self, key: SupportsIndex | slice) -> "int | Size":
        if isinstance(key, slice):
            return Size(tuple.__getitem__(self, key))
        return tuple.__getitem__(self, key)

    def __add__(self, other: tuple[int, ...]) -> "Size":  # type: ignore[override]  # one kind only
        if isinstance(other, tuple):
            return Size(tuple.__add__(self, other))
        if hasattr(type(other), "__radd__"):
            return NotImplemented
        raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")

    def __radd__(self, other: tuple[int, ...]) -> "Size":
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> "Size":
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[object, ...]:
        return Size, (tuple(self),)


def _item(position: int, size: SupportsIndex) -> int:
    if size.__class__ is int:
        return size
    try:
        return plain(size)
    except TypeError:
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is '{type(size).__name__}')"
        ) from None
