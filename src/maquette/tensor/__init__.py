"""Tensors: storages, the strided tensor, its aliases; how tensors print, are copied and kept."""

from maquette.tensor import copying as _copying  # noqa: F401  # copy and pickle know tensors
from maquette.tensor import interchange as _interchange  # noqa: F401  # DLPack knows tensors
from maquette.tensor import wrapper_subclasses as _wrapper_subclasses  # noqa: F401  # two methods
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.printing import set_printoptions
from maquette.tensor.tensor import Tensor

__all__ = ["Buffer", "Parameter", "Tensor", "set_printoptions"]
