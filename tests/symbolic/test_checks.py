"""Checks and runtime assertions (spec F135-F139), and where fresh symbols are found (F105)."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette.symbolic import (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    ShapeEnv,
    check,
    check_index,
    check_is_size,
    check_not_implemented,
    check_tensor_all,
    check_type,
    check_value,
    constrain_range,
    constrain_unify,
    guard_size_oblivious,
)
from maquette.symbolic.program.bindings import compute_unbacked_bindings


def asserted(env: ShapeEnv) -> list[str]:
    return [str(a.expr) for listed in env.deferred.values() for a in listed]


def test_F135_a_check_raises_its_message() -> None:
    check(True)
    with pytest.raises(RuntimeError, match="boom"):
        check(False, lambda: "boom")


@pytest.mark.parametrize("wrong", [1, "yes", None, mq.ones(2)])
def test_F135_a_condition_is_a_bool(wrong: Any) -> None:
    with pytest.raises(TypeError, match="cond must be a bool"):
        check(wrong)


def test_F135_a_message_is_a_function() -> None:
    with pytest.raises(TypeError, match="callable"):
        check(False, "boom")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function, error",
    [
        (check_index, IndexError),
        (check_value, ValueError),
        (check_type, TypeError),
        (check_not_implemented, NotImplementedError),
    ],
)
def test_F135_checks_of_other_kinds(function: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="boom"):
        function(False, lambda: "boom")


def test_F135_all_elements_must_be_true() -> None:
    check_tensor_all(mq.ones(2, dtype=mq.bool))
    with pytest.raises(RuntimeError):
        check_tensor_all(mq.zeros(2, dtype=mq.bool))
    with pytest.raises(TypeError, match="bool"):
        check_tensor_all(mq.ones(2))


def test_F136_a_backed_check_is_a_guard(sizes: Any) -> None:
    check(sizes.s > 5)
    assert [g.text for g in sizes.env.guards] == ["s0 > 5"]
    with pytest.raises(RuntimeError):
        check(sizes.s > 30)


def test_F136_an_unbacked_check_is_asserted_and_assumed(sizes: Any) -> None:
    u = sizes.u
    check(u > 3)
    assert bool(u > 2)
    assert not bool(u == 3)
    with pytest.raises(GuardOnDataDependentSymNode):
        bool(u > 4)
    assert asserted(sizes.env) == ["3 < u0"]
    assert list(map(str, sizes.env.deferred_runtime_asserts)) == ["u0"]


def test_F136_a_check_that_contradicts_raises(sizes: Any) -> None:
    check(sizes.u > 5)
    with pytest.raises(RuntimeError):
        check(sizes.u < 3)


def test_F137_bounds_that_meet_are_a_value(sizes: Any) -> None:
    check(sizes.u >= 3)
    check(sizes.u <= 3)
    assert str(sizes.u) == "3"


def test_F137_an_equality_with_backed_symbols_replaces(sizes: Any) -> None:
    check(sizes.u == 2 * sizes.s + 1)
    assert str(sizes.u) == "2*s0 + 1"


def test_F137_two_unbacked_symbols_are_known_equal_but_both_stay(sizes: Any) -> None:
    check(sizes.u == sizes.v)
    assert (str(sizes.u), str(sizes.v)) == ("u0", "u1")
    assert bool(sizes.u == sizes.v)


def test_F137_conjunctions_are_split(sizes: Any) -> None:
    check((sizes.u > 3) & (sizes.u < 9))
    interval = sizes.env.bound_sympy(sizes.u.node.expr)
    assert (interval.lower, interval.upper) == (4, 8)


def test_F137_a_remainder_tells_of_no_other(sizes: Any) -> None:
    check(sizes.u % 4 == 0)
    assert bool(sizes.u % 4 == 0)
    with pytest.raises(GuardOnDataDependentSymNode):
        bool(sizes.u % 2 == 0)


def test_F138_checks_on_backed_sizes_may_be_deferred() -> None:
    env = ShapeEnv(prefer_deferred_runtime_asserts_over_guards=True)
    s = mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(8)).shape[0]
    check(s > 3)
    assert env.guards == []
    assert [str(a.expr) for a in env.deferred[None]] == ["3 < s0"]
    assert bool(s > 5)
    assert [g.text for g in env.guards] == ["s0 > 5"]


def test_F138_python_asserts_may_be_deferred() -> None:
    env = ShapeEnv(trace_asserts=True)
    u = env.create_unbacked_symint()
    assert u > 3
    assert asserted(env) == ["3 < u0"]


def test_F138_assertions_may_be_frozen(sizes: Any) -> None:
    sizes.env.freeze_runtime_asserts()
    assert sizes.env.runtime_asserts_frozen


def test_F139_a_size_is_not_negative_and_size_like(sizes: Any) -> None:
    check_is_size(sizes.u, max=9)
    interval = sizes.env.bound_sympy(sizes.u.node.expr)
    assert (interval.lower, interval.upper) == (0, 9)
    assert not guard_size_oblivious(sizes.u == 0)
    with pytest.raises(RuntimeError):
        check_is_size(-1)


def test_F139_a_range_narrows_without_an_assertion(sizes: Any) -> None:
    constrain_range(sizes.u, min=4, max=7)
    assert bool(sizes.u > 3)
    assert asserted(sizes.env) == []


@pytest.mark.parametrize("value, lower, upper", [(3, 4, 7), (5, 7, 4)])
def test_F139_a_wrong_range_is_refused(value: int, lower: int, upper: int) -> None:
    with pytest.raises(ValueError, match=r"range|max"):
        constrain_range(value, min=lower, max=upper)


def test_F139_numbers_may_be_unified(sizes: Any) -> None:
    constrain_unify(sizes.u, sizes.s)
    assert str(sizes.u) == "s0"
    constrain_unify(3, 3)


def test_F105_fresh_symbols_are_found_in_results() -> None:
    env = ShapeEnv()
    x = mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(4), static_shapes=True)
    found = compute_unbacked_bindings(env, x.nonzero())
    assert found is not None
    ((symbol, path),) = found.items()
    assert (str(symbol), "".join(map(str, path))) == ("u0", ".size()[0]")


def test_F105_a_symbol_that_no_result_shows_is_an_error() -> None:
    env = ShapeEnv()
    shown = env.create_unbacked_symint()
    env.create_unbacked_symint()
    with pytest.raises(PendingUnbackedSymbolNotFound, match="u1"):
        compute_unbacked_bindings(env, shown)
    with env.ignore_fresh_unbacked_symbols():
        env.create_unbacked_symint()
    assert compute_unbacked_bindings(env, 3) is None


def test_a_hint_that_falls_back_stays_within_what_is_known() -> None:
    env = ShapeEnv()
    u = env.create_unbacked_symint()
    check(u >= 3)
    check(u <= 9)
    given = (None, 5, 100, 1)
    assert [env.optimization_hint(u.node.expr, n) for n in given] == [9, 5, 9, 3]
    assert env.optimization_hint((u * 2 + 1).node.expr, 4) == 9
