"""A training script as it is, watched until a step of it is steady.

The script runs on fake tensors. Its steps end where its optimizer's do: the first to step, where
there are several. A step is steady when it calls the same operators as the one before, leaves as
much alive and has the same peak; there the script is stopped, so a plan of it takes three steps or
so, however long it would train. Numbers that data would tell, such as the loss that it prints, are
taken as 1.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import accumulate

from maquette.autograd.engine import current_run
from maquette.dispatch.module_calls import Run, around_modules
from maquette.dispatch.operator import OpOverload
from maquette.nn import Module
from maquette.optim import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from maquette.plan.assumptions import building
from maquette.plan.plan import Plan
from maquette.plan.recorder import Operation, Recorder
from maquette.plan.step import (
    adopt_parameters,
    label_gradients,
    label_state,
    parameter_names,
    tensors_in,
)
from maquette.plan.tree import ModuleShape, module_shapes
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

MOST_STEPS = 32  # a script whose steps still differ after so many is told of as it is


class Steady(BaseException):
    """Raised into a script whose step repeats the one before: nothing new would be seen."""


class ScriptRecorder(Recorder):
    """Records a whole script: its modules and optimizers are found as they are called.

    steps: after so many steps the script is stopped even if they differ. device_type: the kind of
    device whose bytes are counted, such as "cuda"; by default all.
    """

    assumes_numbers = True

    def __init__(
        self,
        progress: Callable[[int], None] | None = None,
        *,
        steps: int = MOST_STEPS,
        device_type: str | None = None,
    ) -> None:
        super().__init__(progress)
        self.roots = Roots()
        self.steady = False
        self.ended_steps = 0
        self._most = steps
        self._device_type = device_type
        self._first: weakref.ref[Optimizer] | None = None
        self._stepping = False
        self._before: tuple[object, ...] = ()
        self._ended_at = 0

    # What phase it is, nobody tells: it is seen.
    @property
    def phase(self) -> str:
        """``step`` within an optimizer's, ``backward`` within a backward, else ``forward``."""
        if self._stepping:
            return "step"
        return "forward" if current_run() is None else "backward"

    @phase.setter
    def phase(self, value: str) -> None:
        self._stepping = value == "step"

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        """A storage was made; one on another kind of device is left out."""
        if self._device_type in (None, storage.device.type):
            super().allocated(storage, nbytes)

    def adopt(self, storage: UntypedStorage, label: str, name: str) -> None:
        """Label a storage, and count it if it was there before; not one on another device."""
        if self._device_type in (None, storage.device.type):
            super().adopt(storage, label, name)

    def _result(
        self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        result = super()._result(func, args, kwargs)
        for t in tensors_in(result):
            if t.fake_mode is None:  # a small one that is real (`building`) is seen here alone
                self.adopt(t._storage, "", "")
        return result

    @contextmanager
    def watching_script(self) -> Iterator[None]:
        """The block is recorded, its modules and optimizers too."""
        with ExitStack() as stack:
            for handle in (
                register_optimizer_step_pre_hook(self._begins),
                register_optimizer_step_post_hook(self._ends),
            ):
                stack.callback(handle.remove)
            stack.enter_context(self)
            stack.enter_context(around_modules(self._around))
            self.begin_step()
            yield

    # --- modules -----------------------------------------------------------------------

    def _around(
        self, module: object, run: Run, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        assert isinstance(module, Module)
        if not self._modules:
            self._adopt(module, args, kwargs)
        self.enter_module(self.roots.path(module, self.module))
        try:
            return run(*args, **kwargs)
        except Exception as error:
            self.fails(error)
            raise
        finally:
            self.leave_module()

    def _adopt(self, root: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.roots.adopt(root)
        adopt_parameters(self, root, self.roots.path(root, ""))
        for t in tensors_in((args, kwargs)):
            if t.grad_fn is None and not self._made_in_a_module(t):
                self.label(t._storage, "inputs", "")

    def _made_in_a_module(self, t: Tensor) -> bool:
        known = self.allocations.get(t._storage.id)
        made = -1 if known is None else known.made_by
        return 0 <= made < len(self.operations) and bool(self.operations[made].place.module)

    # --- steps -------------------------------------------------------------------------

    def _begins(self, optimizer: Optimizer, *_: object) -> None:
        for name, root in self.roots.alive():
            label_gradients(self, root, name)
        self._stepping = True

    def _ends(self, optimizer: Optimizer, *_: object) -> None:
        self._stepping = False
        names: dict[int, str] = {}
        for name, root in self.roots.alive():
            names |= parameter_names(root, name)
        label_state(self, names, optimizer)
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        if self._first() is optimizer:
            self._end_step()

    def _end_step(self) -> None:
        self.ended_steps += 1
        now = self._summary()
        self.steady = now == self._before
        self._before = now
        if self.steady or len(self.step_starts) >= self._most:
            raise Steady
        self._ended_at = len(self.events)
        self.begin_step()

    def _summary(self) -> tuple[object, ...]:
        """What tells two steps apart: their operators, their peak, and what they leave alive."""
        operators = [_what(o) for o in self.operations[self.step_starts[-1] :]]
        changes = [nbytes for _, _, nbytes in self.events[self._ended_at :]]
        peak = max(accumulate(changes), default=0)
        return operators, peak, sum(changes)


def _what(operation: Operation) -> tuple[object, ...]:
    return operation.name, operation.phase, operation.place, operation.flops


class Roots:
    """The modules that a script calls from outside of any, named by their classes.

    Modules are not kept alive: what a script drops is gone, and told of all the same.
    """

    def __init__(self) -> None:
        self.tree: list[ModuleShape] = []
        self._roots: dict[str, weakref.ref[Module]] = {}
        self._paths: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()

    def adopt(self, root: Module) -> None:
        """Give a root and the modules below it their paths, unless they have theirs."""
        if root in self._paths:
            return
        name = kind = type(root).__name__
        same = 1
        while name in self._roots:
            same += 1
            name = f"{kind}_{same}"
        self._roots[name] = weakref.ref(root)
        for path, module in root.named_modules():
            self._paths.setdefault(module, f"{name}.{path}" if path else name)
        for shape in module_shapes(root):
            path = f"{name}.{shape.path}" if shape.path else name
            self.tree.append(replace(shape, path=path))

    def path(self, module: Module, outer: str) -> str:
        """A module's path; of one that was made since, its caller's."""
        return self._paths.get(module, outer)

    def alive(self) -> Iterator[tuple[str, Module]]:
        """Each root that the script still has, and its name."""
        for name, reference in self._roots.items():
            root = reference()
            if root is not None:
                yield name, root

    def whole(self) -> list[ModuleShape]:
        """The script as the first module, then all trees."""
        tops = [m for m in self.tree if "." not in m.path]
        parameters = sum(m.parameters for m in tops)
        nbytes = sum(m.parameter_bytes for m in tops)
        return [ModuleShape("", "script", parameters, nbytes), *self.tree]


def plan_script(
    run: Callable[[], object],
    *,
    steps: int = MOST_STEPS,
    device_type: str | None = None,
    progress: Callable[[int], None] | None = None,
    recorders: list[Recorder] | None = None,
) -> Plan:
    """The plan of a script: of all that ``run()`` does, until its steps repeat.

    steps: how many optimizer steps at most. device_type: the kind of device whose bytes are
    counted; by default all. progress, recorders: as of `plan`. The plan's notes say how the script
    ended. Raises what the script raises.
    """
    recorder = ScriptRecorder(progress, steps=steps, device_type=device_type)
    if recorders is not None:
        recorders.append(recorder)
    ended = "it ran to its end"
    with building():
        try:
            with recorder.watching_script():
                run()
        except Steady:
            ended = "stopped at a step that repeats the one before"
            if not recorder.steady:
                ended = "stopped: its steps still differ"
        except SystemExit as stop:
            if stop.code not in (None, 0):
                raise
    many = recorder.ended_steps
    recorder.notes.append(f"the script was watched for {many} optimizer steps; {ended}")
    return Plan(recorder, recorder.roots.whole())
