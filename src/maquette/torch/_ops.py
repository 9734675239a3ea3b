"""`torch._ops`: the classes of operators."""

from __future__ import annotations

from maquette.dispatch.pre_dispatch import get_mode_pre_dispatch as _get_dispatch_mode_pre_dispatch
from maquette.dispatch.pre_dispatch import listed as _listed
from maquette.dispatch.pre_dispatch import pop_mode_pre_dispatch as _pop_mode_from_pre_dispatch
from maquette.dispatch.pre_dispatch import set_mode_pre_dispatch as _set_mode_pre_dispatch
from maquette.torch.face.forwarding import forward, without_underscores


def _get_current_dispatch_mode_pre_dispatch() -> object | None:
    """The top mode of the stack for the key PreDispatch; None where it is empty."""
    modes = _listed()
    return modes[-1] if modes else None


__getattr__ = forward(
    __name__,
    "maquette.dispatch",
    "maquette.dispatch.registry",
    "maquette.dispatch.operator",
    "maquette.dispatch.modes",
    "maquette.dispatch.pre_dispatch",
    "maquette.dispatch.handlers",
    "maquette.dispatch.overrides",
    "maquette.dispatch.base",
    "maquette.dispatch.packet",
    "maquette.dispatch.torch_function",
    "maquette.dispatch.higher_order",
    spellings=without_underscores,
)
__all__ = [
    "_get_current_dispatch_mode_pre_dispatch",
    "_get_dispatch_mode_pre_dispatch",
    "_pop_mode_from_pre_dispatch",
    "_set_mode_pre_dispatch",
]
