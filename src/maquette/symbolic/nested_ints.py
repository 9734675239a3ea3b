"""Nested ints: the size of a ragged dimension, which is a tensor of lengths and no one number.

``j1`` stands for the lengths that tensor number 1 holds. It equals itself only, and is at least 2
for all that is asked. It needs no `ShapeEnv`; what a fake jagged tensor has in its place is an
ordinary symbol whose hint it is.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

from maquette.core.symbols import intern_key, is_known
from maquette.symbolic.numbers import SymInt


class NestedIntNode:
    """What stands behind a nested int: a number's identity and a factor, which may be a symbol."""

    __slots__ = ("coeff", "number", "t_id")

    pytype = int
    shape_env = None
    hint = None
    constant = None

    def __init__(self, t_id: int, coeff: int = 1) -> None:
        self.t_id = t_id
        self.coeff = coeff
        self.number: NestedInt | None = None

    def nested_int(self) -> int:
        """The number of the tensor whose lengths it stands for."""
        return self.t_id

    def nested_int_coeff(self) -> int:
        """The factor."""
        return self.coeff

    def is_nested_int(self) -> bool:
        """True."""
        return True

    def is_symbolic(self) -> bool:
        """False: no environment knows of it."""
        return False

    def str(self) -> str:
        """``j1``, ``2*j1``."""
        return f"j{self.t_id}" if is_known(self.coeff == 1) else f"{self.coeff}*j{self.t_id}"

    def canonical(self) -> Any:
        """Itself."""
        return self.number

    def intern_key(self) -> Hashable:
        """Equal for equal nested ints."""
        return ("nested", self.t_id, intern_key(self.coeff))

    def guard_value(self) -> NoReturn:
        """Refused: there is no one number."""
        raise AttributeError("'NestedIntNode' object has no attribute 'int_'")


class NestedInt(SymInt):
    """A ``SymInt`` that stands for the lengths of a ragged dimension."""

    __slots__ = ()

    node: Any

    def __init__(self, t_id: int, coeff: int = 1) -> None:
        self.node = NestedIntNode(t_id, coeff)
        self.node.number = self

    def __hash__(self) -> int:  # type: ignore[override]  # nested ints are hashable
        return hash(self.node.intern_key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and self.node.intern_key() == other.node.intern_key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _order(self, other: object, name: str) -> int:
        """The difference of factors of one number, or of the bound 2 and a plain number."""
        if isinstance(other, NestedInt) and other.node.t_id == self.node.t_id:
            return int(self.node.coeff) - int(other.node.coeff)
        if isinstance(other, int) and not isinstance(other, SymInt) and other < 2:
            return 1
        raise ValueError(f"{name}: relation is indeterminate")

    def __ge__(self, other: object) -> bool:
        if other == 2:
            return True
        return self._order(other, "ge") >= 0

    def __gt__(self, other: object) -> bool:
        return self._order(other, "gt") > 0

    def __lt__(self, other: object) -> bool:
        if other == 2:
            return False
        return self._order(other, "lt") < 0

    def __le__(self, other: object) -> bool:
        return self._order(other, "le") <= 0

    def __mul__(self, other: object) -> NestedInt:
        if isinstance(other, NestedInt) or not isinstance(other, int | SymInt):
            raise ValueError(f"unsupported: {self} times {other!r}; a nested int times an int is")
        return NestedInt(self.node.t_id, self.node.coeff * other)

    __rmul__ = __mul__

    def _unsupported(self, *others: object) -> NoReturn:
        raise AttributeError(
            f"{self} is the size of a ragged dimension, no one number: it can be compared and "
            f"multiplied by an int"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = _unsupported
    __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _unsupported
    __neg__ = __abs__ = __int__ = __float__ = __index__ = _unsupported

    def __bool__(self) -> bool:
        return True

    def __sym_max__(self, other: object) -> NestedInt:
        if isinstance(other, int) and other <= 2:
            return self
        self._unsupported(other)

    def __sym_min__(self, other: object) -> object:
        if isinstance(other, int) and other <= 2:
            return other
        self._unsupported(other)


def is_nested_int(value: object) -> bool:
    """Whether a size is that of a ragged dimension."""
    return isinstance(value, NestedInt)
