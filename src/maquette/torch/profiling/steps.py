"""`torch.profiler`: a profiler that goes by the steps of a program."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from maquette.torch.profiling.event_list import EventList
from maquette.torch.profiling.whole import profile as whole
from maquette.torch.profiling.whole import record_function


class ProfilerActivity(Enum):
    """What a profiler watches, of PyTorch's."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profiler does at a step, of PyTorch's."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4  # which no schedule here gives


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """The cpu."""
    return {ProfilerActivity.CPU}


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record at every step."""
    return ProfilerAction.RECORD


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """What is done at each step: rounds of waiting, warming up and recording.

    repeat: how many rounds; 0 for ever. skip_first: steps before the first. skip_first_wait: the
    first round does not wait. ValueError for negative numbers, and for nothing to record.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError(
            f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, active={active}, "
            f"repeat={repeat}, skip_first={skip_first}; none may be negative, and active not 0"
        )
    size = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        number, place = divmod(step, size)
        if repeat and number >= repeat:
            return ProfilerAction.NONE
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < size - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """An ``on_trace_ready`` that writes each trace to a file in a folder."""

    def handler(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".json.gz" if use_gzip else ".json"
        name = f"{worker}.{time.time_ns()}.pt.trace{end}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class profile:
    """Records what runs on the cpu in a block, or in the steps that a schedule names.

    schedule: from the number of a step to a `ProfilerAction`; every `step` begins the next one.
    on_trace_ready: called with the profiler when a round was recorded. record_shapes,
    profile_memory, with_stack, with_flops: what each event tells besides. acc_events: keep the
    events of earlier rounds. The other options are for devices and libraries that are not here.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities or supported_activities())
        self.schedule = schedule or _default_schedule_fn
        self._by_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self._options: dict[str, Any] = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
        }
        self.acc_events = acc_events
        self._make_trace_id = custom_trace_id_callback
        self._trace_id = ""
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: whole | None = None
        self._kept: EventList | None = None
        self._metadata: dict[str, object] = {}
        self._step_range: record_function | None = None

    # --- beginning and ending --------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin the first step."""
        self._follow(None, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End the last step."""
        self._end_step()
        if self.current_action in _RECORDS:
            self._stop_recording()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """End a step and begin the next."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._follow(before, self.current_action)
        self._begin_step()

    def _follow(self, before: ProfilerAction | None, now: ProfilerAction) -> None:
        saves = before is ProfilerAction.RECORD_AND_SAVE
        if before in _RECORDS and (saves or now not in _RECORDS):
            self._stop_recording()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
            before = None
        if now in _RECORDS and before not in _RECORDS:
            self.profiler = whole(**self._options)
            make = self._make_trace_id
            self._trace_id = uuid.uuid4().hex.upper() if make is None else make()
            self.profiler.__enter__()

    def _stop_recording(self) -> None:
        assert self.profiler is not None
        self.profiler.__exit__(None, None, None)
        if self.acc_events and self._kept is not None:
            self._kept.extend(self.profiler.function_events)
        else:
            self._kept = self.profiler.function_events

    def _begin_step(self) -> None:
        if self._by_steps and self.current_action in _RECORDS:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}")
            self._step_range.__enter__()

    def _end_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__(None, None, None)
            self._step_range = None

    # --- results ---------------------------------------------------------------------

    def events(self) -> EventList:
        """The events of the round recorded last; RuntimeError before there is one."""
        if self._kept is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._kept

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """A sum for each name."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a trace for viewers; compressed where the path ends in ``.gz``."""
        plain = path.removesuffix(".gz")
        self.events().export_chrome_trace(plain)
        if self._metadata:
            with open(plain, encoding="utf-8") as file:
                trace = json.load(file) | self._metadata
            with open(plain, "w", encoding="utf-8") as file:
                json.dump(trace, file)
        if plain != path:
            with open(plain, "rb") as source, gzip.open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            os.remove(plain)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graphs."""
        self.events().export_stacks(path, metric)

    def get_trace_id(self) -> str | None:
        """What names the round that is, or was last, recorded; None before there is one."""
        return self._trace_id or None

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Have a function name the rounds from the next on."""
        self._make_trace_id = callback

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the traces that are written."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add what a JSON text says to the traces that are written."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """`add_metadata_json`, before the start."""
        self.add_metadata_json(key, value)
