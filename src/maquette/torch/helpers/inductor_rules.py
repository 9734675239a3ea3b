"""`torch._inductor.decomposition`: a table for the rules that programs register for a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.fx import decompositions as rules

decompositions: rules.Table = {}
"""The rules registered here. A compiler would use them; `make_fx` takes them as its table."""


def register_decomposition(ops: Any) -> Callable[[rules.Rule], rules.Rule]:
    """A decorator that makes a function the rule of operators. RuntimeError if one has a rule."""
    return rules.register_decomposition(ops, decompositions)


__all__ = ["decompositions", "register_decomposition"]
