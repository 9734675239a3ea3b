"""`torch.utils._sympy.functions`: the functions that `node.expr` may contain."""

from sympy import Max, Min  # noqa: TID253 — who imports this module asks for SymPy

from maquette.symbolic.sympy_forms import CLASSES

globals().update(CLASSES)

__all__ = ["Max", "Min", *CLASSES]
