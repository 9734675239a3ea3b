"""What changed between two plans, each as its JSON (`Plan.to_dict`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """One number of a plan that is not what it was; ``what`` says which, ``unit`` of what."""

    what: str
    unit: str  # "bytes", "FLOPs" or "" for a count
    before: int
    after: int


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Peak, FLOPs and counts, bytes by category, modules and operators: those that differ.

    Raises ValueError where one of both is no plan.
    """
    for plan in (before, after):
        if not {"peak_bytes", "flops", "by_category", "by_module", "operators"} <= set(plan):
            raise ValueError("no plan: a file that --json wrote has peak_bytes, flops, by_category")
    found = [
        Change("peak memory", "bytes", before["peak_bytes"], after["peak_bytes"]),
        Change("FLOPs", "FLOPs", before["flops"], after["flops"]),
        Change("parameters", "", before["parameters"], after["parameters"]),
    ]
    for name, old, new in _paired(before["by_category"], after["by_category"]):
        found.append(Change(f"at the peak: {name}", "bytes", old, new))
    for name, old, new in _paired(_modules(before), _modules(after)):
        found.append(Change(f"activations of {name or '(model)'}", "bytes", old, new))
    for name, old, new in _paired(_calls(before), _calls(after)):
        found.append(Change(f"calls of {name}", "", old, new))
    return sorted((c for c in found if c.before != c.after), key=_rank)


def _rank(change: Change) -> tuple[int, int]:
    """The whole first, then modules and operators by how much they changed."""
    if not change.what.startswith(("activations of", "calls of")):
        return 0, 0
    return 1 + (change.unit == ""), -abs(change.after - change.before)


def _paired(before: Mapping[str, int], after: Mapping[str, int]) -> list[tuple[str, int, int]]:
    names = [*before, *(name for name in after if name not in before)]
    return [(name, before.get(name, 0), after.get(name, 0)) for name in names]


def _modules(plan: Mapping[str, Any]) -> dict[str, int]:
    return {row["path"]: row["activation_bytes"] for row in plan["by_module"]}


def _calls(plan: Mapping[str, Any]) -> dict[str, int]:
    return {row["name"]: row["calls"] for row in plan["operators"]}
