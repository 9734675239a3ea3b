"""The fake on symbolic sizes: it fixes none that the kernel leaves free; its ranges are true."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Sequence
from typing import Any

from maquette.opcheck.copies import tensors_in
from maquette.opcheck.metadata import differences
from maquette.opcheck.properties.base import Problem, Property, first_line
from maquette.opcheck.properties.fakes import _DATA_TAGS
from maquette.opcheck.recipes import Sample, leaves
from maquette.opcheck.trials import Faked, Trial, author_line


def symbolic(trial: Trial) -> Faked:
    """The fake on symbolic sizes, remembered."""
    found: Faked | None = trial.__dict__.get("symbolic")
    if found is None:
        found = trial.__dict__["symbolic"] = trial.faked(static=False)
    return found


class SymbolicEqualsReal(Property):
    """The shape that the fake computes in symbols is the real one."""

    id = "symbolic.shape"
    spec = "LX11"
    dear = True
    limit = 24
    hint = "compute sizes with the operators of symbols (+, *, //), no int(), no tables of sizes"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None and not trial.fake_differences

    def check(self, trial: Trial) -> Problem | None:
        found = symbolic(trial)
        if found.error is not None:
            return self._refused(trial, found.error)
        inputs = tensors_in((trial.real.args, trial.real.kwargs), trial.on)
        hinted = [_Hinted(t) for t in tensors_in(found.result, trial.on)]
        for i, (real, fake) in enumerate(zip(trial.results(), hinted, strict=False)):
            if not all(a == b or b is None for a, b in zip(real.shape, fake.shape, strict=False)):
                return Problem(f"result {i}: shape {list(real.shape)}", fake.shown(), "fake")
        kinds = [d for d in differences(trial.on, trial.real.result, found.result, inputs,
                                        found.inputs) if d.fact in ("count", "kind", "dtype",
                                                                   "device")]  # fmt: skip
        for d in kinds:
            return Problem(f"{d.where}: {d.fact} {d.real}", d.fake, "fake")
        return None

    def _refused(self, trial: Trial, error: BaseException) -> Problem | None:
        if trial.op.tags & _DATA_TAGS and isinstance(error, trial.on.data_errors):
            return None
        line = author_line(error, [trial.op.function("fake")])
        got = f"{type(error).__name__}: {first_line(error)}"
        return Problem("an answer for symbolic sizes", got, "fake", line, error)


class _Hinted:
    """A fake's sizes as numbers; None where only data can tell."""

    def __init__(self, t: Any) -> None:
        self.shape = [_hint(n) for n in t.shape]
        self._sizes = t.shape

    def shown(self) -> str:
        """The sizes in symbols, for a message: SymPy writes them."""
        return f"[{', '.join(map(str, self._sizes))}] with hints {self.shape}"


def _hint(n: Any) -> int | None:
    if type(n) is int:
        return n
    node = n.node
    if not node.has_hint():
        return None
    return int(node.hint) if not callable(node.hint) else int(node.hint())


class FixesNoSize(Property):
    """The fake leaves sizes free that the kernel leaves free."""

    id = "symbolic.fixed size"
    spec = "P23, LX11"
    dear = True
    limit = 4
    hint = (
        "no int() of a size, no `if` on a single value of one: the graph would serve that size only"
    )

    def why_not(self, sample: Sample) -> str:
        if not any(n > 1 for t in sample.recipe.tensors() for n in t.shape):
            return "no size above 1"
        if any(r.type.kind == "list" for r in sample.op.returns):
            return "how many results there are may depend on sizes"
        if any(a.is_out for a in sample.op.schema.arguments):
            return "the size of an out argument is compared with the result's"
        return ""

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        free = _free_sizes(trials)
        for trial in [t for t in trials if t.fake.error is None][:6]:
            if not trial.recipe.label.startswith(("the sample", "size")):
                continue
            found = symbolic(trial)
            if found.error is not None:
                continue
            for expr, size in _fixing(found):
                if trial is trials[0] and size in free and size not in _numbers(trial):
                    if size == 2 and not self._meant(found, trial, trials):
                        continue
                    line = _guard_line(found, trial)
                    got = f"a guard {expr} that fixes it, though the kernel takes others"
                    return Problem(f"size {size} left free", got, "fake", line), trial
        return None

    def _meant(self, found: Faked, trial: Trial, trials: Sequence[Trial]) -> bool:
        """Whether 2 is fixed by the author, not because 2 - 1 is 1, which every library fixes."""
        line = _guard_line(found, trial).rpartition(":")
        source = linecache.getline(line[0], int(line[2])) if line[2].isdigit() else ""
        if any(token in source for token in ("==", "!=", "int(", "range(")):
            return True
        others = [t for t in trials if t.recipe.label.startswith("size 2 is") and not t.fake.error]
        larger = [t for t in others if all(n > 2 for r in t.tensors() for n in r.shape)]
        return any(_fixing(symbolic(t)) for t in larger[:2])


