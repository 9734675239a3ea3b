"""`torch.testing`: `assert_close`."""

from __future__ import annotations

from maquette.torch.testing.closeness import assert_close

__all__ = ["assert_close"]
