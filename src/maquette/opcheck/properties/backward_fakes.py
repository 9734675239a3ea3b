"""Backward over fakes: on the inputs' device, for any size, without data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maquette.opcheck.copies import map_tensors, tensors_in
from maquette.opcheck.properties.base import OfValues, Problem, Property, first_line
from maquette.opcheck.properties.derivative import is_meant
from maquette.opcheck.properties.symbols import _fixing, symbolic
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Faked, Trial, author_line


class BackwardOverFakes(OfValues):
    """The common part: operators with a formula of their author's."""

    dear = True
    limit = 3

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample)
        if known or sample.op.written:
            return known or "it writes its arguments"
        if sample.op.builtin or not is_meant(sample):
            return "no formula of the author's"
        return "" if set(sample.devices) <= {"cpu"} else "the sample is not on cpu"

    def suits(self, trial: Trial) -> bool:
        floating = any(t.floating for t in trial.tensors())
        return trial.accepted and floating and trial.fake.error is None


def backward_of_fakes(trial: Trial, *, static: bool, device: str = "") -> tuple[Faked, list[Any]]:
    """Gradients of the floating inputs of a fake call; where the forward fails, its error."""
    on, torch = trial.on, trial.on.torch
    env = on.ShapeEnv()
    mode = on.FakeTensorMode(shape_env=env)
    args, kwargs = trial.arguments()
    leaves: list[Any] = []

    def leaf(t: Any) -> Any:
        made = mode.from_tensor(t, static_shapes=True) if static else mode.from_tensor(t)
        with mode:
            made = made.to(device) if device else made
        if not (t.is_floating_point() or t.is_complex()):
            return made
        leaves.append(made.detach().requires_grad_())
        return leaves[-1]

    found = Faked(shape_env=env)
    try:
        args, kwargs = (map_tensors(leaf, a, on) for a in (args, kwargs))
        with mode:
            found.result = trial.op(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  # told by the properties of fakes
        found.error = error
        return found, []
    outs = [t for t in tensors_in(found.result, on) if t.requires_grad]
    found.inputs = leaves
    found.guards = list(env.guards)
    if not outs:
        return found, []
    with mode:
        grads = torch.autograd.grad(outs, leaves, [torch.ones_like(o) for o in outs],
                                    allow_unused=True)  # fmt: skip
    found.guards = list(env.guards)
    replaced = getattr(env, "replacements", {})
    found.replacements = {str(s): str(by) for s, by in replaced.items()}
    return found, list(grads)


class GradientFollowsDevice(BackwardOverFakes):
    """Gradients are where the inputs are, and backward mixes no devices."""

    id = "derivative.device"
    spec = "LX12, P19"
    hint = "make tensors of the backward from grad or from what was saved (grad.new_zeros(...))"

    def why_not(self, sample: Sample) -> str:
        on = sample.op.on
        if on.name == "torch" and not on.torch.cuda.is_available():
            return "PyTorch's engine ends the process where CUDA is not there"
        return super().why_not(sample)

    def check(self, trial: Trial) -> Problem | None:
        device = "cuda:1" if trial.on.name == "maquette" else "cuda:0"
        try:
            found, grads = backward_of_fakes(trial, static=True, device=device)
        except Exception as error:  # noqa: BLE001  # told as what it is
            text = first_line(error)
            mixed = trial.op.has_kernel("CUDA")  # a kernel for cpu alone may have such a backward
            if "device" not in text or not (mixed or "invalid gradient" in text):
                return None
            line = author_line(error, [trial.op.function("backward")])
            got = f"{type(error).__name__}: {text}"
            return Problem(f"gradients on {device}, as the inputs", got, "backward", line, error)
        if found.error is not None or any(str(t.device) != device for t in found.inputs):
            return None
        for g in grads:
            if g is not None and str(g.device) != device:
                return Problem(f"gradients on {device}, as the inputs", str(g.device), "backward")
        return None


class BackwardFixesNoSize(BackwardOverFakes):
    """Backward leaves the sizes free that the forward left free."""

    id = "symbolic.backward"
    spec = "P23, LX11"
    hint = "no int() of a size in setup_context or backward: keep the size as it is"

    def suits(self, trial: Trial) -> bool:
        plain = trial.recipe.label.startswith(("the sample", "size"))
        return super().suits(trial) and plain

    def check(self, trial: Trial) -> Problem | None:
        forward = symbolic(trial)
        sizes = [n for t in tensors_in(trial.fake.result, trial.on) for n in t.shape]
        if forward.error is not None or any(type(n) is not int for n in sizes):
            return None  # of sizes of data nobody can tell how they broadcast
        # With gradients sizes are traced from anew: other names, equal numbers.
        before = [n for _, n in _fixing(forward)]
        try:
            found, _ = backward_of_fakes(_wanting(trial), static=False)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function("backward")])
            got = f"{type(error).__name__}: {first_line(error)}"
            return Problem("a backward for symbolic sizes", got, "backward", line, error)
        if found.error is not None:
            return None
        for expr, n in _fixing(found):
            if n not in before and n > 2:
                return Problem(f"size {n} left free by backward", f"a guard {expr}", "backward")
        return None


def _wanting(trial: Trial) -> Trial:
    return Trial(trial.sample, trial.recipe.mapped(lambda t: replace(t, requires_grad=t.floating)))


BACKWARD_FAKES: tuple[Property, ...] = (GradientFollowsDevice(), BackwardFixesNoSize())
