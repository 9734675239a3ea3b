"""`torch.amp`: switched off it does nothing, as in PyTorch; switched on it is not there yet.

There is no autocasting, so a scaler of losses that exists for its sake is off wherever PyTorch's
would be: without the device it is for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

from maquette.core import dtype as dtypes
from maquette.optim import Optimizer
from maquette.torch.forwarding import forward

F = TypeVar("F", bound=Callable[..., object])
_ADVICE = (
    "cast the model and its inputs with .to(torch.bfloat16), or pass enabled=False to run in their "
    "own dtypes"
)


class autocast(ContextDecorator):
    """With ``enabled=False`` nothing; else NotImplementedError: there is no autocasting."""

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if enabled:
            raise NotImplementedError(
                f"torch.autocast({device_type!r}) is not supported by maquette yet: {_ADVICE}"
            )
        self.device = device_type
        self.fast_dtype = dtype

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class GradScaler:
    """Scaling of losses, switched off: gradients are as they are and steps are always taken.

    For "cuda", of which there is no device, it switches itself off with a warning, as PyTorch's
    does. Raises NotImplementedError if it is to be on for another device.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda":
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
        elif enabled:
            raise NotImplementedError(
                f"torch.amp.GradScaler({device!r}) is not supported by maquette yet: there is no "
                "autocasting; pass enabled=False"
            )

    def scale(self, outputs: Any) -> Any:
        """The outputs themselves."""
        return outputs

    def unscale_(self, optimizer: Optimizer) -> None:
        """Nothing."""

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: object = None) -> None:
        """Nothing."""

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def is_enabled(self) -> bool:
        """False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing."""


def custom_fwd(
    fwd: F | None = None,
    *,
    device_type: str = "cuda",
    cast_inputs: dtypes.dtype | None = None,
) -> Any:
    """The function itself: it would cast its inputs under autocasting only."""
    return (lambda function: function) if fwd is None else fwd


def custom_bwd(bwd: F | None = None, *, device_type: str = "cuda") -> Any:
    """The function itself."""
    return (lambda function: function) if bwd is None else bwd


def is_autocast_available(device_type: str) -> bool:
    """False."""
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False."""
    return False


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """What autocasting would cast to: float16 on cuda, else bfloat16."""
    return dtypes.float16 if device_type == "cuda" else dtypes.bfloat16


__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
]
__getattr__ = forward(__name__, "maquette")
