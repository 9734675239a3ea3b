"""`torch.fx.experimental`: modules only; the packages behind them are in `paths.py`."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__path__: list[str] = []  # a package, so that its modules can be imported
__getattr__ = forward(__name__, path="fx.experimental")
