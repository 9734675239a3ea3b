"""`torch.utils._sympy.value_ranges`: intervals."""

from maquette.symbolic.ranges import ValueRange as ValueRanges

__all__ = ["ValueRanges"]
