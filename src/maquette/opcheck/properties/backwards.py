"""What a backward does beside its values: its precision, its writes, what it saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maquette.opcheck.copies import snapshot, tensors_in
from maquette.opcheck.properties.base import Problem, Property, first_line
from maquette.opcheck.properties.derivative import (
    Derivative,
    arrays,
    as_tensors,
    gradients,
    input_name,
    recorded,
)
from maquette.opcheck.slopes import Differentiable, cotangents
from maquette.opcheck.trials import Trial


class KeepsPrecision(Derivative):
    """A gradient is computed in the precision of its input."""

    id = "derivative.dtype"
    spec = "LX10, P34"
    hint = (
        "no .float(), no dtype= of a fixed kind in the backward: a float64 input has one of float64"
    )

    def judge(self, trial: Trial, d: Differentiable) -> Problem | None:
        leaves, outputs = recorded(d)
        if any(str(o.dtype) not in ("torch.float64", "torch.complex128") for o in outputs):
            return None
        incoming = cotangents([d.on.array(o) for o in outputs])
        grads = gradients(d, leaves, outputs, as_tensors(d, incoming, outputs))
        for i, g in enumerate(grads):
            if g is None:
                continue
            a = d.on.array(g).reshape(-1)
            a = a[(np.abs(a) > 1e-8) & np.isfinite(a)]  # what cancels is noise
            narrow = "complex64" if a.dtype.kind == "c" else "float32"
            if a.size and a.dtype.kind in "fc" and np.array_equal(a, a.astype(narrow)):
                return Problem(f"the gradient of {input_name(trial, d, i)} in {a.dtype}",
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
        leaves, outputs = recorded(d)
        grads = as_tensors(d, cotangents([d.on.array(o) for o in outputs]), outputs)
        watched = [
            *[(f"input {i}", t) for i, t in enumerate(leaves)],
            *[(f"output {i}", t) for i, t in enumerate(outputs)],
            *[(f"incoming gradient {i}", t) for i, t in enumerate(grads)],
        ]
        before = [snapshot(t, d.on) for _, t in watched]
        first = arrays(d, gradients(d, leaves, outputs, grads, retain_graph=True))
        for (name, t), old in zip(watched, before, strict=True):
            new = snapshot(t, d.on)
            if old is not None and new is not None and old.data != new.data:
                return Problem(f"{name} untouched by backward", "written", "backward")
        try:
            again = arrays(d, gradients(d, leaves, outputs, grads, retain_graph=True))
        except Exception as error:  # noqa: BLE001  # told as what it is
            return Problem("the same gradients a second time (retain_graph=True)",
                           f"{type(error).__name__}: {first_line(error)}", "backward")  # fmt: skip
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
        leaves, outputs = recorded(d)
        incoming = cotangents([d.on.array(o) for o in outputs])
        whole = arrays(d, gradients(d, leaves, outputs, as_tensors(d, incoming, outputs)))
        for i in range(len(leaves)):
            for written in ("input", "output"):
                problem = self._written(trial, d, i, written, incoming, whole)
                if problem is not None:
                    return problem
        return None

    def _written(
        self, trial: Trial, d: Differentiable, i: int, what: str, incoming: Any, whole: Any
    ) -> Problem | None:
        leaves, outputs = recorded(d)
        target = leaves[i] if what == "input" else (outputs[i] if i < len(outputs) else None)
        if target is None or not target.numel():
            return None
        grads = as_tensors(d, incoming, outputs)
        try:
            with d.on.torch.no_grad():
                target.mul_(-2).add_(3)
            found = arrays(d, gradients(d, leaves, outputs, grads))
        except Exception:  # noqa: BLE001  # it is refused, as it may be
            return None
        for k, (g, e) in enumerate(zip(found, whole, strict=True)):
            if not np.allclose(g, e, 1e-7, 1e-7, equal_nan=True):
                name = input_name(trial, d, i) if what == "input" else f"output {i}"
                return Problem(
                    f"an error, or the same gradient, where {name} is written before backward",
                    f"another gradient of {input_name(trial, d, k)}, silently", "backward",
                )  # fmt: skip
        return None


BACKWARDS: tuple[Property, ...] = (KeepsPrecision(), BackwardWritesNothing(), SeesLaterWrites())
