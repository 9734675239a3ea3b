"""Functions of control flow that stand at the top of torch."""

from __future__ import annotations

from maquette.higher_order import cond

__all__ = ["cond"]
