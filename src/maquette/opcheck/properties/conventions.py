"""What a call leaves as it was, and what a signature must say: settings, grad, defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from maquette.opcheck.copies import tensors_in
from maquette.opcheck.properties.base import Problem, Property
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial, place_of


class LeavesSettings(Property):
    """A call leaves grad mode, the default dtype and device, and NumPy's settings as they were."""

    id = "calls.settings"
    spec = "LX13, P45"
    hint = "change settings in a with block (torch.no_grad(), ...), which gives them back"

    def check(self, trial: Trial) -> Problem | None:
        if not trial.real.changed:
            return None
        return Problem("settings as before the call", trial.real.changed)


class RequiresNoGrad(Property):
    """Where no argument requires grad, no result does."""

    id = "results.requires grad"
    spec = "L88, L118"
    hint = "results are not leaves of a graph: no requires_grad_() in a kernel or fake"

    def check(self, trial: Trial) -> Problem | None:
        given = tensors_in((trial.real.args, trial.real.kwargs), trial.on)
        calls = [("kernel", trial.real.result)]
        if trial.fake.error is None:
            calls.append(("fake", trial.fake.result))
        for part, result in calls:
            for i, t in enumerate(tensors_in(result, trial.on)):
                if t.requires_grad and not any(t is g for g in given):
                    text = f"result {i} without grad, as all arguments are"
                    return Problem(text, "it requires grad", part)
        return None


class DefaultsAgree(Property):
    """Kernel and fake have the schema's defaults: what equals one may be left out of a call."""

    id = "schema.defaults"
    spec = "L28"
    hint = "give the parameter the schema's default, or none: equal arguments are dropped"

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        trial = trials[0]
        for part in ("kernel", "fake"):
            for name, mine, theirs in _differing(trial, part):
                expected = f"{name}={mine!r} in the {part}, as the schema says"
                line = place_of(trial.op.function(part))
                return Problem(expected, f"{name}={theirs!r}", part, line), trial
        return None

    def why_not(self, sample: Sample) -> str:
        return "built-in" if sample.op.builtin else ""


def _differing(trial: Trial, part: str) -> Iterator[tuple[str, Any, Any]]:
    function = trial.op.function(part)
    if function is None:
        return
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    named = {p.name: p for p in parameters}
    for i, argument in enumerate(trial.op.schema.arguments):
        by_position = parameters[i] if i < len(parameters) and not argument.kwarg_only else None
        p = by_position or named.get(argument.name)
        if p is None or p.default is p.empty or not argument.has_default_value():
            continue
        mine, theirs = argument.default_value, p.default
        plain = isinstance(theirs, (bool, int, float, str))
        if plain and isinstance(mine, (bool, int, float, str)) and mine != theirs:
            yield argument.name, mine, theirs


class NamesInOrder(Property):
    """Kernel and fake name their parameters in the schema's order: arguments come by position."""

    id = "schema.names"
    spec = "L28"
    hint = "arguments are passed by position: give the parameters the schema's order"

    def why_not(self, sample: Sample) -> str:
        return "built-in" if sample.op.builtin else ""

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        declared = [a.name for a in trials[0].op.schema.arguments if not a.kwarg_only]
        for part in ("kernel", "fake"):
            function = trials[0].op.function(part)
            try:
                found = inspect.signature(function).parameters.values() if function else []
            except (TypeError, ValueError):
                continue
            named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
            names = [p.name for p in found if p.kind not in named]
            if names != declared and sorted(names) == sorted(declared):
                expected = f"the parameters {', '.join(declared)} in the {part}"
                line = place_of(function)
                return Problem(expected, ", ".join(names), part, line), trials[0]
        return None


CONVENTIONS: tuple[Property, ...] = (
    LeavesSettings(),
    RequiresNoGrad(),
    DefaultsAgree(),
    NamesInOrder(),
)
