"""An optimizer's step in one operator, `_fused_adam_` and its like; what gradient scaling needs.

Each writes lists of parameters and of what an optimizer keeps beside them. Gradients may be scaled
(``grad_scale``), and are then divided, in place; where ``found_inf`` is 1 nothing is written.
The optimizers themselves, which gather the lists, are in `maquette.optim`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias, cast

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, accumulator
from maquette.aten.common.large_arrays import loops_for_alike
from maquette.aten.common.narrow_floats import converted
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.library.variants import check_writable

Arrays = Sequence[Array]
# A member of the lists (parameter, gradient and what is kept) after the options, by name.
Step: TypeAlias = Callable[..., None]
_SCALING = "Tensor? grad_scale=None, Tensor? found_inf=None"


def _number(value: float | Array) -> float:
    """A number, or the only element of an array."""
    return float(value if isinstance(value, (int, float)) else value.item())


def _write(target: Array, values: Array) -> None:
    target[...] = values if values.dtype == target.dtype else converted(values, target.dtype)


def _fused(name: str, lists: str, options: str, step: Step) -> None:
    """Define ``name`` by its step on one member, with a learning rate as a number or a tensor."""
    count = lists.count("[]")
    for overload, rate in (("", "float lr"), (".tensor_lr", "Tensor lr")):
        before, after = options.split("@")
        page = define(
            f"aten::{name}{overload}({lists}, *, {before}{rate}{after}, {_SCALING}) -> ()",
            tags=[Tag.inplace],
        ).any_device()
        names = [a.name for a in page.op._schema.arguments][count:]

        @page.shape
        def shape(*params: object) -> None:
            _check_lists(name, params[:count])

        @page.kernel
        def kernel(xp: ModuleType, *params: object, names: Sequence[str] = names) -> None:
            given = dict(zip(names, params[count:], strict=True))
            scale, found = given.pop("grad_scale"), given.pop("found_inf")
            if found is not None and _number(found) == 1:  # type: ignore[arg-type]  # a tensor's array
                return
            given["lr"] = _number(given["lr"])  # type: ignore[arg-type]  # a number or an array of one
            sign = -1 if given.pop("maximize") else 1
            parameters, grads, *kept = cast(Sequence[Arrays], params[:count])
            for i, parameter in enumerate(parameters):
                work = accumulator(parameter.dtype)
                grad = converted(grads[i], work)
                if scale is not None:
                    grad = xp.divide(grad, work.type(_number(scale)))  # type: ignore[arg-type]  # as above
                    _write(grads[i], grad)
                beside = [each[i] if each else None for each in kept]
                step(xp, parameter, sign * grad, *beside, **given)


def _check_lists(name: str, lists: Sequence[object]) -> None:
    sizes = [len(each) for each in lists if isinstance(each, (tuple, list)) and each]
    check(
        len(set(sizes)) <= 1,
        lambda: f"{name}: Tensor lists must have the same number of tensors, got {sizes}",
    )
    for target in lists[0]:  # type: ignore[attr-defined]  # a list
        check_writable(name, target)


# --- Adam ----------------------------------------------------------------------------


def _adam(*, decoupled: bool) -> Step:
    """The step of Adam; ``decoupled``: of AdamW, whose weight decay is no part of the gradient."""

    def step(
        xp: ModuleType,
        param: Array,
        grad: Array,
        exp_avg: Array,
        exp_avg_sq: Array,
        max_exp_avg_sq: Array | None,
        state_step: Array,
        *,
        lr: float,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
    ) -> None:
        work = grad.dtype
        value, mean, square = (converted(x, work) for x in (param, exp_avg, exp_avg_sq))
        if weight_decay and decoupled:
            value = value * work.type(1 - lr * weight_decay)
        elif weight_decay:
            grad = grad + value * work.type(weight_decay)
        mean = mean + (grad - mean) * work.type(1 - beta1)
        square = square * work.type(beta2) + grad * grad * work.type(1 - beta2)
        _write(exp_avg, mean)
        _write(exp_avg_sq, square)
        if amsgrad:
            assert max_exp_avg_sq is not None
            square = xp.maximum(converted(max_exp_avg_sq, work), square)
            _write(max_exp_avg_sq, square)
        done = _number(state_step)
        root = math.sqrt(1 - beta2**done)
        denominator = xp.sqrt(square) / work.type(root) + work.type(eps)
        _write(param, value - work.type(lr / (1 - beta1**done)) * mean / denominator)

    return step


_ADAM_LISTS = (
    "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, "
    "Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps"
)
_ADAM_OPTIONS = (
    "@, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize"
)
_fused("_fused_adam_", _ADAM_LISTS, _ADAM_OPTIONS, _adam(decoupled=False))
_fused("_fused_adamw_", _ADAM_LISTS, _ADAM_OPTIONS, _adam(decoupled=True))

# --- Adam a tensor at a time, where nobody watches -------------------------------------

adam_steps = define(
    "maquette::adam_steps_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, "
    "Tensor(c!)[] exp_avg_sqs, float[] step_sizes, float[] roots, *, float beta1, float beta2, "
    "float eps, float shrink, float decay) -> ()",
    tags=[Tag.inplace],
)
adam_steps.describe(
    "Steps of Adam: for each parameter what `mul_`, `add`, `lerp_`, `mul_`, `addcmul_`, `sqrt`, "
    "`div`, `add_` and `addcdiv_` write one after the other, to the same bits, in one pass."
)
ADAM_OPERATORS = "mul_.Tensor add.Tensor lerp_.Scalar addcmul_ sqrt div.Tensor add_.Tensor addcdiv_"
"""What the steps are made of otherwise."""


@adam_steps.shape
def adam_steps_shape(*params: object) -> None:
    _check_lists("adam_steps_", params[:4])


@adam_steps.kernel
def adam_steps_kernel(
    xp: ModuleType,
    params: Arrays,
    grads: Arrays,
    means: Arrays,
    squares: Arrays,
    step_sizes: Sequence[float],
    roots: Sequence[float],
    beta1: float,
    beta2: float,
    eps: float,
    shrink: float,
    decay: float,
) -> None:
    members = zip(params, grads, means, squares, step_sizes, roots, strict=True)
    for *arrays, size, root in members:
        numbers = (1 - beta1, beta2, 1 - beta2, eps, shrink, decay, size, root)
        loops = loops_for_alike(xp, *arrays) if all(a.flags.c_contiguous for a in arrays) else None
        if loops is not None:
            loops.adam_step(*arrays, numbers)
        else:
            _adam_step(xp, *arrays, *map(arrays[0].dtype.type, numbers))


def _adam_step(
    xp: ModuleType,
    param: Array,
    grad: Array,
    mean: Array,
    square: Array,
    weight: Any,
    beta2: Any,
    rest: Any,
    eps: Any,
    shrink: Any,
    decay: Any,
    size: Any,
    root: Any,
) -> None:
    if shrink != 1:
        param *= shrink
    if decay:
        grad = grad + decay * param
    if weight < 0.5:
        mean += weight * (grad - mean)
    else:
        mean[...] = grad - (1 - weight) * (grad - mean)
    square *= beta2
    square += rest * grad * grad
    param += size * mean / (xp.sqrt(square) / root + eps)


# --- SGD and Adagrad -----------------------------------------------------------------


def _sgd(
    xp: ModuleType,
    param: Array,
    grad: Array,
    buffer: Array | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    is_first_step: bool,
) -> None:
    work = grad.dtype
    value = converted(param, work)
    if weight_decay:
        grad = grad + value * work.type(weight_decay)
    if momentum:
        assert buffer is not None
        moving = grad
        if not is_first_step:
            moving = converted(buffer, work) * work.type(momentum) + grad * work.type(1 - dampening)
        _write(buffer, moving)
        grad = grad + moving * work.type(momentum) if nesterov else moving
    _write(param, value - grad * work.type(lr))


_fused(
    "_fused_sgd_",
    "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list",
    "float weight_decay, float momentum, @, float dampening, bool nesterov, bool maximize, "
    "bool is_first_step",
    _sgd,
)


def _adagrad(
    xp: ModuleType,
    param: Array,
    grad: Array,
    state_sum: Array,
    state_step: Array,
    *,
    lr: float,
    lr_decay: float,
    weight_decay: float,
    eps: float,
) -> None:
    work = grad.dtype
    value = converted(param, work)
    if weight_decay:
        grad = grad + value * work.type(weight_decay)
    total = converted(state_sum, work) + grad * grad
    _write(state_sum, total)
    rate = lr / (1 + (_number(state_step) - 1) * lr_decay)
    _write(param, value - work.type(rate) * grad / (xp.sqrt(total) + work.type(eps)))


_fused(
    "_fused_adagrad_",
    "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor(d!)[] state_steps",
    "@, float lr_decay, float weight_decay, float eps, bool maximize",
    _adagrad,
)

# --- scaling -------------------------------------------------------------------------

unscale = define(
    "aten::_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, "
    "Tensor inv_scale) -> ()",
    tags=[Tag.inplace],
)
unscale.describe("Multiply the gradients by ``inv_scale``; 1 into ``found_inf`` if not all finite.")


@unscale.shape
def unscale_shape(
    self: tuple[TensorMeta, ...], found_inf: TensorMeta, inv_scale: TensorMeta
) -> None:
    check(inv_scale.numel == 1, lambda: "inv_scale must be a 1-element tensor.")
    check(found_inf.numel == 1, lambda: "found_inf must be a 1-element tensor.")
    for target in self:
        check_writable("_amp_foreach_non_finite_check_and_unscale_", target)


@unscale.kernel
def unscale_kernel(xp: ModuleType, self: Arrays, found_inf: Array, inv_scale: Array) -> None:
    factor = inv_scale.reshape(())
    for grad in self:
        if not xp.isfinite(grad).all():
            found_inf[...] = 1
        if _number(factor) != 1:
            _write(grad, wide(grad) * factor.astype(accumulator(grad.dtype)))


update_scale = define(
    "aten::_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, "
    "float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)",
    tags=[Tag.inplace],
)
update_scale.describe("Shrink the scale if ``found_inf``; grow it after so many good steps.")


@update_scale.shape
def update_scale_shape(
    self: TensorMeta, growth_tracker: TensorMeta, found_inf: TensorMeta, *factors: object
) -> TensorMeta:
    for name, given in (("growth_tracker", growth_tracker), ("current_scale", self)):
        check(given.numel == 1, lambda name=name: f"{name} must be a 1-element tensor.")
    check(found_inf.numel == 1, lambda: "found_inf must be a 1-element tensor.")
    return self


@update_scale.kernel
def update_scale_kernel(
    xp: ModuleType,
    self: Array,
    growth_tracker: Array,
    found_inf: Array,
    growth: float,
    backoff: float,
    interval: int,
) -> None:
    if _number(found_inf):
        self[...] = self * self.dtype.type(backoff)
        growth_tracker[...] = 0
        return
    good = int(_number(growth_tracker)) + 1
    if good == interval:
        grown = self * self.dtype.type(growth)
        if xp.isfinite(grown).all():
            self[...] = grown
        good = 0
    growth_tracker[...] = good
