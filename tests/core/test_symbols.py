"""Core's arithmetic on symbolic sizes, with the smallest stand-ins that meet the protocol."""

import math
from collections.abc import Hashable

import pytest

from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import float32, int64, number_dtype
from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.core.strides import contiguous_strides, is_contiguous


class Node:
    """A product of names, or the comparison of two; decides equality of equal products only."""

    pytype: type = int
    number: "Symbol"

    def __init__(self, *factors: str | int, asked: list[str] | None = None) -> None:
        names = sorted(factor for factor in factors if isinstance(factor, str))
        number = math.prod(factor for factor in factors if isinstance(factor, int))
        self.factors: tuple[str | int, ...] = (number, *names)
        self.asked = asked if asked is not None else []

    def statically_known_true(self, file: str, line: int) -> bool:
        return False

    def canonical(self) -> "Symbol":
        return self.number

    def intern_key(self) -> Hashable:
        return "env", self.factors

    def guard_or_false(self, file: str, line: int) -> bool:
        return False

    def expect_true(self, file: str, line: int) -> bool:
        self.asked.append("expect_true")
        return True


class Symbol:
    """A symbolic number: unhashable, no int, compares to symbols."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Node) -> None:
        self.node = node
        node.number = self

    def __mul__(self, other: "Symbol | int") -> "Symbol":
        factors = other.node.factors if isinstance(other, Symbol) else (other,)
        return Symbol(Node(*self.node.factors, *factors, asked=self.node.asked))

    __rmul__ = __mul__

    def __sym_max__(self, other: int) -> "Symbol":
        return self

    def __eq__(self, other: object) -> "bool | Symbol":  # type: ignore[override]
        if isinstance(other, Symbol) and other.node.factors == self.node.factors:
            return True
        return Symbol(self.node)

    def __bool__(self) -> bool:
        raise AssertionError("a guard was recorded")


@pytest.fixture
def u() -> Symbol:
    return Symbol(Node("u"))


def test_M48_contiguous_strides_of_symbols_need_no_guard(u: Symbol) -> None:
    strides = contiguous_strides((2, u, 5))  # type: ignore[arg-type]
    assert strides[1:] == (5, 1)
    assert strides[0].node.factors == (5, "u")  # type: ignore[attr-defined]
    assert is_contiguous((2, u, 5), strides)  # type: ignore[arg-type]


def test_FX1_symbolic_metas_are_one_by_their_keys(u: Symbol) -> None:
    meta = TensorMeta.of(float32, (u, 3))  # type: ignore[arg-type]
    again = TensorMeta.of(float32, (Symbol(Node("u")), 3))  # type: ignore[arg-type]
    other = TensorMeta.of(float32, (Symbol(Node("v")), 3))  # type: ignore[arg-type]
    assert again is meta
    assert other is not meta
    assert meta.shape[0] is u


def test_F120_a_size_keeps_symbols(u: Symbol) -> None:
    meta = TensorMeta.of(float32, (u, 3))  # type: ignore[arg-type]
    assert meta.size[0] is u
    assert type(Size((u, 3))[1:]) is Size  # type: ignore[arg-type]


def test_F78_a_size_that_is_not_known_to_be_1_wins_against_1(u: Symbol) -> None:
    assert broadcast_shapes((u,), (1,)) == (u,)  # type: ignore[arg-type]
    assert u.node.asked == []


def test_F78_against_another_size_an_equality_is_deferred(u: Symbol) -> None:
    assert broadcast_shapes((u,), (4,)) == (4,)  # type: ignore[arg-type]
    assert u.node.asked == ["expect_true"]


def test_T29_a_symbolic_number_stands_for_its_kind(u: Symbol) -> None:
    assert number_dtype(u) is int64
    u.node.pytype = float
    assert number_dtype(u) is float32
