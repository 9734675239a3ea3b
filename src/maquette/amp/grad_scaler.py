"""`torch.amp.GradScaler`: losses scaled so that gradients of few bits do not vanish.

A step whose gradients overflowed is left out, and the scale shrinks; after many good ones it grows.
"""

from __future__ import annotations

import enum
import inspect
import warnings
from collections import defaultdict
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.device import device
from maquette.core.dtype import float16, int32
from maquette.optim import Optimizer
from maquette.tensor.cuda_devices import devices as cuda_devices
from maquette.tensor.tensor import Tensor


class OptState(enum.Enum):
    """Where an optimizer is between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _PerOptimizer:
    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found_inf: dict[device, Tensor] = {}


class GradScaler:
    """Scales losses by a factor that adapts.

    For "cuda" where no device is there it switches itself off with a warning, as PyTorch's does.
    A state dictionary has the scale, the factors, the interval and the count of good steps.
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
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not cuda_devices():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"The growth factor must be > 1.0, got {growth_factor}.")
        if backoff_factor >= 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0, got {backoff_factor}.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_tracker: Any = None  # a tensor, from when the scale is one
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._good_steps = 0
        self._optimizers: dict[int, _PerOptimizer] = defaultdict(_PerOptimizer)

    # --- a step -----------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Tensors, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                where = outputs.device
                self._scale = mq.full((), self._init_scale, device=where)
                self._growth_tracker = mq.full((), self._good_steps, dtype=int32, device=where)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(o) for o in outputs])
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError(
            f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}"
        )

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale: to clip them before its step."""
        if not self._enabled:
            return
        scale = self._started("unscale_")
        mine = self._optimizers[id(optimizer)]
        if mine.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if mine.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        none = mq.zeros((), device=scale.device)
        mine.found_inf = self._unscale_grads_(optimizer, inverse, none, False)
        mine.stage = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[device, Tensor]:
        """Unscale in place; for each device whether a gradient was not finite, 0 or 1."""
        found: dict[device, Tensor] = {}
        params = [p for group in optimizer.param_groups for p in group["params"]]
        with no_grad():
            for param in (p for p in params if p.grad is not None):
                grad = param.grad
                if grad.dtype is float16 and not allow_fp16:
                    raise ValueError(
                        "Attempting to unscale FP16 gradients. Keep the parameters in float32; "
                        "autocast casts them where that is safe."
                    )
                where = grad.device
                if where not in found:
                    found[where] = found_inf.to(where, copy=True)
                if grad.is_sparse and grad.dtype is float16:
                    # What is added up may overflow where the parts do not.
                    grad = param.grad = grad.coalesce()
                values = grad._values() if grad.is_sparse else grad
                inverse = inv_scale.to(where)
                mq._amp_foreach_non_finite_check_and_unscale_([values], found[where], inverse)
        return found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscale, if that was not done, and step unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError(
                "Closure use is not currently supported if GradScaler is enabled: call backward "
                "before step()."
            )
        self._started("step")
        mine = self._optimizers[id(optimizer)]
        if mine.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_that_unscales(optimizer, mine, args, kwargs)
        if mine.stage is OptState.READY:
            self.unscale_(optimizer)
        if not mine.found_inf:
            raise AssertionError(
                "No inf checks were recorded for this optimizer: it has no gradients."
            )
        result = None
        if not any((bad != 0).item() for bad in mine.found_inf.values()):
            result = optimizer.step(*args, **kwargs)
        mine.stage = OptState.STEPPED
        return result

    def _step_that_unscales(
        self, optimizer: Any, mine: _PerOptimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The step of an optimizer that unscales, and skips itself, as fused kernels can."""
        scale = self._started("step")
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer: read `grad_scale` and `found_inf` of the optimizer instead.",
                FutureWarning,
                stacklevel=3,
            )
            kwargs["grad_scaler"] = self
            result = optimizer.step(*args, **kwargs)
        else:
            optimizer.grad_scale = None if mine.stage is OptState.UNSCALED else scale
            if mine.stage is OptState.READY:
                mine.found_inf = self._not_finite(optimizer, scale)
            optimizer.found_inf = mq.stack([f.to(scale.device) for f in mine.found_inf.values()])
            optimizer.found_inf = optimizer.found_inf.max()
            result = optimizer.step(*args, **kwargs)
            del optimizer.grad_scale, optimizer.found_inf
        mine.stage = OptState.STEPPED
        return result

    def _not_finite(self, optimizer: Optimizer, scale: Tensor) -> dict[device, Tensor]:
        """For each device whether a gradient is not finite; nothing is unscaled."""
        one, none = mq.ones((), device=scale.device), mq.zeros((), device=scale.device)
        return self._unscale_grads_(optimizer, one, none, True)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to what the steps since the last update met, or set it."""
        if not self._enabled:
            return
        scale = self._started("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                scale.copy_(new_scale)
            else:
                scale.fill_(float(new_scale))
        else:
            found = [bad for o in self._optimizers.values() for bad in o.found_inf.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            bad = sum([bad.to(scale.device) for bad in found[1:]], found[0].to(scale.device))
            mq._amp_update_scale_(
                scale,
                self._growth_tracker,
                bad,
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._optimizers = defaultdict(_PerOptimizer)

    def _started(self, name: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                f"scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    # --- what it is set to ------------------------------------------------------------

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 where it is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """By what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Say by what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Say by what the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Say after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes; nothing where it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._good(),
        }

    def _good(self) -> int:
        """How many good steps there were since the scale changed."""
        return self._good_steps if self._scale is None else int(self._growth_tracker.item())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go where `state_dict` was; RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
            self._growth_tracker.fill_(state_dict["_growth_tracker"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._good_steps = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        held = self.__dict__.copy()
        if self._enabled:
            if self._optimizers:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            held["_init_scale"] = self.get_scale()
            held["_good_steps"] = self._good()
            held["_scale"] = held["_growth_tracker"] = None
        return held
