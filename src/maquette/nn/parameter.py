"""`Parameter` and `Buffer` under PyTorch's module path; they are defined in the tensor package."""

from maquette.nn.lazy_parameter import (
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
    is_lazy,
)
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.parameter import _ParameterType as _ParameterMeta

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "_ParameterMeta",
    "is_lazy",
]
