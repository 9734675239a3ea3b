"""`torch._custom_ops`: the older names of `torch.library`'s registrations."""

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette.library")
