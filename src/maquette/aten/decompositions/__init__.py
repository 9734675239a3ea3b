"""Operators of aten by simpler ones: the rules of the core table, a family a file.

A composite operator is defined by others on its page and needs no rule here.
"""

from __future__ import annotations

from maquette.aten.decompositions import (  # noqa: F401  # they register
    activations,
    factories,
    indexing,
    losses,
    movement,
    normalization,
    numbers,
    padding,
    reductions,
)
from maquette.aten.decompositions.rules import FURTHER, RULES

__all__ = ["FURTHER", "RULES"]
