"""Fake tensors with symbolic sizes: conversion, operators, the cache (spec F48, F81, F107-F114)."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest

import maquette as mq
from maquette.symbolic import (
    ConstraintViolationError,
    DimDynamic,
    RelaxedUnspecConstraint,
    ShapeEnv,
    StatefulSymbolicContext,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    ValueRange,
)

DYNAMIC, DUCK, STATIC = DimDynamic.DYNAMIC, DimDynamic.DUCK, DimDynamic.STATIC


@pytest.fixture
def ms() -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=ShapeEnv())


def shape(t: Any) -> str:
    return str(tuple(t.shape))


def test_F107_settings_are_frozen_and_unknown_ones_refused() -> None:
    env = ShapeEnv(specialize_zero_one=False)
    assert env.settings.specialize_zero_one is False
    with pytest.raises(AttributeError):
        env.settings.duck_shape = False  # type: ignore[misc]
    with pytest.raises(TypeError, match="no_such"):
        ShapeEnv(no_such=True)  # type: ignore[call-arg]


def test_F107_static_work_leaves_sympy_unimported() -> None:
    program = (
        "import sys, maquette as mq; m = mq.FakeTensorMode(); "
        "x = m.from_tensor(mq.ones(2, 3)); (x @ x.t()).sum(); assert 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_F108_equal_hints_share_a_symbol_and_0_and_1_are_constants(ms: mq.FakeTensorMode) -> None:
    assert shape(ms.from_tensor(mq.empty(4, 5, 1, 4, 0))) == "(s0, s1, 1, s0, 0)"


def test_F108_without_duck_shapes_each_size_is_its_own() -> None:
    ms = mq.FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))
    assert shape(ms.from_tensor(mq.ones(4, 4))) == "(s0, s1)"


def test_F108_without_specialization_sizes_begin_at_0() -> None:
    env = ShapeEnv(specialize_zero_one=False)
    x = mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(4, 1))
    assert shape(x) == "(s0, s1)"
    assert env.bound_sympy(x.shape[0].node.expr).lower == 0


def test_F108_static_by_default() -> None:
    ms = mq.FakeTensorMode(shape_env=ShapeEnv(assume_static_by_default=True))
    assert shape(ms.from_tensor(mq.ones(4, 6))) == "(4, 6)"


def test_F109_dense_strides_are_expressions_of_sizes(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(6, 7).t())
    assert str(x.stride()) == "(1, s0)"
    assert shape(x) == "(s0, s1)"


def test_F109_odd_strides_get_symbols(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(10, 10)[::2, ::3])
    symbols = {str(s) for s in x.stride()}
    assert len(symbols) == 2
    assert not symbols & {str(s) for s in x.shape}


def test_F110_policies(ms: mq.FakeTensorMode) -> None:
    context = StatelessSymbolicContext([DYNAMIC, STATIC, DimDynamic.UNBACKED, DYNAMIC])
    x = ms.from_tensor(mq.ones(4, 4, 4, 1), symbolic_context=context)
    assert shape(x) == "(s0, 4, u0, 1)"
    assert x.shape[2].node.hint is None


def test_F111_contexts_are_filled_and_checked() -> None:
    context = StatelessSymbolicContext([DYNAMIC, DYNAMIC])
    assert context.dynamic_strides == [DimDynamic.INFER_STRIDE] * 2
    assert context.constraint_sizes == [None, None]
    with pytest.raises(AssertionError, match="entries"):
        StatelessSymbolicContext([DYNAMIC], constraint_sizes=[None, None])
    with pytest.raises(AssertionError, match="stride"):
        StatelessSymbolicContext([DYNAMIC], dynamic_strides=[STATIC])


def test_F111_bounds_and_shape_ids_are_asserted() -> None:
    env = ShapeEnv()
    context = StatelessSymbolicContext(
        [DimDynamic.UNBACKED] * 2, shape_ids={0: "n", 1: "n"}, unbacked_bounds={0: (2, 9)}
    )
    mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(4, 4), symbolic_context=context)
    asserted = [repr(a) for listed in env.deferred.values() for a in listed]
    assert len(asserted) == 3
    assert any("Eq(u1, u0)" in a for a in asserted)


def test_F111_a_stateful_context_gives_the_same_symbols_again() -> None:
    env = ShapeEnv()
    context = StatefulSymbolicContext([DYNAMIC], tensor_source="x")
    first, second = (
        mq.FakeTensorMode(shape_env=env).from_tensor(
            mq.ones(4), source="x", symbolic_context=context
        )
        for _ in range(2)
    )
    assert str(first.shape[0]) == str(second.shape[0])


def test_F112_a_range_narrows_and_must_hold() -> None:
    env = ShapeEnv()
    made = env.create_symbol(5, "a", DUCK, StrictMinMaxConstraint(False, ValueRange(5, 9)))
    assert env.bound_sympy(made) == ValueRange(5, 9)
    with pytest.raises(ConstraintViolationError, match=r"4 .*\[5, 9\]"):
        env.create_symbol(4, "b", DUCK, StrictMinMaxConstraint(False, ValueRange(5, 9)))
    with pytest.raises(ConstraintViolationError, match="5 does not match input size of 4"):
        env.create_symbol(4, "c", DUCK, StrictMinMaxConstraint(False, ValueRange(5, 5)))


def test_F113_symbols_of_inputs() -> None:
    env = ShapeEnv()
    with pytest.raises(AssertionError, match="-3"):
        env.create_symbol(-3, "a")
    assert env.bound_sympy(env.create_unspecified_symbol(-3, "b")).lower == float("-inf")
    assert str(env.create_unspecified_symbol(1, "c")) == "s1"
    assert str(env.create_unspecified_symbol(2.5, "d")) == "zf0"


def test_F113_a_constant_expression_is_an_int() -> None:
    import sympy

    env = ShapeEnv()
    assert env.create_symintnode(sympy.Integer(3), hint=3) == 3
    with pytest.raises(AssertionError, match="hint 4"):
        env.create_symintnode(sympy.Integer(3), hint=4)


def test_F114_a_base_has_symbols_of_its_own(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.arange(40)[7:37])
    base = x._base
    assert base is not None
    assert len({str(x.shape[0]), str(x.storage_offset()), str(base.shape[0])}) == 3


def test_F48_an_input_of_one_number_has_a_symbol_for_its_value(ms: mq.FakeTensorMode) -> None:
    item = ms.from_tensor(mq.tensor(7), source="a").item()
    assert item.node.hint == 7
    assert ms.shape_env is not None
    assert ms.shape_env.guards == []
    assert str(ms.from_tensor(mq.tensor(7), source=None).item()) == "u0"


def test_F36_a_fake_of_the_same_environment_keeps_its_symbols(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5))
    again = mq.FakeTensorMode(shape_env=ms.shape_env).from_tensor(x)
    assert again is not x
    assert shape(again) == shape(x)


def test_F81_a_symbolic_call_is_remembered_by_its_environment(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5))
    before = mq.FakeTensorMode.cache_info().size
    first, second = x + x, x + x
    assert first.meta is second.meta
    assert mq.FakeTensorMode.cache_info().size == before
    assert ms.shape_env is not None
    assert len(ms.shape_env.fake_tensor_cache) == 1


def test_F83_a_symbolic_float_passes_the_cache_by(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(3))
    value = x[0].item()
    mq.FakeTensorMode.cache_clear()
    x * value
    assert mq.FakeTensorMode.cache_info().bypasses == {"symbolic shape": 1}


def test_F81_symbolic_calls_are_counted_as_others(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(4, 5))
    mq.FakeTensorMode.cache_clear()
    x + x, x + x
    info = mq.FakeTensorMode.cache_info()
    assert (info.hits, info.misses) == (1, 1)


def test_F90_an_environment_ends_with_its_last_user() -> None:
    env = ShapeEnv()
    x = mq.FakeTensorMode(shape_env=env).from_tensor(mq.ones(4, 5))
    (x @ x.t()).reshape(-1)
    gone = weakref.ref(env)
    del env, x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "program, expected",
    [
        (lambda x: x + x, "(s0, s1)"),
        (lambda x: x @ x.t(), "(s0, s0)"),
        (lambda x: x.reshape(x.shape[0] * x.shape[1]), "(s0*s1,)"),
        (lambda x: x.view(-1), "(s0*s1,)"),
        (lambda x: x.sum(0), "(s1,)"),
        (lambda x: mq.cat([x, x]), "(2*s0, s1)"),
        (lambda x: x[1:], "(s0 - 1, s1)"),
        (lambda x: x[:, None].expand(-1, 3, -1), "(s0, 3, s1)"),
        (lambda x: x.new_zeros(x.shape[0] + 1), "(s0 + 1,)"),
        (lambda x: mq.arange(x.shape[0], device="meta"), "(s0,)"),
    ],
)
def test_F17_F120_programs_run_on_symbols_without_a_guard(
    ms: mq.FakeTensorMode, program: Any, expected: str
) -> None:
    x = ms.from_tensor(mq.ones(8, 5))
    with ms:
        assert shape(program(x)) == expected
    assert ms.shape_env is not None
    assert ms.shape_env.guards == []


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x * n, lambda x, n: n - x, lambda x, n: x / n, lambda x, n: x.add_(n),
        lambda x, n: x > n, lambda x, n: mq.full_like(x, n), lambda x, n: x.clamp(min=n),
    ],
)  # fmt: skip
def test_F115_numbers_beside_tensors_leave_no_guard(ms: mq.FakeTensorMode, program: Any) -> None:
    x = ms.from_tensor(mq.ones(8, 5))
    value = ms.from_tensor(mq.ones(3))[0].item()
    for number in (x.shape[0], value):
        assert shape(program(x, number)) == "(s0, s1)"
    assert ms.shape_env is not None
    assert ms.shape_env.guards == []


def test_F117_the_pieces_of_a_split_are_counted_by_a_guard(ms: mq.FakeTensorMode) -> None:
    pieces = ms.from_tensor(mq.ones(9)).chunk(2)
    assert [str(p.shape[0]) for p in pieces] == ["((s0 + 1)//2)", "s0 - ((s0 + 1)//2)"]


def test_F17_bytes_are_symbolic_when_sizes_are(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(8, 5))
    assert str(x.untyped_storage().nbytes()) == "4*s0*s1"
    assert str(x.numel()) == "s0*s1"


def test_F112_relaxed_constraints_allow_0_and_1(ms: mq.FakeTensorMode) -> None:
    context = StatelessSymbolicContext(
        [DYNAMIC, DYNAMIC], constraint_sizes=[RelaxedUnspecConstraint(), None]
    )
    x = ms.from_tensor(mq.ones(4, 5), source="x", symbolic_context=context)
    env = ms.shape_env
    assert env is not None
    assert bool(x.shape[0] % 2 == 0)
    env.produce_guards([x], ["x"], input_contexts=[context])
    int(x.shape[0])
    with pytest.raises(ConstraintViolationError, match="specialized it to be a constant"):
        env.produce_guards([x], ["x"], input_contexts=[context])


def test_F117_sizes_asked_for_as_operators_are_plain(ms: mq.FakeTensorMode) -> None:
    x = ms.from_tensor(mq.ones(3, 4))
    assert (mq.ops.aten.size(x), mq.ops.aten.stride(x)) == ([3, 4], [4, 1])
    assert [g.text for g in ms.shape_env.guards] == ["Eq(s0, 3)", "Eq(s1, 4)"]  # type: ignore[union-attr]


def test_F4_a_mode_without_meta_tensors_makes_none() -> None:
    with mq.FakeTensorMode(allow_meta=False):
        with pytest.raises(AssertionError, match="meta tensors are not allowed"):
            mq.rand(4, device="meta")
        assert mq.rand(4).shape == (4,)
