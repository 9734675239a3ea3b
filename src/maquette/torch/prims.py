"""`torch._prims`: its helpers, as ``utils``. Its operators are ``torch.ops.prims``."""

from __future__ import annotations

from maquette.torch import prims_common as utils

__all__ = ["utils"]
