"""L-BFGS: Newton's method with the last few steps for a Hessian (Nocedal 1980)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import enable_grad, no_grad
from maquette.optim import _paths
from maquette.optim.line_search import Point, strong_wolfe
from maquette.optim.line_search import _cubic_interpolate as _cubic_interpolate
from maquette.optim.line_search import _strong_wolfe as _strong_wolfe
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor

Closure = Callable[[], Any]


@dataclass
class _Memory:
    """What one iteration leaves to the next; in the state dict under PyTorch's names."""

    d: Tensor | None = None
    t: float | None = None
    old_dirs: list[Tensor] = field(default_factory=list)  # differences of gradients
    old_stps: list[Tensor] = field(default_factory=list)  # the steps that made them
    ro: list[Tensor] = field(default_factory=list)  # one over their product
    al: list[Tensor] = field(default_factory=list)  # the last iteration's shares of them
    H_diag: Any = 1  # a number, then a 0-dim tensor
    prev_flat_grad: Tensor | None = None
    prev_loss: float | None = None


class LBFGS(Optimizer):
    """For few parameters and smooth losses: `step` needs a closure and calls it many times.

    max_iter, max_eval: how many iterations and calls a step has; history_size: how many steps are
    remembered; line_search_fn: None (a step of lr) or "strong_wolfe". One group only.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        _paths.check_learning_rate(lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported; got {line_search_fn!r}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                "LBFGS doesn't support per-parameter options (parameter groups); got "
                f"{len(self.param_groups)} groups"
            )
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def step(self, closure: Closure) -> Any:  # required: programs ask the signature
        """Iterate from the closure's loss; returns that first loss.

        closure: computes the loss and gradients anew.
        """
        with no_grad():
            return self._iterate(closure)

    def _iterate(self, closure: Closure) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = _evaluated(closure)
        loss, grad = float(first_loss), self._flat_grad()
        evaluations = 1
        state["func_evals"] += 1
        if _largest(grad) <= group["tolerance_grad"]:
            return first_loss
        memory = _Memory(**{name: state[name] for name in vars(_Memory()) if name in state})
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = _direction(memory, grad, group["history_size"], state["n_iter"] == 1)
            memory.prev_flat_grad, memory.prev_loss = grad.clone(), loss
            lr = _paths.number(group["lr"])
            step = lr
            if state["n_iter"] == 1:
                size = float(grad.abs().sum())
                step = lr / size if size > 1 else lr
            memory.d, memory.t = direction, step
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is None:
                self._move(direction, step)
                used = 0
                if iteration != group["max_iter"]:
                    loss, grad, used = float(_evaluated(closure)), self._flat_grad(), 1
            else:
                first = Point(step, loss, grad, slope)
                left = group["max_eval"] - evaluations
                point, used = self._searched(closure, first, direction, left)
                memory.t, loss, grad = point.step, point.loss, point.gradient
                self._move(direction, point.step)
            evaluations += used
            state["func_evals"] += used
            if (
                evaluations >= group["max_eval"]
                or _largest(grad) <= group["tolerance_grad"]
                or _largest(direction.mul(memory.t)) <= group["tolerance_change"]
                or abs(loss - memory.prev_loss) < group["tolerance_change"]
            ):
                break
        state.update(vars(memory))
        return first_loss

    def _searched(
        self, closure: Closure, first: Point, direction: Tensor, most_trials: int
    ) -> tuple[Point, int]:
        """The point that the line search finds; the parameters are where they were."""
        start = [param.clone() for param in self._params]

        def evaluate(step: float) -> Point:
            self._move(direction, step)
            loss, grad = float(_evaluated(closure)), self._flat_grad()
            for param, value in zip(self._params, start):
                param.copy_(value)
            return Point(step, loss, grad, float(grad.dot(direction)))

        return strong_wolfe(
            evaluate,
            Point(0.0, first.loss, first.gradient, first.slope),
            first.step,
            reach=_largest(direction),
            tolerance=1e-9,
            most_trials=most_trials,
        )

    def _flat_grad(self) -> Tensor:
        parts = []
        for param in self._params:
            grad = mq.zeros_like(param) if param.grad is None else param.grad
            flat = grad.reshape(-1)
            parts.append(mq.view_as_real(flat).view(-1) if flat.is_complex() else flat)
        return mq.cat(parts, 0)

    def _move(self, direction: Tensor, step: float) -> None:
        offset = 0
        for param in self._params:
            real = mq.view_as_real(param) if param.is_complex() else param
            part = direction[offset : offset + real.numel()]
            real.add_(part.view_as(real), alpha=step)
            offset += real.numel()


def _evaluated(closure: Closure) -> Any:
    with enable_grad():
        return closure()


def _largest(values: Tensor) -> float:
    return float(values.abs().max())


def _direction(memory: _Memory, grad: Tensor, history: int, first: bool) -> Tensor:
    """Where to go: against the gradient, through the inverse Hessian that the history implies."""
    if first:
        return grad.neg()
    if memory.prev_flat_grad is None or memory.d is None or memory.t is None:
        raise RuntimeError("LBFGS: the state of the last step is incomplete")
    y = grad.sub(memory.prev_flat_grad)
    s = memory.d.mul(memory.t)
    curvature = y.dot(s)
    if float(curvature) > 1e-10:
        if len(memory.old_dirs) == history:
            for members in (memory.old_dirs, memory.old_stps, memory.ro):
                members.pop(0)
        memory.old_dirs.append(y)
        memory.old_stps.append(s)
        memory.ro.append(1.0 / curvature)
        memory.H_diag = curvature / y.dot(y)
    q = grad.neg()
    memory.al = shares = []
    for y, s, ro in reversed(list(zip(memory.old_dirs, memory.old_stps, memory.ro))):
        share = s.dot(q) * ro
        shares.append(share)
        q.add_(y * share, alpha=-1)
    result = q.mul(memory.H_diag)
    for y, s, ro, share in zip(memory.old_dirs, memory.old_stps, memory.ro, reversed(shares)):
        result.add_(s * (share - y.dot(result) * ro))
    return result
