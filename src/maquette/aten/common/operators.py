"""Operators by name, for pages that call those of other families.

Families need not import one another, and never import the functions that users see
(`maquette.api.functions`): those are made from the pages.
"""

from __future__ import annotations

from maquette.dispatch.packet import OpOverloadPacket, find_packet


class Operators:
    """Every operator of aten as its packet, found when first used."""

    def __getattr__(self, name: str) -> OpOverloadPacket:
        found = None if name.startswith("__") else find_packet(f"aten::{name}")
        if found is None:
            raise AttributeError(f"there is no operator aten::{name}")
        setattr(self, name, found)
        return found


aten = Operators()
