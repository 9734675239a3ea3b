"""Costs: what a page says a call costs is no less than nothing, grows with sizes, reads no data."""

from __future__ import annotations

from typing import Any

import numpy as np

from maquette.opcheck.copies import map_tensors, tensors_in
from maquette.opcheck.properties.base import Problem, Property
from maquette.opcheck.properties.calls import compared
from maquette.opcheck.properties.symbols import _hint, symbolic
from maquette.opcheck.recipes import Recipe, Sample, TensorRecipe, leaves
from maquette.opcheck.trials import Trial, author_line

_COUNTS = ("flops", "bytes_read", "bytes_written")


class CostRule(Property):
    """The common part: the operators that say what they cost."""

    spec = "LX15, P47"
    hint = "compute the cost from the metas' sizes: products of them, never less for larger ones"

    def why_not(self, sample: Sample) -> str:
        if sample.op.on.name == "torch":
            return "PyTorch's operators have no costs"
        return "" if sample.op.function("cost") is not None else "no cost is registered"


def _cost(trial: Trial, args: Any, kwargs: Any, result: Any) -> Any:
    from maquette.library.costs import cost_of  # noqa: PLC0415

    return cost_of(trial.op.overload, args, kwargs, result)


def _cost_of_metas(trial: Trial) -> Any:
    """The cost of the trial's call, asked with fakes: it may read no data."""
    found = trial.__dict__.get("cost")
    if found is None:
        mode = trial.on.FakeTensorMode()
        args, kwargs = trial.arguments()
        args, kwargs = (map_tensors(mode.from_tensor, a, trial.on) for a in (args, kwargs))
        result = map_tensors(lambda t: mode.from_tensor(t), trial.real.result, trial.on)
        found = trial.__dict__["cost"] = _cost(trial, args, kwargs, result)
    return found


class CostThere(CostRule):
    """A cost is a number from 0 on, known from metadata."""

    id = "cost.number"

    def check(self, trial: Trial) -> Problem | None:
        try:
            cost = _cost_of_metas(trial)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function("cost")])
            got = f"{type(error).__name__}: {error}"
            return Problem("a cost from metadata alone", got, "cost", line, error)
        for name in _COUNTS:
            value = getattr(cost, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                return Problem(f"{name} of 0 or more", str(value), "cost")
            if isinstance(value, float) and not value.is_integer():
                return Problem(f"{name} a whole number", str(value), "cost")
        return None


class CostWritesResults(CostRule):
    """At least the bytes of the results are written, unless they are views."""

    id = "cost.bytes written"

    def why_not(self, sample: Sample) -> str:
        return super().why_not(sample) or ("a view" if sample.op.views else "")

    def check(self, trial: Trial) -> Problem | None:
        try:
            cost = _cost_of_metas(trial)
        except Exception:  # noqa: BLE001  # told by the property above
            return None
        least = sum(t.numel() * t.element_size() for t in trial.results())
        if cost.bytes_written < least:
            return Problem(f"at least the results' {least} bytes written", str(cost.bytes_written),
                           "cost")  # fmt: skip
        return None


class CostGrows(CostRule):
    """A larger call costs no less."""

    id = "cost.monotone"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and _same_but_sizes(trial)

    def check(self, trial: Trial) -> Problem | None:
        base = Trial(trial.sample, trial.sample.recipe)
        pairs = list(zip(base.tensors(), trial.tensors(), strict=True))
        larger = all(m <= n for a, b in pairs for m, n in zip(a.shape, b.shape, strict=True))
        smaller = all(m >= n for a, b in pairs for m, n in zip(a.shape, b.shape, strict=True))
        if larger == smaller:
            return None
        low, high = (base, trial) if larger else (trial, base)
        try:
            a, b = _cost_of_metas(low), _cost_of_metas(high)
        except Exception:  # noqa: BLE001  # told by another property
            return None
        for name in _COUNTS:
            if getattr(a, name) > getattr(b, name):
                shapes = [[list(t.shape) for t in x.tensors()] for x in (low, high)]
                return Problem(
                    f"{name} for {shapes[1]} no less than {getattr(a, name)}, that for {shapes[0]}",
                    str(getattr(b, name)), "cost",
                )  # fmt: skip
        return None


def _same_but_sizes(trial: Trial) -> bool:
    base, mine = trial.sample.recipe.tensors(), trial.tensors()
    return (
        len(base) == len(mine)
        and _numbers(trial.sample.recipe) == _numbers(trial.recipe)
        and all(
            len(a.shape) == len(b.shape) and a.dtype == b.dtype and a.layout == b.layout
            for a, b in zip(base, mine, strict=True)
        )
    )


def _numbers(recipe: Recipe) -> list[tuple[str, object]]:
    """What is given that is no tensor: a call over other dimensions is no larger call."""
    return [(name, leaf) for name, leaf in leaves(recipe) if not isinstance(leaf, TensorRecipe)]


class SymbolicCost(CostRule):
    """The cost in symbols is, for the sizes, the cost in numbers."""

    id = "cost.symbolic"
    dear = True
    limit = 8

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None

    def check(self, trial: Trial) -> Problem | None:
        found = symbolic(trial)
        if found.error is not None:
            return None
        given = iter(found.inputs)
        args, kwargs = trial.arguments()
        args, kwargs = (map_tensors(lambda t: next(given), a, trial.on) for a in (args, kwargs))
        try:
            concrete = _cost_of_metas(trial)
            guards = len(found.shape_env.guards)
            cost = _cost(trial, args, kwargs, found.result)
            if any(_fixes(g) for g in list(found.shape_env.guards)[guards:]):
                return Problem("a cost in symbols", "it asked for a size as a number", "cost")
        except Exception as error:  # noqa: BLE001  # told as what it is
            if not tensors_in(found.result, trial.on):
                return None
            return Problem("a cost in symbols", f"{type(error).__name__}: {error}", "cost")
        for name in _COUNTS:
            value = getattr(cost, name)
            number = value if isinstance(value, (int, float)) else _hint(value)
            if number is not None and number != getattr(concrete, name):
                return Problem(f"{name} {getattr(concrete, name)}", f"{value} = {number}", "cost")
        return None


class CostCounts(CostRule):
    """FLOPs are about those of the products that the kernel calls."""

    id = "cost.counted"
    dear = True
    limit = 6
    hint = "count a multiplication and an addition for each term: 2 * n * k * m for a product"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample) or ("built-in" if sample.op.builtin else "")
        if known:
            return known
        opaque = sample.op.function("kernel") is None or sample.op.overload.array_kernel is not None
        return "its kernel calls no operators" if opaque else ""

    def check(self, trial: Trial) -> Problem | None:
        kernel = trial.op.function("kernel")
        args, kwargs = trial.arguments()
        counter = _counter(trial)
        try:
            with trial.on.torch.no_grad(), counter:
                kernel(*args, **kwargs)  # type: ignore[misc]
            said = _cost_of_metas(trial).flops
        except Exception:  # noqa: BLE001  # told by another property
            return None
        elements = sum(t.numel for t in trial.tensors()) + sum(t.numel() for t in trial.results())
        least, most = counter.flops, 4 * counter.flops + 100 * elements
        if not counter.flops or 0.9 * least <= said <= most:
            return None
        return Problem(f"about {least} flops, those of the products it calls", str(said), "cost")


