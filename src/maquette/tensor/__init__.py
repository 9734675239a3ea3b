"""Tensors: storages, the strided tensor, its aliases; how tensors print, are copied and kept."""

from maquette.tensor import copying as _copying
from maquette.tensor import printing as _printing
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.tensor import Tensor

set_printoptions = _printing.set_printoptions

__all__ = ["Buffer", "Parameter", "Tensor", "set_printoptions"]
