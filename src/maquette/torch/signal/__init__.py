"""`torch.signal`: windows."""

from __future__ import annotations

from maquette.torch.signal import windows

__all__ = ["windows"]
