"""`torch.autograd.variable`, the old place of `Variable`."""

from __future__ import annotations

from maquette.torch.autograd import Variable

__all__ = ["Variable"]
