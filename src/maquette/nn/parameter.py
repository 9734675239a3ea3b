"""`Parameter` and `Buffer` under PyTorch's module path; they are the tensor floor's."""

from maquette.tensor.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter"]
