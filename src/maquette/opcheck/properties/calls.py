"""Calls that repeat: equal arguments give equal results, in any layout, order, thread or mode."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maquette.opcheck.closeness import difference_of_arrays, how_they_differ
from maquette.opcheck.copies import same_storage, snapshot, tensors_in
from maquette.opcheck.properties.base import OfValues, Problem, Property, without_values
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial

_LAYOUT_IS_DATA = ("as_strided", "set_", "is_contiguous", "stride", "empty", "contiguous")


def compared(trial: Trial, expected: Any, got: Any) -> str:
    """How two results differ; "" where they do not."""
    pairs = zip(tensors_in(expected, trial.on), tensors_in(got, trial.on), strict=False)
    for i, (e, g) in enumerate(pairs):
        problem = how_they_differ(trial.on, e, g)
        if problem:
            return f"result {i}: {problem}"
    return ""


class Deterministic(Property):
    """Equal arguments give equal results; seeded randomness, after seeding again."""

    id = "calls.deterministic"
    spec = "LX13, L119"
    hint = (
        "keep nothing between calls; draw random numbers by operators (torch.rand) and tag the "
        "operator nondeterministic_seeded"
    )

    def why_not(self, sample: Sample) -> str:
        return "its results have no values" if without_values(sample.op) else ""

    def check(self, trial: Trial) -> Problem | None:
        for _ in range(2):
            if trial.op.random:
                trial.on.torch.manual_seed(1)
            try:
                again = trial.call()
            except Exception as error:  # noqa: BLE001  # told as what it is
                return Problem("the result of the first call", f"{type(error).__name__}: {error}")
            problem = compared(trial, trial.real.result, again)
            if problem:
                return Problem("the result of the first call again", problem)
        return None


class LeavesRandomState(Property):
    """An operator that is not tagged random leaves the random generators alone, NumPy's too."""

    id = "calls.random state"
    spec = "LX13"
    hint = "tag the operator nondeterministic_seeded: it draws from the random generator"

    def why_not(self, sample: Sample) -> str:
        return "it is tagged nondeterministic_seeded" if sample.op.random else ""

    def check(self, trial: Trial) -> Problem | None:
        if not trial.real.drew:
            return None
        return Problem("the random generators' states unchanged", trial.real.drew)


class ResultsOwn(Property):
    """A result stays as it is when the operator is called again."""

    id = "calls.results kept"
    spec = "LX14, P46"
    hint = "return a new tensor, not a buffer that the next call writes to"
    dear = True
    limit = 12

    def why_not(self, sample: Sample) -> str:
        return "" if sample.op.returns else "it returns nothing"

    def check(self, trial: Trial) -> Problem | None:
        kept, again = trial.call(), trial.call()
        for i, a in enumerate(tensors_in(kept, trial.on)):
            if any(a.numel() and same_storage(a, b) for b in tensors_in(again, trial.on)):
                return Problem(f"result {i} with memory of its own", "that of another call's")
        before = [snapshot(t, trial.on) for t in tensors_in(kept, trial.on)]
        try:
            trial.call(_other_values(trial))
        except Exception:  # noqa: BLE001  # other values may not suit it
            return None
        after = [snapshot(t, trial.on) for t in tensors_in(kept, trial.on)]
        for i, (a, b) in enumerate(zip(before, after, strict=True)):
            if a is not None and b is not None and (a.data, a.shape) != (b.data, b.shape):
                return Problem(f"result {i} of a call kept", "the next call changed it")
        return None


def _other_values(trial: Trial) -> Any:
    kind = "mixed"
    return trial.recipe.mapped(
        lambda t: replace(t, values=kind, seed=t.seed + 11, requires_grad=False)
    )


class LayoutIsNoValue(OfValues):
    """Values do not depend on how the arguments are laid out."""

    id = "calls.layout"
    spec = "LX3"
    hint = "index through strides (x.numpy() does), not over the storage; or x = x.contiguous()"

    def why_not(self, sample: Sample) -> str:
        op = sample.op
        name = op.name.partition("::")[2]
        known = super().why_not(sample) or ("a view" if op.views else "")
        if known:
            return known
        if any(word in name for word in _LAYOUT_IS_DATA) and op.builtin:
            return "layout is its data"
        return ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.layout != "plain" for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        if any(a.type.base.kind == "memory_format" for a in trial.op.schema.arguments):
            return None
        # An expanded tensor's values are not those of its recipe: they are made plain by copying.
        args, kwargs = trial.arguments()
        plain = (
            [_contiguous(trial, v) for v in args],
            {k: _contiguous(trial, v) for k, v in kwargs.items()},
        )
        try:
            with trial.on.torch.no_grad():
                expected = trial.op(*plain[0], **plain[1])
        except Exception as error:  # noqa: BLE001  # told as what it is
            return Problem(
                "an answer for contiguous arguments too", f"{type(error).__name__}: {error}"
            )
        problem = compared(trial, expected, trial.real.result)
        if problem and _narrow(trial):
            return None
        return Problem("the values for contiguous arguments", problem) if problem else None


