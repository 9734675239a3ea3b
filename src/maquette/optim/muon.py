"""Muon: momentum, made orthogonal by Newton and Schulz's iteration (Jordan et al. 2024)."""

from __future__ import annotations

from maquette.api import functions as mq
from maquette.core import dtype as dtypes
from maquette.optim import _paths
from maquette.optim._paths import Group
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor

Coefficients = tuple[float, float, float]


class Muon(Optimizer):
    """For the matrices of hidden layers: embeddings, vectors and heads want another optimizer.

    adjust_lr_fn: how the rate depends on the shape, "original" (None) or "match_rms_adamw". State:
    momentum_buffer. Raises ValueError for parameters that are no matrices.
    """

    _mq_as_tensors = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Coefficients = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _paths.check_learning_rate(lr)
        _paths.check_not_negative(momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported: expected None, "
                '"original" or "match_rms_adamw"'
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _mq_start(self, param: Tensor, state: dict[str, Tensor], group: Group) -> None:
        state["momentum_buffer"] = mq.zeros_like(param)

    def _mq_update(self, group: Group) -> None:
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            _paths.check_dense("Muon", grad)
            if param.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            state = self.state[param]
            if not state:
                self._mq_start(param, state, group)
            _step(param, grad, state["momentum_buffer"], group)


def _step(param: Tensor, grad: Tensor, buffer: Tensor, group: Group) -> None:
    lr, momentum = _paths.value(group["lr"], group), group["momentum"]
    buffer.lerp_(grad, 1 - momentum)
    update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
    update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
    param.mul_(1 - lr * group["weight_decay"])
    _paths.move(param, update, -lr * _shape_factor(group["adjust_lr_fn"], param))


def _shape_factor(name: str | None, param: Tensor) -> float:
    rows, columns = param.shape[:2]
    if name == "match_rms_adamw":
        return 0.2 * max(rows, columns) ** 0.5
    return max(1.0, rows / columns) ** 0.5


def _orthogonal(matrix: Tensor, coefficients: Coefficients, steps: int, eps: float) -> Tensor:
    """A matrix of about the same singular vectors and singular values near one, in bfloat16."""
    a, b, c = coefficients
    x = matrix.to(dtypes.bfloat16)
    tall = matrix.size(0) > matrix.size(1)
    if tall:
        x = x.T
    x = x.div(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = mq.addmm(x, mq.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float | Tensor,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: Coefficients,
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step of `Muon` by lists of parameters, gradients and state, all in place."""
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    if foreach:
        raise RuntimeError("Foreach mode is not implemented for Muon yet")
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "nesterov": nesterov,
        "ns_coefficients": ns_coefficients,
        "ns_steps": ns_steps,
        "eps": eps,
        "adjust_lr_fn": adjust_lr_fn,
    }
    for given in zip(params, grads, muon_momentum_bufs, strict=True):
        _step(*given, group)
