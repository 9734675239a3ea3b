"""The second derivative, and forward mode's tangents, are slopes by differences too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maquette.opcheck.framework import Array
from maquette.opcheck.properties.base import Problem, Property
from maquette.opcheck.properties.derivative import (
    Derivative,
    arrays,
    as_tensors,
    gradients,
    recorded,
)
from maquette.opcheck.recipes import Sample
from maquette.opcheck.slopes import Differentiable, close, cotangents, inner
from maquette.opcheck.trials import Trial


class SecondDerivative(Derivative):
    """The derivative of the gradient is its slope, or raises."""

    id = "derivative.second"
    spec = "LX10, P39"
    limit = 6
    hint = "compute the backward by operators on ctx.saved_tensors, or have it raise"

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = recorded(d)
        incoming = cotangents([d.on.array(o) for o in outputs])
        weights = [np.asarray(w) for w in cotangents(d.points, 7)]
        given = [t.requires_grad_() for t in as_tensors(d, incoming, outputs)]
        try:
            grads = gradients(d, leaves, outputs, given, create_graph=True)
            twice = self._second(d, leaves, grads, weights, given)
        except Exception:  # noqa: BLE001  # it says so, as it may
            return None
        if trial.op.builtin and any(g is None for g in grads):
            return None  # PyTorch has no derivative for that argument
        problem = self._of_incoming(d, leaves, outputs, twice[len(leaves) :], weights)
        if problem is not None:
            return problem
        twice = twice[: len(leaves)]
        slope = self._slope(d, incoming, weights)
        if slope is None:
            return None
        here = sum(inner(g, v) for g, v in zip(twice, d.directions, strict=True))
        if close(slope, here, 1.0):
            return None
        got = f"{here:.6g}" + (" (no error)" if here == 0 else "")
        return Problem(f"a second derivative of {slope:.6g} along a random direction, or an error",
                       got, "backward")  # fmt: skip

    def _second(
        self,
        d: Differentiable,
        leaves: Sequence[Any],
        grads: Sequence[Any],
        weights: Sequence[Array],
        incoming: Sequence[Any],
    ) -> list[Array]:
        """Derivatives of the weighted gradients by the inputs, then by the incoming gradients."""
        pairs = [(g, w) for g, w in zip(grads, weights, strict=True) if g is not None]
        outs = [g for g, _ in pairs]
        by = [*leaves, *incoming]
        found = gradients(d, by, outs, as_tensors(d, [w for _, w in pairs], outs))
        return [
            np.zeros(tuple(t.shape)) if g is None else d.on.array(g)
            for g, t in zip(found, by, strict=True)
        ]

    def _of_incoming(
        self,
        d: Differentiable,
        leaves: Sequence[Any],
        outputs: Sequence[Any],
        found: Sequence[Array],
        weights: Sequence[Array],
    ) -> Problem | None:
        """A gradient is linear in the incoming one: its derivative is the gradient itself."""
        others = cotangents([d.on.array(o) for o in outputs], 9)
        fresh, outs = recorded(d)
        whole = arrays(d, gradients(d, fresh, outs, as_tensors(d, others, outs)))
        expected = sum(inner(w, g) for w, g in zip(weights, whole, strict=True))
        here = sum(
            inner(f, o)
            for f, o, out in zip(found, others, outputs, strict=True)
            if out.requires_grad
        )
        if not np.isfinite(expected) or close(expected, here, 1.0):
            return None
        what = "along a random incoming gradient, or an error"
        got = f"{here:.6g}" + (" (no error)" if here == 0 else "")
        return Problem(f"a second derivative of {expected:.6g} {what}", got, "backward")

    def _slope(
        self, d: Differentiable, incoming: Sequence[Array], weights: Sequence[Array]
    ) -> float | None:
        found = []
        for step in (1e-5, 3e-6):
            sides = []
            for sign in (1, -1, 0):
                tensors = [
                    d.tensor(p + sign * step * v, t, grad=True)
                    for p, v, t in zip(d.points, d.directions, d.inputs, strict=True)
                ]
                try:
                    outs = d.run(tensors)
                    grads = gradients(d, tensors, outs, as_tensors(d, incoming, outs))
                except Exception:  # noqa: BLE001  # told elsewhere
                    return None
                sides.append(
                    sum(inner(w, g) for w, g in zip(weights, arrays(d, grads), strict=True))
                )
            above, below, here = sides
            if not close((above - here) / step, (here - below) / step, 3.0):
                return None  # a kink of the gradient
            found.append((above - below) / (2 * step))
        if not np.isfinite(found).all() or not close(found[0], found[1], 10.0):
            return None
        return float(found[0])


class TangentIsSlope(Derivative):
    """Forward mode's tangents are the slopes by differences."""

    id = "derivative.tangent"
    spec = "LX10"
    limit = 10
    hint = "the tangent rule is not the derivative"

    def why_not(self, sample: Sample) -> str:
        if sample.op.on.name == "torch" and not sample.op.builtin:
            return "PyTorch's custom operators have no forward mode"
        return super().why_not(sample)

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        moved_inputs = self._moved(trial, d)
        directions = [v if i in moved_inputs else 0 * v for i, v in enumerate(d.directions)]
        tangents = tuple(d.tensor(v, t) for v, t in zip(directions, d.inputs, strict=True))
        try:
            _, moved = d.on.jvp(
                lambda *ts: tuple(d.run(ts)), tuple(d.fresh([False] * len(d.inputs))), tangents
            )
        except Exception:  # noqa: BLE001  # there is no rule, and it says so
            return None
        slopes = d.slopes(moved_inputs)
        if slopes is None:
            return None
        differentiable = [o.requires_grad for o in recorded(d)[1]]
        for i, (s, t) in enumerate(zip(slopes, moved, strict=True)):
            if not differentiable[i]:
                continue
            found = d.on.array(t)
            if not np.allclose(found, s, 1e-3, 1e-4, equal_nan=True):
                at = np.abs(found - s).max()
                return Problem(f"the tangent of result {i}, by differences", f"off by {at:.4g}",
                               "tangent")  # fmt: skip
        return None

    def _moved(self, trial: Trial, d: Differentiable) -> list[int]:
        """The inputs that have a derivative: of built-in operators, those that PyTorch has."""
        every = list(range(len(d.inputs)))
        if not trial.op.builtin:
            return every
        leaves, outputs = recorded(d)
        grads = gradients(
            d, leaves, outputs, as_tensors(d, [d.on.array(o) for o in outputs], outputs)
        )
        return [i for i in every if grads[i] is not None]


HIGHER: tuple[Property, ...] = (SecondDerivative(), TangentIsSlope())
