"""`torch._functorch.pyfunctorch`: the stack of interpreters."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.transforms.batch import VmapInterpreter
from maquette.transforms.forward_level import JvpInterpreter
from maquette.transforms.interpreter import (
    Interpreter as FuncTorchInterpreter,
)
from maquette.transforms.interpreter import (
    compare_functorch_state,
    stack,
    temporarily_clear_interpreter_stack,
    temporarily_pop_interpreter_stack,
    temporarily_restore_interpreter_stack,
    top,
)
from maquette.transforms.reverse_level import GradInterpreter


def retrieve_current_functorch_interpreter() -> FuncTorchInterpreter:
    """The interpreter of the innermost transform; AssertionError outside of all."""
    level = top()
    assert level is not None, "no function transform is in force"
    return level


def retrieve_all_functorch_interpreters() -> list[FuncTorchInterpreter]:
    """The interpreters in force, the outermost first."""
    return list(stack())


__getattr__ = forward(__name__, "maquette.transforms.interpreter", path="_functorch.pyfunctorch")
__all__ = [
    "FuncTorchInterpreter",
    "GradInterpreter",
    "JvpInterpreter",
    "VmapInterpreter",
    "compare_functorch_state",
    "retrieve_all_functorch_interpreters",
    "retrieve_current_functorch_interpreter",
    "temporarily_clear_interpreter_stack",
    "temporarily_pop_interpreter_stack",
    "temporarily_restore_interpreter_stack",
]
