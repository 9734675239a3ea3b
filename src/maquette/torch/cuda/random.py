"""`torch.cuda.random`: there is no device whose numbers could be drawn."""

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette.torch.cuda", path="cuda")
