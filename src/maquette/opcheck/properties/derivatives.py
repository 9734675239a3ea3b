"""Derivatives: registered at the right key, right for every input and incoming gradient, twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maquette.opcheck.copies import snapshot, tensors_in
from maquette.opcheck.framework import Array
from maquette.opcheck.properties.base import Problem, Property
from maquette.opcheck.properties.calls import without_values
from maquette.opcheck.recipes import Sample
from maquette.opcheck.slopes import Differentiable, close, cotangents, inner
from maquette.opcheck.trials import Trial, author_line
from maquette.opcheck.utilities import test_autograd_registration


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:300]


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
            return Problem("a kernel at an autograd key, or no gradient", _first(error))
        except Exception:  # noqa: BLE001  # whether it may refuse is told elsewhere
            return None
        return None


class Derivative(Property):
    """The common part: which operators and inputs have a derivative to look at."""

    dear = True
    limit = 24
    part = "backward"

    def why_not(self, sample: Sample) -> str:
        op = sample.op
        if op.random or without_values(op):
            return "its results have no certain values"
        if op.written:
            return "it writes its arguments"
        if not any(t.floating for t in sample.recipe.tensors()):
            return "no floating tensor"
        return "" if _meant(sample) else "no formula, and nothing of the sample requires grad"

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
            d = _differentiable(trial)
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


def _meant(sample: Sample) -> bool:
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


def _differentiable(trial: Trial) -> Differentiable | None:
    """The trial in double precision, remembered; None where the operator refuses that."""
    if "double" not in trial.__dict__:
        made = Differentiable(trial)
        with trial.on.torch.no_grad():
            made.run(made.fresh([False] * len(made.inputs)))
        trial.__dict__["double"] = made
    found: Differentiable = trial.__dict__["double"]
    return found


def _recorded(
    d: Differentiable, needs: Sequence[bool] | None = None
) -> tuple[list[Any], list[Any]]:
    leaves = d.fresh(needs)
    return leaves, d.run(leaves)


def _gradients(
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


def _as_tensors(d: Differentiable, values: Sequence[Array], like: Sequence[Any]) -> list[Any]:
    from maquette.opcheck.framework import dtype_name  # noqa: PLC0415

    return [d.on.from_array(v, dtype_name(t)) for v, t in zip(values, like, strict=True)]


def _arrays(d: Differentiable, grads: Sequence[Any]) -> list[Array]:
    return [
        np.zeros_like(p) if g is None else d.on.array(g)
        for p, g in zip(d.points, grads, strict=True)
    ]


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
            leaves, outputs = _recorded(d)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function(p) for p in ("backward", "kernel")])
            text = f"{type(error).__name__}: {_first(error)}"
            if trial.op.builtin and _known_refusal(text):
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
            None if c is None else _as_tensors(d, [c], [o])[0]
            for c, o in zip(incoming, outputs, strict=True)
        ]
        try:
            found = _gradients(d, leaves, outputs, grads, retain_graph=True)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function("backward")])
            text = f"{type(error).__name__}: {_first(error)}"
            if trial.op.builtin and _known_refusal(text):
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
                name = _input_name(trial, d, i)
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


def _known_refusal(text: str) -> bool:
    """Whether a built-in operator says that it has no derivative, as PyTorch's does."""
    words = ("not implemented", "leaf Variable", "automatic differentiation", "not differentiable")
    return "NotImplementedError" in text or any(w in text for w in words)


def _marked_non_differentiable(outputs: Sequence[Any]) -> list[bool]:
    """Outputs that carry no gradient while others do: their author said so."""
    some = any(o.requires_grad for o in outputs)
    return [some and not o.requires_grad for o in outputs]


