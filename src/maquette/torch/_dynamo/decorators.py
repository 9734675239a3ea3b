"""`torch._dynamo.decorators`: what pickles of jagged tensors name; the marks are in `marks`."""

from maquette.torch.face.forwarding import forward
from maquette.torch.saving.layouts import DimRange as _DimRange  # noqa: F401

__getattr__ = forward(__name__, "maquette.torch._dynamo.marks", "maquette.torch._dynamo")
