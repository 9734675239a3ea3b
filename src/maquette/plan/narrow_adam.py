"""`NarrowAdam`: Adam and AdamW whose moments are kept in bfloat16, or in 8 bits with scales.

A step widens the moments of one parameter at a time to float32, updates them, and narrows them
again. In 8 bits a moment is a code per element and one float32 scale, the largest magnitude, per
block of 256 (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"). Codes are of
roots, so that small values keep some of their digits: the square root of the first moment with its
sign, the fourth root of the second. A parameter of fewer than 4,096 elements keeps float32.
"""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.core.dtype import bfloat16, float32, int8, uint8
from maquette.core.layout import preserve_format
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor

BLOCK = 256  # elements that share a scale
LEAST = 4096  # elements of a parameter whose moments are narrowed to 8 bits
_TINY = 1e-30  # a scale for blocks of zeros
_MOMENTS = ("exp_avg", "exp_avg_sq")


class NarrowAdam(Optimizer):
    """Adam with moments of few bits.

    keep: "bf16" or "8bit". decoupled: whether weight decay shrinks the parameters themselves, as
    AdamW's does. State: step, exp_avg, exp_avg_sq and, in 8 bits, exp_avg_scale, exp_avg_sq_scale.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        keep: str,
        decoupled: bool = False,
    ) -> None:
        if keep not in ("bf16", "8bit"):
            raise ValueError(f"moments are kept as 'bf16' or '8bit', got {keep!r}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "keep": keep, "decoupled": decoupled})

    def _mq_update(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            if parameter.grad is not None:
                _step(parameter, parameter.grad, self.state[parameter], group)


def _step(parameter: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    first, second = (_widened(state, name, parameter) for name in _MOMENTS)
    state["step"] = state.get("step", 0) + 1
    beta1, beta2 = group["betas"]
    if group["decoupled"]:
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
    elif group["weight_decay"]:
        grad = grad.add(parameter, alpha=group["weight_decay"])
    grad = grad.to(float32)
    first.lerp_(grad, 1 - beta1)
    second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    correction1, correction2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
    denominator = (second / correction2).sqrt_().add_(group["eps"])
    change = first.div(denominator).mul_(-group["lr"] / correction1)
    parameter.add_(change)
    del grad, denominator, change  # before the narrow moments are made
    for name, moment in zip(_MOMENTS, (first, second), strict=True):
        _narrow(state, name, moment, group["keep"])


def _widened(state: dict[str, Any], name: str, parameter: Tensor) -> Tensor:
    """A moment in float32, of the parameter's shape; zeros before the first step."""
    kept = state.get(name)
    if kept is None:
        return mq.zeros_like(parameter, dtype=float32, memory_format=preserve_format)
    scale = state.get(f"{name}_scale")
    if scale is None:
        wide: Tensor = kept.to(float32)
        return wide
    signed = kept.dtype is int8
    root = kept.to(float32).div_(127 if signed else 255)
    if signed:
        root.mul_(root.abs())
    else:
        root.square_().square_()
    values: Tensor = root.mul_(scale)
    return values.view(-1)[: parameter.numel()].view(parameter.shape)


def _narrow(state: dict[str, Any], name: str, moment: Tensor, keep: str) -> None:
    """Keep a moment in few bits, in the storage that it has had before."""
    if keep == "bf16":
        _keep(state, name, moment.to(bfloat16))
        return
    if moment.numel() < LEAST:
        _keep(state, name, moment)
        return
    codes, scale = _quantized(moment, signed=name == "exp_avg")
    _keep(state, name, codes)
    _keep(state, f"{name}_scale", scale)


def _quantized(moment: Tensor, *, signed: bool) -> tuple[Tensor, Tensor]:
    """Codes (blocks, BLOCK) of a moment's roots, and the scale (blocks, 1) of each block."""
    values = moment.reshape(-1)
    missing = -values.numel() % BLOCK
    if missing:
        values = mq.constant_pad_nd(values, [0, missing])
    values = values.view(-1, BLOCK)
    scale = values.abs().amax(1, keepdim=True).clamp_(min=_TINY)
    shares = values / scale
    if signed:
        return shares.abs().sqrt_().mul_(shares.sign()).mul_(127).round_().to(int8), scale
    return shares.sqrt_().sqrt_().mul_(255).round_().to(uint8), scale


def _keep(state: dict[str, Any], name: str, value: Tensor) -> None:
    kept = state.get(name)
    if kept is None:
        state[name] = value
    elif kept is not value:
        kept.copy_(value)