def _narrow(trial: Trial) -> bool:
    return any(t.dtype in ("float16", "bfloat16") for t in trial.tensors())


def _contiguous(trial: Trial, value: Any) -> Any:
    from maquette.opcheck.copies import map_tensors  # noqa: PLC0415

    def made(t: Any) -> Any:
        copied = trial.on.torch.empty(tuple(t.shape), dtype=t.dtype)
        return copied.copy_(t)

    return map_tensors(made, value, trial.on)


class PrecisionIsNoValue(OfValues):
    """In double precision the values are about those in single: no cache, no branch by dtype."""

    id = "calls.precision"
    spec = "LX13, P45"
    dear = True
    limit = 4
    hint = "nothing may be remembered by shape or dtype alone; compute every dtype in the same way"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample) or ("a view" if sample.op.views else "")
        if known:
            return known
        kinds = {t.dtype for t in sample.recipe.tensors() if t.floating}
        return "" if kinds and kinds <= {"float32", "float64"} else "no float32 or float64"

    def suits(self, trial: Trial) -> bool:
        floats = {t.dtype for t in trial.tensors() if t.floating}
        return trial.accepted and len(floats) == 1 and floats <= {"float32", "float64"}

    def check(self, trial: Trial) -> Problem | None:
        problem = None
        for seed in (21, 22, 23):
            single, double = [
                trial.recipe.mapped(lambda t, d=d, s=seed: _of_dtype(t, d, s))  # type: ignore[misc]
                for d in ("float32", "float64")
            ]
            try:
                a, b = [tensors_in(trial.call(r), trial.on) for r in (single, double)]
            except Exception:  # noqa: BLE001  # these values do not suit it
                return None
            found = [gross(trial, x, y) for x, y in zip(a, b, strict=False)]
            problem = next((text for text in found if text), "")
            if not problem:
                return None
        return Problem("about the values of double precision in single", problem or "")


def _of_dtype(t: Any, dtype: str, seed: int) -> Any:
    changed = {"dtype": dtype} if t.floating else {}
    return replace(t, values="mixed", seed=seed, requires_grad=False, **changed)


def gross(trial: Trial, single: Any, double: Any, scale: float = 0.0) -> str:
    """How most elements differ by more than rounding explains; "" where they do not.

    scale: the size of what was added up: of what cancels nothing is left but rounding.
    """
    a, b = trial.on.array(single), trial.on.array(double)
    if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
        return ""
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return ""
    off = np.abs(a - b)[known] > 0.05 * (np.abs(b)[known] + 1e-3 + scale)
    return (
        f"{int(off.sum())} of {off.size} elements differ by more than 5 %"
        if off.mean() > 0.3
        else ""
    )


