"""Writes and aliases: a schema says exactly what a call writes and what shares memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maquette.opcheck.closeness import how_they_differ
from maquette.opcheck.copies import same_storage, snapshot, tensors_in, what_changed
from maquette.opcheck.line_search import line_that_writes
from maquette.opcheck.properties.base import OfValues, Problem, Property
from maquette.opcheck.recipes import Recipe, Sample, TensorRecipe
from maquette.opcheck.trials import Trial, author_line, without_grad
from maquette.opcheck.utilities import may_be_written, undeclared_aliases


class UndeclaredWrite(Property):
    """What the schema does not say is written keeps its bytes, sizes and strides."""

    id = "writes.undeclared"
    any_class = True
    spec = "L116, LX7"
    hint = (
        "declare the argument written ((a!) in the schema, its name in mutates_args), or write to "
        "a copy: x = x.clone()"
    )

    def suits(self, trial: Trial) -> bool:
        return not trial.refused_result  # a call that refuses writes nothing either

    def check(self, trial: Trial) -> Problem | None:
        real = trial.real
        for name, t, old in real.before:
            new = snapshot(t, trial.on)
            if old is None or new is None or may_be_written(trial.op, real.given, t):
                continue
            for fact, was, now in what_changed(old, new):
                line = line_that_writes(trial, name)
                return Problem(
                    f"{name} untouched: {fact} {was}", f"{now} after the call", line=line
                )
        return None


class UnusedWrite(Property):
    """What the schema says is written is written by some call."""

    id = "writes.never made"
    spec = "LX7"
    hint = "take the (a!) from the schema, the name from mutates_args: nothing is written"

    def why_not(self, sample: Sample) -> str:
        if sample.op.builtin:
            return "a built-in operator"
        return "" if sample.op.written else "the schema writes nothing"

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        seen = {a.name: False for a in trials[0].op.written} if trials else {}
        useful = [t for t in trials if any(r.numel for r in t.tensors())]
        for trial in useful:
            for name, t, old in trial.real.before:
                argument = name.partition("[")[0]
                if argument in seen and old is not None:
                    new = snapshot(t, trial.on)
                    changed = new is not None and bool(what_changed(old, new))
                    seen[argument] = seen[argument] or changed
        given = {name for trial in useful for name, v in trial.recipe.values if v is not None}
        for name, changed in seen.items():
            if not changed and name in given and len(useful) > 2:
                got = f"unchanged by all of {len(useful)} calls"
                return Problem(f"{name} written, as declared", got), useful[0]
        return None


class WritesRequiringGrad(Property):
    """A written tensor that requires grad is recorded, or refused."""

    id = "writes.requires grad"
    spec = "LX8, L99"
    hint = (
        "the derivative does not see this write: call the operator under no_grad, or return a new "
        "tensor with a formula"
    )

    def why_not(self, sample: Sample) -> str:
        if not sample.op.written:
            return "the schema writes nothing"
        names = {a.name for a in sample.op.written}
        values = [v for n, v in sample.recipe.values if n in names]
        wanted = any(getattr(v, "requires_grad", False) for v in values)
        return "" if wanted else "no written tensor of the sample requires grad"

    def check(self, trial: Trial) -> Problem | None:
        args, kwargs = trial.arguments(trial.recipe)
        written = [
            t
            for a, v in zip(trial.op.schema.arguments, [*args, *kwargs.values()], strict=False)
            if a.is_write
            for t in tensors_in(v, trial.on)
            if t.requires_grad
        ]
        before = [snapshot(t, trial.on) for t in written]
        try:
            trial.op(*args, **kwargs)
        except Exception:  # noqa: BLE001  # refused, as it should be
            return None
        for t, old in zip(written, before, strict=True):
            new = snapshot(t, trial.on)
            if old and new and what_changed(old, new) and t.grad_fn is None:
                return Problem("the write recorded, or refused", "written, and grad_fn is None")
        return None


class UndeclaredAlias(Property):
    """Results share memory only where the schema says so."""

    id = "aliases.undeclared"
    any_class = True
    spec = "L116, L75"
    hint = "return a copy (result.clone()), or declare the view: Tensor(a) x -> Tensor(a)"

    def why_not(self, sample: Sample) -> str:
        composite = sample.op.builtin and sample.op.has_kernel("CompositeImplicitAutograd")
        return "a built-in composite: PyTorch declares no views for these" if composite else ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted or trial.refused_result == "aliases"

    def check(self, trial: Trial) -> Problem | None:
        if trial.real.error is not None:
            got = str(trial.real.error).splitlines()[0]
            return Problem("results with memory of their own", got)
        for problem in undeclared_aliases(trial.op, trial.real.given, trial.real.result):
            return Problem("memory shared only as declared", problem)
        return None


class SampleRuns(Property):
    """The call that the check was given works."""

    id = "sample.runs"
    spec = "LX3"
    hint = "give opcheck arguments that the operator takes"

    def suits(self, trial: Trial) -> bool:
        return trial.recipe is trial.sample.recipe and not trial.refused_result

    def check(self, trial: Trial) -> Problem | None:
        error = trial.real.error
        if error is None:
            return None
        line = author_line(error, [trial.op.function("kernel")])
        got = f"{type(error).__name__}: {error}".splitlines()[0]
        return Problem("a result", got, line=line, error=error)


class ResultsFit(Property):
    """Results are of the number and types that the schema declares."""

    id = "results.fit"
    spec = "L27"
    hint = "return what the schema declares: None for (), a tuple for several results"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted or trial.refused_result == "misfits"

    def check(self, trial: Trial) -> Problem | None:
        expected = f"results that fit {trial.op.schema}"
        if trial.real.error is not None:
            return Problem(expected, (str(trial.real.error).splitlines() or [""])[0])
        declared, result = trial.op.returns, trial.real.result
        results = list(result) if len(declared) > 1 else [result]
        for i, (value, d) in enumerate(zip(results, declared, strict=False)):
            kinds = _KINDS.get(d.type.base.kind)
            if d.type.kind != "list" and kinds and not isinstance(value, kinds):
                return Problem(expected, f"a {type(value).__name__} as result {i}")
        return None


# Numbers of Python; bool is none of them where a number is declared.
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,)}


class DeclaredView(Property):
    """A result that the schema says is a view is one."""

    id = "aliases.not made"
    spec = "P10, LX6"
    hint = "return a view of the argument, or take the alias (a) from the schema"

    def why_not(self, sample: Sample) -> str:
        if sample.op.builtin:
            return "built-in operators may copy (reshape, contiguous)"
        return "" if sample.op.views else "the schema has no view"

    def check(self, trial: Trial) -> Problem | None:
        inputs = tensors_in((trial.real.args, trial.real.kwargs), trial.on)
        returns = trial.op.returns
        results = trial.results()
        if len(returns) != len(results):
            return None
        for i, (t, declared) in enumerate(zip(results, returns, strict=True)):
            if declared.alias_info is None or declared.alias_info.is_write or not t.numel():
                continue
            if not any(same_storage(t, other) for other in inputs):
                return Problem(f"result {i} a view, as declared", "it has memory of its own")
        return None


class ReturnedWritten(Property):
    """A result declared as the written argument is that argument."""

    id = "aliases.returns written"
    spec = "L76"
    hint = "return the argument that was written, itself"

    def why_not(self, sample: Sample) -> str:
        declared = any(
            r.alias_info is not None and r.alias_info.is_write for r in sample.op.returns
        )
        return "" if declared else "no result is declared as a written argument"

    def check(self, trial: Trial) -> Problem | None:
        results = trial.results()
        if len(trial.op.returns) != len(results):
            return None
        inputs = tensors_in((trial.real.args, trial.real.kwargs), trial.on)
        for i, (t, declared) in enumerate(zip(results, trial.op.returns, strict=True)):
            info = declared.alias_info
            if info is not None and info.is_write and not any(t is other for other in inputs):
                return Problem(f"result {i} is the argument written", "another tensor")
        return None


class RightWhenShared(Property):
    """A written argument leaves what is beside it in its storage alone."""

    id = "writes.beside"
    any_class = True
    spec = "LX7"
    hint = "write through the view (x.copy_(...)), not over its whole storage"

    def why_not(self, sample: Sample) -> str:
        return "" if sample.op.written else "the schema writes nothing"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(
            t.layout in ("sliced", "offset", "rows apart") for t in trial.tensors()
        )

    def check(self, trial: Trial) -> Problem | None:
        for name, t, old in trial.real.before:
            new = snapshot(t, trial.on)
            if old is None or new is None or old.storage != new.storage:
                continue
            if (old.shape, old.stride) != (new.shape, new.stride):
                continue
            if _beside(old.data, t) != _beside(new.data, t):
                return Problem(f"only the elements of {name} written", "memory beside them too")
        return None


class OutIsNotRead(OfValues):
    """What an ``out`` argument held before the call is no input."""

    id = "writes.out read"
    spec = "L76"
    dear = True
    limit = 12
    hint = "write the whole result into out (out.copy_(result)), whatever out held"

    def why_not(self, sample: Sample) -> str:
        outs = any(a.is_out for a in sample.op.schema.arguments)
        return super().why_not(sample) or ("" if outs else "there is no out argument")

    def check(self, trial: Trial) -> Problem | None:
        outs = {a.name for a in trial.op.schema.arguments if a.is_out}

        def changed(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple([changed(v) for v in value])
            return replace(value, values="normal", seed=31) if _is_recipe(value) else value

        values = [(n, changed(v) if n in outs else v) for n, v in trial.recipe.values]
        try:
            found = trial.call(without_grad(Recipe(tuple(values), trial.recipe.label)))
        except Exception as error:  # noqa: BLE001  # told as what it is
            return Problem("a result whatever out held", f"{type(error).__name__}: {error}")
        pairs = zip(trial.results(), tensors_in(found, trial.on), strict=False)
        for i, (e, g) in enumerate(pairs):
            text = how_they_differ(trial.on, e, g)
            if text:
                return Problem(f"result {i} whatever out held", text)
        return None


def _is_recipe(value: object) -> bool:
    return isinstance(value, TensorRecipe)


def _beside(data: bytes, t: object) -> bytes:
    import numpy as np  # noqa: PLC0415

    size = t.element_size()  # type: ignore[attr-defined]
    cells = np.frombuffer(data, np.uint8).reshape(-1, size).copy()
    index = np.zeros(1, np.int64) + t.storage_offset()  # type: ignore[attr-defined]
    for n, s in zip(t.shape, t.stride(), strict=True):  # type: ignore[attr-defined]
        index = (index[:, None] + np.arange(n) * s).reshape(-1)
    cells[index] = 0
    return cells.tobytes()


MEMORY: tuple[Property, ...] = (
    SampleRuns(),
    UndeclaredWrite(),
    UnusedWrite(),
    RightWhenShared(),
    WritesRequiringGrad(),
    OutIsNotRead(),
    UndeclaredAlias(),
    ResultsFit(),
    DeclaredView(),
    ReturnedWritten(),
)
