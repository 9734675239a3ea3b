"""`torch.utils.dlpack`: exchanging memory with other libraries."""

from __future__ import annotations

from maquette.tensor.interchange import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
