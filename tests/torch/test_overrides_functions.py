"""What torch.overrides tells of functions that classes and modes can answer."""

import inspect
from collections.abc import Callable
from typing import Any

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


# --- what handlers are asked about beside operators ----------------------------------


class _AnsweringTensor(torch.Tensor):
    """A tensor whose class answers every call."""

    @classmethod
    def __torch_function__(
        cls, func: object, types: object, args: object = (), kwargs: object = None
    ) -> object:
        return func


@pytest.mark.parametrize("name", ["q_scale", "miopen_rnn", "fbgemm_pack_quantized_matrix"])
def test_a_handler_answers_for_what_is_not_there(name: str) -> None:
    function = getattr(torch, name)
    assert function(_Answers()) is function
    assert function in torch.overrides.get_testing_overrides()


@pytest.mark.parametrize("name", ["is_complex", "get_device", "spmm", "saddmm", "unravel_index"])
def test_functions_over_methods_offer_themselves(name: str) -> None:
    function = getattr(torch, name)
    assert function(_Answers(), _Answers(), _Answers()) is function


@pytest.mark.parametrize("name", ["double", "where", "norm", "type", "tolist", "to"])
def test_tensors_own_method_asks_the_handler_of_a_subclass(name: str) -> None:
    method = getattr(torch.Tensor, name)
    assert method(_AnsweringTensor()) is method


@pytest.mark.parametrize("make", [_Answers, _AnsweringTensor])
def test_an_index_with_a_handler_is_asked(make: Callable[[], Any]) -> None:
    assert torch.ones(2)[make()] is torch.Tensor.__getitem__
    assert torch.ones(2, 2)[0, make()] is torch.Tensor.__getitem__


def test_functions_of_modules_are_resolved_as_PyTorchs_are() -> None:
    resolve = torch.overrides.resolve_name
    assert resolve(torch.stft) == "torch.functional.stft"
    assert resolve(torch.nn.init.constant_) == "torch.nn.init.constant_"
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)  # type: ignore[attr-defined]  # a property


def test_what_modes_alone_are_offered_has_a_name() -> None:
    resolve = torch.overrides.resolve_name
    assert resolve(torch.tensor) == "torch.tensor"
    assert resolve(torch.zeros) == "torch.zeros"
    assert resolve(torch.abs_) == "torch.abs_"
    assert resolve(torch.Tensor.__truediv__) == "torch.Tensor.__truediv__"
    assert resolve(torch.Tensor.__rdiv__) == "torch.Tensor.__rtruediv__"


class _Arguments(torch.overrides.TorchFunctionMode):  # type: ignore[misc]  # by a name handed on
    def __torch_function__(
        self, func: Any, types: tuple[type, ...], args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen = func, types, args, kwargs
        return -1


def test_initial_values_are_handed_over_by_name() -> None:
    x = torch.ones(2)
    with _Arguments() as mode:
        torch.nn.init.constant_(x, 3)
    assert mode.seen == (torch.nn.init.constant_, (torch.Tensor,), (), {"tensor": x, "val": 3})


def test_functions_that_are_operators_there_are_handed_over_as_written() -> None:
    x = torch.ones(2, 2)
    for call in (lambda: torch.nonzero(x), lambda: torch.tensor_split(x, 2)):
        with _Arguments() as mode:
            call()
        assert mode.seen[1:] in (((), (x,), {}), ((), (x, 2), {}))


def test_the_stack_of_modes_is_counted_and_changed_by_hand() -> None:
    mode = _Arguments()
    torch._C._push_on_torch_function_stack(mode)
    try:
        assert torch._C._len_torch_function_stack() == 1
        assert torch._C._get_function_stack_at(0) is mode
        with torch.overrides._pop_mode_temporarily() as popped:
            assert popped is mode
            assert torch.ones(2).dim() == 1
        assert torch.ones(2) == -1
    finally:
        assert torch._C._pop_torch_function_stack() is mode
    with pytest.raises(RuntimeError, match="empty"):
        torch._C._pop_torch_function_stack()


def test_setters_are_named() -> None:
    resolve = torch.overrides.resolve_name
    assert resolve(torch.Tensor.grad.__set__) == "torch.Tensor.grad.__set__"
