"""`torch.storage`: storages count bytes and have no type of their own."""

from __future__ import annotations

from maquette.tensor.storage import UntypedStorage

__all__ = ["UntypedStorage"]
