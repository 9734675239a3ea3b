"""Plans: peak memory, FLOPs and where they come from, computed with fake tensors."""

from maquette.plan.plan import ModuleRow, Plan, plan
from maquette.plan.recorder import Allocation, Operation, Place, Recorder

__all__ = ["Allocation", "ModuleRow", "Operation", "Place", "Plan", "Recorder", "plan"]
