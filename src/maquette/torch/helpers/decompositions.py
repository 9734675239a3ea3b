"""`torch._decomp.decompositions`: the rules of `torch._decomp`, by their operators' names.

An operator whose kernel is other operators is its own rule.
"""

from __future__ import annotations

import sys

from maquette.dispatch.packet import find_packet
from maquette.fx.decompositions import decomposition_table, register_decomposition
from maquette.torch.helpers.prims_wrappers import out_wrapper

__all__ = ["decomposition_table", "out_wrapper", "register_decomposition"]


def __getattr__(name: str) -> object:
    packet = None if name.startswith("__") else find_packet(f"aten::{name}")
    if packet is None:
        raise AttributeError(
            f"module 'torch._decomp.decompositions' has no attribute '{name}': there is no "
            f"operator aten::{name}; torch._decomp.decomposition_table has all rules"
        )
    rules = (decomposition_table.get(op) for op in packet.op_overloads())
    found: object = next((rule for rule in rules if rule is not None), packet)
    setattr(sys.modules[__name__], name, found)
    return found
