"""Tracing and functionalization: the graph computes what eager does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maquette.opcheck.closeness import how_they_differ
from maquette.opcheck.copies import map_tensors, tensors_in
from maquette.opcheck.properties.base import OfValues, Problem, Property, first_line
from maquette.opcheck.properties.derivative import is_meant
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial, author_line
from maquette.opcheck.utilities import aot_dispatch

# --- tracing ------------------------------------------------------------------------------------


class Traced(OfValues):
    """Forward and backward, traced and functionalized, compute what eager does."""

    dear = True
    limit = 6
    hint = "what the graph cannot see (NumPy, global state, .item()) belongs in the kernel"

    def __init__(self, id: str, spec: str, *, dynamic: bool) -> None:
        self.id = id
        self.spec = spec
        self.dynamic = dynamic

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample)
        if known:
            return known
        if sample.op.tags & {"dynamic_output_shape", "data_dependent_output"}:
            return "its results depend on data"
        if sample.op.tags & {"inplace_view"} or (sample.op.builtin and sample.op.written):
            return "it changes its argument's metadata, or writes"
        return ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None and not trial.fake_differences

    def check(self, trial: Trial) -> Problem | None:
        recipe = trial.recipe
        with_grad = is_meant(trial.sample) and not trial.op.written
        if with_grad:
            recipe = recipe.mapped(lambda t: replace(t, requires_grad=t.floating))
        args, kwargs = trial.arguments(recipe)
        if any(
            type(n) is not int for t in tensors_in(trial.fake.result, trial.on) for n in t.shape
        ):
            return None  # sizes of data: neither the sum nor a view of it is promised
        try:
            aot_dispatch(trial.op, args, kwargs, dynamic=self.dynamic)
        except AssertionError as error:
            return Problem("the graph's run equal to eager's", first_line(error))
        except Exception as error:  # noqa: BLE001  # told as what it is
            if trial.op.builtin and "grad" in str(error):
                return None
            functions = [trial.op.function(p) for p in ("fake", "backward", "kernel")]
            line = author_line(error, functions)
            part = "fake" if not with_grad else "backward"
            got = f"{type(error).__name__}: {first_line(error)}"
            return Problem("forward and backward traced over fakes", got, part, line, error)
        return None


class Functionalized(OfValues):
    """Under `functionalize` the results, and what was written, are eager's."""

    id = "functionalize.values"
    spec = "LX7, F"
    dear = True
    limit = 8
    hint = "the schema's writes and aliases are what functionalization goes by"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample)
        if known:
            return known
        if sample.op.on.name == "torch" and not sample.op.builtin:
            return "PyTorch's functionalize takes no custom operators that write"
        return "" if sample.op.written or sample.op.views else "it neither writes nor views"

    def check(self, trial: Trial) -> Problem | None:
        on = trial.on
        args, kwargs = trial.arguments()
        flat = tensors_in((args, kwargs), on)
        if len({id(t) for t in flat}) != len(flat):
            return None

        def call(*given: Any) -> Any:
            table = {id(t): g for t, g in zip(flat, given, strict=True)}

            def chosen(t: Any) -> Any:
                return table[id(t)]

            result = trial.op(*map_tensors(chosen, args, on), **map_tensors(chosen, kwargs, on))
            return [t.clone() for t in tensors_in(result, on)] + [t.clone() for t in given]

        eager, functional = (trial.arguments() for _ in range(2))
        try:
            with on.torch.no_grad():
                expected = call(*tensors_in(eager, on))
                found = on.functionalize(call)(*tensors_in(functional, on))
        except Exception as error:  # noqa: BLE001  # told as what it is
            if "as_strided" in str(error) or "overlap" in str(error):
                return None
            return Problem(
                "an answer under functionalize", f"{type(error).__name__}: {first_line(error)}"
            )
        for i, (e, f) in enumerate(zip(expected, found, strict=True)):
            problem = how_they_differ(on, e, f)
            if problem:
                what = f"result {i}" if i < len(expected) - len(flat) else "a written argument"
                return Problem(f"{what} as eagerly", problem)
        return None


TRANSFORMS: tuple[Property, ...] = (
    Traced("traced.static", "L119", dynamic=False),
    Traced("traced.dynamic", "L119, LX11", dynamic=True),
    Functionalized(),
)