def _free_sizes(trials: Sequence[Trial]) -> set[int]:
    """Sizes of the sample that the kernel takes otherwise too."""
    sample = trials[0].sample.recipe.tensors() if trials else []
    free = set()
    for trial in trials:
        others = trial.tensors()
        if len(others) != len(sample) or not trial.recipe.label.startswith(("size", "tensor")):
            continue
        for a, b in zip(sample, others, strict=True):
            if len(a.shape) == len(b.shape):
                free |= {m for m, n in zip(a.shape, b.shape, strict=True) if m != n and n > 1}
    return free


def _numbers(trial: Trial) -> set[int]:
    """The numbers among the arguments: a size that is one of them may be checked against it."""
    found: set[int] = set()
    for _, value in leaves(trial.recipe):
        if type(value) is int:
            found.add(value)
    if any(isinstance(v, tuple) for _, v in trial.recipe.values):
        listed = [v for _, v in trial.recipe.values if isinstance(v, tuple)]
        for each in listed:
            if each and all(type(n) is int for n in each):
                found.add(math.prod(each))
    return found


_FIXED = re.compile(r"^Eq\((\w+), (\d+)\)$|^Eq\((\d+), (\w+)\)$")


def _fixing(found: Faked) -> list[tuple[str, int]]:
    guards = [str(getattr(g, "expr", g)) for g in found.guards]
    matches = [(text, _FIXED.match(text)) for text in guards]
    fixed = [(t, int(m.group(2) or m.group(3))) for t, m in matches if m is not None]
    fixed += [
        (f"{s} = {n}", int(n))
        for s, n in found.replacements.items()
        if n.isdigit() and not any(t.startswith(f"Eq({s},") for t, _ in fixed)
    ]
    return fixed


def _guard_line(found: Faked, trial: Trial) -> str:
    fake = trial.op.function("fake")
    file = getattr(getattr(fake, "__code__", None), "co_filename", None)
    for guard in found.guards:
        place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
        if place is not None and getattr(place, "filename", "") == file:
            return f"{place.filename}:{place.lineno}"
    return ""


class RangesHold(Property):
    """A size that depends on data lies in the fake's range, and each such size is one number."""

    id = "symbolic.range"
    spec = "P25, LX11"
    hint = "widen the range: get_ctx().new_dynamic_size(min=0, max=...)"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None

    def check(self, trial: Trial) -> Problem | None:
        fakes = tensors_in(trial.fake.result, trial.on)
        known: dict[str, int] = {}
        for i, (real, fake) in enumerate(zip(trial.results(), fakes, strict=False)):
            for d, (n, symbol) in enumerate(zip(real.shape, fake.shape, strict=False)):
                if type(symbol) is int:
                    continue
                least, most = _range(trial.fake.shape_env, symbol)
                if not least <= n <= most:
                    got = f"a symbol from {least} to {most}"
                    return Problem(f"result {i}: a range with size {n} at dim {d}", got, "fake")
                if known.setdefault(str(symbol), n) != n:
                    expected = f"result {i}: another symbol for size {n} at dim {d}"
                    got = f"{symbol}, which is {known[str(symbol)]} elsewhere in the results"
                    return Problem(expected, got, "fake")
        return None


def _range(env: Any, symbol: Any) -> tuple[float, float]:
    bounds = env.bound_sympy(symbol.node.expr)
    return tuple([_number(b) for b in (bounds.lower, bounds.upper)])  # type: ignore[return-value]


def _number(bound: Any) -> float:
    text = str(bound)
    if "int_oo" in text or text in ("oo", "-oo"):
        return float("-inf") if text.startswith("-") else float("inf")
    return float(bound)


SYMBOLS: tuple[Property, ...] = (SymbolicEqualsReal(), FixesNoSize(), RangesHold())
