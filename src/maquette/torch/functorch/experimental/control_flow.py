"""`functorch.experimental.control_flow`: `cond` and `map`."""

from maquette.higher_order.cond import cond
from maquette.higher_order.map import map

__all__ = ["cond", "map"]
