"""A plan as files that other tools open: Perfetto's trace events, PyTorch's memory snapshot.

In a trace, time is each operator's bound on a device (`roofline.py`), or one microsecond an
operator without one; modules are nested slices, bytes in use a counter. A snapshot holds the
makings and releases of storages with the line that made each, as PyTorch's memory viewer
(pytorch.org/memory_viz) reads it.
"""

from __future__ import annotations

import json
import pathlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from maquette.plan.recorder import Allocation, Operation
from maquette.plan.roofline import Accelerator, least_seconds

if TYPE_CHECKING:
    from maquette.plan.plan import Plan

_OPERATORS, _MODULES, _PHASES = 1, 2, 3  # tracks
_ALIGNED = 512


def write_trace(plan: Plan, path: str | pathlib.Path, on: Accelerator | None = None) -> None:
    """Write ``path``: a snapshot where it ends in .pickle, else trace events as JSON."""
    file = pathlib.Path(path)
    if file.suffix in (".pickle", ".pkl"):
        file.write_bytes(pickle.dumps(snapshot(plan)))
    else:
        events = list(trace_events(plan, on))
        file.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), "utf-8")


def trace_events(plan: Plan, on: Accelerator | None = None) -> Iterator[dict[str, object]]:
    """Slices of phases, modules and operators, and the counter of bytes; times in microseconds."""
    for track, name in ((_PHASES, "phases"), (_MODULES, "modules"), (_OPERATORS, "operators")):
        yield _event("M", "thread_name", 0, track, args={"name": name})
    starts = _starts(plan.operators, on)
    for operation, start, end in zip(plan.operators, starts, starts[1:], strict=False):
        told = {
            "module": operation.place.module,
            "line": operation.place.line,
            "FLOPs": operation.flops,
            "bytes": operation.bytes_moved,
        }
        yield _event("X", operation.name, start, _OPERATORS, dur=end - start, args=told)
    yield from _runs(plan.operators, starts, _PHASES, lambda o: o.phase)
    yield from _module_slices(plan.operators, starts)
    for number, nbytes in plan.timeline:
        at = starts[min(number, len(plan.operators))]
        yield _event("C", "bytes in use", at, 0, args={"bytes": nbytes})


def _event(kind: str, name: str, at: float, track: int, **more: object) -> dict[str, object]:
    return {"ph": kind, "name": name, "ts": at, "pid": 0, "tid": track, **more}


def _starts(operators: Sequence[Operation], on: Accelerator | None) -> list[float]:
    starts = [0.0]
    for operation in operators:
        took = 1.0 if on is None else least_seconds(operation, on)[0] * 1e6
        starts.append(starts[-1] + took)
    return starts


def _runs(
    operators: Sequence[Operation],
    starts: Sequence[float],
    track: int,
    name_of: Callable[[Operation], str],
) -> Iterator[dict[str, object]]:
    """A slice for each run of operators of one name."""
    begun = 0
    for i in range(1, len(operators) + 1):
        name = name_of(operators[begun])
        if i == len(operators) or name_of(operators[i]) != name:
            if name:
                took = starts[i] - starts[begun]
                yield _event("X", name, starts[begun], track, dur=took)
            begun = i


def _module_slices(
    operators: Sequence[Operation], starts: Sequence[float]
) -> Iterator[dict[str, object]]:
    """Nested slices: each level of the module path, as long as it stays the same."""
    open_: list[tuple[str, float]] = []
    for number, start in enumerate(starts):
        place = operators[number].place.module if number < len(operators) else ""
        parts = place.split(".") if place else []
        same = 0
        while same < min(len(parts), len(open_)) and open_[same][0] == parts[same]:
            same += 1
        while len(open_) > same:
            name, begun = open_.pop()
            yield _event("X", name, begun, _MODULES, dur=start - begun)
        open_ += [(part, start) for part in parts[same:]]


def snapshot(plan: Plan) -> dict[str, object]:
    """The plan as PyTorch's memory snapshot: a dict of plain values, to be pickled."""
    by_storage: dict[int, Allocation] = {a.storage: a for a in plan.allocations}
    address, top, trace = {}, _ALIGNED, []
    for number, storage, nbytes in plan.events:
        if nbytes > 0:
            address[storage], top = top, top + -(-nbytes // _ALIGNED) * _ALIGNED
        if storage not in address:
            continue
        action = "alloc" if nbytes > 0 else "free_completed"
        frames = _frames(plan, by_storage[storage], number)
        trace.append(
            {
                "action": action,
                "addr": address[storage],
                "size": abs(nbytes),
                "stream": 0,
                "time_us": number,
                "frames": frames,
            }
        )
    return {"segments": [], "device_traces": [trace], "allocator_settings": {}}


def _frames(plan: Plan, allocation: Allocation, number: int) -> list[dict[str, object]]:
    made = plan.operators[number] if number < len(plan.operators) else None
    file, _, line = ("", "", "") if made is None else made.place.line.rpartition(":")
    name = allocation.name or ("" if made is None else f"{made.name} {made.place.module}".strip())
    where = int(line) if line.isdigit() else 0
    return [{"name": name or "before the step", "filename": file, "line": where}]
