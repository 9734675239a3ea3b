"""SchemaCheckMode: operators do what their schemas declare (F102)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maquette as mq
from maquette.fake.real.schema_check import Aliasing, Mutation, SchemaCheckMode


@pytest.fixture
def op() -> Iterator[Callable[[str, Callable[..., Any]], Any]]:
    lib = mq.library.Library("declared", "DEF")

    def make(signature: str, kernel: Callable[..., Any]) -> Any:
        lib.define("op" + signature)
        lib.impl("op", kernel, "CPU")
        return mq.ops.declared.op

    yield make
    lib._destroy()


def twins(x: Any) -> Any:
    y = x + 1
    return y, y.view(-1)


@pytest.mark.parametrize(
    "signature, kernel, message",
    [
        ("(Tensor x) -> Tensor", lambda x: x.view(-1), "Argument x .* aliasing"),
        ("(Tensor x) -> Tensor", lambda x: x.add_(1) * 1, "Argument x .* mutated"),
        ("(Tensor x) -> Tensor", lambda x: x, "Argument x .* aliasing"),
        ("(Tensor(a) x) -> Tensor(a)", lambda x: x, "argument x itself"),
        ("(Tensor x) -> (Tensor, Tensor)", twins, "Outputs 0 and 1 alias"),
        ("(Tensor self) -> Tensor", lambda x: x.view(-1), "Argument input .* aliasing"),
    ],
)
def test_F102_what_is_not_declared_is_an_error(
    op: Any, signature: str, kernel: Callable[..., Any], message: str
) -> None:
    run = op(signature, kernel)
    with SchemaCheckMode(), pytest.raises(RuntimeError, match=message):
        run(mq.ones(2, 3))


def test_F102_what_is_declared_is_recorded() -> None:
    x = mq.tensor([[1.0, float("nan")]])
    with SchemaCheckMode() as mode:
        x.view(-1)
        x.add_(1)
        x * 2
    assert mode.ops == ["aten::view", "aten::add_", "aten::mul"]
    assert mode.mutated == [Mutation("aten::add_", "input")]
    assert mode.aliasing == [
        Aliasing("aten::view", "input", "output_0"),
        Aliasing("aten::add_", "input", "output_0"),
    ]


def test_F102_a_changed_shape_is_a_mutation() -> None:
    x = mq.ones(2, 3)
    with SchemaCheckMode() as mode:
        x.t_()
    assert mode.mutated == [Mutation("aten::t_", "input")]


def test_F102_operators_that_hide_their_alias_are_exempt() -> None:
    x = mq.ones(2, 3)
    with SchemaCheckMode() as mode:
        mq.ops.aten._unsafe_view(x, [6])
        x.unsafe_split(1)
    assert mode.aliasing == []


def test_F102_running_statistics_may_be_written() -> None:
    with SchemaCheckMode() as mode:
        mq.nn.BatchNorm1d(3)(mq.rand(2, 3))
    assert Mutation("aten::native_batch_norm", "running_mean") in mode.mutated


def test_F102_names_are_shown_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    with SchemaCheckMode() as mode:
        mq.ones(2).neg()
    mode.display_ops()
    assert capsys.readouterr().out == "aten::ones,aten::neg\n"
    mode.reset_cache()
    assert (mode.ops, mode.mutated, mode.aliasing) == ([], [], [])
