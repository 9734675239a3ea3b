"""Recording: a mode that sees operators below autograd, and a listener of labelled ranges.

What is recorded is what ran: operators with kernels, those of backward too, and above them those
that are made of others (`linear`). These are seen at the key Tracer, which a thread includes while
it is recorded and where all other operators fall through. While nothing is recorded nothing is
asked.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from maquette.core.ranges import USER, listeners
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload, replace_fallback
from maquette.dispatch.tls import tls
from maquette.library.costs import cost_of
from maquette.tensor.storage import UntypedStorage, observe_allocations
from maquette.tensor.tensor import Tensor
from maquette.torch.profiling.event_list import EventList
from maquette.torch.profiling.events import FunctionEvent

Call = Callable[[], object]
_running: list[None] = []  # as long as something is recorded, in whatever thread


def is_recording() -> bool:
    """Whether a profiler is on, in any thread."""
    return bool(_running)


def _now_us() -> float:
    return time.perf_counter_ns() / 1e3


class _Memory:
    """How many bytes of storages are held more than at the start."""

    def __init__(self) -> None:
        self.held = 0
        self._sizes: dict[int, int] = {}

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        self._sizes[storage.id] = nbytes
        self.held += nbytes

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None:
        self._sizes[storage_id] = new_nbytes
        self.held += new_nbytes - old_nbytes

    def released(self, storage_id: int) -> None:
        self.held -= self._sizes.pop(storage_id, 0)


class Recorder(TorchDispatchMode):
    """Records the operators and ranges of this thread from `start` to `stop`."""

    def __init__(
        self,
        *,
        shapes: bool = False,
        memory: bool = False,
        stack: bool = False,
        flops: bool = False,
    ) -> None:
        super().__init__()
        self.events: list[FunctionEvent] = []
        self._shapes, self._stack, self._flops = shapes, stack, flops
        self._memory = _Memory() if memory else None
        self._open = contextlib.ExitStack()

    def start(self) -> None:
        """Record from now on."""
        _running.append(None)
        self._open.callback(_running.pop)
        if self._memory is not None:
            self._open.enter_context(observe_allocations(self._memory))
        listeners().append(self)
        self._open.callback(listeners().remove, self)
        recorders().append(self)
        self._open.callback(_end_recorder, self)
        tls.st.add_include(_TRACER)
        self._open.enter_context(self)

    def stop(self) -> None:
        """Record no more."""
        self._open.close()

    def found(self) -> EventList:
        """What was recorded, in the order of beginning; each event knows what ran within it."""
        self.events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
        found = EventList(
            self.events, profile_memory=self._memory is not None, with_flops=self._flops
        )
        found._populate_cpu_children()
        return found

    # --- operators -------------------------------------------------------------------

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        if isinstance(func, OpOverload) and func.namespace == "profiler":
            return func(*args, **named)  # the ends of a range, which `begin` and `end` note
        held = self._held()
        start = _now_us()
        try:
            result = func(*args, **named)
        finally:
            end = _now_us()
            event = self._note(_name(func), start, end, held, None)
        if self._shapes:
            event.input_shapes = [_shape(value) for value in args]
        if isinstance(func, OpOverload):
            event.overload_name = func._schema.overload_name
            if self._flops:
                event.flops = int(cost_of(func, args, named, result).flops)
        return result

    def composite(self, op: OpOverload, params: Sequence[object], call: Call) -> object:
        """Run an operator that is made of others, and note it."""
        held, start = self._held(), _now_us()
        try:
            return call()
        finally:
            event = self._note(op._schema.name, start, _now_us(), held, None)
            event.overload_name = op._schema.overload_name
            if self._shapes:
                event.input_shapes = [_shape(value) for value in params]

    # --- ranges ----------------------------------------------------------------------

    def begin(self, name: str, args: str | None, scope: int) -> object:
        """A labelled range begins."""
        return name, scope, _now_us(), self._held()

    def end(self, token: Any) -> None:
        """The range ends."""
        name, scope, start, held = token
        self._note(name, start, _now_us(), held, scope).is_user_annotation = scope == USER

    def _held(self) -> int:
        return 0 if self._memory is None else self._memory.held

    def _note(
        self, name: str, start: float, end: float, held: int, scope: int | None
    ) -> FunctionEvent:
        event = FunctionEvent(
            len(self.events) + 1,
            name,
            threading.get_ident(),
            start,
            end,
            scope=scope or 0,
            cpu_memory_usage=self._held() - held,
            stack=_stack() if self._stack else None,
        )
        if name.startswith("ProfilerStep#"):
            event.name = "ProfilerStep*"  # one sum for all steps
        self.events.append(event)
        return event


class _Recorders(threading.local):
    def __init__(self) -> None:
        self.running: list[Recorder] = []


_recorders = _Recorders()
_TRACER = DispatchKey.Tracer.functionality_bits
_COMPOSITES = (
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeImplicitAutogradNestedTensor,
)


def recorders() -> list[Recorder]:
    """What records this thread, the innermost last."""
    return _recorders.running


def _end_recorder(recorder: Recorder) -> None:
    running = recorders()
    running.remove(recorder)
    if not running:
        tls.st.drop_include(_TRACER)


def _composite_kernel(op: OpOverload, ks: int) -> Callable[..., object] | None:
    """At the key Tracer: a kernel for operators that are made of others."""
    if op.find_key(K.highest(ks & ~_TRACER)) not in _COMPOSITES:
        return None

    def kernel(ks: int, *params: object) -> object:
        running = recorders()

        def call() -> object:
            return op.run(ks & ~_TRACER, params)

        return running[-1].composite(op, params, call) if running else call()

    return kernel


replace_fallback(DispatchKey.Tracer, _composite_kernel)


def _name(func: Callable[..., object]) -> str:
    if isinstance(func, OpOverload):
        return func._schema.name
    return str(getattr(func, "__name__", func))


def _shape(value: object) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value.shape)
    if isinstance(value, list | tuple) and any(isinstance(v, Tensor) for v in value):
        return [_shape(v) for v in value]
    return []


def _stack() -> list[str]:
    """The calls of the program that led here, the innermost first, without those of maquette."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
        if not module.startswith("maquette") and not code.co_filename.startswith("<maquette"):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found
