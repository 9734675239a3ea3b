"""`torch.utils._mode_utils`: skipping modes."""

from __future__ import annotations

from maquette.dispatch.modes import no_dispatch

__all__ = ["no_dispatch"]
