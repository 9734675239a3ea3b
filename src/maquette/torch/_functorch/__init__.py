"""`torch._functorch`: where programs find the pieces of function transforms under torch's paths."""

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__)
