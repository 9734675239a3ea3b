"""How an update is carried out: a tensor at a time, as whole lists, or in one fused operator.

PyTorch chooses lists by default when all parameters are on devices with kernels for them (cuda).
The three ways differ in rounding and in temporaries; each optimizer has them as PyTorch has, down
to which name holds a temporary how long, for a memory plan counts that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import enable_grad
from maquette.autograd.saved.hooks import saved_tensors_hooks
from maquette.core import dtype as dtypes
from maquette.nn.utils.foreach import FOREACH_DEVICES, prefers_lists
from maquette.optim.own_steps import _get_capturable_supported_devices
from maquette.tensor import Tensor

Group = Mapping[str, Any]


class Path(Enum):
    """The way in which a group is updated."""

    SINGLE = "a tensor at a time"
    LISTS = "lists of tensors"
    FUSED = "one operator"


def path_of(group: Group, params: Sequence[Tensor], grads: Sequence[Tensor] = ()) -> Path:
    """The way that a group's options ask for; the default only if they ask for none.

    Sparse gradients, if there may be any among ``grads``, are used a tensor at a time; so are all
    in a step that reads no numbers (`capturable`), of which lists are made otherwise.
    """
    if group.get("differentiable") or any(grad.is_sparse for grad in grads):
        return Path.SINGLE
    foreach, fused = group["foreach"], group.get("fused")
    if fused:
        return Path.FUSED
    if group.get("capturable"):
        return Path.SINGLE
    if foreach is None and fused is None:
        foreach = prefers_lists(params)
    return Path.LISTS if foreach else Path.SINGLE


def check_options(name: str, options: Group) -> None:
    """Refuse what no way can do: options that exclude each other, or that we do not have."""
    if options.get("fused") and options["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if options.get("differentiable") and (options.get("fused") or options["foreach"]):
        raise RuntimeError(
            f"{name}: differentiable=True does not go with `fused` or `foreach`: the step is "
            f"recorded a tensor at a time"
        )


@contextmanager
def recorded_step() -> Iterator[None]:
    """For a step of a differentiable optimizer: autograd records it.

    Steps mutate what they have computed with, so copies are saved for backward.
    """
    with enable_grad(), saved_tensors_hooks(_copied, _as_kept):
        yield


def _copied(t: Tensor) -> Tensor:
    copy: Tensor = t.clone()
    return copy


def _as_kept(kept: object) -> Tensor:
    assert isinstance(kept, Tensor)
    return kept


def write_larger(into: Tensor, other: Tensor, group: Group) -> None:
    """Write the larger of two elements into the first tensor; out= is not recorded."""
    if group.get("differentiable"):
        into.copy_(mq.maximum(into, other))
    else:
        mq.maximum(into, other, out=into)


def check_learning_rate(lr: float | Tensor) -> None:
    """ValueError for a negative rate, or for a tensor of more than one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element; got {lr.numel()} elements")
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(**options: float) -> None:
    """ValueError for an option below zero."""
    for name, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: tuple[float | Tensor, float | Tensor]) -> tuple[float, float]:
    """Two decay rates in [0, 1) as numbers; ValueError otherwise."""
    first, second = (number(beta) for beta in betas)
    for i, beta in enumerate((first, second)):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    return first, second


def check_dense(name: str, gradient: Tensor) -> None:
    """RuntimeError for a sparse gradient."""
    if gradient.is_sparse:
        raise RuntimeError(f"{name} does not support sparse gradients")


def counts_on_device(parameter: Tensor, defaults: Group) -> bool:
    """Whether an optimizer is capturable: its counters lie where its parameters do.

    Raises AssertionError for a parameter on a device whose work cannot be captured, as the cpu.
    """
    if not defaults.get("capturable"):
        return False
    supported = _get_capturable_supported_devices()
    assert parameter.device.type in supported, (
        f"If capturable=True, params and state_steps must be on supported devices: {supported}."
    )
    return True


