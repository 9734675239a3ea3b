"""Derivatives by differences, and what the properties of derivatives are computed with.

An operator's call becomes a function of its floating tensors alone, in double precision. Its
derivative along a random direction is compared: one number tells a wrong formula from a right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maquette.opcheck.copies import map_tensors, tensors_in
from maquette.opcheck.framework import Array, dtype_name
from maquette.opcheck.recipes import TensorRecipe
from maquette.opcheck.trials import Trial

STEPS = (1e-5, 3e-6)


class NotDouble(Exception):
    """An operator whose results are not in double precision: differences tell nothing."""


class Differentiable:
    """A trial in double precision, as a function of its floating tensors."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.on = trial.on
        self.recipe = trial.recipe.mapped(_in_double)
        args, kwargs = trial.sample.build(self.recipe)
        self.call = (args, kwargs)
        every = tensors_in((args, kwargs), self.on)
        self.inputs: list[Any] = []
        for t in every:
            double = t.is_floating_point() or t.is_complex()
            if double and not any(t is known for known in self.inputs):
                self.inputs.append(t)
        self.points = [_apart(self.on.array(t)) for t in self.inputs]
        draw = np.random.default_rng(3)
        self.directions = [_random(p, draw) for p in self.points]

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """The floating results of the call with these tensors in place of its own."""
        table = {id(t): n for t, n in zip(self.inputs, tensors, strict=True)}

        def chosen(t: Any) -> Any:
            return table.get(id(t), t)

        args, kwargs = (map_tensors(chosen, a, self.on) for a in self.call)
        if self.trial.op.random:
            self.on.torch.manual_seed(1)
        result = self.trial.op(*args, **kwargs)
        if self.trial.op.written and not self.trial.op.returns:
            result = [t for t in tensors if _written_here(t)]
        floating = [
            t for t in tensors_in(result, self.on) if t.is_floating_point() or t.is_complex()
        ]
        if any(dtype_name(t) not in ("float64", "complex128") for t in floating):
            raise NotDouble(f"{self.trial.op.name} gives results in another precision")
        return floating

    def tensor(self, values: Array, like: Any, *, grad: bool = False) -> Any:
        """A tensor of these values, laid out as ``like``."""
        made = self.on.from_array(np.asarray(values), dtype_name(like))
        if not like.is_contiguous() and like.numel() and 0 not in like.stride():
            with self.on.torch.no_grad():
                kept = self.on.torch.empty_strided(
                    tuple(like.shape), tuple(like.stride()), dtype=like.dtype
                )
                made = kept.copy_(made)
        return made.detach().requires_grad_(grad)

    def fresh(self, needs: Sequence[bool] | None = None) -> list[Any]:
        """New leaves with the values of the inputs; those of ``needs`` require grad."""
        wanted = [True] * len(self.inputs) if needs is None else needs
        return [
            self.tensor(p, t, grad=n)
            for p, t, n in zip(self.points, self.inputs, wanted, strict=True)
        ]

    def moved(self, step: float, which: Sequence[int]) -> list[Array]:
        """The results' values with some inputs moved along their directions."""
        tensors = [
            self.tensor(p + step * d if i in which else p, t)
            for i, (p, d, t) in enumerate(
                zip(self.points, self.directions, self.inputs, strict=True)
            )
        ]
        with self.on.torch.no_grad():
            return [self.on.array(t) for t in self.run(tensors)]

    def slopes(self, which: Sequence[int]) -> list[Array] | None:
        """The results' derivatives along the directions; None where differences do not settle."""
        found = []
        here = self.moved(0.0, which)
        for step in STEPS:
            above, below = self.moved(step, which), self.moved(-step, which)
            if [a.shape for a in above] != [b.shape for b in below]:
                return None
            if not _smooth(above, here, below, step) or _lost(here, step):
                return None
            with np.errstate(all="ignore"):
                found.append(
                    [(_wide(a) - _wide(b)) / (2 * step) for a, b in zip(above, below, strict=True)]
                )
        for a, b in zip(*found, strict=True):
            scale = 1 + np.abs(a[np.isfinite(a)]).max(initial=0)
            if not np.isfinite(a).all() or not np.allclose(a, b, 1e-4, 1e-5 * scale):
                return None
        return found[0]


def _lost(values: Sequence[Array], step: float) -> bool:
    """Whether values are so large that a step is lost in their rounding."""
    largest = max([np.abs(v[np.isfinite(v)]).max(initial=0) for v in values], default=0.0)
    return bool(largest * 1e-16 / step > 1e-4)


def _smooth(above: Any, here: Any, below: Any, step: float) -> bool:
    """Whether the slopes on both sides agree: at a kink they do not."""
    for a, h, b in zip(above, here, below, strict=True):
        if a.shape != h.shape:
            return False
        with np.errstate(all="ignore"):
            right, left = (_wide(a) - _wide(h)) / step, (_wide(h) - _wide(b)) / step
            scale = 1 + np.abs(right[np.isfinite(right)]).max(initial=0)
            if not np.allclose(right, left, 1e-2, 1e-2 * scale):
                return False
    return True


def _apart(values: Array) -> Array:
    """The values a little apart: where two are equal, a maximum or a sort has a kink."""
    steps = (np.arange(values.size) * 0.618034) % 1.0
    scale = 0.02 * np.minimum(1.0, np.abs(values).max(initial=0) + 0.1)
    return np.asarray(values + scale * steps.reshape(values.shape))


def _wide(a: Array) -> Array:
    return a.astype("complex128" if a.dtype.kind == "c" else "float64")


def _written_here(t: Any) -> bool:
    return bool(t._version > 0)


def _in_double(t: TensorRecipe) -> TensorRecipe:
    if not t.floating:
        return replace(t, requires_grad=False)
    kind = "complex128" if t.dtype.startswith("complex") else "float64"
    values = "mixed" if t.values in ("special",) else t.values
    return replace(t, dtype=kind, values=values, requires_grad=False)


def _random(like: Array, draw: np.random.Generator) -> Array:
    made: Array = draw.standard_normal(like.shape)
    if like.dtype.kind == "c":
        made = made + 1j * draw.standard_normal(like.shape)
    return made


def cotangents(values: Sequence[Array], seed: int = 5) -> list[Array]:
    """Random incoming gradients for results of these values."""
    draw = np.random.default_rng(seed)
    return [_random(v, draw) for v in values]


def inner(a: Array, b: Array) -> float:
    """The real part of the inner product."""
    return float(np.sum(np.conj(a) * b).real)


def close(a: float, b: float, scale: float = 1.0) -> bool:
    """Whether a slope by differences and one by a formula agree."""
    return bool(abs(a - b) <= 2e-4 * max(1.0, abs(a), abs(b), scale))
