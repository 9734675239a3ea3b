"""Operators with one defect each, and the same operators without it.

Every entry is a function of a `Planter` and of whether the defect is planted; it gives the operator
and a call that does not show the defect unless said. `DEFECTS` has all. They are written in names
that maquette and PyTorch share, so that both libraries' checks can be held to them.
"""

from planted import (  # noqa: F401  # they fill the table
    backwards,
    batches,
    calls,
    contracts,
    derivatives,
    fakes,
    formulas,
    layouts,
    memory,
    rules,
    settings,
    shapes,
    sizes,
)
from planted.planting import DEFECTS, Defect, Planter

__all__ = ["DEFECTS", "Defect", "Planter"]
