"""SymInt, SymFloat and SymBool: arithmetic, text, when they guard (spec F115-F120)."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from maquette.symbolic import (
    ShapeEnv,
    SymBool,
    SymFloat,
    SymInt,
    SymIntEqByExpr,
    sym_and,
    sym_eq,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_or,
    sym_sum,
)


def texts(*values: Any) -> list[str]:
    return [str(v) for v in values]


def test_F115_a_symint_is_no_int_and_adds_no_guard(sizes: Any) -> None:
    env, s, t = sizes[:3]
    assert not isinstance(s, int)
    results = [s + 1, 1 - s, s * t, s // 2, s % 3, s**2, s << 2, s >> 1, s & 3, s | 3, s ^ 3, -s]
    assert all(type(r) is SymInt for r in results)
    assert env.guards == []


@pytest.mark.parametrize(
    "expression",
    ["s + 1", "1 - s", "s * t", "s // 3", "-s // 3", "s % 3", "-s % 3", "s**2", "s << 2", "s >> 1",
     "s & 3", "s | 3", "s ^ 3", "abs(-s)", "s / 3", "s / t", "s * 2.5", "s**-1", "round(s / 3)",
     "math.floor(s / 3)", "math.ceil(s / 3)", "math.trunc(s / 3)", "2**s", "(s + t) // 2 * 3"],
)  # fmt: skip
def test_F115_values_are_those_of_python(sizes: Any, expression: str) -> None:
    symbolic = eval(expression, {"s": sizes.s, "t": sizes.t, "math": math})
    plain = eval(expression, {"s": 8, "t": 5, "math": math})
    assert symbolic.node.hint == plain
    assert symbolic.node.pytype is type(plain)


def test_F115_what_can_be_simplified_is(sizes: Any) -> None:
    s, t = sizes.s, sizes.t
    assert texts((2 * s) % 2, s - s, (4 * s) // 2, (s * t) // s, (s * t + t) // t) == [
        "0", "0", "2*s0", "s1", "s0 + 1",
    ]  # fmt: skip


def test_F115_a_negative_power_is_a_float_without_a_guard(sizes: Any) -> None:
    power = sizes.s**-1
    assert type(power) is SymFloat
    assert sizes.env.guards == []


def test_F115_a_symbolic_exponent_is_guarded_to_have_a_sign(sizes: Any) -> None:
    assert (2 ** (sizes.s - 3)).node.hint == 32
    assert [g.text for g in sizes.env.guards] == ["s0 - 3 >= 0"]


@pytest.mark.parametrize("other", ["x", 1j, None, []])
def test_F115_other_types_are_refused(sizes: Any, other: Any) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        sizes.s + other
    assert (sizes.s == other) is False


def test_F115_no_inversion_and_no_divmod(sizes: Any) -> None:
    with pytest.raises(TypeError, match="bad operand"):
        ~sizes.s  # noqa: B018 — the operator is what is refused
    with pytest.raises(TypeError, match="divmod"):
        divmod(sizes.s, 2)


def test_F116_numbers_print_by_expression(sizes: Any) -> None:
    s, u = sizes.s, sizes.u
    assert texts(s + 1, s // 2, s % 3, -s % 3, sym_max(1, u), s / 2, u == 1) == [
        "s0 + 1", "(s0//2)", "Mod(s0, 3)", "PythonMod(-s0, 3)", "Max(1, u0)", "IntTrueDiv(s0, 2)",
        "Eq(u0, 1)",
    ]  # fmt: skip


def test_F116_conditions_print_by_expression(sizes: Any) -> None:
    u = sizes.u
    assert str((u > 3) & (u < 9)) == "(u0 > 3) & (u0 < 9)"
    assert str(sym_not(u > 3)) == "u0 <= 3"


def test_F117_a_condition_is_answered_by_the_hint_and_recorded(sizes: Any) -> None:
    assert bool(sizes.s > sizes.t) is True
    assert [g.text for g in sizes.env.guards] == ["s0 > s1"]


@pytest.mark.parametrize(
    "ask", [int, float, lambda s: list(range(s)), lambda s: f"{s:d}", math.sqrt,
            lambda s: s.bit_length(), lambda s: [0] * s],
)  # fmt: skip
def test_F117_a_value_specializes(sizes: Any, ask: Any) -> None:
    ask(sizes.s)
    assert [g.text for g in sizes.env.guards] == ["Eq(s0, 8)"]
    assert str(sizes.s) == "8"


def test_F117_hashing_a_float_or_a_condition_specializes(sizes: Any) -> None:
    assert hash(sizes.s > 30) == hash(False)
    assert hash(sym_float(sizes.s)) == hash(8.0)


def test_F118_a_symint_has_no_hash(sizes: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(sizes.s)


def test_F118_membership_guards_each_comparison(sizes: Any) -> None:
    assert sizes.s in (3, 8)
    assert [g.text for g in sizes.env.guards] == ["Ne(s0, 3)", "Eq(s0, 8)"]


def test_F118_the_builtin_maximum_guards_once(sizes: Any) -> None:
    assert max(sizes.s, sizes.t) is sizes.s
    assert len(sizes.env.guards) == 1


def test_F118_symbolic_functions_do_not_guard(sizes: Any) -> None:
    s, t = sizes.s, sizes.t
    sym_max(s, t), sym_min(s, t), sym_ite(s > t, s, t), sym_and(s > 9, t > 9), sym_or(s > 9, t > 9)
    sym_eq([s, t], [t, s]), sym_sum([s, t, 1]), sym_not(s > 9), (s > 9) & (t > 9), (s > 9) | (t > 9)
    assert sizes.env.guards == []


def test_F119_the_larger_of_a_size_and_1_is_the_size(sizes: Any) -> None:
    assert sym_max(sizes.s, 1) is sizes.s


def test_F119_branches_are_of_one_type(sizes: Any) -> None:
    with pytest.raises(AssertionError, match="one type"):
        sym_ite(sizes.s > 3, 1, 2.0)


def test_F119_extremes_are_floats_if_either_is(sizes: Any) -> None:
    assert type(sym_max(sizes.s, 1.5)) is SymFloat
    assert sym_min(1, 2.0) == 1.0
    assert type(sym_min(1, 2.0)) is float


def test_F119_lists_are_equal_if_all_elements_are(sizes: Any) -> None:
    assert sym_eq([1, 2], [1]) is False
    assert sym_eq((1, 2), (1, 2)) is True
    assert str(sym_eq([sizes.u, 2], [3, 2])) == "Eq(u0, 3)"


def test_F119_conversions_take_plain_numbers_too(sizes: Any) -> None:
    assert sym_int(-2.7) == -2
    assert sym_float(3) == 3.0
    assert str(sym_int(sizes.s / 2)) == "TruncToInt(IntTrueDiv(s0, 2))"


def test_F120_environments_do_not_mix(sizes: Any) -> None:
    other = ShapeEnv().create_unbacked_symint()
    with pytest.raises(RuntimeError, match="two shape environments"):
        sizes.s + other


def test_F120_a_copy_keeps_the_node(sizes: Any) -> None:
    assert copy.deepcopy(sizes.s).node is sizes.s.node


def test_F120_numbers_compare_by_expression(sizes: Any) -> None:
    wrapped = {SymIntEqByExpr(sizes.s + 1): "here"}
    assert wrapped[SymIntEqByExpr(1 + sizes.s)] == "here"
    assert SymIntEqByExpr(sizes.s) != SymIntEqByExpr(sizes.t)


def test_F117_conditions_are_bools_of_their_own_kind(sizes: Any) -> None:
    assert type(sizes.s > 3) is SymBool
    assert int(sizes.s > 30) == 0
    assert [g.text for g in sizes.env.guards] == ["s0 <= 30"]
