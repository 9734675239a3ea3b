"""What calls leave behind: nothing that later calls see, no hold on inputs, no global draw."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

from maquette.opcheck.copies import tensors_in
from maquette.opcheck.properties.base import OfValues, Problem, Property
from maquette.opcheck.properties.calls import compared
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial


class AfterOthers(OfValues):
    """The first inputs give the same results after all others, and after what was refused."""

    id = "calls.after others"
    spec = "LX13, P45"
    hint = "keep nothing between calls; give settings back in a finally, also when refusing"

    def suits(self, trial: Trial) -> bool:
        return False  # only all inputs together say something

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        for trial in trials[:3]:
            try:
                found = trial.call()
            except Exception as error:  # noqa: BLE001  # told as what it is
                got = f"{type(error).__name__}: {error}"
                return Problem("the result of the first call, after other calls", got), trial
            problem = compared(trial, trial.real.result, found)
            if problem:
                return Problem("the result of the first call, after other calls", problem), trial
        return None


class KeepsNoInputs(Property):
    """Calls do not keep their arguments alive; what is kept of one call is replaced by the next."""

    id = "calls.keeps inputs"
    spec = "LX14, P46"
    dear = True
    limit = 2
    hint = "keep no tensors of calls in lists, caches or closures: their memory is never given back"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.numel for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        seen: list[list[Any]] = []
        for _ in range(4):
            args, kwargs = trial.arguments()
            seen.append([weakref.ref(t) for t in tensors_in((args, kwargs), trial.on)])
            with trial.on.torch.no_grad():
                trial.op(*args, **kwargs)
            del args, kwargs
        if self._alive(seen) < 3:
            return None
        gc.collect()
        count = self._alive(seen)
        if count < 3:  # one call's may be kept, until the next
            return None
        return Problem("arguments given back after the call", f"those of {count} calls are kept")

    def _alive(self, seen: Sequence[Sequence[Any]]) -> int:
        return sum(any(ref() is not None for ref in refs) for refs in seen)


class ObeysGenerator(Property):
    """Draws are of the generator that is given, and leave the global one alone."""

    id = "calls.generator"
    spec = "LX13"
    dear = True
    limit = 6
    hint = "pass generator= on to every operator that draws"

    def why_not(self, sample: Sample) -> str:
        return "" if _generator(sample) else "it takes no generator"

    def check(self, trial: Trial) -> Problem | None:
        torch, name = trial.on.torch, _generator(trial.sample)
        found, drew = [], False
        for seed in (3, 3, 4):
            given = torch.Generator().manual_seed(seed)
            state = torch.get_rng_state()
            args, kwargs = trial.arguments()
            try:
                with torch.no_grad():
                    found.append(trial.op(*args, **{**kwargs, name: given}))
            except Exception:  # noqa: BLE001  # it takes none for these arguments
                return None
            drew = drew or not torch.equal(torch.get_rng_state(), state)
        if drew:
            return Problem("draws from the generator given", "the global generator was used")
        problem = compared(trial, found[0], found[1])
        return Problem("equal results for equally seeded generators", problem) if problem else None


def _generator(sample: Sample) -> str:
    """The name of the argument that a generator is given by; "" without one."""
    names = [a.name for a in sample.op.schema.arguments if a.type.base.kind == "generator"]
    positional = [a.name for a in sample.op.schema.arguments if not a.kwarg_only]
    given = {n for n, _ in sample.recipe.values}
    later = [n for n in positional if n not in given]
    return names[0] if names and (names[0] not in positional or names[0] in later[:1]) else ""


STATE: tuple[Property, ...] = (AfterOthers(), KeepsNoInputs(), ObeysGenerator())
