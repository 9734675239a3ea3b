"""What arithmetic on sizes asks of numbers that may be symbolic.

Core knows no symbolic engine. A shape holds plain ints or objects that act like them; those
carry a `node` that answers the few questions below. With ints every question is an ordinary
comparison. The symbolic numbers themselves live in `maquette.symbolic`, a floor above.
"""

from collections.abc import Hashable
from operator import index
from typing import Protocol, SupportsIndex, cast


class SymbolicNode(Protocol):
    """What stands behind a symbolic number."""

    pytype: type
    """The kind of number: int, float or bool."""

    def intern_key(self) -> Hashable:
        """Identify the environment and the expression: equal keys mean the same number."""

    def guard_or_false(self, file: str, line: int) -> bool:
        """Answer with a guard if a hint is known, else say False and record nothing."""

    def expect_true(self, file: str, line: int) -> bool:
        """Assert the condition: at once if it can be decided, else when the program runs."""


def node_of(value: object) -> SymbolicNode | None:
    """The node of a symbolic number; None for any other value."""
    return None if value.__class__ is int else getattr(value, "node", None)


def is_true(answer: bool) -> bool:
    """The truth of a comparison of sizes; one that depends on data counts as False."""
    if answer is True or answer is False:
        return answer
    node = node_of(answer)
    return bool(answer) if node is None else node.guard_or_false("", 0)


def expect_true(answer: bool) -> bool:
    """The truth of a condition that must hold; one that depends on data is asserted later."""
    if answer is True or answer is False:
        return answer
    node = node_of(answer)
    return bool(answer) if node is None else node.expect_true("", 0)


def at_least_one(size: int) -> int:
    """`max(size, 1)`, without a guard on a symbolic size."""
    if size.__class__ is int:
        return size or 1
    symbolic_max = getattr(size, "__sym_max__", None)
    if symbolic_max is None:
        return max(index(size), 1)
    larger: int = symbolic_max(1)
    return larger


def plain(value: SupportsIndex) -> int:
    """An int of any kind as a plain `int`; a symbolic one as it is."""
    return index(value) if node_of(value) is None else cast(int, value)


def intern_key(value: int) -> Hashable:
    """A hashable stand-in for a size, stride or offset."""
    node = node_of(value)
    return index(value) if node is None else node.intern_key()
