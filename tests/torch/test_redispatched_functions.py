"""A handler of ``__torch_function__`` goes on to the function: what is asked on the way."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass
from maquette.torch import overrides


class Counted(mq.Tensor):
    """Notes the calls that it is asked about, and goes on."""

    seen: list[str]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(func.__name__)
        return overrides.redispatch_function(func, types, args, kwargs)


class Quiet(mq.Tensor):
    """A subclass without a handler of its own."""


def scaled(a: Any, b: Any) -> Any:
    if overrides.has_torch_function((a, b)):
        return overrides.handle_torch_function(scaled, (a, b), a, b)
    return a * b + 1


def test_a_class_is_asked_about_the_function_and_the_calls_inside() -> None:
    Counted.seen = []
    result = scaled(mq.ones(1).as_subclass(Counted), mq.ones(1))
    assert type(result) is mq.Tensor
    assert Counted.seen == ["scaled", "mul"]  # the product is a plain tensor, its sum is not seen


def test_an_operator_is_asked_about_once() -> None:
    Counted.seen = []
    x = mq.ones(2).as_subclass(Counted)
    mq.ops.aten.add.Tensor(x, 1.0)
    x.normal_()
    assert Counted.seen == ["add.Tensor", "normal_"]


class Passing(overrides.TorchFunctionMode):
    """Notes calls, and is asked about those inside of them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        with self:
            return overrides.redispatch_function(func, types, args, kwargs)


def test_a_mode_that_is_entered_again_sees_what_the_function_calls() -> None:
    a = mq.ones(1)
    with Passing() as mode:
        assert overrides.has_torch_function(())
        scaled(a, a)
    assert mode.seen == ["scaled", "mul", "add"]


def test_a_class_is_not_there_to_be_asked_where_handlers_are_off() -> None:
    x = mq.ones(1).as_subclass(Counted)
    with DisableTorchFunctionSubclass():
        assert not overrides.has_torch_function((x,))
        assert not overrides.has_torch_function_unary(x)


class Adds:
    """Overrides calls, and knows how it is added."""

    @classmethod
    def __torch_function__(cls, *args: object) -> str:
        return "handled"

    def __radd__(self, other: object) -> str:
        return "added"


@pytest.mark.parametrize("off, answer", [(False, "handled"), (True, "added")])
def test_an_object_adds_itself_where_handlers_are_off(off: bool, answer: str) -> None:
    if not off:
        assert mq.ones(1) + Adds() == answer  # type: ignore[operator]  # it handles the call
        return
    with DisableTorchFunctionSubclass():
        assert mq.ones(1) + Adds() == answer  # type: ignore[operator]


def test_a_subclass_is_made_before_its_handler_is_asked() -> None:
    Counted.seen = []
    made = mq.Tensor._make_subclass(Counted, mq.ones(2), True)  # type: ignore[attr-defined]
    assert Counted.seen == []
    assert made.requires_grad


def test_a_parameter_of_another_class_says_both() -> None:
    made = mq.nn.Parameter(mq.ones(1).as_subclass(Quiet))
    assert repr(made) == "Parameter(Quiet([1.], requires_grad=True))"


class Opened(mq.Tensor):
    """A handler in which autograd acts again, as where the operator was called."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with overrides.enable_reentrant_dispatch():
            assert mq.ones(1, requires_grad=True).exp().grad_fn is not None
        return mq.zeros(2)


def test_autograd_acts_again_in_a_handler_that_asks_for_it() -> None:
    made = mq.Tensor._make_subclass(Opened, mq.ones(2))  # type: ignore[attr-defined]
    assert made.neg().tolist() == [0, 0]
