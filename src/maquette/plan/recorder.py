"""What the planner sees: operators, storages and where in the model they belong.

`Recorder` is a `TorchDispatchMode` and an observer of allocations, as any user could write. It
keeps one `Operation` for each operator call and one `Allocation` for each storage, in program
order; bytes in use at any moment follow from those. It holds no tensor. What to run under it is
`step.py`; what to make of it, `plan.py`.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from maquette.autograd.grad_mode import no_grad
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.module_calls import Run, around_modules
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import node_observers, tls
from maquette.fake.exceptions import DataDependentOutputException, DynamicOutputShapeException
from maquette.higher_order.common import FunctionalHop, autograd_acting
from maquette.higher_order.observed import observers
from maquette.library.costs import cost_of
from maquette.nn import Module
from maquette.plan.assumptions import assumed
from maquette.tensor.storage import UntypedStorage, observe_allocations, observers_paused
from maquette.tensor.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STEP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "step.py")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator was called: dotted module path and ``file:line`` of the program.

    times: how many steps of a loop the call stands for.
    """

    module: str
    line: str
    times: int = 1


@dataclass(slots=True)
class Operation:
    """One operator call: its overload's name, phase, place, FLOPs, and bytes read and written.

    FLOPs and bytes are those of all the steps that the place stands for. dtype: of what it
    computes, the name of its first result's; "" where it gives no tensor.
    """

    name: str
    phase: str
    place: Place
    flops: int
    bytes_moved: int = 0
    dtype: str = ""


@dataclass(slots=True)
class Allocation:
    """One storage's life: by which operation it was made and released (-1: still alive).

    label: its category where that is known for certain; name: what a person calls it.
    """

    storage: int
    nbytes: int
    made_by: int
    phase: str
    released_by: int = -1
    label: str = ""
    name: str = ""