def new_step(parameter: Tensor, *, on_device: bool) -> Tensor:
    """A step counter: on the host, where reading it costs nothing, unless a kernel reads it."""
    if on_device:
        return mq.zeros((), dtype=dtypes.float32, device=parameter.device)
    return mq.tensor(0.0, dtype=step_dtype(), device="cpu")


def step_dtype() -> dtypes.dtype:
    """float32, unless numbers are float64 by default."""
    double = dtypes.get_default_dtype() == dtypes.float64
    return dtypes.float64 if double else dtypes.float32


def number(value: float | Tensor) -> float:
    """A Python number, read from a tensor if need be; one that requires grad has none to give."""
    if isinstance(value, Tensor) and value._records():
        raise NotImplementedError(
            "a rate that requires grad is not supported: steps are recorded for parameters and "
            "their gradients. detach() it"
        )
    return float(value.item()) if isinstance(value, Tensor) else value


def value(given: float | Tensor, group: Group) -> float | Tensor:
    """A number; in a step that reads none (`capturable`) a tensor, in float64 as numbers are."""
    if isinstance(given, Tensor) and group.get("capturable"):
        return given.double()
    return number(given)


def is_set(option: float | Tensor) -> bool:
    """Whether an option has an effect; a tensor stands for a number that is not zero."""
    return isinstance(option, Tensor) or option != 0


def move(t: Tensor, direction: Tensor, by: float | Tensor) -> None:
    """Add the direction times a number, or times a tensor of none."""
    if isinstance(by, Tensor):
        t.add_(direction * by)
    else:
        t.add_(direction, alpha=by)


def move_by_quotient(t: Tensor, a: Tensor, b: Tensor, by: float | Tensor) -> None:
    """Add a / b times a number, or times a tensor of none."""
    if isinstance(by, Tensor):
        t.add_(a / b * by)
    else:
        t.addcdiv_(a, b, value=by)


def blend(t: Tensor, other: Tensor, share: float | Tensor) -> None:
    """Move a tensor by a share of the way to another one."""
    if isinstance(share, Tensor):
        t.add_((other - t) * share)
    else:
        t.lerp_(other, share)


def average_squares(squares: Tensor, grad: Tensor, beta: float | Tensor) -> None:
    """Move the running mean of a gradient's squares."""
    squares.mul_(beta)
    if isinstance(beta, Tensor):
        squares.add_(grad * grad * (1 - beta))
    else:
        squares.addcmul_(grad, grad, value=1 - beta)


def count(steps: Sequence[Tensor]) -> None:
    """Add one to every step counter.

    On the host that is a loop, in which a tensor saves wrapping the number anew for each.
    """
    if steps[0].is_cpu:
        mq._foreach_add_(steps, mq.tensor(1.0, device="cpu"), alpha=1.0)
    else:
        mq._foreach_add_(steps, 1)


def check_unscaled(fused: bool | None, grad_scale: Tensor | None, found_inf: Tensor | None) -> None:
    """NotImplementedError for a step by lists that is to divide gradients by a scale itself."""
    if grad_scale is not None or found_inf is not None:
        raise NotImplementedError(
            f"grad_scale= and found_inf= of a step by lists (fused={fused}) are not supported: "
            f"unscale the gradients first, as torch.amp.GradScaler.unscale_ does"
        )


def check_fusable(name: str, parameter: Tensor) -> None:
    """RuntimeError unless the fused operator takes such a parameter."""
    if parameter.device.type not in (*FOREACH_DEVICES, "cpu", "mps"):
        raise RuntimeError(
            f"{name}: `fused=True` requires parameters on cpu or an accelerator; got "
            f"{parameter.device.type}"
        )
    if not parameter.is_floating_point():
        raise RuntimeError(
            f"{name}: `fused=True` requires floating point parameters; got {parameter.dtype}"
        )


def as_real(*lists: list[Tensor]) -> None:
    """Put views of real pairs in the place of complex tensors, which are updated alike."""
    for members in lists:
        for i, member in enumerate(members):
            if member.meta.dtype.is_complex:
                members[i] = mq.view_as_real(member)
