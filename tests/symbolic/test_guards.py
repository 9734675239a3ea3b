"""Guards: when one is recorded, what is learned, how it reads as Python (spec F121-F134)."""

from __future__ import annotations

from typing import Any

import pytest

from maquette.symbolic import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
    NotEqualError,
    ShapeEnv,
    ShapeEnvGuardError,
    check,
    check_is_size,
    config,
    guard_int,
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    guarding_hint_or_throw,
    has_static_value,
    is_concrete_int,
    optimization_hint,
    statically_known_false,
    statically_known_true,
)


def texts(env: ShapeEnv) -> list[str]:
    return [g.text for g in env.guards]


def test_F121_ranges_decide_without_a_guard(sizes: Any) -> None:
    assert bool(sizes.s > 1)
    assert bool(sizes.s != 0)
    assert texts(sizes.env) == []


def test_F121_earlier_guards_decide(sizes: Any) -> None:
    env, s, t = sizes[:3]
    assert bool(s > t)
    assert bool(t < s)
    assert not bool(s <= t)
    assert bool(2 * s != 2 * t)
    assert texts(env) == ["s0 > s1"]


def test_F121_bounds_that_meet_decide(sizes: Any) -> None:
    assert bool(sizes.s < 9)
    assert bool(sizes.s > 7)
    assert bool(sizes.s == 8)
    assert len(sizes.env.guards) == 2


def test_F122_a_false_answer_records_its_negation(sizes: Any) -> None:
    assert not bool(sizes.s > 30)
    assert not bool(sizes.s == 9)
    assert texts(sizes.env) == ["s0 <= 30", "Ne(s0, 9)"]


def test_F123_an_equality_replaces_in_what_was_made_before(sizes: Any) -> None:
    env = ShapeEnv()
    (a, b), _, _ = env.symbolic_geometry((8, 4), (4, 1), 0)
    older = a * b
    assert bool(a == 2 * b)
    assert str(a) == "2*s1"
    assert str(older) == "2*s1**2"


