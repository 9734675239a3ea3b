"""`torch.utils._pytree`: trees of containers, and how the standard ones come apart."""

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette.core.pytree", "maquette.core.pytree_containers")
