"""Examining an operator: inputs are derived and run, properties look at them, failures are shrunk.

Cheap properties see every input as it comes; dear ones, which run an operator many times, see the
first that suit them. All is bounded: by the number of inputs, and by the clock.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maquette.opcheck.copies import tensors_in
from maquette.opcheck.deriving import Where, derived
from maquette.opcheck.operators import CheckedOperator
from maquette.opcheck.properties import PROPERTIES, Problem, Property
from maquette.opcheck.recipes import Recipe, Sample, code_of, leaves, sample_of
from maquette.opcheck.report import Finding, OpReport
from maquette.opcheck.settings import restored, settings_of
from maquette.opcheck.shrinking import shrunk
from maquette.opcheck.trials import Trial, place_of
from maquette.opcheck.utilities import without_data


class Limits(NamedTuple):
    """At most so many inputs, so many seconds; and which inputs are drawn."""

    inputs: int = 200
    seconds: float = 5.0
    seed: int = 0
    shrink: bool = True


DEFAULT_LIMITS = Limits()
# Elements of a result: a call whose fake says more is not made.
MOST_RESULTS = 1_000_000


class Clock:
    """Seconds of the processor since it was made, so that other work on a machine finds no less.

    A third of the time on the wall, where that is more: a kernel that waits is bounded too.
    """

    def __init__(self) -> None:
        self._processor, self._wall = time.thread_time(), time.perf_counter()

    def seconds(self) -> float:
        """What has passed."""
        waited = (time.perf_counter() - self._wall) / 3
        return max(time.thread_time() - self._processor, waited)


def chosen(properties: str | Sequence[str]) -> list[Property]:
    """The properties named, by id or its beginning ("fake", "vmap.values"); "ALL" is all."""
    if properties == "ALL":
        return list(PROPERTIES)
    names = [properties] if isinstance(properties, str) else list(properties)
    found = [p for p in PROPERTIES if any(_named(p, name) for name in names)]
    unknown = [n for n in names if not any(_named(p, n) for p in PROPERTIES)]
    if unknown:
        known = ", ".join(p.id for p in PROPERTIES)
        raise ValueError(f"opcheck: no property is called {', '.join(unknown)}; there are {known}")
    return found


def _named(p: Property, name: str) -> bool:
    return p.id == name or p.id.startswith(f"{name}.")


def examine(
    op: CheckedOperator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    properties: str | Sequence[str] = "ALL",
    where: Where | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> OpReport:
    """The report of one operator on what is derived from one call of it."""
    wanted = chosen(properties)
    place = str(getattr(op.overload, "place", ""))
    report = OpReport(op.name, str(op.schema), place, limits.seed)
    why = _why_none(op, args, kwargs)
    if why:
        report.skipped = dict.fromkeys([p.id for p in wanted], why)
        return report
    clock = Clock()
    with _quiet(op):
        _Examination(sample_of(op, args, kwargs), wanted, where, limits, report).run()
    report.seconds = clock.seconds()
    return report


def _why_none(op: CheckedOperator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    if without_data(op, args, kwargs):
        return "an argument has no data"
    kinds = (op.on.torch.Tensor, op.on.torch.nn.Parameter)
    for t in tensors_in((list(args), dict(kwargs)), op.on):
        if type(t) not in kinds or str(t.layout) != "torch.strided":
            return "an argument is no plain strided tensor"
    return ""


@contextlib.contextmanager
def _quiet(op: CheckedOperator) -> Iterator[None]:
    """Without warnings, and with the random generators as they were afterwards."""
    state = op.on.torch.get_rng_state()
    others = np.random.get_state(), random.getstate()  # the global ones
    # PyTorch's loop under vmap warns past Python's filters.
    functorch = op.on.torch._C._functorch if op.on.name == "torch" else None
    logged = logging.root.manager.disable
    if functorch is not None:
        functorch._set_vmap_fallback_warning_enabled(False)
        logging.disable(logging.ERROR)  # it logs what fakes refuse
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            op.on.torch.set_rng_state(state)
            np.random.set_state(others[0])
            random.setstate(others[1])
            if functorch is not None:
                functorch._set_vmap_fallback_warning_enabled(True)
                logging.disable(logged)


class _Examination:
    """One run of `examine`."""

    def __init__(
        self,
        sample: Sample,
        wanted: Sequence[Property],
        where: Where | None,
        limits: Limits,
        report: OpReport,
    ) -> None:
        self.sample = sample
        self.where = where
        self.limits = limits
        self.report = report
        self.clock = Clock()
        self.failed: dict[str, tuple[Problem, Trial]] = {}
        self.counts: dict[str, int] = {}
        self.active: list[Property] = []
        for p in wanted:
            why = p.why_not(sample)
            if why:
                report.skipped[p.id] = why
            else:
                self.active.append(p)
        self.cheap = [p for p in self.active if not p.dear]
        self.dear = [p for p in self.active if p.dear]

    def run(self) -> None:
        self._warm_up()
        trials = self._derive()
        self._look_closer([t for t in trials if t.accepted])
        self._conclude([t for t in trials if t.accepted])
        self._write_up()

    def _warm_up(self) -> None:
        """Call the sample, and its fake, once: what a first call imports is not the operator's."""
        trial = Trial(self.sample, self.sample.recipe)
        if trial.accepted:
            trial.faked(static=False)
        self.clock = Clock()

    # --- the inputs ----------------------------------------------------------------------

    def _derive(self) -> list[Trial]:
        trials: list[Trial] = []
        # The dear ones get the larger part of the time.
        end = 0.55 * self.limits.seconds
        for recipe in derived(self.sample, self.limits.seed):
            late = trials and self.clock.seconds() > end
            if late or self.report.inputs >= self.limits.inputs:
                break
            trial = Trial(self.sample, recipe)
            if not self._meant(trial) or _is_too_large(trial):
                continue
            trials.append(trial)
            if trial.accepted:
                self.report.inputs += 1
            else:
                self.report.dropped += 1
            for p in self.cheap:
                self._try(p, trial)
            if self.report.dropped > 3 * self.limits.inputs:
                break
        return trials

    def _meant(self, trial: Trial) -> bool:
        if self.where is None:
            return True
        try:
            args, kwargs = trial.arguments()
            return bool(self.where(tuple(args), kwargs))
        except Exception:  # noqa: BLE001  # a condition that cannot be told does not hold
            return False

    def _try(self, p: Property, trial: Trial) -> bool:
        """Whether the property said anything of the input."""
        if p.id in self.failed or (trial.crossed and not p.any_class) or not p.suits(trial):
            return False
        self.report.checks += 1
        self.counts[p.id] = self.counts.get(p.id, 0) + 1
        settings = settings_of(trial.on)
        try:
            problem = p.check(trial)
        except Exception as error:  # noqa: BLE001  # a check that fails itself is no finding
            self.report.errors[p.id] = f"{type(error).__name__}: {error} ({trial.recipe.label})"
            return True
        finally:
            if settings_of(trial.on) != settings:
                restored(trial.on, settings)  # a graph called the operator
        if problem is not None:
            self.failed[p.id] = (problem, trial)
        return True

    def _look_closer(self, trials: Sequence[Trial]) -> None:
        """The dear properties in turn, each for a moment, until the time is over."""
        queues = [(p, iter(sorted(_spread(trials), key=p.rank))) for p in self.dear]
        end = self.limits.seconds
        while queues and self.clock.seconds() < end:
            for p, queue in list(queues):
                if not self._for_a_moment(p, queue):
                    queues.remove((p, queue))
                if self.clock.seconds() > end + 1:
                    break

    def _for_a_moment(self, p: Property, queue: Iterator[Trial]) -> bool:
        """Whether the property has more inputs to see after some."""
        moment = self.clock.seconds() + 0.03
        while True:
            if self.counts.get(p.id, 0) >= p.limit or p.id in self.failed:
                return False
            trial = next((t for t in queue if p.suits(t)), None)
            if trial is None:
                return False
            self._try(p, trial)
            if self.clock.seconds() > moment:
                return True

    def _conclude(self, trials: Sequence[Trial]) -> None:
        for p in self.active:
            if p.id in self.failed or not trials:
                continue
            try:
                found = p.conclude(trials)
            except Exception as error:  # noqa: BLE001  # a check that fails itself is no finding
                self.report.errors[p.id] = f"{type(error).__name__}: {error}"
                continue
            if type(p).conclude is not Property.conclude:
                self.report.checks += 1
                self.counts[p.id] = self.counts.get(p.id, 0) + 1
            if found is not None:
                self.failed[p.id] = found

    # --- what came of it -----------------------------------------------------------------

    def _write_up(self) -> None:
        for p in self.active:
            if p.id in self.failed:
                problem, trial = self.failed[p.id]
                self.report.findings.append(self._finding(p, *self._least(p, problem, trial)))
            elif p.id in self.report.errors:
                self.report.skipped[p.id] = f"its check failed itself: {self.report.errors[p.id]}"
            elif self.counts.get(p.id):
                self.report.passed[p.id] = self.counts[p.id]
            else:
                self.report.skipped[p.id] = "no derived input says anything of it"

    def _least(self, p: Property, problem: Problem, trial: Trial) -> tuple[Problem, Trial]:
        """The failure on the smallest input that shows it."""
        if type(p).conclude is not Property.conclude or not self.limits.shrink:
            return problem, trial
        last = [problem, trial]

        def fails(recipe: Recipe) -> bool:
            other = Trial(self.sample, recipe)
            try:
                if not self._meant(other) or not p.suits(other):
                    return False
                found = p.check(other)
            except Exception:  # noqa: BLE001  # another failure than the one to shrink
                return False
            if found is None or type(found.error) is not type(problem.error):
                return False
            last[:] = [found, other]
            return True

        seconds = min(0.8, 0.2 * self.limits.seconds)
        shrunk(self.sample, trial.recipe, fails, seconds)
        return last[0], last[1]  # type: ignore[return-value]

    def _finding(self, p: Property, problem: Problem, trial: Trial) -> Finding:
        line = problem.line or place_of(trial.op.function(problem.part)) or self.report.defined_at
        return Finding(
            property=p.id,
            spec=p.spec,
            expected=problem.expected,
            got=problem.got,
            input=code_of(self.sample, trial.recipe),
            hint=p.hint,
            line=line,
            label=trial.recipe.label,
        )


def _is_too_large(trial: Trial) -> bool:
    """Whether a large number among the arguments makes results that nobody asks for."""
    numbers = [v for _, v in leaves(trial.recipe) if isinstance(v, (int, float))]
    if not any(abs(n) >= 10_000 for n in numbers) or trial.fake.error is not None:
        return False
    sizes = [n for t in tensors_in(trial.fake.result, trial.on) for n in [t.numel()]]
    return any(type(n) is int and n > MOST_RESULTS for n in sizes)


def _spread(trials: Sequence[Trial]) -> list[Trial]:
    """The inputs in an order that brings every kind of change early."""
    seen: dict[Callable[..., Any] | str, int] = {}
    ranked = []
    for number, trial in enumerate(trials):
        kind = _kind(trial.recipe.label)
        seen[kind] = seen.get(kind, 0) + 1
        ranked.append((seen[kind], number, trial))
    return [trial for _, _, trial in sorted(ranked, key=lambda r: r[:2])]


def _kind(label: str) -> str:
    """What a label changes, without its numbers."""
    return "".join(c for c in label.partition(";")[0] if not c.isdigit())
