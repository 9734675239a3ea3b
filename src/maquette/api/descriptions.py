"""What functions and methods say of themselves: the page's sentence, and what the schemas tell.

A page says in a sentence what its operator computes. Broadcasting, reduced dimensions, shared
memory, ``out=``, data-dependent sizes and the errors that go with them follow from schemas and
tags, so they are added here for all operators alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import PACKETS, OpOverloadPacket
from maquette.dispatch.tags import Tag


def description(packet: OpOverloadPacket) -> str:
    """The docstring of the function or method of a packet."""
    target = _meant(packet)
    lines = [_sentence(packet, target), *_details(target or packet)]
    schemas = [o._schema_text for o in packet.usual_overloads()]
    return "\n".join([*lines, "", "Schemas:", *[f"    {schema}" for schema in schemas]])


def summary(packet: OpOverloadPacket) -> str:
    """What the page of a packet says that it computes; empty where it says nothing."""
    own = next((o.facts.summary for o in packet.usual_overloads() if o.facts.summary), "")
    if own:
        return own
    target = _meant(packet) or PACKETS.get(packet._qualified_op_name.removesuffix("_"))
    return "" if target is None or target is packet else summary(target)


def _sentence(packet: OpOverloadPacket, target: OpOverloadPacket | None) -> str:
    """The first line; target: what an alias calls."""
    said = summary(packet)
    if not said:
        return f"The operator `{packet._qualified_op_name}`."
    return said if target is None else f"Another name of `{target.__name__}`: {_continued(said)}"


def _continued(sentence: str) -> str:
    """A sentence after a colon: without its capital, if its first word is an article."""
    first = sentence.partition(" ")[0]
    return sentence[0].lower() + sentence[1:] if first in ("The", "A", "An") else sentence


def _meant(packet: OpOverloadPacket) -> OpOverloadPacket | None:
    """The packet that an alias calls; None for all others."""
    for op in packet.usual_overloads():
        for kernels in op._kernels.values():
            if kernels and isinstance(kernels[-1].python, OpOverload):
                target = kernels[-1].python.overloadpacket
                return None if target is packet else target
    return None


def _details(packet: OpOverloadPacket) -> Iterator[str]:
    """A line for each thing that schemas and tags tell."""
    overloads = packet.usual_overloads()
    parameters = {a.name for o in overloads for a in o._schema.arguments}
    found = [*_shape_lines(overloads, parameters), *_memory_lines(packet.__name__, overloads)]
    if any(Tag.dynamic_output_shape in o.tags for o in overloads):
        found.append(
            "Data decides the size of the result: of fake tensors without a shape environment it "
            "raises DynamicOutputShapeException."
        )
    elif any(Tag.data_dependent_output in o.tags for o in overloads):
        found.append(
            "It reads data: of fake tensors without a shape environment it raises "
            "DataDependentOutputException."
        )
    if "generator" in parameters:
        found.append("generator: what draws the numbers, by default that of the device.")
    if "reduction" in parameters:
        found.append("reduction: whether the losses of elements are kept, averaged or summed.")
    if found:
        yield ""
        yield from found


def _shape_lines(overloads: list[OpOverload], parameters: set[str]) -> Iterator[str]:
    if any(Tag.pointwise in o.tags for o in overloads) and "keepdim" not in parameters:
        tensors = max(_tensors(o) for o in overloads)
        if tensors > 1:
            yield (
                "Elementwise: the result has the shape that the operands broadcast to, and the "
                "dtype that they promote to unless said otherwise. RuntimeError where they do not "
                "broadcast."
            )
        else:
            yield "Elementwise: the result has the shape of the argument."
    if "keepdim" in parameters:
        yield (
            "The dimensions in `dim`, all if none is named, are left out of the result, or have "
            "size 1 in it with `keepdim`."
        )
    if "dim" in parameters or "dims" in parameters:
        yield "IndexError for a dimension that the tensor does not have."
    if "dtype" in parameters and not any(_tensors(o) for o in overloads):
        yield (
            "dtype, device: of the result, by default `get_default_dtype` and the default device; "
            "with `requires_grad` autograd records what is done with it."
        )


def _memory_lines(name: str, overloads: list[OpOverload]) -> Iterator[str]:
    if any(o.is_view for o in overloads):
        yield "The result shares the memory of the tensor: what is written to one shows in both."
    if name.endswith("_") and not name.endswith("__"):
        fits = ""
        if any(Tag.pointwise in o.tags for o in overloads):
            fits = (
                "; RuntimeError where the result has another shape, or a dtype that it cannot hold"
            )
        yield f"In place: the tensor itself is changed, and returned{fits}."
    if any(Tag.out in o.tags for o in overloads):
        yield (
            "out: a tensor to write the result to, which is resized to its shape; RuntimeError "
            "where its dtype cannot hold the result."
        )


def _tensors(op: OpOverload) -> int:
    """How many tensors an overload reads."""
    arguments = op._schema.arguments
    return sum(a.type.base.kind == "tensor" and not a.is_out for a in arguments)
