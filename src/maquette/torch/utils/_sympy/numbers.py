"""`torch.utils._sympy.numbers`: the ends of intervals that have none."""

from maquette.symbolic.ranges import INFINITY as int_oo

__all__ = ["int_oo"]
