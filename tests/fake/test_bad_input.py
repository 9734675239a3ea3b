"""Errors say which tensor or symbol, where it was made, and the way out (issue's list, FX13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.fake import DataDependentOutputException, UnsupportedFakeTensorException, config
from maquette.symbolic import (
    ConstraintViolationError,
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    ValueRange,
)

HERE = "test_bad_input.py:"


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


@pytest.fixture
def debugging() -> Iterator[None]:
    config.debug = True
    yield
    config.debug = False


@pytest.mark.parametrize("ask", [lambda n: bool(n > 2), int, range, lambda n: [0] * n])
def test_F134_branching_on_an_unbacked_symbol(ask: Callable[[Any], object]) -> None:
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    n = mode.from_tensor(mq.ones(4), static_shapes=True).nonzero().shape[0]
    with pytest.raises(GuardOnDataDependentSymNode) as caught:
        ask(n)
    told = str(caught.value)
    assert "u0 was made at" in told
    assert told.count(HERE) == 2  # where it was asked, where it was made
    assert "guard_or_false" in told or "the value itself" in told


@pytest.mark.parametrize(
    "read",
    [lambda x: x.numpy(), lambda x: x.data_ptr(), np.from_dlpack, lambda x: np.asarray(x)],
)
def test_F9_reading_a_fake_says_which_and_where_it_was_made(
    m: mq.FakeTensorMode, debugging: None, read: Callable[[Any], object]
) -> None:
    x = m.from_tensor(mq.ones(2, 3)) + 1
    with pytest.raises((RuntimeError, BufferError)) as caught:
        read(x)
    told = str(caught.value)
    assert "size=(2, 3)" in told
    assert told.count(HERE) == 2  # the mode, the tensor
    assert "real tensors" in told


def test_F9_without_debugging_the_way_to_know_is_told(m: mq.FakeTensorMode) -> None:
    with pytest.raises(RuntimeError, match="MAQUETTE_FAKE_DEBUG=1"):
        m.from_tensor(mq.ones(2)).numpy()


def test_F10_reading_a_number_says_where_and_the_way_out(m: mq.FakeTensorMode) -> None:
    with pytest.raises(DataDependentOutputException) as caught:
        m.from_tensor(mq.ones(2, 3)).sum().item()
    [note] = caught.value.__notes__
    assert HERE in note
    assert "shape_env=ShapeEnv()" in note


def test_F32_mixing_modes_names_both_and_where_they_were_made(m: mq.FakeTensorMode) -> None:
    other = mq.FakeTensorMode()
    with pytest.raises(AssertionError) as caught:
        m.from_tensor(mq.ones(2, 3)) + other.from_tensor(mq.ones(2, 3))
    told = str(caught.value)
    assert told.count(HERE) == 3  # two modes, and the one that converts
    assert "float32[2, 3]" in told
    assert "from_tensor(t) converts" in told


def test_F45_an_unsupported_layout_is_named(m: mq.FakeTensorMode) -> None:
    sparse = mq.eye(3).to_sparse()
    sparse.requires_grad_()
    with pytest.raises(UnsupportedFakeTensorException, match=r"view of a sparse_coo.*float32\[3\]"):
        m.from_tensor(sparse.detach().requires_grad_().values())


def _promised(least: int, most: int) -> StatelessSymbolicContext:
    return StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC],
        constraint_sizes=[StrictMinMaxConstraint(vr=ValueRange(least, most), warn_only=False)],
    )


def test_F112_an_example_outside_what_was_promised() -> None:
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    with pytest.raises(ConstraintViolationError, match=r"4 not in range \[5, 9\].*L\['x'\].*wider"):
        mode.from_tensor(mq.ones(4), symbolic_context=_promised(5, 9), source="x")


@pytest.mark.parametrize(
    ("program", "told"),
    [(lambda s: bool(s > 3), "4 <= L"), (lambda s: s % 2 == 0 or 0, "% 2"), (int, "specialized")],
)
def test_F128_a_program_that_does_not_keep_what_was_promised(
    program: Callable[[Any], object], told: str
) -> None:
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(mq.ones(4), symbolic_context=_promised(2, 10), source="x")
    program(x.shape[0])
    with pytest.raises(ConstraintViolationError) as caught:
        mode.shape_env.produce_guards([x], ["x"], input_contexts=[_promised(2, 10)])  # type: ignore[union-attr]
    assert "L['x'].size()[0]" in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
@pytest.mark.parametrize("name", ["add", "mul", "div", "eq", "remainder"])
def test_integers_beyond_64_bits_are_refused_as_with_data(name: str, number: int) -> None:
    x = mq.ones(2, dtype=mq.int64)
    with pytest.raises(OverflowError) as expected:
        getattr(mq, name)(x, number)
    with mq.FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        getattr(mq, name)(fake, 3)  # what is remembered of small numbers does not answer
        with pytest.raises(OverflowError) as found:
            getattr(mq, name)(fake, number)
    assert str(found.value) == str(expected.value)


def test_floats_take_integers_beyond_64_bits_as_with_data() -> None:
    x = mq.ones(2)
    assert float((x * 2**64)[0]) == 2.0**64
    with mq.FakeTensorMode() as mode:
        assert (mode.from_tensor(x) * 2**64).dtype is mq.float32