def _input_name(trial: Trial, d: Differentiable, number: int) -> str:
    from maquette.opcheck.copies import named_tensors  # noqa: PLC0415
    from maquette.opcheck.operators import bound  # noqa: PLC0415

    named = named_tensors(bound(trial.op, *d.call), d.on)
    return next((n for n, t in named if t is d.inputs[number]), f"input {number}")


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
        leaves, outputs = _recorded(d)
        incoming = cotangents([d.on.array(o) for o in outputs])
        whole = _arrays(d, _gradients(d, leaves, outputs, _as_tensors(d, incoming, outputs)))
        count = len(leaves)
        for needs in itertools.islice(itertools.product((True, False), repeat=count), 1, 8):
            if not any(needs):
                continue
            try:
                some, outs = _recorded(d, needs)
                found = _gradients(d, some, outs, _as_tensors(d, incoming, outs))
            except Exception as error:  # noqa: BLE001  # told as what it is
                return Problem(
                    f"gradients where {_named(trial, d, needs)} require grad",
                    f"{type(error).__name__}: {_first(error)}", "backward",
                    author_line(error, [trial.op.function("backward")]), error,
                )  # fmt: skip
            for i, need in enumerate(needs):
                got = np.zeros_like(whole[i]) if found[i] is None else d.on.array(found[i])
                if need and not np.allclose(got, whole[i], 1e-9, 1e-9, equal_nan=True):
                    return Problem(
                        f"the gradient of {_input_name(trial, d, i)} as when all require grad",
                        f"another where only {_named(trial, d, needs)} require it", "backward",
                    )  # fmt: skip
        return None


def _named(trial: Trial, d: Differentiable, needs: Sequence[bool]) -> str:
    return ", ".join(_input_name(trial, d, i) for i, n in enumerate(needs) if n)


class LinearInGrad(Derivative):
    """Gradients are linear in the incoming one: zero for zero, any layout of it, sums of it."""

    id = "derivative.linear"
    spec = "LX10, P36"
    hint = "use grad itself (not its shape, sign or all-ones); an undefined one is None or zeros"

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = _recorded(d)
        values = [d.on.array(o) for o in outputs]
        a = cotangents(values, 5)
        b = cotangents(values, 6)
        total = [2 * x - 3 * y for x, y in zip(a, b, strict=True)]
        zero = [np.zeros_like(x) for x in a]
        found = []
        for given in (a, b, total, zero):
            grads = _as_tensors(d, given, outputs)
            found.append(_arrays(d, _gradients(d, leaves, outputs, grads, retain_graph=True)))
        for i, (x, y, t, z) in enumerate(zip(*found, strict=True)):
            if not np.isfinite(x).all():
                continue
            scale = 1 + np.abs(x).max(initial=0) + np.abs(y).max(initial=0)
            name = _input_name(trial, d, i)
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
                got = _arrays(d, _gradients(d, leaves, outputs, grads, retain_graph=True))
                plain = expected
                if what == "expanded":
                    same = [g.contiguous() for g in grads]
                    plain = _arrays(d, _gradients(d, leaves, outputs, same, retain_graph=True))
            except Exception as error:  # noqa: BLE001  # told as what it is
                text = f"{type(error).__name__}: {_first(error)}"
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
    grads = _as_tensors(d, values, outputs)
    yield (
        "expanded",
        [g.reshape(-1)[:1].reshape(()).expand(g.shape) if g.numel() else g for g in grads],
    )
    if any(g.ndim >= 2 for g in grads):
        turned = [g.transpose(-1, -2).contiguous().transpose(-1, -2) if g.ndim >= 2 else g
                  for g in grads]  # fmt: skip
        yield "transposed", turned


