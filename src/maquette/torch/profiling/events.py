"""`torch.autograd.profiler_util`: what ran from when to when, and sums of it.

An event is one call of an operator, or one labelled range. Times are in microseconds. Nothing runs
on another device here, so what PyTorch tells of devices is 0.
"""

from __future__ import annotations

import warnings
from collections import defaultdict, namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

Kernel = namedtuple("Kernel", ["name", "device", "duration"])

# What events tell of devices: one name for each kind of device that PyTorch has had.
_DEVICE_TIMES = ("device_time", "device_time_total", "self_device_time_total")


def _format_time(time_us: float) -> str:
    """A time with a unit: ``1.500ms``."""
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    if time_us >= 1e3:
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


def _format_time_share(time_us: float, total_time_us: float) -> str:
    """A time as a share of another: ``12.00%``."""
    return f"{100.0 * time_us / total_time_us if total_time_us else 0.0:.2f}%"


def _format_memory(nbytes: float) -> str:
    """A number of bytes with a unit: ``1.50 KB``."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class FormattedTimesMixin:  # PyTorch's name
    """What events and sums of events tell by the same names."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total = self_device_time_total = device_time = 0.0
    device_memory_usage = self_device_memory_usage = 0

    @property
    def cuda_time(self) -> float:
        """`device_time` by its older name, which a FutureWarning says."""
        warnings.warn(
            "`cuda_time` is deprecated. Use `device_time` instead.", FutureWarning, stacklevel=2
        )
        return self.device_time

    @property
    def device_time_str(self) -> str:
        """`device_time` with a unit."""
        return _format_time(self.device_time)

    @property
    def device_time_total_str(self) -> str:
        """``device_time_total`` with a unit."""
        return _format_time(self.device_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """``self_device_time_total`` with a unit."""
        return _format_time(self.self_device_time_total)

    @property
    def cpu_time(self) -> float:
        """The mean time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with a unit."""
        return _format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """``cpu_time_total`` with a unit."""
        return _format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """``self_cpu_time_total`` with a unit."""
        return _format_time(self.self_cpu_time_total)


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator, or one labelled range; its children ran within it.

    What an event of a device would tell besides is kept as it is given.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: list[list[int]] | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        *,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list[Any] | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
        **others: object,
    ) -> None:
        vars(self).update(others)
        self.id, self.node_id, self.name = id, node_id, name
        self.trace_name = name if trace_name is None else trace_name
        self.overload_name = overload_name
        self.time_range = Interval(start_us, end_us)
        self.thread, self.fwd_thread = thread, fwd_thread
        self.input_shapes, self.concrete_inputs = input_shapes, concrete_inputs
        self.kwinputs, self.stack, self.scope = kwinputs, stack, scope
        self.cpu_memory_usage, self.flops = cpu_memory_usage, flops
        self.is_user_annotation, self.sequence_nr = is_user_annotation, sequence_nr
        self.count = 1
        self.is_async, self.is_remote, self.use_device = is_async, is_remote, use_device
        self.device_memory_usage = device_memory_usage
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def key(self) -> str:
        """What sums of events go by: the name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]  # computed
        """How long it took."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """How long it took without its children."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that were allocated and not freed, without those of its children."""
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note that another event ran within this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note that this event ran within another one."""
        self.cpu_parent = parent

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """The sum of events of one name."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.node_id = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = 0
        self.input_shapes: list[list[int]] | None = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.is_async = self.is_remote = self.is_user_annotation = False
        self.use_device: str | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or another sum."""
        if self.key is None:
            self.key, self.node_id, self.scope = other.key, other.node_id, other.scope
            self.input_shapes, self.stack = other.input_shapes, other.stack
            self.overload_name = other.overload_name
            self.is_user_annotation = other.is_user_annotation
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.count += other.count
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>"
        )


class StringTable(defaultdict[str, str]):
    """Names as they are shown; here they stand for themselves, whatever makes defaults."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


def nested(events: Iterable[FunctionEvent]) -> None:
    """Tell each event what ran within it: in its thread, begun and ended while it ran."""
    by_thread: dict[int, list[FunctionEvent]] = {}
    for event in events:
        event.cpu_children, event.cpu_parent = [], None
        by_thread.setdefault(event.thread, []).append(event)
    for found in by_thread.values():
        open_events: list[FunctionEvent] = []
        for event in sorted(found, key=lambda e: (e.time_range.start, -e.time_range.end)):
            span = event.time_range
            while open_events:
                outer = open_events[-1].time_range
                if span.start < outer.end and span.end <= outer.end:
                    open_events[-1].append_cpu_child(event)
                    event.set_cpu_parent(open_events[-1])
                    break
                open_events.pop()
            open_events.append(event)


def grouped(
    events: Iterable[FunctionEvent], by_shape: bool, by_stack: int, by_overload: bool
) -> list[FunctionEventAvg]:
    """The sums of events by name, and by what else is asked for."""
    sums: dict[object, FunctionEventAvg] = {}
    for event in events:
        key: Sequence[object] = (event.name, event.is_user_annotation)
        if by_shape:
            key = (*key, str(event.input_shapes))
        if by_stack:
            key = (*key, *(event.stack or ())[:by_stack])
        if by_overload:
            key = (*key, event.overload_name)
        known = sums.setdefault(tuple(key), FunctionEventAvg()).add(event)
        if not by_shape:
            known.input_shapes = None
        known.stack = (event.stack or [])[:by_stack] if by_stack else None
        if not by_overload:
            known.overload_name = None
    return list(sums.values())
