"""Guards as Python over a program's inputs, and constraints (spec F125-F128)."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette.symbolic import (
    ConstraintViolationError,
    DimDynamic,
    EqualityConstraint,
    RelaxedUnspecConstraint,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    TensorProperty,
    TensorPropertySource,
    ValueRange,
)
from maquette.symbolic.program.sources import LocalSource


@pytest.fixture
def ms() -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=ShapeEnv())


def env_of(mode: mq.FakeTensorMode) -> ShapeEnv:
    assert mode.shape_env is not None
    return mode.shape_env


def between(lower: int, upper: int) -> StatelessSymbolicContext:
    constraint = StrictMinMaxConstraint(False, ValueRange(lower, upper))
    return StatelessSymbolicContext([DimDynamic.DYNAMIC], constraint_sizes=[constraint])


def test_F125_equal_sizes_and_ranges_are_guarded(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 4), source="t0")
    assert env_of(ms).produce_guards([x], ["t0"]) == [
        "L['t0'].size()[1] == L['t0'].size()[0]",
        "L['t0'].stride()[0] == L['t0'].size()[0]",
        "2 <= L['t0'].size()[0]",
    ]


def test_F125_simplified_guards_leave_out_sources_and_usual_bounds(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5), source="x")
    env = env_of(ms)
    assert bool(x.shape[0] < x.shape[1])
    assert env.produce_guards([x], ["x"], _simplified=True) == [
        "L['x'].size()[0] < L['x'].size()[1]",
        "3 <= L['x'].size()[1]",
    ]


@pytest.mark.parametrize(
    "ask, expected",
    [
        (lambda s, t: s % 4 == 0, "(L['x'].size()[0] % 4) == 0"),
        (lambda s, t: s // 3 == 2, "(L['x'].size()[0] // 3) == 2"),
        (lambda s, t: s * t == 40, "(L['x'].size()[0]*L['x'].size()[1]) == 40"),
        (lambda s, t: s * s > t, "L['x'].size()[0]*L['x'].size()[0] > L['x'].size()[1]"),
    ],
)
def test_F125_guards_read_as_python(ms: mq.FakeTensorMode, ask: Any, expected: str) -> None:
    x = ms.from_tensor(mq.ones(8, 5), source="x")
    assert bool(ask(*x.shape))
    found = env_of(ms).produce_guards([x], ["x"])
    assert expected in found
    assert eval(expected, {"L": {"x": mq.ones(8, 5)}}) is True


def test_F125_verbose_guards_give_reasons(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 4), source="x")
    bool(x.shape[0] % 2 == 0)
    plain, verbose = env_of(ms).produce_guards_verbose([x], ["x"])
    assert len(plain.exprs) == len(verbose.exprs)
    assert "duck" in verbose.exprs[0]
    assert any("test_producing.py" in line for line in verbose.exprs)


def test_F125_unknown_languages_and_lengths_are_refused(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 4), source="x")
    with pytest.raises(NotImplementedError, match="fortran"):
        env_of(ms).produce_guards([x], ["x"], langs=("fortran",))
    with pytest.raises(AssertionError, match="sources"):
        env_of(ms).produce_guards([x], [])


def test_F125_a_float_is_no_nan(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.tensor(7.5, dtype=mq.float64), source="x")
    assert "not math.isnan(L['y'])" in env_of(ms).produce_guards([x.item()], ["y"])


def test_F126_specializations_are_not_guarded_by_default(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4), source="t0")
    env = env_of(ms)
    assert int(x.shape[0]) == 4
    assert env.evaluate_guards_for_args([x], [mq.ones(3)]) is True
    assert env.evaluate_guards_for_args([x], [mq.ones(3)], ignore_static=False) is False


def test_F127_guards_are_evaluated_for_other_inputs(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 4), source="t0")
    env = env_of(ms)
    assert env.evaluate_guards_for_args([x], [mq.ones(7, 8)]) is False
    assert env.evaluate_guards_for_args([x], [mq.ones(8, 8)]) is True
    code = env.produce_guards_expression([x])
    assert code is not None
    assert env.evaluate_guards_expression(code, [mq.ones(8, 8)]) is True
    assert env.produce_guards_expression([]) is None


def test_F127_symbols_are_bound_to_sizes(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 4), source="x")
    env = env_of(ms)
    ((symbol, value),) = env.bind_symbols([x], [mq.ones(7, 7)]).items()
    assert (str(symbol), value) == ("s0", 7)
    with pytest.raises(AssertionError, match="7 in one place and 8"):
        env.bind_symbols([x], [mq.ones(7, 8)])


def test_F127_texts_become_numbers(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5), source="x")
    env = env_of(ms)
    assert env.evaluate_symexpr("s0*s1 + 1") == 21
    assert str(env.deserialize_symexpr("s0*s1 + 1")) == "s0*s1 + 1"
    assert str(x.shape[0]) == "s0"


@pytest.mark.parametrize("ask", [lambda s: s > 3, lambda s: s % 2 == 0, lambda s: bool(int(s))])
def test_F128_a_guard_within_the_range_is_a_violation(ms: mq.FakeTensorMode, ask: Any) -> None:
    context = between(2, 10)
    x = ms.from_tensor(mq.ones(4), source="x", symbolic_context=context)
    assert bool(ask(x.shape[0]))
    with pytest.raises(ConstraintViolationError, match=r"L\['x'\].size\(\)\[0\]"):
        env_of(ms).produce_guards([x], ["x"], input_contexts=[context])


def test_F128_a_relaxed_constraint_allows_guards(ms: mq.FakeTensorMode) -> None:
    context = StatelessSymbolicContext(
        [DimDynamic.DYNAMIC], constraint_sizes=[RelaxedUnspecConstraint()]
    )
    x = ms.from_tensor(mq.ones(4), source="x", symbolic_context=context)
    assert bool(x.shape[0] % 2 == 0)
    env_of(ms).produce_guards([x], ["x"], input_contexts=[context])


def test_F128_warnings_are_no_errors(ms: mq.FakeTensorMode) -> None:
    constraint = StrictMinMaxConstraint(True, ValueRange(2, 10))
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC], constraint_sizes=[constraint])
    x = ms.from_tensor(mq.ones(4), source="x", symbolic_context=context)
    assert bool(x.shape[0] > 3)
    env_of(ms).produce_guards([x], ["x"], input_contexts=[context])


def test_F128_an_undeclared_equality_is_a_violation(ms: mq.FakeTensorMode) -> None:
    constraint = StrictMinMaxConstraint(False, ValueRange(2, 10))
    context = StatelessSymbolicContext(
        [DimDynamic.DYNAMIC] * 2, constraint_sizes=[constraint, constraint]
    )
    x = ms.from_tensor(mq.ones(4, 4), source="x", symbolic_context=context)
    env = env_of(ms)
    assert bool(x.shape[0] == x.shape[1])
    first, second = (TensorPropertySource(LocalSource("x"), TensorProperty.SIZE, d) for d in (0, 1))
    with pytest.raises(ConstraintViolationError, match="must always be equal"):
        env.produce_guards(
            [x], ["x"], input_contexts=[context], equalities_inputs=EqualityConstraint()
        )
    declared = EqualityConstraint(source_pairs=[(first, second)])
    env.produce_guards([x], ["x"], input_contexts=[context], equalities_inputs=declared)
