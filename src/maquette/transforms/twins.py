"""The functional form of an operator that writes: ``add_`` and ``add.out`` compute ``add.Tensor``.

The one place that knows how forms are linked; transforms ask here.
"""

from __future__ import annotations

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import find_packet
from maquette.dispatch.schema import Argument


def functional_twin(op: OpOverload) -> OpOverload | None:
    """The overload that computes what ``op`` writes, or None.

    Its arguments are those of ``op`` without outputs.
    """
    wanted = [_plain(a) for a in op._schema.arguments if not a.is_out]
    for name in dict.fromkeys(
        (op._opname.removesuffix("_"), op._opname, f"{op._opname}functional")
    ):
        packet = find_packet(f"{op.namespace}::{name}")
        if packet is None:
            continue
        for overload in packet.overloads():
            other = getattr(packet, overload)
            if other is op or other._schema.is_mutable:
                continue
            given = [_plain(a) for a in other._schema.arguments]
            if given == wanted:
                return other
    return None


def _plain(a: Argument) -> tuple[str, str]:
    """What must agree: the name and the type without its alias."""
    written = a.type.written
    head, opened, tail = written.partition("(")
    return a.name, head + tail.partition(")")[2] if opened else head
