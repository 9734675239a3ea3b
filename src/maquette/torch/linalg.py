"""`torch.linalg`: the operators whose names begin with ``linalg_``."""

from __future__ import annotations

from maquette.aten.linalg.factorizations import LinAlgError as LinAlgError
from maquette.torch.forwarding import forward

__getattr__ = forward(__name__, "maquette", spellings=lambda name: (f"linalg_{name}",))
