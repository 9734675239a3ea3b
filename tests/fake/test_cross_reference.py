"""`CrossRefFakeMode`: each operator of a real program repeated on fakes (F101)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.fake import CrossRefFakeMode, MetadataMismatchError
from maquette.fake.real.cross_reference import (
    output_alias_each_other,
    outputs_alias_inputs,
    outputs_are_inputs,
)


@pytest.fixture
def users() -> Iterator[Any]:
    lib = mq.library.Library("crossed", "DEF")
    yield lib
    lib._destroy()


def _defined(lib: Any, real: Any, fake: Any) -> Any:
    lib.define("op(Tensor x) -> Tensor")
    lib.impl("op", real, "CPU")
    mq.library.register_fake("crossed::op", fake, lib=lib)
    return mq.ops.crossed.op


def test_F101_a_program_runs_as_without_it() -> None:
    with CrossRefFakeMode():
        x = mq.ones(3, 4, requires_grad=True)
        (x @ x.t()).relu().sum().backward()
        assert x.grad is not None
        assert mq.tensor([1, 0, 2]).nonzero().shape == (2, 1)


def test_F101_other_strides_are_told_unless_they_are_not_looked_at(users: Any) -> None:
    op = _defined(users, lambda x: x.clone().t(), lambda x: x.new_empty(4, 3))
    with (
        CrossRefFakeMode(),
        pytest.raises(MetadataMismatchError, match=r"crossed.op.default.*stride.*1, 4.*3, 1"),
    ):
        op(mq.ones(3, 4))
    with CrossRefFakeMode(check_strides=False):
        assert op(mq.ones(3, 4)).stride() == (1, 4)


@pytest.mark.parametrize(
    ("fake", "told"),
    [
        (lambda x: x.new_empty(2), "size"),
        (lambda x: x.new_empty(3, dtype=mq.int8), "dtype"),
        (lambda x: x.new_empty(6)[3:], "storage offset"),
        (lambda x: x.view(3), "outputs_alias_inputs"),
        (lambda x: x, "outputs_alias_inputs"),
    ],
)
def test_F101_what_differs_is_told(users: Any, fake: Any, told: str) -> None:
    op = _defined(users, lambda x: x.clone(), fake)
    with CrossRefFakeMode(), pytest.raises(MetadataMismatchError, match=told):
        op(mq.ones(3))


def test_F101_aliasing_may_be_left_out(users: Any) -> None:
    op = _defined(users, lambda x: x.clone(), lambda x: x.view(3))
    with CrossRefFakeMode(check_aliasing=False):
        assert op(mq.ones(3)).shape == (3,)


def test_F101_the_output_is_named_by_its_number(users: Any) -> None:
    users.define("two(Tensor x) -> (Tensor, Tensor)")
    users.impl("two", lambda x: (x.clone(), x.clone()), "CPU")
    mq.library.register_fake("crossed::two", lambda x: (x.clone(), x.new_empty(1)), lib=users)
    with CrossRefFakeMode(), pytest.raises(MetadataMismatchError, match=r"output\[1\]"):
        mq.ops.crossed.two(mq.ones(3))


def test_F101_another_number_of_results_is_an_assertion(users: Any) -> None:
    users.define("many(Tensor x) -> Tensor[]")
    users.impl("many", lambda x: [x.clone()], "CPU")
    mq.library.register_fake("crossed::many", lambda x: [x.clone(), x.clone()], lib=users)
    with CrossRefFakeMode(), pytest.raises(AssertionError, match="number of returns 2 != 1"):
        mq.ops.crossed.many(mq.ones(3))


def test_F101_operators_may_be_left_out(users: Any) -> None:
    op = _defined(users, lambda x: x.clone(), lambda x: x.new_empty(2))
    with CrossRefFakeMode(lambda op: op.namespace == "crossed"):
        assert op(mq.ones(3)).shape == (3,)


@pytest.mark.parametrize("only", [True, False])
def test_F101_operators_without_a_rule_are_refused_as_fakes_refuse_them(
    users: Any, only: bool
) -> None:
    users.define("bare(Tensor x) -> Tensor")
    users.impl("bare", lambda x: x.clone(), "CPU")
    with (
        CrossRefFakeMode(only_check_ops_with_meta=only),
        pytest.raises(mq.fake.UnsupportedOperatorException, match=r"crossed\.bare"),
    ):
        mq.ops.crossed.bare(mq.ones(3))


def test_F101_what_results_share_with_arguments_and_each_other_can_be_asked() -> None:
    x = mq.ones(4)
    row, other = x[:2], mq.ones(2)
    assert outputs_alias_inputs([row], {"x": x})
    assert not outputs_alias_inputs([other, 3], (x,))
    assert outputs_are_inputs((other, x), [x])
    assert not outputs_are_inputs(row, x)
    assert output_alias_each_other([row, x])
    assert not output_alias_each_other([row, other])
