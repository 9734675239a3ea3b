"""`torch.utils.data.dataloader`: the loader and how it makes batches, at torch's path."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.collate import default_collate, default_convert
from maquette.torch.utils.data.loader import DataLoader, get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
__getattr__ = forward(__name__, "maquette.torch.utils.data")
