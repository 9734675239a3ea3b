"""Connectionist temporal classification: the likelihood of a label sequence under frame outputs.

The forward variables of every frame are a result of `_ctc_loss` (``log_alpha``), which its backward
reads. Labels are interleaved with blanks: 2 * length + 1 states, of which a step stays, advances by
one, or by two between different labels.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import assigned_at, from_host, to_host
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import to_front
from maquette.aten.common.element_types import check_no_halves_on_cpu
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.large_arrays import loops_of_floats
from maquette.aten.common.operators import aten
from maquette.aten.nn.loss.likelihood import MEAN, SUM
from maquette.aten.view.constants import constant
from maquette.core.dtype import int64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Lengths = tuple[int, ...]

_REST = "int blank=0, bool zero_infinity=False"
_LISTS = "int[] input_lengths, int[] target_lengths"
_TENSORS = "Tensor input_lengths, Tensor target_lengths"
_OF = "Tensor log_probs, Tensor targets"
_SAVED = "Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False"

_ctc_loss = define(
    f"aten::_ctc_loss({_OF}, {_LISTS}, {_REST}) -> (Tensor, Tensor)",
    tags=[Tag.dynamic_output_shape],
)
_ctc_loss_tensor = define(
    f"aten::_ctc_loss.Tensor({_OF}, {_TENSORS}, {_REST}) -> (Tensor, Tensor)",
    tags=[Tag.dynamic_output_shape],
)
_ctc_loss_tensor.node_name("CtcLossBackward1")
_ctc_loss_backward = define(
    f"aten::_ctc_loss_backward(Tensor grad, {_OF}, {_LISTS}, {_SAVED}) -> Tensor"
)
_ctc_loss_backward_tensor = define(
    f"aten::_ctc_loss_backward.Tensor(Tensor grad, {_OF}, {_TENSORS}, {_SAVED}) -> Tensor"
)
# First, for a vector of integers fits a list of them too, and would be read.
ctc_loss_tensor = define(
    f"aten::ctc_loss.Tensor({_OF}, {_TENSORS}, int blank=0, int reduction=1, "
    f"bool zero_infinity=False) -> Tensor"
)
ctc_loss_tensor.autocast(cpu="float32")
ctc_loss = define(
    f"aten::ctc_loss.IntList({_OF}, {_LISTS}, int blank=0, int reduction=1, "
    f"bool zero_infinity=False) -> Tensor"
)
ctc_loss.describe(
    "The loss of connectionist temporal classification for `log_probs` [T, N, C], averaged by"
    " default."
)
ctc_loss.autocast(cpu="float32")


# --- checks --------------------------------------------------------------------------


def _check_ctc(
    log_probs: TensorMeta,
    targets: TensorMeta,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
) -> None:
    _check_forms(log_probs, targets, blank)
    _check_values(log_probs.shape, targets.shape, input_lengths, target_lengths)


def _check_forms(log_probs: TensorMeta, targets: TensorMeta, blank: int) -> None:
    check_no_halves_on_cpu("ctc_loss_cpu", log_probs)
    check(
        log_probs.ndim == 3,
        lambda: f"ctc_loss: expected log_probs of shape (time, batch, classes), got {log_probs}",
    )
    classes = log_probs.shape[2]
    check(
        log_probs.dtype.is_floating_point and targets.dtype.category == 1,
        lambda: (
            f"ctc_loss: expected float log_probs and integral targets, got {log_probs} and "
            f"{targets}"
        ),
    )
    check(0 <= blank < classes, lambda: f"blank must be in label range; got {blank}")


def _check_values(
    log_probs: Shape, targets: Shape, input_lengths: Lengths, target_lengths: Lengths
) -> None:
    frames, batch, _ = log_probs
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        _check_lengths(name, lengths, batch)
    check(
        max(input_lengths, default=0) <= frames,
        lambda: (
            f"Expected input_lengths to have value at most {frames}, but got value "
            f"{max(input_lengths)}"
        ),
    )
    longest = max(target_lengths, default=0)
    if len(targets) == 1:
        check(
            targets[0] == sum(target_lengths),
            lambda: (
                f"Expected targets of {sum(target_lengths)} elements, the sum of "
                f"target_lengths, but got {targets[0]}"
            ),
        )
    else:
        check(
            len(targets) == 2 and targets[0] == batch and targets[1] >= longest,
            lambda: f"Expected targets of shape ({batch}, at least {longest}), got {targets}",
        )


def _check_lengths(name: str, lengths: Lengths, batch: int) -> None:
    check(
        len(lengths) == batch,
        lambda: f"{name} must be of size batch_size; got {len(lengths)} for a batch of {batch}",
    )
    check(
        min(lengths, default=0) >= 0,
        lambda: f"Expected {name} to have value at least 0, but got value {min(lengths)}",
    )


@_ctc_loss.shape
def _ctc_loss_shape(
    log_probs: TensorMeta,
    targets: TensorMeta,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    zero_infinity: bool,
) -> tuple[TensorMeta, TensorMeta]:
    _check_ctc(log_probs, targets, input_lengths, target_lengths, blank)
    frames, batch, _ = log_probs.shape
    states = 2 * max(target_lengths, default=0) + 1
    return log_probs.fresh((batch,)), log_probs.fresh((batch, frames, states))


# --- kernels -------------------------------------------------------------------------


def _labels(targets: Array, target_lengths: Lengths, blank: int) -> Array:
    """Every sequence with blanks between and around its labels, padded with blanks."""
    longest = max(target_lengths, default=0)
    states = np.full((len(target_lengths), 2 * longest + 1), blank, np.int64)
    start = 0
    for row, length in enumerate(target_lengths):
        line = targets[row, :length] if targets.ndim == 2 else targets[start : start + length]
        states[row, 1 : 2 * length : 2] = line
        start += length
    return states


def _skips(xp: ModuleType, states: Array, blank: int) -> Array:
    """The states that may be entered from two before."""
    allowed = xp.zeros(states.shape, bool)
    entered = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    return assigned_at(xp, allowed, (slice(None), slice(2, None)), entered)


def _shifted(xp: ModuleType, values: Array, by: int) -> Array:
    moved = xp.full(values.shape, -xp.inf, values.dtype)
    if values.shape[1] <= by:
        return moved
    return assigned_at(xp, moved, (slice(None), slice(by, None)), values[:, :-by])


def _log_sum(xp: ModuleType, *terms: Array) -> Array:
    found = terms[0]
    for term in terms[1:]:
        found = xp.logaddexp(found, term)
    return found


def _forward_variables(xp: ModuleType, emitted: Array, lengths: Array, skips: Array) -> Array:
    """log alpha, (batch, time, states), from the emissions of the states, (time, batch, states)."""
    frames, batch, states = emitted.shape
    alpha = xp.full((batch, frames, states), -xp.inf, emitted.dtype)
    if not frames:
        return alpha
    loops = loops_of_floats(xp, emitted)
    if loops is not None:
        paths: Array = loops.log_paths(emitted, lengths, skips)
        return paths
    alpha = assigned_at(xp, alpha, (slice(None), 0, 0), emitted[0, :, 0])
    if states > 1:
        spoken = xp.where(lengths > 0, emitted[0, :, 1], -xp.inf)
        alpha = assigned_at(xp, alpha, (slice(None), 0, 1), spoken)
    for t in range(1, frames):
        before = alpha[:, t - 1]
        two = xp.where(skips, _shifted(xp, before, 2), -xp.inf)
        now = _log_sum(xp, before, _shifted(xp, before, 1), two) + emitted[t]
        alpha = assigned_at(xp, alpha, (slice(None), t), now)
    return alpha


def _emissions(xp: ModuleType, log_probs: Array, states: Array) -> Array:
    index = xp.broadcast_to(states[None], (len(log_probs), *states.shape))
    found: Array = xp.take_along_axis(log_probs, index, 2)
    return found


@_ctc_loss.kernel
def _ctc_loss_kernel(
    xp: ModuleType,
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    zero_infinity: bool,
) -> tuple[Array, Array]:
    x = wide(log_probs)
    states = from_host(xp, _labels(to_host(xp, targets), target_lengths, blank))
    goal, end = xp.asarray(target_lengths), xp.asarray(input_lengths)
    with np.errstate(all="ignore"):
        alpha = _forward_variables(xp, _emissions(xp, x, states), goal, _skips(xp, states, blank))
        past_end = xp.arange(len(x))[None, :, None] >= end[:, None, None]
        return -_log_likelihood(xp, alpha, goal, end), xp.where(past_end, -xp.inf, alpha)


def _log_likelihood(xp: ModuleType, alpha: Array, goal: Array, end: Array) -> Array:
    """The sequence ends with its last label or the blank behind it."""
    silence: Array = xp.where(goal == 0, 0.0, -xp.inf)  # no frames say only the empty sequence
    if not alpha.shape[1]:
        return silence
    rows = xp.arange(len(goal))
    last = alpha[rows, xp.maximum(end - 1, 0)]
    label = xp.where(goal > 0, last[rows, xp.maximum(2 * goal - 1, 0)], -xp.inf)
    found: Array = xp.where(end > 0, xp.logaddexp(last[rows, 2 * goal], label), silence)
    return found


@_ctc_loss_backward.shape
def _ctc_loss_backward_shape(
    grad: TensorMeta,
    log_probs: TensorMeta,
    targets: TensorMeta,
    input_lengths: Lengths,
    target_lengths: Lengths,
    neg_log_likelihood: TensorMeta,
    log_alpha: TensorMeta,
    blank: int,
    zero_infinity: bool,
) -> TensorMeta:
    _check_ctc(log_probs, targets, input_lengths, target_lengths, blank)
    return log_probs.like()


@_ctc_loss_backward.kernel
def _ctc_loss_backward_kernel(
    xp: ModuleType,
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    neg_log_likelihood: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool,
) -> Array:
    """``exp(log_probs)`` less each class's share of the likelihood, as PyTorch defines it.

    It is the gradient by unnormalized scores: right behind a log softmax, which adds nothing more.
    """
    x, loss = wide(log_probs), wide(neg_log_likelihood)
    with np.errstate(all="ignore"):
        shares = _shares(xp, x, targets, input_lengths, target_lengths, log_alpha, blank)
        found = xp.exp(x) - xp.exp(shares + loss[None, :, None] - x)
        found = found * wide(grad)[None, :, None]
    alive = xp.arange(len(x))[:, None] < xp.asarray(input_lengths)[None]
    if zero_infinity:
        alive = alive & xp.isfinite(loss)[None]
    return xp.where(alive[:, :, None], found, 0)


def _shares(
    xp: ModuleType,
    x: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    log_alpha: Array,
    blank: int,
) -> Array:
    """For each frame, sequence and class: log of the sum of alpha * beta over its states."""
    found = xp.full(x.shape, -xp.inf, x.dtype)
    states = from_host(xp, _labels(to_host(xp, targets), target_lengths, blank))
    alike: dict[tuple[int, int], list[int]] = {}  # sequences of one form are taken at once
    for row, lengths in enumerate(zip(input_lengths, target_lengths, strict=True)):
        alike.setdefault(lengths, []).append(row)
    for (frames, length), members in alike.items():
        rows = from_host(xp, np.array(members))
        labels = states[rows][:, : 2 * length + 1]
        # Backwards, the sequence reversed is a forward pass.
        flipped = _emissions(xp, x[:frames][:, rows], labels)[::-1, :, ::-1]
        goals = xp.full(len(members), length)
        beta = _forward_variables(xp, flipped, goals, _skips(xp, labels[:, ::-1], blank))
        both = wide(log_alpha)[rows][:, :frames, : 2 * length + 1] + beta[:, ::-1, ::-1]
        for state in range(2 * length + 1):
            place = (slice(0, frames), rows, labels[:, state])
            summed = xp.logaddexp(found[place], both[:, :, state].T)
            found = assigned_at(xp, found, place, summed)
    return found


@_ctc_loss.derivative("log_probs")
def _ctc_loss_grad(
    grads: list[Tensor | None],
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    result0: Tensor,
    result1: Tensor,
    blank: int,
    zero_infinity: bool,
) -> tuple[object]:
    if grads[0] is None:
        return (None,)
    return (
        _ctc_loss_backward(
            grads[0],
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            result0,
            result1,
            blank,
            zero_infinity,
        ),
    )


def _as_samples(size: int, probs: Tensor, d: int | None, targets: Tensor, t: int | None) -> Any:
    """Frames [T, size * N, C] and the targets of as many samples, one set after the other."""
    frames = to_front(probs, d, size).movedim(0, 1).flatten(1, 2)
    return frames, to_front(targets, t, size).flatten(0, 1)


@_ctc_loss.batching
def ctc_loss_batching(
    info: VmapInfo,
    in_dims: Any,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    *rest: Any,
) -> Any:
    size = info.batch_size
    given = _as_samples(size, log_probs, in_dims[0], targets, in_dims[1])
    results = _ctc_loss(*given, tuple(input_lengths) * size, tuple(target_lengths) * size, *rest)
    return tuple([r.unflatten(0, (size, -1)) for r in results]), 0


@_ctc_loss_backward.batching
def ctc_loss_backward_batching(
    info: VmapInfo,
    in_dims: Any,
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    losses: Tensor,
    log_alpha: Tensor,
    *rest: Any,
) -> Any:
    size = info.batch_size
    frames, labels = _as_samples(size, log_probs, in_dims[1], targets, in_dims[2])
    each = ((grad, in_dims[0]), (losses, in_dims[5]), (log_alpha, in_dims[6]))
    by_loss, *saved = [to_front(t, d, size).flatten(0, 1) for t, d in each]
    lengths = (tuple(input_lengths) * size, tuple(target_lengths) * size)
    found = _ctc_loss_backward(by_loss, frames, labels, *lengths, *saved, *rest)
    return found.unflatten(1, (size, -1)), 1


_ctc_loss.nondifferentiable(1)
_ctc_loss.cost(lambda log_probs, *rest: Cost(flops=log_probs.numel))


# --- lengths as tensors --------------------------------------------------------------


def _check_ctc_tensors(
    log_probs: TensorMeta,
    targets: TensorMeta,
    input_lengths: TensorMeta,
    target_lengths: TensorMeta,
    blank: int,
    zero_infinity: bool,
) -> None:
    _check_forms(log_probs, targets, blank)
    for lengths in (input_lengths, target_lengths):
        kind = lengths.dtype
        check(
            kind.category == 1,
            lambda of=kind: (
                f"ctc_loss: input_lengths and target_lengths must be integral, got {of}"
            ),
        )


@_ctc_loss_tensor.data_dependent(
    _check_ctc_tensors,
    layout=lambda shapes, log_probs, *rest: tuple([log_probs.fresh(s) for s in shapes]),
)
def _ctc_loss_tensor_kernel(
    xp: ModuleType,
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    *rest: Any,
) -> tuple[Array, Array]:
    lengths = _values(xp, input_lengths), _values(xp, target_lengths)
    _check_values(log_probs.shape, targets.shape, *lengths)
    return _ctc_loss_kernel(xp, log_probs, targets, *lengths, *rest)


def _values(xp: ModuleType, lengths: Array) -> Lengths:
    return tuple(to_host(xp, lengths).reshape(-1).tolist())


@_ctc_loss_backward_tensor.shape
def _ctc_loss_backward_tensor_shape(
    grad: TensorMeta,
    log_probs: TensorMeta,
    targets: TensorMeta,
    input_lengths: TensorMeta,
    target_lengths: TensorMeta,
    neg_log_likelihood: TensorMeta,
    log_alpha: TensorMeta,
    blank: int,
    zero_infinity: bool,
) -> TensorMeta:
    _check_ctc_tensors(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    return log_probs.like()


@_ctc_loss_backward_tensor.kernel
def _ctc_loss_backward_tensor_kernel(
    xp: ModuleType,
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    *rest: Any,
) -> Array:
    lengths = _values(xp, input_lengths), _values(xp, target_lengths)
    _check_values(log_probs.shape, targets.shape, *lengths)
    return _ctc_loss_backward_kernel(xp, grad, log_probs, targets, *lengths, *rest)


@_ctc_loss_tensor.derivative("log_probs")
def _ctc_loss_tensor_grad(
    grads: list[Tensor | None],
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    result0: Tensor,
    result1: Tensor,
    blank: int,
    zero_infinity: bool,
) -> tuple[object]:
    if grads[0] is None:
        return (None,)
    lengths = input_lengths, target_lengths
    of = (log_probs, targets, *lengths, result0, result1, blank, zero_infinity)
    return (_ctc_loss_backward_tensor(grads[0], *of),)


@_ctc_loss_tensor.batching
def ctc_loss_tensor_batching(
    info: VmapInfo,
    in_dims: Any,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *rest: Any,
) -> Any:
    size = info.batch_size
    given = _as_samples(size, log_probs, in_dims[0], targets, in_dims[1])
    lengths = _of_all(size, in_dims[2:4], input_lengths, target_lengths)
    results = _ctc_loss_tensor(*given, *lengths, *rest)
    return tuple([r.unflatten(0, (size, -1)) for r in results]), 0


def _of_all(size: int, dims: Any, *values: Tensor) -> list[Tensor]:
    """A number for each sequence of each example, as one vector."""
    return [to_front(n, d, size).flatten(0, 1) for n, d in zip(values, dims)]


@_ctc_loss_backward_tensor.batching
def ctc_loss_backward_tensor_batching(
    info: VmapInfo,
    in_dims: Any,
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    losses: Tensor,
    log_alpha: Tensor,
    *rest: Any,
) -> Any:
    size = info.batch_size
    frames, labels = _as_samples(size, log_probs, in_dims[1], targets, in_dims[2])
    (by_loss,) = _of_all(size, in_dims[:1], grad)
    each = _of_all(size, in_dims[3:7], input_lengths, target_lengths, losses, log_alpha)
    found = _ctc_loss_backward_tensor(by_loss, frames, labels, *each, *rest)
    assert isinstance(found, Tensor)
    return found.unflatten(1, (size, -1)), 1


_ctc_loss_tensor.nondifferentiable(1)
_ctc_loss_tensor.cost(lambda log_probs, *rest: Cost(flops=log_probs.numel))


# --- what users call -----------------------------------------------------------------


@ctc_loss.composite
def ctc_loss_composite(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    def losses(x: Tensor) -> Any:
        return _ctc_loss(x, targets, input_lengths, target_lengths, blank, zero_infinity)

    def counts() -> Tensor:
        return constant(list(target_lengths), int64).clamp_min(1)

    return _reduced(log_probs, losses, counts, reduction, zero_infinity)


@ctc_loss_tensor.composite
def ctc_loss_tensor_composite(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    def losses(x: Tensor) -> Any:
        return _ctc_loss_tensor(x, targets, input_lengths, target_lengths, blank, zero_infinity)

    def counts() -> Tensor:
        return target_lengths.clamp_min(1)

    return _reduced(log_probs, losses, counts, reduction, zero_infinity)


def _reduced(
    log_probs: Tensor,
    losses_of: Callable[[Tensor], Any],
    counts: Callable[[], Tensor],
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """The loss of each sequence, or their sum, or the mean of the losses a label."""
    batched = log_probs.meta.ndim == 3
    losses: Tensor = losses_of(log_probs if batched else log_probs.unsqueeze(1))[0]
    if zero_infinity:
        nothing = zeros_beside(losses, ())
        losses = aten.where(losses == float("inf"), nothing, losses)
    if reduction == MEAN:
        return (losses / counts().to(losses.device)).mean()
    if reduction == SUM:
        return losses.sum()
    return losses if batched else losses.squeeze(0)
