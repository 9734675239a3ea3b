"""`torch.classes`: script classes; none is registered by C++ here."""

from maquette.torch.face.forwarding import forward

loaded_libraries: set[str] = set()
__getattr__ = forward(__name__)
