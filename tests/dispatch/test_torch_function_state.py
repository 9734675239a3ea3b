"""Who is asked to override functions in a thread, as programs read and set it."""

import pytest

from maquette.dispatch import torch_function as overriding
from maquette.dispatch.torch_function import TorchFunctionState as State


def test_D136_the_state_says_who_is_asked() -> None:
    assert overriding.torch_function_state() is State.ENABLED
    with overriding.DisableTorchFunctionSubclass():
        assert overriding.torch_function_state() is State.SUBCLASSES_DISABLED
    with overriding.DisableTorchFunction():
        assert overriding.torch_function_state() is State.ALL_DISABLED
    assert overriding.torch_function_state() is State.ENABLED


@pytest.mark.parametrize("state", list(State))
def test_D136_a_state_that_is_set_is_the_one_that_is_read(state: State) -> None:
    try:
        overriding.set_torch_function_state(state)
        assert overriding.torch_function_state() is state
    finally:
        overriding.set_torch_function_state(State.ENABLED)
