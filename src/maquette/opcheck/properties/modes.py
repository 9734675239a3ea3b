"""Other settings of a call: autocast, other precision, recorded gradients. The facts stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maquette.opcheck.copies import map_tensors, tensors_in
from maquette.opcheck.metadata import differences
from maquette.opcheck.properties.base import OfValues, Problem, Property, first_line
from maquette.opcheck.properties.calls import gross
from maquette.opcheck.recipes import Sample, leaves
from maquette.opcheck.trials import Trial

_NARROW = ("float16", "bfloat16")


class NarrowIsNear(OfValues):
    """In float16 and bfloat16 the values, written ones too, are about those in float32."""

    id = "calls.narrow"
    spec = "LX3"
    dear = True
    limit = 6
    hint = "float16 and bfloat16 have a path of their own that is wrong, or sums are too narrow"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample) or ("a view" if sample.op.views else "")
        if known:
            return known
        return "" if any(t.floating for t in sample.recipe.tensors()) else "no floating tensor"

    def suits(self, trial: Trial) -> bool:
        kinds = {t.dtype for t in trial.tensors() if t.floating}
        return trial.accepted and len(kinds) == 1 and kinds <= set(_NARROW)

    def check(self, trial: Trial) -> Problem | None:
        on = trial.on
        narrow, named = trial.arguments()

        def wide(t: Any) -> Any:
            return t.to(on.torch.float32) if t.is_floating_point() else t.clone()

        args, kwargs = (map_tensors(wide, a, on) for a in (narrow, named))
        try:
            with on.torch.no_grad():
                expected = trial.op(*args, **kwargs)
                found = trial.op(*narrow, **named)
        except Exception:  # noqa: BLE001  # it does not take both
            return None
        written = [(args, narrow), (kwargs, named)] if trial.op.written else []
        for e, g in [(expected, found), *written]:
            for a, b in zip(tensors_in(e, on), tensors_in(g, on), strict=False):
                text = gross(trial, a, b, _scale(trial, (args, kwargs), a))
                if text:
                    return Problem("about the values in float32", text)
        return None


def _scale(trial: Trial, given: Any, result: Any) -> float:
    """The largest number of a call, its arguments' and its result's."""
    numbers = [abs(v) for _, v in leaves(trial.recipe) if isinstance(v, (int, float))]
    for t in [*tensors_in(given, trial.on), result]:
        values = np.abs(trial.on.array(t)).reshape(-1)
        numbers += [float(v) for v in values[np.isfinite(values)]]
    return max(numbers, default=0.0)


class MetadataWithGrad(Property):
    """Results are laid out alike where gradients are recorded."""

    id = "results.with grad"
    spec = "L25, L118"
    dear = True
    limit = 8
    hint = "the kernel at an autograd key gives another dtype, shape or strides than the backend's"

    def why_not(self, sample: Sample) -> str:
        if sample.op.builtin:
            return "built-in"
        return "it writes its arguments" if sample.op.written else ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.floating for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        args, kwargs = trial.arguments(
            trial.recipe.mapped(lambda t: replace(t, requires_grad=t.floating))
        )
        try:
            found = trial.op(*args, **kwargs)
        except Exception:  # noqa: BLE001  # told elsewhere
            return None
        for i, (e, g) in enumerate(zip(trial.results(), tensors_in(found, trial.on), strict=False)):
            sized = [d for d, n in enumerate(e.shape) if n > 1]
            a, b = ([t.stride(d) for d in sized] for t in (e, g) if t.ndim == e.ndim)
            if e.numel() and a != b:
                return Problem(f"result {i}: strides {tuple(e.stride())}", f"{tuple(g.stride())}")
        return None


class FakeUnderAutocast(Property):
    """In a region of autocast the fake says what the real call gives there."""

    id = "fake.autocast"
    spec = "L118"
    dear = True
    limit = 4
    hint = "register_autocast casts the arguments for kernel and fake alike; ask for no mode inside"

    def why_not(self, sample: Sample) -> str:
        if sample.op.builtin:
            return "built-in"
        if not any(t.dtype == "float32" for t in sample.recipe.tensors()):
            return "no float32"
        # Without one, what the kernel calls is cast, which its author need not have thought of.
        there = any(sample.op.has_kernel(key) for key in ("AutocastCPU", "AutocastCUDA"))
        return "" if there else "no rule for autocast is registered"

    def suits(self, trial: Trial) -> bool:
        narrow = any(t.dtype == "float32" for t in trial.tensors())
        return trial.accepted and narrow and not trial.fake_differences and not trial.fake.error

    def check(self, trial: Trial) -> Problem | None:
        on = trial.on
        region = on.autocast("cpu", dtype=on.torch.bfloat16)
        args, kwargs = trial.arguments()
        with region, on.torch.no_grad():
            try:
                real = trial.op(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # told as what it is
                got = f"{type(error).__name__}: {first_line(error)}"
                return Problem("an answer under autocast, as without", got)
            fake = trial.faked(static=True)
        if fake.error is not None:
            got = f"{type(fake.error).__name__}: {first_line(fake.error)}"
            return Problem("a fake's answer under autocast", got, "fake")
        inputs = tensors_in((args, kwargs), on)
        for d in differences(on, real, fake.result, inputs, fake.inputs):
            if d.fact in ("dtype", "shape", "count", "kind"):
                return Problem(f"{d.where}: {d.fact} {d.real} under autocast", d.fake, "fake")
        return None


MODES: tuple[Property, ...] = (NarrowIsNear(), MetadataWithGrad(), FakeUnderAutocast())
