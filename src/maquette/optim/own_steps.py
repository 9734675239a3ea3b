"""What programs' own optimizers take from `torch.optim.optimizer`: decorators, choices of a step.

Private names of PyTorch's that libraries import. Steps here are ordinary operators, so what asks
for compiled or fused kernels is told that there are none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from maquette.api import functions as mq
from maquette.autograd import set_grad_enabled
from maquette.core.device import device
from maquette.core.dtype import dtype, float32, float64
from maquette.core.promotion import get_default_dtype
from maquette.tensor import Tensor

P = ParamSpec("P")
T = TypeVar("T")
Lists = list[list[Tensor | None]]
Groups = dict[tuple[device | None, dtype | None], tuple[Lists, list[int]]]
StateDict = dict[str, Any]
ParamsT = Iterable[Any]


def _use_grad_for_differentiable(func: Callable[P, T]) -> Callable[P, T]:
    """A step that records gradients only if the optimizer's option ``differentiable`` is set."""

    @functools.wraps(func)
    def step(*args: P.args, **kwargs: P.kwargs) -> T:
        optimizer: Any = args[0]
        with set_grad_enabled(bool(optimizer.defaults["differentiable"])):
            return func(*args, **kwargs)

    return step


def _get_value(x: Any) -> Any:
    """The number of a tensor, or the number."""
    return x.item() if isinstance(x, Tensor) else x


_to_scalar = _get_value


def _stack_if_compiling(x: Any) -> Any:
    """``x`` itself: nothing is compiled."""
    return x


def _get_scalar_dtype(is_fused: bool | None = None) -> dtype:
    """The dtype of counts of steps: float32 for fused kernels or a narrower default."""
    return float64 if not is_fused and get_default_dtype() is float64 else float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The types of devices on which a step can be captured in a graph."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(
    params: Sequence[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether a step is fused, and whether it goes over lists: neither, on cpu."""
    on_device = all(p is None or p.device.type not in ("cpu", "meta") for p in params)
    chosen = not differentiable and on_device and bool(params)
    return chosen and use_fused, chosen and not use_fused


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Have complex parameters, and what goes with each, seen as pairs of real numbers, in place."""
    for place, param in enumerate(params):
        if param.is_complex():
            params[place] = mq.view_as_real(param)
            for tensors in state_and_grads:
                tensors[place] = mq.view_as_real(tensors[place])


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., object] | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator that changes nothing: there is no compiler to be kept out."""
    return lambda func: func


def group_tensors(tensorlistlist: Lists, with_indices: bool = False) -> Groups:
    """Lists of one length, or empty, split by device and dtype of the first list's tensors.

    Gives, by device and dtype (None and None where the first list has None), the lists cut down,
    and the places of their members, if asked for.
    """
    found: Groups = {}
    for place, leader in enumerate(tensorlistlist[0]):
        key = (None, None) if leader is None else (leader.device, leader.dtype)
        lists, places = found.setdefault(key, ([[] for _ in tensorlistlist], []))
        for members_of, members in zip(lists, tensorlistlist, strict=True):
            if members:
                members_of.append(members[place])
        if with_indices:
            places.append(place)
    return found
