"""`torch._subclasses.functional_tensor`: functional tensors, their mode, the contexts of rules."""

from __future__ import annotations

from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.contexts import (
    BaseFunctionalizeAPI,
    CppFunctionalizeAPI,
    FunctorchFunctionalizeAPI,
    PythonFunctionalizeAPI,
)
from maquette.transforms.functional.mode import (
    FunctionalTensor,
    FunctionalTensorMode,
    disable_functional_mode,
    dispatch_functionalize,
)

_disable_functional_mode = disable_functional_mode


def mb_unwrap_functional_tensor(tensor: Tensor) -> Tensor:
    """What a functional tensor stands for; any other tensor as it is."""
    return tensor.from_functional() if isinstance(tensor, FunctionalTensor) else tensor


__all__ = [
    "BaseFunctionalizeAPI",
    "CppFunctionalizeAPI",
    "FunctionalTensor",
    "FunctionalTensorMode",
    "FunctorchFunctionalizeAPI",
    "PythonFunctionalizeAPI",
    "disable_functional_mode",
    "dispatch_functionalize",
    "mb_unwrap_functional_tensor",
]