def _counter(trial: Trial) -> Any:
    """A mode that adds up what the products called in it cost."""
    from maquette.library.costs import cost_of  # noqa: PLC0415

    class Counter(trial.on.mode_type):  # type: ignore[name-defined]
        flops = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if func.facts.cost is not None:
                flops = cost_of(func, args, kwargs or {}, result).flops
                size = sum(t.numel() for t in tensors_in(result, trial.on))
                self.flops += flops if flops > size else 0  # products, not elementwise operators
            return result

    return Counter()


class CostReads(CostRule):
    """At least the bytes of the tensors that results depend on as a whole are read."""

    id = "cost.bytes read"
    dear = True
    limit = 4
    hint = "bytes are elements times itemsize; leave bytes_read out to have those of all operands"

    def why_not(self, sample: Sample) -> str:
        op = sample.op
        known = super().why_not(sample) or ("a view" if op.views else "")
        return known or ("its results are random" if op.random else "")

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.floating and t.numel > 1 for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        try:
            said = _cost_of_metas(trial).bytes_read
        except Exception:  # noqa: BLE001  # told by another property
            return None
        flat = tensors_in(trial.arguments(), trial.on)
        used = [i for i, t in enumerate(flat) if t.numel() and self._all_matter(trial, i)]
        least = sum(flat[i].numel() * flat[i].element_size() for i in used)
        if said >= least:
            return None
        return Problem(f"at least the {least} bytes that results depend on read", str(said), "cost")

    def _all_matter(self, trial: Trial, number: int) -> bool:
        """Whether NaN in the first, a middle and the last element each change a result."""
        t = tensors_in(trial.arguments(), trial.on)[number]
        if not t.is_floating_point() or 0 in t.stride():
            return False
        for at in {0, t.numel() // 2, t.numel() - 1}:
            args, kwargs = trial.arguments()
            place = np.unravel_index(at, tuple(t.shape))
            changed = tensors_in((args, kwargs), trial.on)[number]
            changed[tuple([int(i) for i in place])] = float("nan")
            try:
                with trial.on.torch.no_grad():
                    found = trial.op(*args, **kwargs)
            except Exception:  # noqa: BLE001  # it looks at values
                return False
            if not compared(trial, trial.real.result, found):
                return False
        return True


def _fixes(guard: Any) -> bool:
    return str(getattr(guard, "expr", guard)).startswith("Eq(")


COSTS: tuple[Property, ...] = (
    CostThere(),
    CostWritesResults(),
    CostGrows(),
    SymbolicCost(),
    CostCounts(),
    CostReads(),
)