def test_F123_a_remainder_of_0_is_remembered(sizes: Any) -> None:
    env, s = sizes.env, sizes.s
    assert bool(s % 4 == 0)
    assert statically_known_true((s // 4) * 4 == s)
    assert not statically_known_true(s % 2 == 0)
    assert len(env.divisible) == 1


def test_F123_knowledge_is_public(sizes: Any) -> None:
    env, s = sizes.env, sizes.s
    assert bool(s > 5)
    interval = env.bound_sympy((2 * s).node.expr)
    assert (interval.lower, interval.upper) == (12, float("inf"))
    expr = (s + 1).node.expr
    int(s)
    assert env.replace(expr) == 9
    assert env.simplify(expr) == 9


def test_F124_guards_say_what_and_where(sizes: Any) -> None:
    env, s = sizes.env, sizes.s
    assert bool(s > 5)
    bool(s > 5)
    (guard,) = env.guards
    assert str(guard.expr) == "s0 > 5"
    assert "test_guards.py" in str(guard.sloc)
    assert env.format_guards() == " - s0 > 5"
    assert "test_guards.py" in env.format_guards(verbose=True)
    assert env.get_nontrivial_guards() == []
    assert env.get_pruned_guards([sizes.t]) == []
    assert env.get_pruned_guards([s]) == [guard]


def test_F129_suppressed_guards_teach_nothing(sizes: Any) -> None:
    with sizes.env.suppress_guards():
        assert bool(sizes.s > sizes.t)
    assert texts(sizes.env) == []
    assert bool(sizes.s > sizes.t)
    assert texts(sizes.env) == ["s0 > s1"]


def test_F129_a_frozen_environment_adds_none(sizes: Any) -> None:
    sizes.env.freeze()
    assert bool(sizes.t > 4)
    assert texts(sizes.env) == []
    assert sizes.env.counter["ignored_backward_guard"] == 1


def test_F129_new_guards_may_be_errors(sizes: Any) -> None:
    with sizes.env.error_on_new_guards(), pytest.raises(ShapeEnvGuardError, match="s0 > s1"):
        bool(sizes.s > sizes.t)
    assert bool(sizes.s > sizes.t)


def test_F130_a_symbol_with_many_guards_specializes(
    sizes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "symbol_guard_limit_before_specialize", 2)
    for bound in (3, 4, 5):
        bool(sizes.s > bound)
    assert texts(sizes.env) == ["s0 > 3", "s0 > 4", "s0 > 5", "Eq(s0, 8)"]


def test_F130_environments_are_compared(sizes: Any) -> None:
    other = ShapeEnv()
    sizes.env.check_equal(sizes.env)
    with pytest.raises(NotEqualError, match="hints"):
        sizes.env.check_equal(other)


def test_F131_static_questions_never_guard(sizes: Any) -> None:
    s, u = sizes.s, sizes.u
    assert statically_known_true(s > 1)
    assert not statically_known_true(s > 5)
    assert statically_known_false(s < 2)
    assert not statically_known_false(u == 3)
    assert statically_known_true(True)
    assert texts(sizes.env) == []


def test_F131_guard_or_false_guards_what_has_a_hint(sizes: Any) -> None:
    assert guard_or_false(sizes.s > 5)
    assert texts(sizes.env) == ["s0 > 5"]
    assert guard_or_true(sizes.u == 0)
    assert not guard_or_false(sizes.u == 0)
    assert sizes.env.deferred == {}


def test_F131_concrete_and_static_values(sizes: Any) -> None:
    s = sizes.s
    assert is_concrete_int(3)
    assert not is_concrete_int(s)
    assert not has_static_value(s)
    assert guard_int(s) == 8
    assert is_concrete_int(s)
    assert has_static_value(s)


def test_F132_size_like_symbols_are_neither_0_nor_1(sizes: Any) -> None:
    u = sizes.u
    check_is_size(u)
    assert not guard_size_oblivious(u == 1)
    check(u <= 1)
    assert str(u) == "u0"
    interval = sizes.env.bound_sympy(u.node.expr, size_oblivious=True)
    assert (interval.lower, interval.upper) == (2, 2)
    told = sizes.env.bound_sympy(u.node.expr)
    assert (told.lower, told.upper) == (0, 2)


def test_F132_backed_sizes_may_be_asked_obliviously(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "backed_size_oblivious", True)
    env = ShapeEnv()
    (a, b), _, _ = env.symbolic_geometry((1, 6), (6, 1), 0)
    assert str(a) == "s0"
    assert not guard_or_false(a == 1)
    assert env.guards == []
    assert str(b) == "s1"


def test_F133_hints(sizes: Any) -> None:
    s, u = sizes.s, sizes.u
    assert guarding_hint_or_throw(s + 1) == 9
    with pytest.raises(GuardOnDataDependentSymNode, match="u0"):
        guarding_hint_or_throw(u)
    assert optimization_hint(u + s, fallback=77) == 85
    assert texts(sizes.env) == []


def test_F134_the_error_says_what_where_and_what_to_do(sizes: Any) -> None:
    check_is_size(sizes.u)
    with pytest.raises(GuardOnDataDependentSymNode) as caught:
        bool(sizes.u > sizes.s)
    text = str(caught.value)
    assert "u0 > 8 (unhinted: u0 > s0)" in text
    assert "Size-like symbols: u0" in text
    assert "test_guards.py" in text
    assert "guard_or_false" in text
    assert str(caught.value.cond) == "u0 > 8"


def test_F80_F134_extracting_an_integer_is_worded_apart(sizes: Any) -> None:
    with pytest.raises(GuardOnDataDependentSymNode, match="extract specialized integer") as caught:
        int(sizes.u)
    assert str(caught.value.cond) == "u0"


def test_F106_the_errors_are_runtime_errors() -> None:
    assert issubclass(GuardOnDataDependentSymNode, RuntimeError)
    assert issubclass(ConstraintViolationError, RuntimeError)
