"""The peak of one of several devices that divide a model's states among them.

The scheme is fully sharded data parallelism, as the documentation of PyTorch's
``FullyShardedDataParallel`` describes it: every device computes its own batch; parameters,
gradients and the optimizer's states are divided evenly, with what the optimizer's step needs beside
them, and are whole only while they are worked with. The *units* are the repeated blocks of the
model. While an operator of one runs, that unit's parameters and the next one's (which are fetched
ahead) are whole, and in backward the unit's gradients too; what belongs to no block is whole until
the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from maquette.plan.plan import ModuleRow, Plan

DIVIDED = frozenset(("parameters", "gradients", "optimizer state"))
MOST_DEVICES = 1 << 16


@dataclass(frozen=True)
class Devices:
    """The fewest devices whose peaks fit, 0 if none do; the peak of one there, and with one less.

    Where none fit, ``peak_bytes`` is the smallest peak that any number reaches.
    """

    fewest: int
    peak_bytes: int
    peak_with_one_less: int


def units(modules: Sequence[ModuleRow]) -> dict[str, int]:
    """The paths of the repeated blocks and their parameters' bytes, in the model's order.

    A block is a module with parameters that has siblings of its class, none inside of another.
    """
    kinds = Counter((m.path.rpartition(".")[0], m.kind) for m in modules if m.parameter_bytes)
    found: dict[str, int] = {}
    for m in modules:
        parent, _, name = m.path.rpartition(".")
        repeated = name.isdigit() and kinds[parent, m.kind] > 1
        if repeated and m.parameter_bytes and _unit_of(m.path, found) is None:
            found[m.path] = m.parameter_bytes
    return found


def _unit_of(path: str, among: dict[str, int]) -> str | None:
    while path:
        if path in among:
            return path
        path = path.rpartition(".")[0]
    return None


def sharded_peak(plan: Plan, devices: int) -> int:
    """The most bytes alive at once on one of ``devices`` that divide the states of ``plan``.

    ``plan`` is that of one device with its own batch. On one device nothing is divided.
    """
    if devices < 1:
        raise ValueError(f"sharded_peak: devices is a number from 1 on, not {devices}")
    if devices == 1:
        return plan.peak_bytes
    whole = _whole_bytes(plan)
    divided = {
        a.storage: a.phase == "step" or plan.category(a) in DIVIDED for a in plan.allocations
    }
    alive: dict[int, int] = {}
    held = peak = 0
    for operation, storage, nbytes in plan.events:
        if nbytes > 0:
            share = -(-nbytes // devices) if divided.get(storage) else nbytes
            alive[storage] = alive.get(storage, 0) + share
            held += share
        else:
            held -= alive.pop(storage, 0)
        if 0 <= operation < len(whole):
            peak = max(peak, held + whole[operation])
    return max(peak, held)


def _whole_bytes(plan: Plan) -> list[int]:
    """For each operator, the bytes of parameters and gradients that are whole while it runs."""
    modules = plan.by_module()
    sizes = units(modules)
    order = list(sizes)
    after = dict(pairwise(order))
    before = {later: earlier for earlier, later in after.items()}
    rest = modules[0].parameter_bytes - sum(sizes.values())
    unit_of: dict[str, str | None] = {}
    found = []
    for operation in plan.operators:
        path = operation.place.module
        if path not in unit_of:
            unit_of[path] = _unit_of(path, sizes)
        unit, backward = unit_of[path], operation.phase == "backward"
        if operation.phase == "step":
            found.append(0)  # each device updates its own part
        elif unit is None:
            found.append(rest)
        else:
            ahead = before.get(unit) if backward else after.get(unit)
            fetched = 0 if ahead is None else sizes[ahead]
            found.append(rest + sizes[unit] * (2 if backward else 1) + fetched)
    return found


def fewest_devices(peak_of: Callable[[int], int], budget: int) -> Devices:
    """The fewest devices, up to `MOST_DEVICES`, whose ``peak_of(devices)`` each is in ``budget``.

    From two on, more devices need no more memory each.
    """
    alone = peak_of(1)
    if alone <= budget:
        return Devices(1, alone, alone)
    least = peak_of(MOST_DEVICES)
    if least > budget:
        return Devices(0, least, least)
    low, high = 1, 2
    while peak_of(high) > budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peak_of(middle) > budget else (low, middle)
    return Devices(high, peak_of(high), peak_of(low))
