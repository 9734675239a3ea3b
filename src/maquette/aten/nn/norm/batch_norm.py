"""Batch normalization: every form of the operator that PyTorch has, and its backward.

A call normalizes by the batch's own moments, which also move the running ones, or by the running
ones alone. The forms differ in whether running statistics are optional, declared as written, or
returned; one kernel and one derivative serve them all.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, total
from maquette.aten.common.backward_checks import check_count, check_floats_only
from maquette.aten.common.channels_last import channels_second, laid_last, with_channels_last
from maquette.aten.common.large_arrays import loops_for_floats
from maquette.aten.nn.norm.batch_norm_batching import (
    functional_batching,
    native_batch_norm_backward_batching,
    native_batch_norm_batching,
    no_stats_batching,
)
from maquette.aten.nn.norm.moments import (
    affine_tangent,
    check_floating,
    input_gradient,
    moments,
    moments_tangent,
    normalized_affine,
    parameter_dtype,
    second_gradients,
)
from maquette.autograd.formulas import naming
from maquette.core.dtype import uint8
from maquette.core.errors import check
from maquette.core.layout import channels_last, channels_last_3d, contiguous_format, memory_format
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, OperatorPage, define
from maquette.tensor.tensor import Tensor

Mask = tuple[bool, ...]
Maybe = TensorMeta | None
MaybeArray = Array | None
Grad = Tensor | None
Triple = tuple[TensorMeta, TensorMeta, TensorMeta]


def _check_features(name: str, channels: int, parameter: Maybe) -> None:
    check(
        parameter is None or parameter.numel == channels,
        lambda: (
            f"{name} should contain {channels} elements not {parameter.numel if parameter else 0}"
        ),
    )


def _check_vector(name: str, statistic: Maybe) -> None:
    check(
        statistic is None or statistic.ndim == 1,
        lambda: f"batch_norm: {name} should have 1 dimension, a number a channel; got {statistic}",
    )


def batch_norm_metas(
    input: TensorMeta,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
) -> Triple:
    """The result and the saved statistics, which evaluation leaves empty."""
    check(
        input.ndim >= 2,
        lambda: (
            f"batch_norm: expected an input of at least 2 dimensions (batch, channels, ...), "
            f"got {input}"
        ),
    )
    check_floating("batch_norm", input)
    channels = input.shape[1]
    parameters = {
        "weight": weight,
        "bias": bias,
        "running_mean": running_mean,
        "running_var": running_var,
    }
    for name, parameter in parameters.items():
        _check_features(name, channels, parameter)
    for name in ("running_mean", "running_var"):
        _check_vector(name, parameters[name])
    check(
        training or (running_mean is not None and running_var is not None),
        lambda: (
            f"{'running_mean' if running_mean is None else 'running_var'} must be defined in "
            f"evaluation mode"
        ),
    )
    kind = parameter_dtype(input, tuple(parameters.values()))
    stats = input.fresh((channels if training else 0,), kind)
    wanted = contiguous_format if input.is_contiguous else _format(input)
    return input.like(memory_format=wanted), stats, stats


def _format(input: TensorMeta) -> memory_format:
    """Channels-last where the input is, even if only sizes of 1 make it so; else as suggested."""
    for last in (channels_last, channels_last_3d):
        if not input.is_contiguous and input.is_contiguous_in(last):
            return last
    return input.suggested_format


def _axes(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _by_channel(parameter: Array, ndim: int) -> Array:
    return parameter.reshape((1, -1) + (1,) * (ndim - 2))


def _maybe_by_channel(parameter: MaybeArray, ndim: int) -> MaybeArray:
    return None if parameter is None else _by_channel(parameter, ndim)


def batch_norm_arrays(
    xp: ModuleType,
    input: Array,
    weight: MaybeArray,
    bias: MaybeArray,
    running_mean: MaybeArray,
    running_var: MaybeArray,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Normalize; in training move the running statistics, in place, by ``momentum``."""
    *results, mean, var = normalized_arrays(
        xp, input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    for running, new in ((running_mean, mean), (running_var, var)):
        if running is not None and new is not running:
            running[...] = new
    out, saved_mean, saved_rstd = results
    return out, saved_mean, saved_rstd


def normalized_arrays(
    xp: ModuleType,
    input: Array,
    weight: MaybeArray,
    bias: MaybeArray,
    running_mean: MaybeArray,
    running_var: MaybeArray,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """The result, the saved statistics, and the running statistics after it, mutating nothing."""
    x = wide(input)
    if training:
        mean, variance, rstd = moments(xp, x, _axes(x), eps)
        count = x.size // max(x.shape[1], 1)
        moved_mean = _moved(running_mean, mean.reshape(-1), momentum)
        with np.errstate(divide="ignore", invalid="ignore"):
            unbiased = variance.reshape(-1) * (count / np.float64(count - 1))
            moved_var = _moved(running_var, unbiased, momentum)
        # What is saved is what normalizes: statistics of 16 bits are rounded first.
        given = (weight, bias, running_mean, running_var)
        kind = next((p.dtype for p in given if p is not None), input.dtype)
        mean, rstd = (s.astype(kind).astype(x.dtype) for s in (mean, rstd))
        saved = mean.reshape(-1), rstd.reshape(-1)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean = _by_channel(wide(running_mean), x.ndim)
        rstd = 1 / xp.sqrt(_by_channel(wide(running_var), x.ndim) + x.dtype.type(eps))
        saved = xp.empty(0, x.dtype), xp.empty(0, x.dtype)
        moved_mean, moved_var = running_mean, running_var
    parameters = [_maybe_by_channel(p, x.ndim) for p in (weight, bias)]
    out = normalized_affine(xp, x, mean, rstd, *parameters)
    return out, *saved, moved_mean, moved_var


def _moved(running: MaybeArray, new: Array, momentum: float) -> MaybeArray:
    return None if running is None else momentum * new + (1 - momentum) * wide(running)


# --- forward, in all its forms -------------------------------------------------------

PARAMETERS = "Tensor input, Tensor? weight, Tensor? bias, "
_PARAMETERS = (
    "input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps",
)  # fmt: skip
_OUTS = "*, Tensor({0}!) out, Tensor({1}!) save_mean, Tensor({2}!) save_invstd"

native_batch_norm = define(
    f"aten::native_batch_norm({PARAMETERS}Tensor? running_mean, Tensor? running_var, "
    f"bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    variants=[
        f"aten::native_batch_norm.out({PARAMETERS}Tensor? running_mean, Tensor? running_var, "
        f"bool training, float momentum, float eps, {_OUTS.format('a', 'b', 'c')}) "
        f"-> (Tensor(a!), Tensor(b!), Tensor(c!))"
    ],
)
native_batch_norm.describe(
    "`batch_norm`, with the mean and the inverse deviation that it used: [C] each."
)
_legit = define(
    f"aten::_native_batch_norm_legit({PARAMETERS}Tensor(a!) running_mean, "
    f"Tensor(b!) running_var, bool training, float momentum, float eps) "
    f"-> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
    variants=[
        f"aten::_native_batch_norm_legit.out({PARAMETERS}Tensor(a!) running_mean, "
        f"Tensor(b!) running_var, bool training, float momentum, float eps, "
        f"{_OUTS.format('d', 'e', 'f')}) -> (Tensor(d!), Tensor(e!), Tensor(f!))"
    ],
)
_legit_no_stats = define(
    f"aten::_native_batch_norm_legit.no_stats({PARAMETERS}bool training, float momentum, "
    f"float eps) -> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
    variants=[
        f"aten::_native_batch_norm_legit.no_stats_out({PARAMETERS}bool training, "
        f"float momentum, float eps, {_OUTS.format('a', 'b', 'c')}) "
        f"-> (Tensor(a!), Tensor(b!), Tensor(c!))"
    ],
)
_legit_no_stats.node_name("NativeBatchNormLegitBackward1")
_legit_no_training = define(
    f"aten::_native_batch_norm_legit_no_training({PARAMETERS}Tensor running_mean, "
    f"Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)
_legit_functional = define(
    f"aten::_native_batch_norm_legit_functional({PARAMETERS}Tensor running_mean, "
    f"Tensor running_var, bool training, float momentum, float eps) "
    f"-> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
    tags=[Tag.generated],
)
_with_update = define(
    f"aten::_batch_norm_with_update({PARAMETERS}Tensor(a!) running_mean, "
    f"Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"
)
_no_update = define(
    f"aten::_batch_norm_no_update({PARAMETERS}Tensor? running_mean, Tensor? running_var, "
    f"float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"
)


# What follows the three results: nothing, bytes for a backward, or the running statistics.
_Beside = Callable[..., tuple[object, ...]]


def _form(
    page: OperatorPage,
    beside: _Beside = lambda **given: (),
    beside_arrays: _Beside = lambda xp, **given: (),
    **fixed: Any,
) -> None:
    """Shape and kernel of a form; fixed: what it does not take, as it has it."""
    taken = [name for name in _PARAMETERS if name not in fixed]

    @page.shape
    def batch_norm_shape(*params: Any) -> tuple[object, ...]:
        given = {**dict(zip(taken, params, strict=True)), **fixed}
        checked = {name: given[name] for name in _PARAMETERS[:6]}
        return *batch_norm_metas(**checked), *beside(**given)

    @page.kernel
    def batch_norm_kernel(xp: ModuleType, *params: Any) -> tuple[object, ...]:
        given = {**dict(zip(taken, params, strict=True)), **fixed}
        return *batch_norm_arrays(xp, **given), *beside_arrays(xp, **given)


def _reserve(*, input: TensorMeta, **rest: object) -> tuple[TensorMeta]:
    """What cuDNN would keep for its backward: nothing."""
    return (input.fresh((0,), uint8),)


def _no_bytes(xp: ModuleType, **given: object) -> tuple[Array]:
    return (xp.empty(0, xp.uint8),)


_form(native_batch_norm)


def _declared(*params: Any) -> OperatorPage | None:
    """In training, the running statistics that there are are brought up to date."""
    given = dict(zip(_PARAMETERS, params))
    tracked = given["running_mean"] is not None and given["running_var"] is not None
    return _legit if given["training"] and tracked else None


native_batch_norm.writes_undeclared("running_mean", "running_var", declared=_declared)
native_batch_norm.batching(native_batch_norm_batching)
_form(_legit)
_legit.batching(native_batch_norm_batching)
_form(_legit_no_stats, running_mean=None, running_var=None)
_legit_no_stats.batching(no_stats_batching)
_form(_legit_no_training, training=False)
_form(_with_update, _reserve, _no_bytes, training=True)
_form(_no_update, _reserve, _no_bytes, training=False)


@_legit_functional.shape
def _legit_functional_shape(*params: Any) -> tuple[TensorMeta, ...]:
    return *batch_norm_metas(*params[:6]), params[3].like(), params[4].like()


_legit_functional.batching(functional_batching)


@_legit_functional.kernel
def _legit_functional_kernel(xp: ModuleType, *params: Any) -> tuple[Array, ...]:
    *results, mean, var = normalized_arrays(xp, *params)
    return *results, mean.copy(), var.copy()


# --- backward ------------------------------------------------------------------------

native_batch_norm_backward = define(
    "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, "
    "Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, "
    "bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
batch_norm_backward = define(
    "aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, "
    "Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, "
    "bool update, float eps, bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)"
)


def _backward_metas(
    grad_out: TensorMeta,
    input: TensorMeta,
    weight: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_invstd: Maybe,
    train: bool,
    eps: float,
    output_mask: Mask,
    reserve: Maybe = None,
) -> tuple[Maybe, Maybe, Maybe]:
    check(
        grad_out.shape == input.shape,
        lambda: (
            f"native_batch_norm_backward: expected grad_out and input of one shape, got "
            f"{grad_out} and {input}"
        ),
    )
    name = "native_batch_norm_backward"
    statistics = (save_mean, save_invstd) if train else (running_mean, running_var)
    check(
        None not in statistics and input.ndim >= 2,
        lambda: (
            f"{name}: expected an input of at least 2 dimensions, and "
            f"{'saved' if train else 'running'} statistics; got {input} and {statistics}"
        ),
    )
    check_floats_only(name, grad_out, input)
    for parameter in (weight, *statistics):
        check_count(name, "parameters", parameter, input.shape[1])
        check_floats_only(name, parameter)
    given = [p for p in (weight, running_mean, running_var, save_mean) if p is not None]
    kind = given[0].dtype if given else input.dtype
    vector = input.fresh((input.shape[1],), kind)
    return (
        input.like(memory_format=_format(input)) if output_mask[0] else None,
        vector if output_mask[1] else None,
        vector if output_mask[2] else None,
    )


def _backward_arrays(
    xp: ModuleType,
    grad_out: Array,
    input: Array,
    weight: MaybeArray,
    running_mean: MaybeArray,
    running_var: MaybeArray,
    save_mean: MaybeArray,
    save_invstd: MaybeArray,
    train: bool,
    eps: float,
    output_mask: Mask,
    reserve: MaybeArray = None,
) -> tuple[MaybeArray, MaybeArray, MaybeArray]:
    x, grad = wide(input), wide(grad_out)
    if train:
        assert save_mean is not None
        assert save_invstd is not None
        mean, rstd = wide(save_mean), wide(save_invstd)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean = wide(running_mean)
        rstd = 1 / xp.sqrt(wide(running_var) + x.dtype.type(eps))
    fits = train and output_mask[0]
    loops = loops_for_floats(xp, x, grad, mean, rstd, weight) if fits else None
    last = None if loops is None else with_channels_last(x)
    if loops is not None and last is not None:
        lines = (-1, x.shape[1])
        by_input, *others = loops.column_gradients(
            laid_last(grad).reshape(lines), last.reshape(lines), mean, rstd, weight
        )
        return channels_second(by_input.reshape(last.shape)), *_asked(others, output_mask)
    if loops is not None and x.flags.c_contiguous:
        planes = (*x.shape[:2], -1)
        by_input, *others = loops.channel_gradients(
            np.ascontiguousarray(grad).reshape(planes), x.reshape(planes), mean, rstd, weight
        )
        return by_input.reshape(x.shape), *_asked(others, output_mask)
    scale = _by_channel(rstd, x.ndim)
    normalized = (x - _by_channel(mean, x.ndim)) * scale
    weighted = grad if weight is None else grad * _by_channel(wide(weight), x.ndim)
    axes = _axes(x)
    by_input = None
    if output_mask[0] and train:
        by_input = input_gradient(xp, weighted, normalized, scale, axes)
    elif output_mask[0]:
        by_input = weighted * scale
    return (
        by_input,
        total(xp, grad * normalized, axes) if output_mask[1] else None,
        total(xp, grad, axes) if output_mask[2] else None,
    )


def _asked(parameters: list[Array], output_mask: Mask) -> tuple[MaybeArray, MaybeArray]:
    """The gradients by weight and bias, as far as they are asked for."""
    by_weight, by_bias = parameters
    return by_weight if output_mask[1] else None, by_bias if output_mask[2] else None


def batch_norm_second_grad(
    grads: list[Grad],
    grad_out: Tensor,
    input: Tensor,
    weight: Grad,
    running_mean: Grad,
    running_var: Grad,
    save_mean: Grad,
    save_invstd: Grad,
    train: bool,
    eps: float,
) -> tuple[Grad, Grad, Grad]:
    """Gradients of backward's results by grad_out, input and weight."""
    rank = input.meta.ndim
    dims = (0, *range(2, rank))
    wide_shape = (1, input.meta.shape[1]) + (1,) * (rank - 2)
    v, u, w, scale_of = (
        None if t is None else t.view(wide_shape) if t.meta.ndim == 1 else t
        for t in (*grads, weight)
    )
    if not train:
        assert running_mean is not None
        assert running_var is not None
        mean, rstd = running_mean.view(wide_shape), (running_var + eps).rsqrt().view(wide_shape)
        return _second_grad_of_fixed(v, u, w, grad_out, (input - mean) * rstd, rstd, scale_of)
    assert save_mean is not None
    assert save_invstd is not None
    rstd = save_invstd.view(wide_shape)
    normalized = (input - save_mean.view(wide_shape)) * rstd
    by_out, by_x, by_weight = second_gradients(v, u, w, grad_out, normalized, rstd, scale_of, dims)
    return by_out, by_x, None if by_weight is None else by_weight.sum(dims)


def _second_grad_of_fixed(
    v: Grad, u: Grad, w: Grad, grad_out: Tensor, normalized: Tensor, rstd: Tensor, weight: Grad
) -> tuple[Grad, Grad, Grad]:
    """The same where the statistics do not depend on the input."""
    parts: list[Tensor] = []
    if v is not None:
        parts.append(v * rstd if weight is None else v * rstd * weight)
    if u is not None:
        parts.append(u * normalized)
    if w is not None:
        parts.append(w.expand_as(grad_out))
    dims = (0, *range(2, grad_out.meta.ndim))
    by_out = parts[0] if parts else None
    for part in parts[1:]:
        assert by_out is not None
        by_out = by_out + part
    return (
        by_out,
        None if u is None else u * grad_out * rstd,
        None if v is None else (v * grad_out * rstd).sum(dims),
    )


for _page in (native_batch_norm_backward, batch_norm_backward):
    _page.shape(_backward_metas)
    _page.kernel(_backward_arrays)
    _page.cost(lambda grad_out, *rest: Cost(flops=14 * grad_out.numel))
native_batch_norm_backward.derivative("grad_out", "input", "weight")(batch_norm_second_grad)
native_batch_norm_backward.batching(native_batch_norm_backward_batching)


# --- derivatives of the forms --------------------------------------------------------


def _norm_grad(
    grad: Grad,
    input: Tensor,
    weight: Grad,
    running_mean: Grad,
    running_var: Grad,
    result1: Tensor,
    result2: Tensor,
    training: bool,
    eps: float,
    needs: list[bool],
) -> object:
    if grad is None:
        return None, None, None
    return native_batch_norm_backward(
        grad, input, weight, running_mean, running_var, result1, result2, training, eps, needs
    )


def _norm_tangent(
    input: Tensor,
    input_t: Tensor,
    weight: Grad,
    weight_t: Grad,
    bias_t: Grad,
    running_mean: Grad,
    running_var: Grad,
    training: bool,
    eps: float,
    running_mean_t: Grad = None,
    running_var_t: Grad = None,
) -> tuple[Tensor, Grad, Grad]:
    """Tangents of the result and of the statistics used; in training, running ones are not used."""
    channels = [1] * input.meta.ndim
    channels[1] = input.meta.shape[1]
    parameters = (weight, weight_t, bias_t)
    scale, *moving = [None if p is None else p.reshape(channels) for p in parameters]
    mean, variance = running_mean, running_var
    if training or mean is None or variance is None:
        dims = tuple(i for i in range(input.meta.ndim) if i != 1)
        normalized, moved, mean_t, rstd_t = moments_tangent(input, input_t, dims, eps)
        out_t = affine_tangent(normalized, moved, scale, moving)
        return out_t, mean_t.reshape(-1), rstd_t.reshape(-1)
    rstd = (variance + eps).rsqrt().reshape(channels)
    normalized = (input - mean.reshape(channels)) * rstd
    if running_mean_t is not None:
        input_t = input_t - running_mean_t.reshape(channels)
    moved = input_t * rstd
    if running_var_t is not None:
        moved = moved - normalized * rstd * rstd * running_var_t.reshape(channels) / 2
    return affine_tangent(normalized, moved, scale, moving), None, None


def _differentiated(
    page: OperatorPage,
    more: int = 0,
    statistics: tuple[str, str] = ("running_mean", "running_var"),
    **fixed: Any,
) -> None:
    """Gradient and tangent of a form; fixed: as in `_form`; more: the results behind the three.

    statistics: what the gradient, which asks for them outside of training, takes them from.
    """
    running = ("running_mean", "running_var", "training")
    needs = ("grad", "input", "weight", "result1", "result2", *running, "eps", "needs")
    needed = [name for name in needs if name not in fixed]

    @page.derivative("input", "weight", "bias")
    @naming(*[dict(zip(running, statistics)).get(name, name) for name in needed])
    def batch_norm_grad(*values: Any) -> object:
        return _norm_grad(**dict(zip(needed, values, strict=True)), **fixed)

    moving = ("input", "input_t", "weight", "weight_t", "bias_t", *running, "eps")
    moved = [name for name in moving if name not in fixed]
    moved += [f"{name}_t" for name in running[:2] if name not in fixed]

    @page.tangent
    @naming(*moved)
    def batch_norm_tangent(*values: Any) -> tuple[Grad, ...]:
        return *_norm_tangent(**dict(zip(moved, values, strict=True)), **fixed), *([None] * more)

    page.nondifferentiable(1, 2, 3, 4)
    page.cost(lambda input, *rest: Cost(flops=8 * input.numel))


_differentiated(native_batch_norm)
_differentiated(_legit)
# Programs copy the new statistics over the old, which backward could not then ask for.
_differentiated(_legit_functional, 2, ("result3", "result4"))
_differentiated(_legit_no_stats, running_mean=None, running_var=None)
_differentiated(_legit_no_training, training=False)
_differentiated(_with_update, 1, training=True)
_differentiated(_no_update, 1, training=False)
