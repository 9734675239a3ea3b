"""`torch.__future__`: what happens to parameters when modules are converted and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import maquette.torch as torch
from maquette.nn.base.conversion import on_conversion


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    yield
    on_conversion.update(overwrite=False, swap=False)


def with_grad() -> torch.nn.Linear:
    module = torch.nn.Linear(2, 2)
    module(torch.ones(1, 2)).sum().backward()
    return module


@pytest.mark.parametrize("convert", [lambda m: m.double(), lambda m: m.to("meta")])
def test_swapped_parameters_keep_their_identity(convert: Callable[..., object]) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    module = with_grad()
    before, grad = module.weight, module.weight.grad
    convert(module)
    assert module.weight is before
    assert module.weight.grad is grad
    assert (grad.dtype, grad.device) == (before.dtype, before.device)


def test_overwritten_parameters_are_new_ones() -> None:
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    module = with_grad()
    before = module.weight
    module.double()
    assert module.weight is not before
    assert (before.dtype, module.weight.dtype) == (torch.float32, torch.float64)


def test_loading_swaps_with_what_module_load_gives() -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    with torch.device("meta"):
        module = torch.nn.Linear(2, 2)
    before, state = module.weight, torch.nn.Linear(2, 2).state_dict()
    module.load_state_dict(state, assign=True)
    assert module.weight is before
    assert torch.equal(before, state["weight"])


def test_what_module_load_gives_must_be_new() -> None:
    class Careless(torch.Tensor):
        def module_load(self, other: torch.Tensor, assign: bool = False) -> torch.Tensor:
            return other

    torch.__future__.set_swap_module_params_on_conversion(True)
    module = torch.nn.Linear(2, 2)
    module.weight = torch.nn.Parameter(module.weight.detach().as_subclass(Careless))
    with pytest.raises(RuntimeError, match=r"please \.detach\(\) the result"):
        module.load_state_dict(torch.nn.Linear(2, 2).state_dict())


def test_what_cannot_be_swapped_says_which_parameter() -> None:
    import weakref

    torch.__future__.set_swap_module_params_on_conversion(True)
    module = torch.nn.Linear(2, 2)
    reference = weakref.ref(module.bias)
    with pytest.raises(RuntimeError, match=r"Couldn't swap Linear\.bias"):
        module.double()
    assert reference() is module.bias
