"""Adafactor: Adam's squares, as a row and a column of a matrix (Shazeer and Stern 2018)."""

from __future__ import annotations

from typing import Any

from maquette.api import functions as mq
from maquette.core.dtype import finfo
from maquette.optim import _paths
from maquette.optim._collected import Collecting
from maquette.optim._paths import Group
from maquette.optim.optimizer import Params
from maquette.tensor import Tensor


class Adafactor(Collecting):
    """Steps relative to the size of the parameter, by gradients over a factored root of squares.

    beta2_decay: the exponent of the step in the share of new squares. eps: the least variance
    (None: the dtype's eps) and the least size of a parameter. d: the largest root mean square of an
    update. State: step and row_var, col_var; for vectors and scalars variance.
    """

    _mq_as_tensors = ("lr",)

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _paths.check_learning_rate(lr)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for i, least in enumerate((eps[0] or 0.0, eps[1]), start=1):
            if least < 0.0:
                raise ValueError(f"epsilon{i} should be >= 0 but is: {least}")
        _paths.check_not_negative(weight_decay=weight_decay)
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _mq_begin(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        state["step"] = _paths.new_step(param, on_device=False)
        self._mq_start(param, state, group)

    def _mq_start(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if param.dim() > 1:
            row, column = list(param.shape), list(param.shape)
            row[-1] = column[-2] = 1
            state["row_var"] = param.new_zeros(row)
            state["col_var"] = param.new_zeros(column)
        else:
            state["variance"] = mq.zeros_like(param)

    def _mq_update(self, group: Group) -> None:
        # Matrices and vectors have states of different names, so no lists: each on its own. As
        # lists, PyTorch's updates differ in rounding and temporaries only.
        for param in group["params"]:
            if param.grad is None:
                continue
            _paths.check_dense("Adafactor", param.grad)
            state = self.state[param]
            if not state:
                self._mq_begin(param, state, group)
            state["step"] += 1
            self._mq_one(param, -param.grad if group["maximize"] else param.grad, state, group)

    def _mq_one(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
        _update_one(param, grad, state, group)


def _update_one(param: Tensor, grad: Tensor, state: dict[str, Tensor], group: Group) -> None:
    lr, step = _paths.value(group["lr"], group), _paths.value(state["step"], group)
    floor, least_size = group["eps"]
    floor = finfo(param.dtype).eps if floor is None else floor
    share = step ** group["beta2_decay"]
    size = param.norm(2) / param.numel() ** 0.5
    if group["weight_decay"] != 0:
        param.mul_(1 - lr * group["weight_decay"])
    variance = _variance(grad, state, share, floor)
    update = variance.clamp_(min=floor * floor).rsqrt_().mul_(grad)
    # PyTorch reads both norms on the host; left where they are, they need no data in fake mode.
    spread = update.norm(2) / (update.numel() ** 0.5 * group["d"])
    rate = size.clamp_(min=least_size).mul_(_smaller(lr, 1 / step**0.5))
    param.sub_(update.mul_(rate.div_(spread.clamp_(min=1.0))))


def _smaller(lr: float | Tensor, relative: float | Tensor) -> float | Tensor:
    if not isinstance(relative, Tensor):
        assert not isinstance(lr, Tensor)
        return min(lr, relative)
    return mq.minimum(relative, lr) if isinstance(lr, Tensor) else relative.clamp(max=lr)


def _variance(
    grad: Tensor, state: dict[str, Tensor], share: float | Tensor, floor: float
) -> Tensor:
    """The estimate of squares after this gradient, a temporary."""
    if "variance" in state:
        variance = state["variance"]
        _paths.blend(variance, grad.square(), share)
        return variance.clone()
    row, column = state["row_var"], state["col_var"]
    of_rows = grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1))
    of_columns = grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2))
    _paths.blend(row, of_rows, share)
    _paths.blend(column, of_columns, share)
    return (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=floor))


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of `Adafactor` by lists of parameters, gradients and state, all in place."""
    _paths.check_unscaled(None, grad_scale, found_inf)
    group = {
        "d": d,
        "lr": lr,
        "beta2_decay": beta2_decay,
        "weight_decay": weight_decay,
        "eps": (eps1, eps2),
    }
    kept = zip(row_vars, col_vars, variances, state_steps, strict=True)
    for param, grad, members in zip(params, grads, kept, strict=True):
        named = zip(("row_var", "col_var", "variance", "step"), members, strict=True)
        state = {name: value for name, value in named if value is not None}
        state["step"] += 1
        _update_one(param, -grad if maximize else grad, state, group)
