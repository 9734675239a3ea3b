"""`plan`: what a program needs, before it runs anywhere. The answers, computed from a recording.

Bytes are bytes of live storages, each counted once; FLOPs are what the operators' pages say. The
recording is made by `recorder.py`, tables are drawn by `report.py`.
"""

from __future__ import annotations

import csv
import json
import pathlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from maquette.core.device import device as Device
from maquette.core.dtype import dtype
from maquette.fake.mode import FakeTensorMode
from maquette.nn import Module
from maquette.plan.allocator import DeviceMemory, Event, replay
from maquette.plan.chunked_loss import Look, look
from maquette.plan.html import WhatIf, embedded, page
from maquette.plan.recipe import Loss, OptimizerFactory, Recipe, optimizer_factory
from maquette.plan.recorder import Allocation, Operation, Recorder
from maquette.plan.report import text
from maquette.plan.step import FakeInputs, run_step, scalar_loss, tensors_in
from maquette.plan.tree import ModuleShape, module_shapes

CATEGORIES = (
    "parameters",
    "gradients",
    "optimizer state",
    "activations",
    "cache",
    "inputs",
    "temporaries",
)


@dataclass(frozen=True)
class Held:
    """A storage alive at the peak: bytes, category, the operation that made it (None: before).

    name: what a person calls it, such as ``blocks.3.mlp.up.weight`` or ``gradient of ...``.
    """

    nbytes: int
    category: str
    made_by: Operation | None
    name: str


@dataclass(frozen=True)
class StepRow:
    """One step of several: its peak, FLOPs and number of operators."""

    peak_bytes: int
    flops: int
    operators: int


@dataclass(frozen=True)
class ModuleRow:
    """One module of the tree; bytes and FLOPs include its children's."""

    path: str
    kind: str
    parameters: int
    parameter_bytes: int
    activation_bytes: int
    flops: int