class Recorder(TorchDispatchMode):
    """Record operators and storages of the block it is entered for.

    progress: called with the number of operations so far, now and then. ``notes`` says what had to
    be assumed: which branch is counted, which loop has no known end.
    """

    supports_higher_order_operators = True
    measures_memory = True
    assumes_numbers = False  # else a program that computes with one is refused

    def __init__(self, progress: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.allocations: dict[int, Allocation] = {}
        # (operation number, storage, its bytes: made > 0, released < 0), at every change.
        self.events: list[tuple[int, int, int]] = []
        self.live_bytes = 0
        self.peak_bytes = 0
        self.peak_at = -1
        self.live_at_peak: list[int] = []
        self.phase = "forward"
        self.step_starts: list[int] = []  # the operation that each step began with
        self.stand_in = False  # whether the loss stands in for one that the program would have
        self._modules: list[str] = []
        self._failed = (0, "")
        self.notes: list[str] = []
        self._times = 1
        self._aside = False
        self._progress = progress
        self._stack: ExitStack | None = None
        self._live: dict[int, None] = {}
        self._started: list[int] = []
        self._more: dict[int, list[int]] = {}  # what stands for a storage's copies in other steps
        self._owed: list[tuple[int, int]] = []  # such copies, and of how many steps
        self._peak_is_stale = False

    # --- storages --------------------------------------------------------------------

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        """A storage was made."""
        number = storage.id
        self.allocations[number] = Allocation(number, nbytes, len(self.operations), self.phase)
        self._live[number] = None
        self._started.append(number)
        self._change(number, nbytes)

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None:
        """A storage grew or shrank."""
        known = self.allocations.get(storage_id)
        if known is not None:
            known.nbytes = new_nbytes
            self._change(storage_id, -old_nbytes)
            self._change(storage_id, new_nbytes)

    def released(self, storage_id: int) -> None:
        """The last reference to a storage went."""
        known = self.allocations.get(storage_id)
        if known is None or known.released_by >= 0 or self._stack is None:
            return
        if self._peak_is_stale:
            self._note_peak()
        known.released_by = len(self.operations)
        del self._live[storage_id]
        self._change(storage_id, -known.nbytes)
        if storage_id in self._more:
            self._release_copies(storage_id)

    def _copies(self, storage: int, times: int) -> None:
        """Count a storage ``times`` times: another one stands for those of the other steps."""
        known, number = self.allocations[storage], -1 - len(self.allocations)
        nbytes = known.nbytes * (times - 1)
        self.allocations[number] = Allocation(number, nbytes, known.made_by, known.phase)
        self._live[number] = None
        self._started.append(number)
        self._more.setdefault(storage, []).append(number)
        self._change(number, nbytes)

    def _release_copies(self, storage: int) -> None:
        """Backward of a step that stands for several releases its own now, the others' after it."""
        place = tls.st.node_context
        times = place.times if self.phase == "backward" and isinstance(place, Place) else 1
        for number in self._more.pop(storage):
            if times > 1:
                self._owed.append((number, times))
            else:
                self.released(number)

    def _settle(self, times: int) -> None:
        """Release what steps owed that stood for more than ``times``, which are over."""
        owed, self._owed = self._owed, [o for o in self._owed if o[1] <= times]
        for number, of in owed:
            if of > times:
                self.released(number)

    def label(self, storage: UntypedStorage, label: str, name: str) -> None:
        """Say what a storage turned out to be; the first word counts."""
        known = self.allocations.get(storage.id)
        if known is not None and not known.label:
            known.label, known.name = label, name

    def adopt(self, storage: UntypedStorage, label: str, name: str) -> None:
        """Count a storage that may have been there before recording began, and label it."""
        if storage.id not in self.allocations:
            self.allocated(storage, storage.nbytes())
            weakref.finalize(storage, self.released, storage.id).atexit = False
        self.label(storage, label, name)

    def _change(self, storage: int, by: int) -> None:
        self.live_bytes += by
        self.events.append((len(self.operations), storage, by))
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes
            self.peak_at = len(self.operations)
            self._peak_is_stale = True

    def _note_peak(self) -> None:
        # Copying the live set at every new maximum would be quadratic: it is copied only when a
        # release is about to end a run of growth.
        self.live_at_peak = list(self._live)
        self._peak_is_stale = False

    @property
    def in_use(self) -> list[tuple[int, int]]:
        """(operation number, bytes in use after it happened), at every change."""
        level, levels = 0, []
        for number, _, nbytes in self.events:
            level += nbytes
            levels.append((number, level))
        return levels

    # --- operators -------------------------------------------------------------------

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if not isinstance(func, OpOverload):  # a higher-order operator: what it calls is counted
            assert isinstance(func, FunctionalHop)
            with autograd_acting(), self.watching():  # so that composites show their parts
                return func.defined(*args, **(kwargs or {}))
        if self._aside:
            return self._result(func, args, kwargs or {})
        if tls.st.inference and func.facts.cost is None:
            # In inference mode a composite comes here whole: its parts have the costs.
            with self.watching():
                whole = func.decompose(*args, **(kwargs or {}))
            if whole is not NotImplemented:
                return whole
        st = tls.st
        context = st.node_context
        if self.phase == "step":
            place = Place("", self._stepped(args))
        elif self.phase == "backward" and isinstance(context, Place):
            place = context
        else:
            place = self.here()
            st.node_context = place
        if self._owed:
            self._settle(place.times)
        operation = Operation(str(func), self.phase, place, 0)
        result = self._result(func, args, kwargs or {})
        cost = cost_of(func, args, kwargs or {}, result)
        operation.flops = cost.flops * place.times
        operation.bytes_moved = ((cost.bytes_read or 0) + (cost.bytes_written or 0)) * place.times
        operation.dtype = _dtype(result)
        self.operations.append(operation)
        if self._progress is not None and len(self.operations) % 256 == 0:
            self._progress(len(self.operations))
        return result

    def _result(
        self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            result, said = assumed(func, args, kwargs, error, numbers=self.assumes_numbers)
            self._note(said)
            _forget_frames(error)
            return result

    def _stepped(self, args: tuple[object, ...]) -> str:
        """What an optimizer's operator works on: a parameter, or the first of several."""
        for arg in args:
            group = arg if isinstance(arg, (list, tuple)) else (arg,)
            for t in group[:1]:
                known = self.allocations.get(t._storage.id) if isinstance(t, Tensor) else None
                if known is not None and known.name:
                    others = f" and {len(group) - 1} more" if len(group) > 1 else ""
                    return f"{known.name}{others}"
        return "optimizer"

    @property
    def module(self) -> str:
        """Dotted path of the module that is running; "" outside of any."""
        return self._modules[-1] if len(self._modules) > self._floor[0] else self._floor[1]

    def enter_module(self, path: str) -> None:
        """A module's forward begins."""
        self._modules.append(path)

    def fails(self, error: Exception) -> None:
        """An error passes out of the running module; the innermost is told first."""
        if self._failed[0] != id(error):  # the error itself would keep its frames' tensors alive
            self._failed = (id(error), self.module)

    def failed_in(self, error: Exception) -> str:
        """The innermost module that an error came out of; "" for none."""
        return self._failed[1] if self._failed[0] == id(error) else ""

    def leave_module(self) -> None:
        """A module's forward ended."""
        self._modules.pop()

    # --- blocks that are not run: `maquette.fake.replay` ---------------------------------

    _seen_from: tuple[str, str] | None = None  # of a shadow: a line, and what it stands for
    _floor = (0, "")  # where modules begin, and within which
    _loops = 0  # how many loops, branches and notes there were

    @property
    def repeats_blocks(self) -> bool:
        """Whether operators of a block may be told of by `repeat` instead of being called."""
        return self._times == 1 and not self._aside

    def mark(self) -> int:
        """How many operators were recorded."""
        return len(self.operations)

    def since(self, mark: int) -> list[Operation]:
        """The operators recorded from ``mark`` on."""
        return self.operations[mark:]

    def unrepeatable(self) -> int:
        """How often something happened so far that `repeat` cannot tell of."""
        return self._loops

    def here(self) -> Place:
        """Where the program is."""
        line = caller_line()
        if self._seen_from is not None and line == self._seen_from[0]:
            line = self._seen_from[1]
        return Place(self.module, line, self._times)

    def moved(self, place: Place, there: Place, here: Place) -> Place:
        """A place in a block called at ``there``, as it is in an equal block called at ``here``."""
        return _moved(place, there, here)

    def repeat(self, record: Operation, there: Place, here: Place) -> None:
        """Record an operator again, of a block that was called at ``there`` and now at ``here``."""
        place = _moved(record.place, there, here)
        if self.phase != "backward":
            tls.st.node_context = place
        cost = record.flops, record.bytes_moved
        self.operations.append(Operation(record.name, self.phase, place, *cost, record.dtype))
        if self._progress is not None and len(self.operations) % 256 == 0:
            self._progress(len(self.operations))

    def shadow(self, here: Place) -> Recorder:
        """A recorder for the same operators unseen, called as it were at ``here``."""
        made = type(self)()
        made._modules = self._modules
        made._floor = (len(self._modules), here.module)
        made._seen_from = (caller_line(), here.line)
        return made

    # --- loops and branches: `maquette.higher_order.observed` ----------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The block is watched, which the mode's own handler is not."""
        self._loops += 1
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)

    @contextmanager
    def middle_steps(self, times: int, first: Sequence[int]) -> Iterator[list[int]]:
        """The block counts as ``times`` steps: what it leaves alive, each leaves again."""
        number = len(self._started)
        before, self._times = self._times, self._times * times
        st = tls.st
        place = st.node_context
        if self.phase == "backward" and isinstance(place, Place):  # a checkpoint's, run again
            st.node_context = replace(place, times=place.times * times)
        carried: list[int] = []
        try:
            yield carried
        finally:
            self._times = before
            if self.phase == "backward":
                st.node_context = place
        once = {new for old, new in zip(first, carried) if old not in self._live}
        for storage in self._started[number:]:
            if times > 1 and storage in self._live and storage not in once:
                self._copies(storage, times)

    def stands_for(self, storage: int, times: int) -> None:
        """Count a storage ``times`` times, unless the steps of the loop share it."""
        known = self.allocations.get(storage)
        if known is None or storage not in self._live or known.made_by >= len(self.operations):
            return
        if self.operations[known.made_by].place.times >= times:
            self._copies(storage, times)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Nothing in the block is counted."""
        self._loops += 1
        before, self._aside = self._aside, True
        try:
            with observers_paused():
                yield
        finally:
            self._aside = before

    def heavier(self, op: str, roles: Sequence[str], branches: Sequence[Callable[[], Any]]) -> int:
        """The branch with the most FLOPs; with equal ones, with the highest peak."""
        costs = [self._trial(branch) for branch in branches]
        counted = max(range(len(costs)), key=costs.__getitem__)
        others = " and ".join(
            f"{role}: {flops:,} FLOPs, {nbytes:,} bytes"
            for role, (flops, nbytes) in zip(roles, costs)
        )
        self._note(f"{op}: {roles[counted]} is counted, the costlier branch ({others})")
        return counted

    def unknown_count(self, op: str) -> None:
        """Say that a loop is counted as one step."""
        self._note(f"{op}: how often it goes round depends on data; one step is counted")

    def _note(self, text: str) -> None:
        self._loops += 1
        where = ", ".join(part for part in (self.module, caller_line()) if part)
        note = f"{where}: {text}"
        if note not in self.notes:
            self.notes.append(note)

    def _trial(self, branch: Callable[[], Any]) -> tuple[int, int]:
        """FLOPs and peak bytes of a branch alone."""
        trial = Recorder()
        with self.aside(), no_grad(), trial:
            branch()
        return sum(o.flops for o in trial.operations), trial.peak_bytes

    # --- the block -------------------------------------------------------------------

    def __enter__(self) -> Recorder:
        self._stack = ExitStack()
        observers.append(self)
        self._stack.callback(observers.remove, self)
        self._stack.enter_context(observe_allocations(self))
        node_observers.append(self)
        self._stack.callback(node_observers.remove, self)
        self._stack.callback(setattr, tls.st, "node_context", tls.st.node_context)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if self._peak_is_stale:
            self._note_peak()
        assert self._stack is not None
        self._stack.close()
        self._stack = None

    def begin_step(self) -> None:
        """What comes now is another step of the program."""
        self.step_starts.append(len(self.operations))

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Attribute what happens in the block to ``phase``: forward, backward or step."""
        before, self.phase = self.phase, phase
        tls.st.node_context = None
        try:
            yield
        finally:
            self._settle(0)
            self.phase = before


def _forget_frames(error: BaseException | None) -> None:
    """Drop the frames of an error that was dealt with: they would keep tensors alive for long."""
    while error is not None:
        error.__traceback__, error = None, error.__context__


def _dtype(result: object) -> str:
    if isinstance(result, (list, tuple)):
        result = next((r for r in result if isinstance(r, Tensor)), None)
    return result.meta.dtype.name if isinstance(result, Tensor) else ""


@contextmanager
def module_paths(recorder: Recorder, model: Module) -> Iterator[None]:
    """Tell ``recorder`` which module of ``model`` is running."""
    paths = {id(module): path for path, module in model.named_modules()}

    def around(
        module: object, run: Run, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        path = paths.get(id(module))
        if path is None:
            return run(*args, **kwargs)
        recorder.enter_module(path)
        try:
            return run(*args, **kwargs)
        except Exception as error:
            recorder.fails(error)
            raise
        finally:
            recorder.leave_module()

    with around_modules(around):
        yield


@functools.lru_cache(maxsize=65_536)
def _moved(place: Place, there: Place, here: Place) -> Place:
    """A place in a block called at ``there``, as it is in an equal block called at ``here``."""
    module, line = place.module, place.line
    if module == there.module or module.startswith(f"{there.module}."):
        module = here.module + module[len(there.module) :]
    return Place(module, here.line if line == there.line else line, place.times)


def caller_line() -> str:
    """``file:line`` of the nearest frame outside this package: the line of the program."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == _STEP:  # nothing of the program is below: its launcher is
            return ""
        if not name.startswith(_PACKAGE) and not name.startswith("<"):
            return f"{_short(name, os.getcwd())}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


@functools.lru_cache(maxsize=4096)
def _short(path: str, here: str) -> str:
    """A path as it is told: of an installed library from its package on, else from ``here``."""
    _, installed, inner = path.rpartition(f"{os.sep}site-packages{os.sep}")
    relative = os.path.relpath(path, here)
    return inner if installed else path if relative.startswith("..") else relative