class KeepsPrecision(Derivative):
    """A gradient is computed in the precision of its input."""

    id = "derivative.dtype"
    spec = "LX10, P34"
    hint = (
        "no .float(), no dtype= of a fixed kind in the backward: a float64 input has one of float64"
    )

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = _recorded(d)
        if any(str(o.dtype) not in ("torch.float64", "torch.complex128") for o in outputs):
            return None
        incoming = cotangents([d.on.array(o) for o in outputs])
        grads = _gradients(d, leaves, outputs, _as_tensors(d, incoming, outputs))
        for i, g in enumerate(grads):
            if g is None:
                continue
            a = d.on.array(g).reshape(-1)
            a = a[(np.abs(a) > 1e-8) & np.isfinite(a)]  # what cancels is noise
            narrow = "complex64" if a.dtype.kind == "c" else "float32"
            if a.size and a.dtype.kind in "fc" and np.array_equal(a, a.astype(narrow)):
                return Problem(f"the gradient of {_input_name(trial, d, i)} in {a.dtype}",
                               f"values rounded to {narrow}", "backward")  # fmt: skip
        return self._raw(trial)

    def _raw(self, trial: Trial) -> Problem | None:
        """The dtypes that a formula itself gives, before they are cast."""
        opdef = trial.op.opdef
        if trial.on.name != "maquette" or opdef is None or opdef._formula is None:
            return None
        from maquette.autograd.registered import Formula  # noqa: PLC0415

        formula, seen = opdef._formula, []

        def backward(ctx: Any, *grads: Any) -> Any:
            found = formula.backward(ctx, *grads)
            seen.append(found if isinstance(found, tuple) else (found,))
            return found

        wanted = trial.recipe.mapped(lambda t: replace(t, requires_grad=t.floating))
        args, kwargs = trial.arguments(wanted)
        opdef._formula = Formula(backward, formula.setup_context)
        opdef._opoverload.invalidate()
        try:
            outs = [t for t in tensors_in(trial.op(*args, **kwargs), trial.on) if t.requires_grad]
            if outs:
                sum(o.abs().sum() for o in outs).backward()
        except Exception:  # noqa: BLE001  # told elsewhere
            return None
        finally:
            opdef._formula = formula
            opdef._opoverload.invalidate()
        for grads in seen:
            for value, g in zip([*args, *kwargs.values()], grads, strict=False):
                if trial.on.is_tensor(value) and trial.on.is_tensor(g) and g.dtype != value.dtype:
                    if _mixed(trial):
                        continue  # promotion made it; it is cast back rightly
                    return Problem(f"a gradient of {value.dtype}", f"{g.dtype}", "backward")
        return None


def _mixed(trial: Trial) -> bool:
    return len({t.dtype for t in trial.tensors()}) > 1


class BackwardWritesNothing(Derivative):
    """Backward leaves what was saved, and the incoming gradients, alone; it can be run again."""

    id = "derivative.writes"
    spec = "LX7, P37"
    hint = "no in-place operator on ctx.saved_tensors or on grad in the backward: they are shared"

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = _recorded(d)
        grads = _as_tensors(d, cotangents([d.on.array(o) for o in outputs]), outputs)
        watched = [
            *[(f"input {i}", t) for i, t in enumerate(leaves)],
            *[(f"output {i}", t) for i, t in enumerate(outputs)],
            *[(f"incoming gradient {i}", t) for i, t in enumerate(grads)],
        ]
        before = [snapshot(t, d.on) for _, t in watched]
        first = _arrays(d, _gradients(d, leaves, outputs, grads, retain_graph=True))
        for (name, t), old in zip(watched, before, strict=True):
            new = snapshot(t, d.on)
            if old is not None and new is not None and old.data != new.data:
                return Problem(f"{name} untouched by backward", "written", "backward")
        try:
            again = _arrays(d, _gradients(d, leaves, outputs, grads, retain_graph=True))
        except Exception as error:  # noqa: BLE001  # told as what it is
            return Problem("the same gradients a second time (retain_graph=True)",
                           f"{type(error).__name__}: {_first(error)}", "backward")  # fmt: skip
        if not all(np.allclose(a, b, equal_nan=True) for a, b in zip(first, again, strict=True)):
            return Problem("the same gradients a second time (retain_graph=True)", "others",
                           "backward")  # fmt: skip
        return None


