"""`torch._C._functions`: classes of nodes, and functions that put nodes into a graph."""

from maquette.autograd.inplace import CopySlices
from maquette.autograd.node import AccumulateGrad, RaisingNode
from maquette.autograd.probing_nodes import DelayedError, UndefinedGrad

Error = RaisingNode

__all__ = ["AccumulateGrad", "CopySlices", "DelayedError", "Error", "UndefinedGrad"]