class Plan:
    """What one step of a program needs.

    peak_bytes: the most bytes of storages alive at once; flops: of the whole step, and by phase in
    ``flops_by_phase``; parameters: their number; timeline: (operation number, bytes alive) at every
    change; operators: one `Operation` a call, in order; held: the storages alive at the peak;
    allocations: every storage's life; events: makings and releases in their order. stand_in_loss:
    whether the mean of the output stood in for a loss that the program does not have. notes: what
    was assumed, a sentence each: which branch of a `cond` is counted, what only data could tell.
    """

    def __init__(self, recorder: Recorder, tree: Sequence[ModuleShape]) -> None:
        self.operators: list[Operation] = recorder.operations
        self.timeline: list[tuple[int, int]] = recorder.in_use
        self.peak_bytes: int = recorder.peak_bytes
        self.events: list[Event] = recorder.events
        self.allocations: list[Allocation] = list(recorder.allocations.values())
        self.stand_in_loss: bool = recorder.stand_in
        self._peak_at = recorder.peak_at
        self._step_starts = recorder.step_starts
        self._forward_ends = _forward_ends(self.operators)
        self.notes: list[str] = recorder.notes
        self.parameters: int = tree[0].parameters
        self.parameter_bytes: int = tree[0].parameter_bytes
        flops: Counter[str] = Counter()
        for operation in self.operators:
            flops[operation.phase] += operation.flops
        self.flops_by_phase: dict[str, int] = dict(flops)
        self.flops: int = sum(flops.values())
        self.peak_operation: Operation | None = self._at(recorder.peak_at)
        self.held: list[Held] = sorted(
            (self._held(recorder.allocations[s]) for s in recorder.live_at_peak),
            key=lambda h: -h.nbytes,
        )
        self._modules = _module_rows(recorder, tree, self)

    def _at(self, number: int) -> Operation | None:
        return self.operators[number] if 0 <= number < len(self.operators) else None

    def _held(self, allocation: Allocation) -> Held:
        made = self.maker(allocation)
        name = allocation.name or ("" if made is None else _result_name(made))
        return Held(allocation.nbytes, self.category(allocation), made, name)

    def maker(self, allocation: Allocation) -> Operation | None:
        """The operation that made a storage; None for what was there before the step."""
        if allocation.label in ("parameters", "inputs"):
            return None
        return self._at(allocation.made_by)

    def category(self, allocation: Allocation) -> str:
        """One of `CATEGORIES`: what a storage is for."""
        if allocation.label:
            return allocation.label
        if allocation.phase != "forward":
            return "temporaries"
        at = bisect_right(self._forward_ends, allocation.made_by)
        if at == len(self._forward_ends):  # inference: an earlier operation left it for a later one
            return "activations" if allocation.made_by < self._peak_at else "temporaries"
        outlives = allocation.released_by < 0 or allocation.released_by >= self._forward_ends[at]
        return "activations" if outlives else "temporaries"

    def by_step(self) -> list[StepRow]:
        """Each step that was planned: the first makes what later ones find."""
        ends = [*self._step_starts[1:], len(self.operators) + 1]
        rows = []
        for start, end in zip(self._step_starts, ends, strict=True):
            peak = max((n for at, n in self.timeline if start <= at < end), default=0)
            operators = self.operators[start:end]
            rows.append(StepRow(peak, sum(o.flops for o in operators), len(operators)))
        return rows

    def by_category(self) -> dict[str, int]:
        """Bytes alive at the peak by category."""
        sums: Counter[str] = Counter()
        for held in self.held:
            sums[held.category] += held.nbytes
        return {name: sums[name] for name in CATEGORIES if sums[name]}

    def by_module(self) -> list[ModuleRow]:
        """The module tree, parents before children."""
        return self._modules

    def operator_counts(self) -> list[tuple[str, int, int]]:
        """(overload, calls, FLOPs), most called first."""
        calls: Counter[str] = Counter()
        flops: Counter[str] = Counter()
        for operation in self.operators:
            calls[operation.name] += operation.place.times
            flops[operation.name] += operation.flops
        return [(name, count, flops[name]) for name, count in calls.most_common()]

    def to_dict(self) -> dict[str, object]:
        """Everything but the operators one by one; bytes and FLOPs as integers."""
        where = self.peak_operation
        return {
            "peak_bytes": self.peak_bytes,
            "peak": None
            if where is None
            else {
                "operator": where.name,
                "phase": where.phase,
                "module": where.place.module,
                "line": where.place.line,
            },
            "notes": self.notes,
            "flops": self.flops,
            "flops_by_phase": self.flops_by_phase,
            "parameters": self.parameters,
            "parameter_bytes": self.parameter_bytes,
            "by_category": self.by_category(),
            "by_step": [asdict(row) for row in self.by_step()],
            "timeline": [list(point) for point in self.timeline],
            "by_module": [asdict(row) for row in self._modules],
            "largest": [_held_row(h) for h in self.held[:10]],
            "operators": [
                {"name": n, "calls": c, "flops": f} for n, c, f in self.operator_counts()
            ],
        }

    def to_json(self, path: str | pathlib.Path) -> None:
        """Write `to_dict` to a file."""
        pathlib.Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", "utf-8")

    def on_device(self, capacity: int | None = None, *, expandable: bool = False) -> DeviceMemory:
        """What CUDA's caching allocator would hold: allocated and reserved bytes, segments.

        capacity: the device's bytes; expandable: ``expandable_segments:True``. Raises MemoryError
        where the program does not fit, fragmentation included.
        """
        return replay(self.events, capacity=capacity, expandable=expandable)

    def to_html(
        self, path: str | pathlib.Path, title: str = "plan", what_if: WhatIf | None = None
    ) -> None:
        """Write one page for a browser: memory over the step, modules, operators; no network.

        what_if: other ways to run the step, for a table of them.
        """
        pathlib.Path(path).write_text(page(self, title, what_if), "utf-8")

    def __str__(self) -> str:
        """The report, as ``maquette plan`` prints it."""
        return text(self)

    def _repr_html_(self) -> str:
        return embedded(page(self))

    def to_csv(self, path: str | pathlib.Path) -> None:
        """Write every operator as a line: what it is, where, its FLOPs and the bytes it moves."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["number", "operator", "phase", "module", "line", "flops", "bytes"])
            for number, o in enumerate(self.operators):
                place = o.place
                lines.writerow(
                    [number, o.name, o.phase, place.module, place.line, o.flops, o.bytes_moved]
                )


def _held_row(held: Held) -> dict[str, object]:
    made = held.made_by
    return {
        "nbytes": held.nbytes,
        "category": held.category,
        "name": held.name,
        "operator": None if made is None else made.name,
        "module": None if made is None else made.place.module,
        "line": None if made is None else made.place.line,
    }


def _forward_ends(operators: Sequence[Operation]) -> list[int]:
    """Where each forward ended: the operators that began a backward, or else what came next."""
    phases = [o.phase for o in operators]
    pairs = [(i, now) for i, (before, now) in enumerate(pairwise(phases), 1) if before == "forward"]
    ends = [i for i, now in pairs if now == "backward"]
    return ends or [i for i, now in pairs if now != "forward"]


def _result_name(made: Operation) -> str:
    """What to call a result that has no name of its own."""
    kind = "gradient in" if made.phase == "backward" else "result in"
    return f"{kind} {made.place.module}" if made.place.module else ""


def _module_rows(recorder: Recorder, tree: Sequence[ModuleShape], plan: Plan) -> list[ModuleRow]:
    flops: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for operation in recorder.operations:
        flops[operation.place.module] += operation.flops
    last = plan._forward_ends[-2] if len(plan._forward_ends) > 1 else 0
    for allocation in plan.allocations:
        if allocation.made_by < last:
            continue  # of several passes, the last: that is what one pass keeps
        made = plan.maker(allocation)
        if made is not None and plan.category(allocation) == "activations":
            kept[made.place.module] += allocation.nbytes
    flops, kept = _summed_upwards(flops), _summed_upwards(kept)
    return [
        ModuleRow(m.path, m.kind, m.parameters, m.parameter_bytes, kept[m.path], flops[m.path])
        for m in tree
    ]


def _summed_upwards(own: Counter[str]) -> Counter[str]:
    """Sums over each dotted path and everything below it; "" is the whole."""
    sums: Counter[str] = Counter()
    for path, value in own.items():
        sums[""] += value
        while path:
            sums[path] += value
            path = path.rpartition(".")[0]
    return sums


def plan(
    model: Module,
    args: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
    *,
    train: bool = False,
    optimizer: str | OptimizerFactory | None = None,
    loss: Loss | None = None,
    device: str | Device | None = None,
    autocast: dtype | None = None,
    accumulate: int = 1,
    steps: int = 1,
    checkpoint: str = "",
    generate: int = 0,
    chunk_loss: int = 1,
    attention: str = "",
    progress: Callable[[int], None] | None = None,
    recorders: list[Recorder] | None = None,
    replay: bool = True,
) -> Plan:
    """Plan one step of ``model(*args, **kwargs)``, with fake tensors: no data, no accelerator.

    train: forward, backward and, with an optimizer, its first step; else forward without grad.
    optimizer: a name of `OPTIMIZER_CLASSES`, such as "adamw", or a function of the parameters.
    loss: a function of the output; by default the output if it is a scalar, its ``.loss``, or else
    the mean of the output as a stand-in (``stand_in_loss`` of the plan then says so).
    device: where to plan it, such as "cuda"; by default where the tensors are.
    autocast: bfloat16 or float16: each forward is a region of mixed precision.
    accumulate: forwards and backwards before the optimizer's step. steps: how many whole steps.
    checkpoint: a pattern of module paths, such as "blocks.*", that are run again in backward.
    generate: so many tokens after the prompt in ``kwargs``, on a cache that grows step by step.
    chunk_loss: into how many chunks of rows the last linear and its cross_entropy are cut.
    attention: "flash", "efficient" or "math", the one kernel that sdpa may take.

    progress: called with the number of operators so far, now and then. recorders: a list that gets
    the recorder before the step begins, so that a caller can say how far a failing step came.

    replay: whether equal blocks called with equal metas are run once, which gives the same plan;
    see `FakeTensorMode.replaying` for what a program may do that this leaves out.

    The model and its inputs may be real or fake; they are as they were when this returns. Raises
    what the program raises, TypeError where training has nothing to start from, ValueError for an
    unknown optimizer or a number of times below 1.
    """
    made_by = optimizer_factory(optimizer)
    recipe = Recipe(
        train,
        made_by,
        loss,
        autocast,
        accumulate,
        steps,
        checkpoint,
        generate,
        chunk_loss,
        attention,
    )
    mode = _mode_of(model, args, kwargs or {})
    on = Device(device) if isinstance(device, str) else device
    fakes = FakeInputs(mode, on)
    recorder = Recorder(progress)
    if recorders is not None:
        recorders.append(recorder)
    was_training = model.training
    model.train(train)
    try:
        with fakes.model(model), mode:
            inputs = [fakes.value(a) for a in args]
            keywords = {k: fakes.value(v) for k, v in (kwargs or {}).items()}
            run_step(recorder, model, inputs, keywords, recipe, mode if replay else None)
            made = Plan(recorder, module_shapes(model))
            for p in model.parameters():
                p.grad = None
    finally:
        model.train(was_training)
    return made


def look_at(
    model: Module,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    train: bool,
    loss: Loss | None = None,
    device: str | Device | None = None,
) -> Look:
    """What a forward of ``model(*args, **kwargs)`` calls, and its loss with ``train``, on fakes."""
    mode = _mode_of(model, args, kwargs)
    fakes = FakeInputs(mode, Device(device) if isinstance(device, str) else device)
    inputs = [fakes.value(a) for a in args]
    keywords = {k: fakes.value(v) for k, v in kwargs.items()}

    def run() -> None:
        output = model(*inputs, **keywords)
        if train:
            scalar_loss(output, loss, grad=False)

    with fakes.model(model), mode:
        return look(model, run, train=train)


def _mode_of(model: Module, args: Sequence[object], kwargs: Mapping[str, object]) -> FakeTensorMode:
    """The mode that the model or its inputs are fake in, or a new one."""
    everything = [*model.parameters(), *model.buffers(), *tensors_in([*args, *kwargs.values()])]
    modes = [t.fake_mode for t in everything if t.fake_mode is not None]
    if not modes:
        return FakeTensorMode()
    assert isinstance(modes[0], FakeTensorMode)
    return modes[0]