class GradModeIsNoValue(OfValues):
    """Values are the same where gradients are recorded, and in inference mode."""

    id = "calls.grad mode"
    spec = "L25, L89"
    dear = True
    limit = 10
    hint = "the kernel at an autograd key computes something else than the one at the backend's"

    def why_not(self, sample: Sample) -> str:
        return super().why_not(sample) or ("it writes its arguments" if sample.op.written else "")

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.floating for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        wanted = trial.recipe.mapped(lambda t: replace(t, requires_grad=t.floating))
        args, kwargs = trial.arguments(wanted)
        try:
            found = trial.op(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # whether it may refuse is told elsewhere
            if "grad" in str(error):
                return None
            return Problem("the result without gradients", f"{type(error).__name__}: {error}")
        problem = compared(trial, trial.real.result, found)
        if problem:
            return Problem("the values computed without gradients", problem)
        return None


# --- threads ----------------------------------------------------------------------------------


class Concurrent(OfValues):
    """Calls at the same time give what calls one after the other give."""

    id = "calls.threads"
    spec = "LX14, P46"
    dear = True
    limit = 3
    hint = "no buffer, counter or setting shared between calls: make it in the call, or lock it"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and any(t.numel for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        other = Trial(trial.sample, _other_values(trial))
        if not other.accepted:
            return None
        try:
            again = trial.call(), other.call()
        except Exception:  # noqa: BLE001  # determinism is told elsewhere
            return None
        if compared(trial, trial.real.result, again[0]):
            return None
        problem = _in_between(trial, other) or _at_once(trial, other)
        return Problem("the values of calls one after the other", problem) if problem else None


def _in_between(trial: Trial, other: Trial) -> str:
    """Another thread's call after every line of the kernel."""
    code = getattr(trial.op.function("kernel"), "__code__", None)
    if code is None:
        return ""
    lines = [0]

    def look(frame: Any, event: str, arg: Any) -> Any:
        lines[0] += 1
        if lines[0] < 40:
            sys.settrace(None)
            worker = threading.Thread(target=_quiet(other.call), daemon=True)
            worker.start()
            worker.join(0.05)  # a kernel that locks makes it wait
            sys.settrace(start)
        return look

    def start(frame: Any, event: str, arg: Any) -> Any:
        return look if frame.f_code is code else None

    before = sys.gettrace()
    sys.settrace(start)
    try:
        found = trial.call()
    except Exception as error:  # noqa: BLE001  # told as what it is
        return f"{type(error).__name__}: {error}"
    finally:
        sys.settrace(before)
    return compared(trial, trial.real.result, found)


def _quiet(function: Callable[[], Any]) -> Callable[[], None]:
    def called() -> None:
        try:
            function()
        except Exception:  # noqa: BLE001  # the traced call tells
            pass

    return called


def _at_once(trial: Trial, other: Trial) -> str:
    problems: list[str] = []

    def work(mine: Trial) -> None:
        for _ in range(6):
            try:
                problem = compared(mine, mine.real.result, mine.call())
            except Exception as error:  # noqa: BLE001  # told as what it is
                problem = f"{type(error).__name__}: {error}"
            if problem:
                problems.append(problem)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=(t,)) for t in (trial, other, trial, other)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        sys.setswitchinterval(interval)
    return problems[0] if problems else ""


# --- devices ----------------------------------------------------------------------------------


class SameOnDevices(OfValues):
    """Another device that is there gives cpu's values."""

    id = "calls.devices"
    spec = "LX12, P48"
    dear = True
    limit = 20
    hint = "the kernel of one device is wrong: compare both on this input"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample)
        if known:
            return known
        if not sample.recipe.tensors() or set(sample.devices) != {"cpu"}:
            return "the sample is not on cpu"
        return "" if devices_there(sample) else "no other device is there"

    def check(self, trial: Trial) -> Problem | None:
        for device in devices_there(trial.sample):
            args, kwargs = trial.arguments(device=device)
            try:
                with trial.on.torch.no_grad():
                    found = trial.op(*args, **kwargs)
            except NotImplementedError:
                continue
            except Exception as error:  # noqa: BLE001  # told as what it is
                return Problem(f"an answer on {device}", f"{type(error).__name__}: {error}")
            problem = self._compared(trial, found, device)
            if problem:
                return problem
        return None

    def _compared(self, trial: Trial, found: Any, device: str) -> Problem | None:
        tensors = tensors_in(found, trial.on)
        for i, (e, g) in enumerate(zip(trial.results(), tensors, strict=False)):
            if g.device.type != device and e.device.type == "cpu":
                return Problem(f"result {i} on {device}", f"on {g.device}")
            if e.dtype != g.dtype or tuple(e.shape) != tuple(g.shape):
                return Problem(f"result {i}: {e.dtype} {tuple(e.shape)}", f"{g.dtype} {g.shape}")
            a, b = trial.on.array(e), trial.on.array(g)
            loose = 1e-2 if "16" in str(e.dtype) else 1e-4
            text = difference_of_arrays(a, b, loose, loose) if a.dtype.kind in "fc" else ""
            if text or (a.dtype.kind not in "fc" and not np.array_equal(a, b)):
                return Problem(f"result {i} as on cpu", text or f"other values on {device}")
        return None


def devices_there(sample: Sample) -> Sequence[str]:
    """Devices besides cpu whose tensors have data here."""
    if sample.op.on.name == "torch":
        return ["cuda"] if sample.op.on.torch.cuda.is_available() else []
    return ["cuda"] if _works(sample, "cuda") else []


def _works(sample: Sample, device: str) -> bool:
    try:
        sample.op.on.torch.ones(1, device=device)
    except Exception:  # noqa: BLE001  # a library that is not installed, no hardware
        return False
    return True


CALLS: tuple[Property, ...] = (
    Deterministic(),
    LeavesRandomState(),
    ResultsOwn(),
    LayoutIsNoValue(),
    PrecisionIsNoValue(),
    GradModeIsNoValue(),
    Concurrent(),
    SameOnDevices(),
)
