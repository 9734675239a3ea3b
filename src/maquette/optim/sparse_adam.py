"""`SparseAdam`: Adam that moves only what a sparse gradient specifies, moments included."""

from __future__ import annotations

from collections.abc import Callable

from maquette.api import functions as mq
from maquette.core.layout import preserve_format
from maquette.optim import _paths
from maquette.optim._paths import Group
from maquette.optim.optimizer import Optimizer, Params
from maquette.tensor import Tensor


class SparseAdam(Optimizer):
    """Adam for sparse gradients: elements without a gradient, and their moments, stay.

    State: step (a number), exp_avg, exp_avg_sq. Raises ValueError for options out of range and
    sparse parameters, RuntimeError for dense gradients.
    """

    _mq_counts_in_tensors = False

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element; got {lr.numel()} elements")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        wrong = self._mq_places(lambda parameter: parameter.is_sparse)
        if wrong:
            raise ValueError(
                f"Sparse params at indices {wrong}: SparseAdam requires dense parameter tensors"
            )
        wrong = self._mq_places(lambda parameter: parameter.is_complex())
        if wrong:
            raise ValueError(
                f"Complex params at indices {wrong}: SparseAdam does not support complex parameters"
            )

    def _mq_places(self, holds: Callable[[Tensor], bool]) -> list[tuple[int, int]]:
        """The group and the number in it of each parameter of a kind."""
        return [
            (g, i)
            for g, group in enumerate(self.param_groups)
            for i, parameter in enumerate(group["params"])
            if holds(parameter)
        ]

    def _mq_update(self, group: Group) -> None:
        for parameter in group["params"]:
            grad = parameter.grad
            if grad is None:
                continue
            if not grad.is_sparse:
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )
            state = self.state[parameter]
            if not state:
                state["step"] = 0
                for name in ("exp_avg", "exp_avg_sq"):
                    state[name] = mq.zeros_like(parameter, memory_format=preserve_format)
            state["step"] += 1
            _step(parameter, grad, state["exp_avg"], state["exp_avg_sq"], state["step"], group)


def _step(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, step: int, group: Group
) -> None:
    """One step: the moments' differences are sparse, too, and are added."""
    beta1, beta2 = group["betas"]
    grad = (-grad if group["maximize"] else grad).coalesce()
    indices, values, size = grad._indices(), grad._values(), grad.size()
    if values.numel() == 0:
        return

    def made(new: Tensor) -> Tensor:
        found: Tensor = mq._sparse_coo_tensor_unsafe(indices, new, size, is_coalesced=True)
        return found

    old_mean = mean.sparse_mask(grad)._values()
    mean_step = (values - old_mean) * (1 - beta1)
    mean.add_(made(mean_step))
    old_square = square.sparse_mask(grad)._values()
    square_step = (values.pow(2) - old_square) * (1 - beta2)
    square.add_(made(square_step))
    numerator = mean_step + old_mean
    denominator = (square_step + old_square).sqrt() + group["eps"]
    rate = _paths.number(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    param.add_(made(numerator / denominator * -rate))


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    maximize: bool,
) -> None:
    """One step of `SparseAdam` by lists, in place; ``state_steps`` count this step already."""
    group = {"betas": (beta1, beta2), "eps": eps, "lr": lr, "maximize": maximize}
    for given in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        _step(*given, group)
