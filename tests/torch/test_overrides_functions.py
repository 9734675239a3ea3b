"""What torch.overrides tells of functions that classes and modes can answer."""

import inspect

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch import overrides


class _Answers:
    @classmethod
    def __torch_function__(
        cls, func: object, types: object, args: object = (), kwargs: object = None
    ) -> object:
        return func


def test_functions_methods_and_getters_are_named() -> None:
    assert overrides.resolve_name(torch.add) == "torch.add"
    assert overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"
    assert overrides.resolve_name(torch.nn.functional.gelu) == "torch.nn.functional.gelu"
    assert overrides.resolve_name(torch.Tensor.grad.__get__) == "torch.Tensor.grad.__get__"
    assert overrides.resolve_name(len) is None


def test_a_factory_cannot_be_overridden() -> None:
    assert torch.zeros in overrides.get_ignored_functions()
    assert torch.zeros not in overrides.get_overridable_functions()[torch]
    assert torch.add in overrides.get_overridable_functions()[torch]


def test_a_testing_override_takes_what_the_function_takes() -> None:
    dummy = overrides.get_testing_overrides()[torch.addmm]
    assert dummy(mq.ones(1), mq.ones(1), mq.ones(1)) == -1
    assert "mat1" in inspect.signature(dummy).parameters


def test_a_wrapped_function_is_offered_to_what_its_dispatcher_picks() -> None:
    @overrides.wrap_torch_function(lambda a, b: (b,))
    def pair(a: object, b: object) -> tuple[object, object]:
        return a, b

    assert pair(1, 2) == (1, 2)
    assert pair(1, _Answers()) is pair


def test_subclasses_come_before_their_bases() -> None:
    derived = type("Derived", (_Answers,), {})()
    base = _Answers()
    assert overrides._get_overloaded_args([1, base, derived, base]) == [derived, base]


def test_what_is_missing_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="with mode:"):
        overrides.enable_reentrant_dispatch()
