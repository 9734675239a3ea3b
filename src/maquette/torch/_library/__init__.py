"""`torch._library`: what registrations are made of; `maquette.library` under PyTorch's names."""

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette.library")
