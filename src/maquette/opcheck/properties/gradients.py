"""Gradients: registered at the right key, the slopes by differences, linear, for each subset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maquette.opcheck.framework import Array
from maquette.opcheck.properties.base import Problem, Property, first_line
from maquette.opcheck.properties.derivative import (
    Derivative,
    arrays,
    as_tensors,
    gradients,
    input_name,
    is_known_refusal,
    recorded,
)
from maquette.opcheck.recipes import Sample
from maquette.opcheck.slopes import Differentiable, close, cotangents, inner
from maquette.opcheck.trials import Trial, author_line
from maquette.opcheck.utilities import test_autograd_registration


class Registered(Property):
    """The derivative stands at an autograd key, not in the kernel of a backend."""

    id = "autograd.key"
    spec = "L117"
    dear = True
    limit = 4
    hint = "a backend's kernel computes only; register the derivative by register_autograd"

    def why_not(self, sample: Sample) -> str:
        needs = any(t.requires_grad for t in sample.recipe.tensors())
        return "" if needs else "nothing of the sample requires grad"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.floating for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        wanted = trial.recipe.mapped(lambda t: replace(t, requires_grad=t.floating))
        args, kwargs = trial.arguments(wanted)
        try:
            test_autograd_registration(trial.op, args, kwargs)
        except AssertionError as error:
            return Problem("a kernel at an autograd key, or no gradient", first_line(error))
        except Exception:  # noqa: BLE001  # whether it may refuse is told elsewhere
            return None
        return None


class GradientIsSlope(Derivative):
    """Gradients are the slopes by differences, for each output and each input."""

    id = "derivative.value"
    spec = "LX10, P35"
    hint = (
        "the formula is not the derivative: is grad multiplied in, complex conjugated, "
        "summed over broadcast dims?"
    )

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        try:
            leaves, outputs = recorded(d)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function(p) for p in ("backward", "kernel")])
            text = f"{type(error).__name__}: {first_line(error)}"
            if trial.op.builtin and is_known_refusal(text):
                return None
            return Problem("a call that records gradients", text, "backward", line, error)
        values = [d.on.array(o) for o in outputs]
        incoming = cotangents(values)
        cases: list[tuple[str, list[Array | None]]] = [("random", list(incoming))]
        if len(values) > 1:
            for i in range(len(values)):
                only = [c if i == k else None for k, c in enumerate(incoming)]
                cases.append((f"for output {i} alone", only))
        for what, chosen in cases:
            problem = self._compare(trial, d, leaves, outputs, chosen, what)
            if problem is not None:
                return problem
        return None

    def _compare(
        self,
        trial: Trial,
        d: Differentiable,
        leaves: Sequence[Any],
        outputs: Sequence[Any],
        incoming: Sequence[Array | None],
        what: str,
    ) -> Problem | None:
        grads = [
            None if c is None else as_tensors(d, [c], [o])[0]
            for c, o in zip(incoming, outputs, strict=True)
        ]
        try:
            found = gradients(d, leaves, outputs, grads, retain_graph=True)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function("backward")])
            text = f"{type(error).__name__}: {first_line(error)}"
            if trial.op.builtin and is_known_refusal(text):
                return None
            return Problem("gradients", text, "backward", line, error)
        marked = _marked_non_differentiable(outputs)
        for i, (g, leaf) in enumerate(zip(found, leaves, strict=True)):
            slopes = d.slopes([i])
            if slopes is None:
                continue
            there = sum(
                inner(c, s)
                for c, s, skip in zip(incoming, slopes, marked, strict=True)
                if c is not None and not skip
            )
            here = 0.0 if g is None else inner(d.on.array(g), d.directions[i])
            if g is None and trial.op.builtin:
                continue  # PyTorch has no derivative for that argument
            if not close(there, here):
                name = input_name(trial, d, i)
                kind = f"gradient of {name}, incoming gradient {what}"
                got = f"{here:.6g}" if g is not None else "no gradient at all"
                return Problem(
                    f"{kind}: {there:.6g} along a random direction (by differences)",
                    got,
                    "backward",
                )
            if g is not None and (g.dtype, g.shape) != (leaf.dtype, leaf.shape):
                return Problem(f"a gradient {leaf.dtype} {leaf.shape}", f"{g.dtype} {g.shape}",
                               "backward")  # fmt: skip
        return None


def _marked_non_differentiable(outputs: Sequence[Any]) -> list[bool]:
    """Outputs that carry no gradient while others do: their author said so."""
    some = any(o.requires_grad for o in outputs)
    return [some and not o.requires_grad for o in outputs]


class EachSubset(Derivative):
    """A gradient does not depend on which other inputs require grad."""

    id = "derivative.subsets"
    spec = "LX10, P40"
    hint = (
        "ask ctx.needs_input_grad per input only to save work: what is needed is returned in full"
    )

    def suits(self, trial: Trial) -> bool:
        return super().suits(trial) and sum(t.floating for t in trial.tensors()) > 1

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = recorded(d)
        incoming = cotangents([d.on.array(o) for o in outputs])
        whole = arrays(d, gradients(d, leaves, outputs, as_tensors(d, incoming, outputs)))
        count = len(leaves)
        for needs in itertools.islice(itertools.product((True, False), repeat=count), 1, 8):
            if not any(needs):
                continue
            try:
                some, outs = recorded(d, needs)
                found = gradients(d, some, outs, as_tensors(d, incoming, outs))
            except Exception as error:  # noqa: BLE001  # told as what it is
                return Problem(
                    f"gradients where {_named(trial, d, needs)} require grad",
                    f"{type(error).__name__}: {first_line(error)}", "backward",
                    author_line(error, [trial.op.function("backward")]), error,
                )  # fmt: skip
            for i, need in enumerate(needs):
                got = np.zeros_like(whole[i]) if found[i] is None else d.on.array(found[i])
                if need and not np.allclose(got, whole[i], 1e-9, 1e-9, equal_nan=True):
                    return Problem(
                        f"the gradient of {input_name(trial, d, i)} as when all require grad",
                        f"another where only {_named(trial, d, needs)} require it", "backward",
                    )  # fmt: skip
        return None


def _named(trial: Trial, d: Differentiable, needs: Sequence[bool]) -> str:
    return ", ".join(input_name(trial, d, i) for i, n in enumerate(needs) if n)


class LinearInGrad(Derivative):
    """Gradients are linear in the incoming one: zero for zero, any layout of it, sums of it."""

    id = "derivative.linear"
    spec = "LX10, P36"
    hint = "use grad itself (not its shape, sign or all-ones); an undefined one is None or zeros"

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = recorded(d)
        values = [d.on.array(o) for o in outputs]
        a = cotangents(values, 5)
        b = cotangents(values, 6)
        total = [2 * x - 3 * y for x, y in zip(a, b, strict=True)]
        zero = [np.zeros_like(x) for x in a]
        found = []
        for given in (a, b, total, zero):
            grads = as_tensors(d, given, outputs)
            found.append(arrays(d, gradients(d, leaves, outputs, grads, retain_graph=True)))
        for i, (x, y, t, z) in enumerate(zip(*found, strict=True)):
            if not np.isfinite(x).all():
                continue
            scale = 1 + np.abs(x).max(initial=0) + np.abs(y).max(initial=0)
            name = input_name(trial, d, i)
            if not np.allclose(z, 0 * z, atol=1e-8 * scale):
                return Problem(f"a zero gradient of {name} for a zero incoming one",
                               f"up to {np.abs(z).max():.4g}", "backward")  # fmt: skip
            if not np.allclose(t, 2 * x - 3 * y, 1e-6, 1e-6 * scale):
                return Problem(f"the gradient of {name} linear in the incoming one",
                               "2 g(a) - 3 g(b) is not g(2a - 3b)", "backward")  # fmt: skip
        return self._layouts(trial, d, leaves, outputs, a, found[0])

    def _layouts(
        self, trial: Trial, d: Differentiable, leaves: Sequence[Any], outputs: Sequence[Any],
        a: Sequence[Array], expected: Sequence[Array],
    ) -> Problem | None:  # fmt: skip
        for what, grads in _laid_out(d, a, outputs):
            try:
                got = arrays(d, gradients(d, leaves, outputs, grads, retain_graph=True))
                plain = expected
                if what == "expanded":
                    same = [g.contiguous() for g in grads]
                    plain = arrays(d, gradients(d, leaves, outputs, same, retain_graph=True))
            except Exception as error:  # noqa: BLE001  # told as what it is
                text = f"{type(error).__name__}: {first_line(error)}"
                line = author_line(error, [trial.op.function("backward")])
                return Problem(f"gradients for an incoming one that is {what}", text, "backward",
                               line, error)  # fmt: skip
            for g, e in zip(got, plain, strict=True):
                if not np.allclose(g, e, 1e-7, 1e-7, equal_nan=True):
                    return Problem(f"the same gradient for an incoming one that is {what}",
                                   "another", "backward")  # fmt: skip
        return None


def _laid_out(
    d: Differentiable, values: Sequence[Array], outputs: Sequence[Any]
) -> Iterator[tuple[str, list[Any]]]:
    grads = as_tensors(d, values, outputs)
    yield (
        "expanded",
        [g.reshape(-1)[:1].reshape(()).expand(g.shape) if g.numel() else g for g in grads],
    )
    if any(g.ndim >= 2 for g in grads):
        turned = [g.transpose(-1, -2).contiguous().transpose(-1, -2) if g.ndim >= 2 else g
                  for g in grads]  # fmt: skip
        yield "transposed", turned


GRADIENTS: tuple[Property, ...] = (Registered(), GradientIsSlope(), EachSubset(), LinearInGrad())
