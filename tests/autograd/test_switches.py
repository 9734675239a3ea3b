"""Function modes see where recording is switched on and off, and may answer."""

import pytest

import maquette.torch as torch
from maquette.torch.overrides import TorchFunctionMode


class Log(TorchFunctionMode):
    """Notes the switches that it sees; keep: does not pass them on."""

    def __init__(self, keep: bool = False) -> None:
        self.keep = keep
        self.seen: list[bool] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch._C._set_grad_enabled:
            self.seen.append(args[0])
            if self.keep:
                return None
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("block", "seen"),
    [
        (torch.no_grad, [False, True]),
        (torch.enable_grad, [True, True]),
        (lambda: torch.set_grad_enabled(False), [False, False, True]),
    ],
)
def test_T63_a_function_mode_sees_the_switches(block, seen: list[bool]) -> None:
    with Log() as log, block():
        pass
    assert log.seen == seen
    assert torch.is_grad_enabled()


def test_T63_a_function_mode_may_keep_recording_on() -> None:
    with Log(keep=True), torch.no_grad():
        assert torch.is_grad_enabled()
