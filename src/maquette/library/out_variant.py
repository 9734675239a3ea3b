"""From an operator to the overload that writes the same results into tensors that are given."""

from __future__ import annotations

from maquette.dispatch.forms import Form
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.schema import Argument
from maquette.dispatch.tags import Tag


def to_out_variant(op: OpOverload) -> OpOverload | None:
    """The out overload of a functional one; None if its packet has none that fits.

    It has the tag ``out``, equal arguments beside its outs, and as many outs as ``op`` has results.
    RuntimeError for an operator that writes or gives views.
    """
    if op.form is not Form.FUNCTIONAL:
        raise RuntimeError(
            f"to_out_variant: expected a functional operator, got {op.name()}, whose form is "
            f"{op.form.value}"
        )
    packet = op.overloadpacket
    for name in packet.overloads():
        candidate = getattr(packet, name)
        if Tag.out in candidate.tags and _fits(op, candidate):
            return candidate
    return None


def _fits(op: OpOverload, out: OpOverload) -> bool:
    arguments = out._schema.arguments
    others = [_key(a) for a in arguments if not a.is_write]
    count = sum(a.is_write for a in arguments)
    same = others == [_key(a) for a in op._schema.arguments]
    return same and count == len(op._schema.returns)


def _key(a: Argument) -> tuple[str, str, bool, object]:
    return a.name, str(a.type), a.kwarg_only, a.default_value


__all__ = ["to_out_variant"]
