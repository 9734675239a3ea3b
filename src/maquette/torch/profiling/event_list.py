"""Lists of events: their sums, tables and traces."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from maquette.torch.profiling.events import (
    FunctionEvent,
    FunctionEventAvg,
    _format_memory,
    _format_time,
    _format_time_share,
    grouped,
    nested,
)

_METRICS = ("self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total")


class EventList(list[Any]):
    """Events, or sums of events."""

    def __init__(
        self,
        events: Iterable[FunctionEvent | FunctionEventAvg] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    def _populate_cpu_children(self) -> None:
        nested(self)

    def _like(self, events: Iterable[FunctionEvent | FunctionEventAvg]) -> EventList:
        return EventList(events, profile_memory=self._profile_memory, with_flops=self._with_flops)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each without what ran within it."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """A sum for each name, and for each list of shapes or stack if asked."""
        sums = grouped(self, group_by_input_shapes, group_by_stack_n, group_by_overload_name)
        return self._like(sums)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events, called Total."""
        total = FunctionEventAvg()
        for event in self:
            total += event
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, a line each.

        sort_by: an attribute, the largest first. row_limit: how many lines; -1 for all.
        top_level_events_only: leave out what ran within another. time_unit: s, ms or us for all.
        AttributeError for a name that events have not.
        """
        if not self:
            return ""
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda event: getattr(event, sort_by.replace("cuda", "device")))
            rows.reverse()
        if top_level_events_only:
            rows = [event for event in rows if getattr(event, "cpu_parent", None) is None]
        shown = rows if row_limit < 0 else rows[:row_limit]
        limits = {"Name": max_name_column_width, "Input Shapes": max_shapes_column_width}
        limits["Source Location"] = max_src_column_width
        total = self.self_cpu_time_total
        columns = [c for c in _columns(self, time_unit) if c.is_shown(rows)]
        lines = [[column.title for column in columns]]
        for event in shown:
            texts = [column.text(event, total) for column in columns]
            lines.append([_cut(t, limits.get(c.title)) for t, c in zip(texts, columns)])
        wide = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        rule = "  ".join("-" * width for width in wide)
        head, *body = ["  ".join(t.rjust(w) for t, w in zip(line, wide)) for line in lines]
        above = [] if header is None else ["=" * len(rule), header]
        end = f"Self CPU time total: {_in_unit(total, time_unit)}"
        return "\n".join([*above, rule, head, rule, *body, rule, end, ""])

    def __str__(self) -> str:
        return self.table()

    # --- traces ----------------------------------------------------------------------

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as JSON for Chrome's and Perfetto's viewers of traces."""
        process = os.getpid()
        found = [
            {
                "ph": "X",
                "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                "name": event.trace_name,
                "pid": process,
                "tid": event.thread,
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "args": {} if event.input_shapes is None else {"Input Dims": event.input_shapes},
            }
            for event in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": found}, file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can weigh by."""
        return list(_METRICS)

    def export_stacks(self, path: str, metric: str) -> None:
        """Write stacks and their time, a line each, for flame graphs; ValueError for a metric."""
        if metric not in _METRICS:
            raise ValueError(f"metric should be one of: {list(_METRICS)}")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                weight = int(
                    getattr(event, metric.replace("cuda", "device").replace("xpu", "device"))
                )
                if event.stack and weight > 0:
                    frames = [frame.replace(" ", "_").replace(";", "") for frame in event.stack]
                    file.write(f"{';'.join(reversed(frames))} {weight}\n")


class _Column(NamedTuple):
    """A column of a table: its title, its text for an event of a whole, whether it is shown."""

    title: str
    text: Callable[[Any, float], str]
    is_shown: Callable[[list[Any]], bool] = lambda rows: True


def _columns(events: EventList, unit: str | None) -> list[_Column]:
    memory = lambda rows: events._profile_memory  # noqa: E731
    flops = lambda rows: events._with_flops  # noqa: E731
    shapes = lambda rows: any(row.input_shapes for row in rows)  # noqa: E731
    stacks = lambda rows: any(row.stack for row in rows)  # noqa: E731
    return [
        _Column("Name", lambda e, _: str(e.key)),
        _Column("Self CPU %", lambda e, all: _format_time_share(e.self_cpu_time_total, all)),
        _Column("Self CPU", lambda e, _: _in_unit(e.self_cpu_time_total, unit)),
        _Column("CPU total %", lambda e, all: _format_time_share(e.cpu_time_total, all)),
        _Column("CPU total", lambda e, _: _in_unit(e.cpu_time_total, unit)),
        _Column("CPU time avg", lambda e, _: _in_unit(e.cpu_time, unit)),
        _Column("CPU Mem", lambda e, _: _format_memory(e.cpu_memory_usage), memory),
        _Column("Self CPU Mem", lambda e, _: _format_memory(e.self_cpu_memory_usage), memory),
        _Column("# of Calls", lambda e, _: str(e.count)),
        _Column("Input Shapes", lambda e, _: str(e.input_shapes), shapes),
        _Column("Source Location", lambda e, _: (e.stack or [""])[0], stacks),
        _Column("FLOPs", lambda e, _: f"{e.flops:,}" if e.flops else "--", flops),
    ]


def _cut(text: str, width: int | None) -> str:
    if width is None or width <= 0 or len(text) <= width:
        return text
    return text[: max(width - 3, 0)] + "..."


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def _in_unit(time_us: float, unit: str | None) -> str:
    return _format_time(time_us) if unit is None else f"{time_us / _UNITS[unit]:.3f}{unit}"
