"""`torch.version`: the PyTorch whose behaviour maquette follows, and that this is not it."""

from __future__ import annotations

__version__ = "2.13.0+maquette"
git_version = "maquette"
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