class SeesLaterWrites(Derivative):
    """Writing an input before backward raises, or changes nothing."""

    id = "derivative.saved"
    spec = "LX10, P38"
    hint = (
        "save tensors by ctx.save_for_backward, not as attributes of ctx: versions are checked then"
    )

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = _recorded(d)
        incoming = cotangents([d.on.array(o) for o in outputs])
        whole = _arrays(d, _gradients(d, leaves, outputs, _as_tensors(d, incoming, outputs)))
        for i in range(len(leaves)):
            for written in ("input", "output"):
                problem = self._written(trial, d, i, written, incoming, whole)
                if problem is not None:
                    return problem
        return None

    def _written(
        self, trial: Trial, d: Differentiable, i: int, what: str, incoming: Any, whole: Any
    ) -> Problem | None:
        leaves, outputs = _recorded(d)
        target = leaves[i] if what == "input" else (outputs[i] if i < len(outputs) else None)
        if target is None or not target.numel():
            return None
        grads = _as_tensors(d, incoming, outputs)
        try:
            with d.on.torch.no_grad():
                target.mul_(-2).add_(3)
            found = _arrays(d, _gradients(d, leaves, outputs, grads))
        except Exception:  # noqa: BLE001  # it is refused, as it may be
            return None
        for k, (g, e) in enumerate(zip(found, whole, strict=True)):
            if not np.allclose(g, e, 1e-7, 1e-7, equal_nan=True):
                name = _input_name(trial, d, i) if what == "input" else f"output {i}"
                return Problem(
                    f"an error, or the same gradient, where {name} is written before backward",
                    f"another gradient of {_input_name(trial, d, k)}, silently", "backward",
                )  # fmt: skip
        return None


class SecondDerivative(Derivative):
    """The derivative of the gradient is its slope, or raises."""

    id = "derivative.second"
    spec = "LX10, P39"
    limit = 6
    hint = "compute the backward by operators on ctx.saved_tensors, or have it raise"

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = _recorded(d)
        incoming = cotangents([d.on.array(o) for o in outputs])
        weights = [np.asarray(w) for w in cotangents(d.points, 7)]
        try:
            grads = _gradients(d, leaves, outputs, _as_tensors(d, incoming, outputs),
                               create_graph=True)  # fmt: skip
            twice = self._second(d, leaves, grads, weights)
        except Exception:  # noqa: BLE001  # it says so, as it may
            return None
        if trial.op.builtin and any(g is None for g in grads):
            return None  # PyTorch has no derivative for that argument
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
    ) -> list[Array]:
        given = [(g, w) for g, w in zip(grads, weights, strict=True) if g is not None]
        outs = [g for g, _ in given]
        return _arrays(d, _gradients(d, leaves, outs, _as_tensors(d, [w for _, w in given], outs)))

    def _slope(
        self, d: Differentiable, incoming: Sequence[Array], weights: Sequence[Array]
    ) -> float | None:
        found = []
        for step in (1e-5, 3e-6):
            sides = []
            for sign in (1, -1):
                tensors = [
                    d.tensor(p + sign * step * v, t, grad=True)
                    for p, v, t in zip(d.points, d.directions, d.inputs, strict=True)
                ]
                try:
                    outs = d.run(tensors)
                    grads = _gradients(d, tensors, outs, _as_tensors(d, incoming, outs))
                except Exception:  # noqa: BLE001  # told elsewhere
                    return None
                sides.append(
                    sum(inner(w, g) for w, g in zip(weights, _arrays(d, grads), strict=True))
                )
            found.append((sides[0] - sides[1]) / (2 * step))
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
        tangents = tuple(d.tensor(v, t) for v, t in zip(d.directions, d.inputs, strict=True))
        try:
            _, moved = d.on.jvp(
                lambda *ts: tuple(d.run(ts)), tuple(d.fresh([False] * len(d.inputs))), tangents
            )
        except Exception:  # noqa: BLE001  # there is no rule, and it says so
            return None
        slopes = d.slopes(range(len(d.inputs)))
        if slopes is None:
            return None
        differentiable = [o.requires_grad for o in _recorded(d)[1]]
        for i, (s, t) in enumerate(zip(slopes, moved, strict=True)):
            if not differentiable[i]:
                continue
            found = d.on.array(t)
            if not np.allclose(found, s, 1e-3, 1e-4, equal_nan=True):
                at = np.abs(found - s).max()
                return Problem(f"the tangent of result {i}, by differences", f"off by {at:.4g}",
                               "tangent")  # fmt: skip
        return None


DERIVATIVES: tuple[Property, ...] = (
    Registered(),
    GradientIsSlope(),
    EachSubset(),
    LinearInGrad(),
    KeepsPrecision(),
    BackwardWritesNothing(),
    SeesLaterWrites(),
    SecondDerivative(),
    TangentIsSlope(),
)
