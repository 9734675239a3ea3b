"""Clipping gradients: to a total norm, or each element to a value.

All run without autograd and return or read no value on the host, except for the check for
infinities that `error_if_nonfinite` asks for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.nn.utils.foreach import can_list, grouped, prefers_lists
from maquette.tensor import Tensor

Tensors = Tensor | Iterable[Tensor]


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients so that their norm, as one vector, is at most `max_norm`.

    Returns the norm before. foreach: lists of tensors at once (None: where that is the device's
    default). Raises RuntimeError for a norm that is not finite if `error_if_nonfinite`.
    """
    if not isinstance(parameters, Tensor):
        may_be_used_up = isinstance(parameters, Iterator)
        parameters = list(parameters)
        if may_be_used_up and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=2,
            )
    norm = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, norm, foreach)
    return norm


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_`, under a name that is deprecated."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as one vector: the norm of their norms, on the first one's device."""
    members = _listed(tensors)
    if not members:
        return mq.tensor(0.0)
    norm_type = float(norm_type)
    norms: list[Tensor] = []
    with no_grad():
        for (group,) in grouped(members):
            if _use_lists(group, foreach):
                norms.extend(mq._foreach_norm(group, norm_type))
            else:
                norms.extend(mq.linalg_vector_norm(t, norm_type) for t in group)
        place = members[0].device
        total = mq.linalg_vector_norm(mq.stack([norm.to(place) for norm in norms]), norm_type)
        if error_if_nonfinite and bool(mq.logical_or(total.isnan(), total.isinf())):
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is "
                "non-finite, so it cannot be clipped. To scale by it anyway, set "
                "`error_if_nonfinite=False`"
            )
        return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by max_norm / (total_norm + 1e-6), if that is less than one."""
    gradients = _gradients(parameters)
    if not gradients:
        return
    with no_grad():
        factor = float(max_norm) / (total_norm + 1e-6)
        # Multiplying by one where nothing is to be clipped saves reading the norm.
        clamped = mq.clamp(factor, max=1.0)
        for (group,) in grouped(gradients):
            local = clamped.to(group[0].device)
            if _use_lists(group, foreach):
                mq._foreach_mul_(group, local)
            else:
                for gradient in group:
                    gradient.mul_(local)


_get_total_norm, _clip_grads_with_norm_ = get_total_norm, clip_grads_with_norm_


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with no_grad():
        for (group,) in grouped(_gradients(parameters)):
            if _use_lists(group, foreach):
                mq._foreach_clamp_min_(group, -clip_value)
                mq._foreach_clamp_max_(group, clip_value)
            else:
                for gradient in group:
                    gradient.clamp_(min=-clip_value, max=clip_value)


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def _use_lists(group: list[Tensor], foreach: bool | None) -> bool:
    if foreach is None:
        return prefers_lists(group)
    if foreach and not can_list(group):
        raise RuntimeError(
            f"foreach=True was passed, but can't use the foreach API on {group[0].device.type} "
            "tensors"
        )
    return foreach
