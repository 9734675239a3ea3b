"""`torch._subclasses.functional_tensor`: functional tensors, their mode, the contexts of rules."""

from __future__ import annotations

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

__all__ = [
    "BaseFunctionalizeAPI",
    "CppFunctionalizeAPI",
    "FunctionalTensor",
    "FunctionalTensorMode",
    "FunctorchFunctionalizeAPI",
    "PythonFunctionalizeAPI",
    "disable_functional_mode",
    "dispatch_functionalize",
]
