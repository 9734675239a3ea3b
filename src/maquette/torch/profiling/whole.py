"""`torch.autograd.profiler`: everything that runs in a block, and labels for parts of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ContextDecorator
from typing import Any

from maquette.aten.profiler_ranges import RecordedRange
from maquette.core.ranges import listeners
from maquette.dispatch.registry import ops
from maquette.dispatch.stacks.hearing import nobody_sees_calls
from maquette.torch.profiling.event_list import EventList
from maquette.torch.profiling.events import FunctionEventAvg
from maquette.torch.profiling.recording import Recorder


def _nobody_hears() -> bool:
    return not listeners() and nobody_sees_calls()


class record_function(ContextDecorator):
    """A labelled range of a program, for profilers that are on when it begins.

    It begins and ends by operators, as in PyTorch: modes see them and traced graphs keep them.
    Where neither they nor profilers are there it is its label alone (25 to 1.5 us, PyTorch 7-14).
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        # It may be entered within. None: nobody was told.
        self._begun: list[object | None] = []

    def __enter__(self) -> record_function:
        if self.name.__class__ is str and self.args is None and _nobody_hears():
            self._begun.append(None)
            return self
        self._begun.append(ops.profiler._record_function_enter_new(self.name, self.args))
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._begun:
            return
        record = self._begun.pop()
        if record is None:
            if nobody_sees_calls():
                return
            record = RecordedRange.unheard(self.name)  # a mode that began within sees the end
        ops.profiler._record_function_exit._RecordFunction(record)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """The future: the range ends where its block does."""
        return fut


class profile:
    """Records what runs in a block on the cpu: operators below autograd, and labelled ranges.

    enabled: whether it records. record_shapes, profile_memory, with_stack, with_flops: what each
    event tells besides. The other options choose devices and libraries that are not here. Results
    are ``function_events``, sums by ``key_averages()``, text by ``table()``. RuntimeError for
    questions before the block has ended, and for a second block.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: object = None,
        acc_events: bool = False,
        custom_trace_id_callback: object = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: object = None,
    ) -> None:
        self.enabled, self.use_device = enabled, use_device
        self.record_shapes = record_shapes or with_flops
        self.profile_memory, self.with_stack, self.with_flops = (
            profile_memory,
            with_stack,
            with_flops,
        )
        self.with_modules, self.use_cpu, self.entered = with_modules, use_cpu, False
        self._recorder: Recorder | None = None
        self._events: EventList | None = None

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._recorder = Recorder(
            shapes=self.record_shapes,
            memory=self.profile_memory,
            stack=self.with_stack,
            flops=self.with_flops,
        )
        self._recorder.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self._events = self._recorder.found()
            self._recorder = None

    @property
    def function_events(self) -> EventList:
        """The events in the order of their beginning."""
        if self._events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._events

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """A sum for each name."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self.function_events.total_average()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as text; `EventList.table`."""
        return self.function_events.table(
            sort_by, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, header, top_level_events_only,
        )  # fmt: skip

    def export_chrome_trace(
        self,
        path: str | os.PathLike[str],
        metadata: Mapping[str, object] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Write a trace for viewers, and these texts in it. It is always Python that writes."""
        self.function_events.export_chrome_trace(path)
        if metadata:
            with open(path, encoding="utf-8") as file:
                trace = json.load(file) | dict(metadata)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(trace, file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graphs; RuntimeError where none were recorded."""
        if not self.with_stack:
            raise RuntimeError("export_stacks() requires with_stack=True.")
        self.function_events.export_stacks(path, metric)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else str(self._events)

    __repr__ = __str__
