"""Twins: in-place and out forms, and decompositions, compute what the functional operator does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maquette.opcheck.closeness import how_they_differ
from maquette.opcheck.copies import tensors_in
from maquette.opcheck.operators import CheckedOperator, checked
from maquette.opcheck.properties.base import OfValues, Problem, Property
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial


def _packet(op: CheckedOperator, name: str) -> Any:
    namespace = op.name.partition("::")[0]
    return getattr(getattr(op.on.torch.ops, namespace), name, None)


def functional_twin(op: CheckedOperator) -> CheckedOperator | None:
    """The operator that an in-place or out form is a form of, with the same other arguments."""
    name, _, _ = op.name.partition("::")[2].partition(".")
    if not op.written or not op.returns:
        return None
    candidates = [name[:-1]] if name.endswith("_") else [name, name.removesuffix("_out")]
    wanted = [a for a in op.schema.arguments if not a.is_out]
    for candidate in candidates:
        packet = None if candidate == "" else _packet(op, candidate)
        for each in () if packet is None else packet.overloads():
            found = checked(getattr(packet, each))
            theirs = found.schema.arguments
            if not found.written and [(a.name, str(a.type)) for a in theirs] == [
                (a.name, str(a.type)) for a in wanted
            ]:
                return found
    return None


class InPlaceTwin(OfValues):
    """The in-place and the out form write what the functional operator returns."""

    id = "twins.functional"
    spec = "P, L76"
    hint = "let one form be the other: return x.copy_(functional(x, ...))"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample)
        if known:
            return known
        return "" if functional_twin(sample.op) is not None else "there is no functional twin"

    def check(self, trial: Trial) -> Problem | None:
        twin = functional_twin(trial.op)
        if twin is None:
            return None
        args, kwargs = trial.arguments()
        outs = [a.name for a in trial.op.schema.arguments if a.is_out]
        kwargs = {k: v for k, v in kwargs.items() if k not in outs}
        try:
            with trial.on.torch.no_grad():
                expected = tensors_in(twin(*args, **kwargs), trial.on)
        except Exception as error:  # noqa: BLE001  # told as what it is
            return Problem(f"{twin.name} to take it too", f"{type(error).__name__}: {error}")
        for i, (e, g) in enumerate(zip(expected, trial.results(), strict=False)):
            if tuple(e.shape) != tuple(g.shape):
                return Problem(f"result {i} of {twin.name}, {tuple(e.shape)}", f"{tuple(g.shape)}")
            same = e.to(g.dtype)
            problem = how_they_differ(trial.on, same, g)
            if problem and not (g.dtype != e.dtype or _narrow(trial)):
                return Problem(f"result {i} of {twin.name}", problem)
        return None


def _narrow(trial: Trial) -> bool:
    return any(t.dtype in ("float16", "bfloat16") for t in trial.tensors())


class HasTwin(OfValues):
    """The functional operator is held to its in-place form, where there is one."""

    id = "twins.in place"
    spec = "P, L76"
    dear = True
    limit = 30
    hint = "the in-place form of this operator computes something else"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample) or ("built-in" if sample.op.builtin else "")
        if known:
            return known
        return "" if self._twin(sample.op) is not None else "there is no in-place form"

    def _twin(self, op: CheckedOperator) -> CheckedOperator | None:
        name = op.name.partition("::")[2].partition(".")[0]
        packet = _packet(op, f"{name}_") if not op.written else None
        for each in () if packet is None else packet.overloads():
            found = checked(getattr(packet, each))
            names = [(a.name, str(a.type)) for a in found.schema.arguments]
            if names == [(a.name, str(a.type)) for a in op.schema.arguments]:
                return found
        return None

    def check(self, trial: Trial) -> Problem | None:
        twin = self._twin(trial.op)
        results = trial.results()
        args, kwargs = trial.arguments()
        if twin is None or not args or not trial.on.is_tensor(args[0]):
            return None
        target = args[0]
        if len(results) != 1 or (results[0].dtype, results[0].shape) != (
            target.dtype,
            target.shape,
        ):
            return None
        if any(t.layout == "expanded" or t.share for t in trial.tensors()):
            return None
        try:
            with trial.on.torch.no_grad():
                twin(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # told as what it is
            return Problem(f"{twin.name} to take it too", f"{type(error).__name__}: {error}")
        problem = how_they_differ(trial.on, results[0], target)
        return Problem(f"{twin.name} writes the same", problem) if problem else None


class DecompositionEqualsKernel(OfValues):
    """The definition by other operators gives what the kernel gives."""

    id = "decomposition.values"
    spec = "LX16"
    dear = True
    limit = 60
    hint = "kernel and decomposition differ: values, dtype, shape or strides"

    def why_not(self, sample: Sample) -> str:
        op = sample.op
        known = super().why_not(sample)
        if known:
            return known
        if op.on.name == "torch" and op.builtin:
            return "PyTorch's own"
        return "" if _decompositions(op) else "it has no decomposition beside its kernel"

    def check(self, trial: Trial) -> Problem | None:
        for rule in _decompositions(trial.op):
            args, kwargs = trial.arguments()
            try:
                with trial.on.torch.no_grad():
                    found = rule(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # told as what it is
                return Problem(
                    "the kernel's answer", f"{type(error).__name__}: {error}", "decomposition"
                )
            problem = self._compared(trial, tensors_in(found, trial.on))
            if problem:
                return problem
        return None

    def _compared(self, trial: Trial, found: Sequence[Any]) -> Problem | None:
        results = trial.results()
        if len(found) != len(results):
            return Problem(f"{len(results)} results", str(len(found)), "decomposition")
        for i, (e, g) in enumerate(zip(results, found, strict=True)):
            loose = (1e-2, 1e-2 * _largest(trial, e)) if _narrow(trial) else (1e-4, 1e-4)
            problem = how_they_differ(trial.on, e, g, *loose)
            if problem:
                return Problem(f"result {i} as the kernel's", problem, "decomposition")
            sized = [d for d, n in enumerate(e.shape) if n > 1]
            a, b = ([t.stride(d) for d in sized] for t in (e, g))
            if a != b and e.numel():
                return Problem(f"result {i}: strides {tuple(e.stride())}", f"{tuple(g.stride())}",
                               "decomposition")  # fmt: skip
        return None


def _largest(trial: Trial, t: Any) -> float:
    """The largest number of a tensor: what cancels is as wrong as what was added up."""
    values = np.abs(trial.on.array(t)).reshape(-1)
    return max(1.0, float(values[np.isfinite(values)].max(initial=0)))


def _decompositions(op: CheckedOperator) -> list[Any]:
    found: list[Any] = []
    if op.on.name == "maquette":
        from maquette.fx.decompositions import global_decomposition_table  # noqa: PLC0415

        tables = global_decomposition_table.values()
        found += [table[op.overload] for table in tables if op.overload in table]
    else:
        from importlib import import_module  # noqa: PLC0415

        tables = import_module("torch._decomp").global_decomposition_table.values()
        found += [t[op.overload] for t in tables if op.overload in t]
    if op.has_kernel("CompositeImplicitAutograd") and op.has_kernel("CPU"):
        found.append(op.overload.decompose)
    return found


TWINS: tuple[Property, ...] = (InPlaceTwin(), HasTwin(), DecompositionEqualsKernel())
