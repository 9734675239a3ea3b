"""What properties of derivatives share: which operators and inputs have one, and how it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maquette.opcheck.copies import named_tensors
from maquette.opcheck.framework import Array, dtype_name
from maquette.opcheck.operators import bound
from maquette.opcheck.properties.base import OfValues, Problem
from maquette.opcheck.recipes import Sample
from maquette.opcheck.slopes import Differentiable, NotDouble
from maquette.opcheck.trials import Trial


class Derivative(OfValues):
    """The common part: which operators and inputs have a derivative to look at."""

    dear = True
    limit = 24
    part = "backward"

    def why_not(self, sample: Sample) -> str:
        op = sample.op
        known = super().why_not(sample)
        if known:
            return known
        if op.written:
            return "it writes its arguments"
        if not any(t.floating for t in sample.recipe.tensors()):
            return "no floating tensor"
        return "" if is_meant(sample) else "no formula, and nothing of the sample requires grad"

    def suits(self, trial: Trial) -> bool:
        tensors = trial.tensors()
        return (
            trial.accepted
            and any(t.floating for t in tensors)
            and sum(t.numel for t in tensors) <= 200
            and any(r.is_floating_point() or r.is_complex() for r in trial.results())
            and not any(t.values == "special" for t in tensors)
            and not _other_precision(trial)
        )

    def rank(self, trial: Trial) -> int:
        label = trial.recipe.label
        if label == "the sample":
            return 0
        if "broadcasts" in label or "None" in label or "0-d" in label:
            return 1
        return 2 if ";" not in label else 3

    def check(self, trial: Trial) -> Problem | None:
        try:
            d = in_double(trial)
        except Exception:  # noqa: BLE001  # it does not take double precision
            return None
        if d is None:
            return None
        try:
            return self.judge(trial, d)
        except Exception:  # noqa: BLE001  # `GradientIsSlope` tells of a backward that raises
            return None

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        return None


def _other_precision(trial: Trial) -> bool:
    """Whether the input is another's in another precision: both are looked at in double."""
    base = trial.sample.recipe.tensors()
    pairs = zip(base, trial.tensors(), strict=False)
    return any(a.floating and b.floating and a.dtype != b.dtype for a, b in pairs)


def is_meant(sample: Sample) -> bool:
    """Whether the author means the operator to be differentiable."""
    op = sample.op
    if op.builtin or op.function("backward") is not None or op.has_kernel("Autograd"):
        if op.function("backward") is not None or op.builtin or op.opdef is None:
            return True
    if op.on.name == "maquette" and op.overload.derivatives is not None:
        return True
    if op.has_kernel("CompositeImplicitAutograd") and not op.has_kernel("CPU"):
        return True
    return any(t.requires_grad for t in sample.recipe.tensors())


def in_double(trial: Trial) -> Differentiable | None:
    """The trial in double precision, remembered; None where the operator refuses that."""
    if "double" not in trial.__dict__:
        made = Differentiable(trial)
        with trial.on.torch.no_grad():
            made.run(made.fresh([False] * len(made.inputs)))
            if not all(np.isfinite(p).all() for p in made.points):
                raise NotDouble(f"{trial.op.name}: no slopes at infinities")
        trial.__dict__["double"] = made
    found: Differentiable = trial.__dict__["double"]
    return found


def recorded(d: Differentiable, needs: Sequence[bool] | None = None) -> tuple[list[Any], list[Any]]:
    leaves = d.fresh(needs)
    return leaves, d.run(leaves)


def gradients(
    d: Differentiable,
    leaves: Sequence[Any],
    outputs: Sequence[Any],
    grads: Sequence[Any],
    **kw: Any,
) -> list[Any]:
    """Gradients of the leaves that require any, from outputs that do; None for unused ones."""
    torch = d.on.torch
    pairs = [
        (o, g) for o, g in zip(outputs, grads, strict=True) if o.requires_grad and g is not None
    ]
    wanted = [t for t in leaves if t.requires_grad]
    if not pairs or not wanted:
        return [None] * len(leaves)
    outs, gs = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outs, wanted, gs, allow_unused=True, **kw))
    return [next(found) if t.requires_grad else None for t in leaves]


def as_tensors(d: Differentiable, values: Sequence[Array], like: Sequence[Any]) -> list[Any]:
    return [d.on.from_array(v, dtype_name(t)) for v, t in zip(values, like, strict=True)]


def arrays(d: Differentiable, grads: Sequence[Any]) -> list[Array]:
    return [
        np.zeros_like(p) if g is None else d.on.array(g)
        for p, g in zip(d.points, grads, strict=True)
    ]


def is_known_refusal(text: str) -> bool:
    """Whether a built-in operator says that it has no derivative, as PyTorch's does."""
    words = ("not implemented", "leaf Variable", "automatic differentiation", "not differentiable")
    return "NotImplementedError" in text or any(w in text for w in words)


def input_name(trial: Trial, d: Differentiable, number: int) -> str:
    named = named_tensors(bound(trial.op, *d.call), d.on)
    return next((n for n, t in named if t is d.inputs[number]), f"input {number}")
