"""What arithmetic on sizes asks of numbers that may be symbolic.

Core knows no symbolic engine. A shape holds plain ints or objects that act like them; those
carry a `node` that answers the few questions below. With ints every question is an ordinary
comparison. The symbolic numbers themselves live in `maquette.symbolic`, a layer above.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cmp_to_key
from operator import index
from typing import Protocol, SupportsIndex


class SymbolicNode(Protocol):
    """What stands behind a symbolic number."""

    pytype: type
    """The kind of number: int, float or bool."""

    def canonical(self) -> int:
        """The number by its present expression: a plain int where that has become constant."""

    def intern_key(self) -> Hashable:
        """Identify the environment and the expression: equal keys mean the same number."""

    def fresh_size(self, largest: int) -> int:
        """A new number from 0 to ``largest`` that only data could tell."""

    def guard_or_false(self, file: str, line: int) -> bool:
        """Answer with a guard if a hint is known, else say False and record nothing."""

    def statically_known_true(self, file: str, line: int) -> bool:
        """Say whether the condition is known to be true; never guard."""

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


def is_known(answer: bool) -> bool:
    """Whether a comparison of sizes is known to be true; it never leaves a guard."""
    if answer is True or answer is False:
        return answer
    node = node_of(answer)
    return bool(answer) if node is None else node.statically_known_true("", 0)


def expect_true(answer: bool) -> bool:
    """The truth of a condition that must hold; one that depends on data is asserted later."""
    if answer is True or answer is False:
        return answer
    node = node_of(answer)
    return bool(answer) if node is None else node.expect_true("", 0)


def expect_within(low: int, value: int, high: int) -> bool:
    """Whether ``low <= value <= high``, which must hold; what depends on data is asserted later."""
    return expect_true(low <= value) and expect_true(value <= high)


def alike(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are known to be equal, size by size."""
    if a is b:
        return True
    return len(a) == len(b) and all(x is y or is_true(x == y) for x, y in zip(a, b))


def expect_alike(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes that must be equal are; what depends on data is asserted later."""
    if a is b:
        return True
    return len(a) == len(b) and all(x is y or expect_true(x == y) for x, y in zip(a, b))


def smaller(a: int, b: int) -> int:
    """The smaller size, without a guard on symbolic ones."""
    return _extreme(a, b, "__sym_min__", min)


def larger(a: int, b: int) -> int:
    """The larger size, without a guard on symbolic ones."""
    return _extreme(a, b, "__sym_max__", max)


def _extreme(a: int, b: int, method: str, plain: Callable[[int, int], int]) -> int:
    for one, other in ((a, b), (b, a)):
        symbolic = None if one.__class__ is int else getattr(one, method, None)
        if symbolic is not None:
            found: int = symbolic(other)
            return found
    return plain(a, b)


def fresh_size(like: int, largest: int) -> int:
    """A size from 0 to ``largest`` that only data could tell, where ``like`` is symbolic."""
    node = node_of(like)
    if node is None:
        raise TypeError(f"expected a symbolic number, got {like!r}")
    return node.fresh_size(largest)


def sorted_by(dims: Iterable[int], amounts: Sequence[int]) -> list[int]:
    """Dimensions by rising amounts; those that only data could tell apart keep their order."""

    def compare(a: int, b: int) -> int:
        return _compared(amounts[a], amounts[b])

    def amount(dim: int) -> int:
        return amounts[dim]

    if all(node_of(a) is None for a in amounts):
        return sorted(dims, key=amount)
    return sorted(dims, key=cmp_to_key(compare))


def _compared(a: int, b: int) -> int:
    if is_true(a < b):
        return -1
    return 1 if is_true(b < a) else 0


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
    """An int of any kind as a plain `int`; a symbolic one as it is, unless it became constant."""
    node = node_of(value)
    return index(value) if node is None else node.canonical()


def intern_key(value: int) -> Hashable:
    """A hashable stand-in for a size, stride or offset."""
    node = node_of(value)
    return index(value) if node is None else node.intern_key()


Offer = Callable[
    [Callable[..., object], Callable[..., object], tuple[object, ...], dict[str, object]], object
]
OFFERS: list[Offer | None] = [None]
"""What offers the call of a public function of numbers to handlers, else calls what computes it.

The layer of handlers puts it there: numbers are below.
"""
