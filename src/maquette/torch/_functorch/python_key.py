"""`torch._functorch.python_key`: `make_fx`, under the path that functorch has it at."""

from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette.fx", path="_functorch.python_key")
