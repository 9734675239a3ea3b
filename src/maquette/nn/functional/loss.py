"""Losses that compare an output with a target: classes, values, probabilities.

Losses over pairs and triplets of embeddings are in `ranking.py`. `reduction` is 'none', 'mean' or
'sum'; the old flags `size_average` and `reduce` are read for the sake of old programs.
"""

import math
import warnings
from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.broadcast import broadcast_shapes
from maquette.library.advice import advised
from maquette.nn.functional._reduction import reduction_code, reduction_name
from maquette.tensor import Tensor


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits (batch, classes, *) with indices (batch, *) or probabilities."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    return mq.cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object | None = None,
) -> Tensor:
    """`cross_entropy` of `linear(input, linear_weight, linear_bias)` with the target.

    input: (features) or (batch, features); linear_weight: (classes, *dims, features), where dims
    are those of the loss, which then needs a batch. ignore_index: None stands for -100, or, with
    probabilities as the target, for none. options: how PyTorch cuts it into chunks to save memory;
    here they change nothing. Raises RuntimeError where the shapes do not go together.
    """
    classes = list(linear_weight.shape[:-1])
    _check_linear(input, linear_weight, linear_bias)
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if len(classes) > 1:
        linear_weight = linear_weight.flatten(0, -2)
        linear_bias = linear_bias if linear_bias is None else linear_bias.flatten()
    logits = mq.linear(input, linear_weight, linear_bias)
    logits = logits.reshape(*input.shape[:-1], *classes)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(logits, target, weight, None, ignored, None, reduction, label_smoothing)


def _check_linear(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    given, rows = tuple(input.shape), tuple(linear_weight.shape)
    if len(given) not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {len(given)}")
    if len(rows) < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {len(rows)}"
        )
    if given[-1] != rows[-1]:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got "
            f"{given[-1]} and {rows[-1]}, respectively"
        )
    if len(rows) > 2 and len(given) == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {rows} requires batched input, "
            f"(N, {rows[-1]}), got unbatched input with shape {given}"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != rows[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {rows[:-1]}, got {tuple(linear_bias.shape)}"
        )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of log-probabilities (batch, classes, *) at class indices."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    return mq.nll_loss_nd(input, target, weight, code, ignore_index)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared difference; with `weight`, the weighted sum over the sum of weights."""
    _warn_if_broadcast(input, target)
    reduction = reduction_name(size_average, reduce, reduction)
    values, targets = _aligned(input, target)
    if weight is None:
        return mq.mse_loss(values, targets, reduction_code(reduction))
    _check_weight(input, weight)
    return _weighted(mq.pow(values - targets, 2), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute difference; with `weight`, the weighted sum over the sum of weights."""
    _warn_if_broadcast(input, target)
    reduction = reduction_name(size_average, reduce, reduction)
    values, targets = _aligned(input, target)
    if weight is None:
        return mq.l1_loss(values, targets, reduction_code(reduction))
    _check_weight(input, weight)
    return _weighted(mq.abs(values - targets), weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Quadratic within `beta`, linear beyond, of slope one (Girshick 2015)."""
    _warn_if_broadcast(input, target)
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    values, targets = _aligned(input, target)
    if beta == 0.0:
        return mq.l1_loss(values, targets, code)
    return mq.smooth_l1_loss(values, targets, code, beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Quadratic within `delta`, linear beyond, of slope `delta`.

    With `weight` the mean is over elements, not over weights: so PyTorch defines it.
    """
    _warn_if_broadcast(input, target)
    values, targets = _aligned(input, target)
    code = reduction_code(reduction)
    if weight is None:
        return mq.huber_loss(values, targets, code, delta)
    _check_weight(input, weight)
    weighted = mq.huber_loss(values, targets, reduction_code("none"), delta) * weight
    return _reduced(weighted, reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of probabilities with targets in [0, 1]; ValueError for unequal shapes."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    _check_equal_shapes("binary_cross_entropy", input, target)
    if weight is not None:
        weight = weight.expand(broadcast_shapes(target.shape, weight.shape))
    return mq.binary_cross_entropy(input, target, weight, code)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without overflow; ValueError for unequal shapes."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    _check_equal_shapes("binary_cross_entropy_with_logits", input, target)
    return mq.binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence from log-probabilities `input` to probabilities `target`.

    reduction: also 'batchmean', the divergence itself; 'mean' divides by the elements too.
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size. 'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.",
            stacklevel=2,
        )
    reduction = reduction_name(size_average, reduce, reduction)
    code = reduction_code("sum" if reduction == "batchmean" else reduction)
    reduced = mq.kl_div(input, target, code, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        reduced = reduced / input.shape[0]
    return reduced


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of counts under rates; `full` adds Stirling's term."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    return mq.poisson_nll_loss(input, target, log_input, full, eps, code)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a normal of mean `input` and variance `var`, at least `eps`.

    var: of the input's shape, or without its last dimension, or with ones in it. ValueError for a
    negative variance; reading it needs data, so that a fake `var` must be a tensor known constant.
    """
    if reduction not in ("none", "mean", "sum"):
        raise advised(ValueError(f"{reduction} is not valid"), "Use 'none', 'mean' or 'sum'.")
    variance = _variance(input, var).clone()
    with no_grad():
        variance.clamp_(min=eps)
    loss = 0.5 * (mq.log(variance) + (input - target) ** 2 / variance)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def _variance(input: Tensor, var: Tensor | float) -> Tensor:
    negative = var < 0 if isinstance(var, float) else mq.any(var < 0)
    if negative:
        raise ValueError("gaussian_nll_loss: var has negative entry/entries.")
    if isinstance(var, float):
        return var * mq.ones_like(input)
    if var.shape == input.shape or _differs_by_one_size(input.shape, var.shape):
        return var
    if input.shape[:-1] == var.shape:
        return var.unsqueeze(-1)
    error = ValueError("var is of incorrect size")
    raise advised(error, f"It is {var.shape} for an input of {input.shape}.")


def _differs_by_one_size(shape: Sequence[int], other: Sequence[int]) -> bool:
    different = [size for size, expected in zip(other, shape) if size != expected]
    return len(shape) == len(other) and different == [1]


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy with logits, averaged over the classes (the last dimension)."""
    reduction = reduction_name(size_average, reduce, reduction)
    reduction_code(reduction)
    loss = -(target * mq.log_sigmoid(input) + (1 - target) * mq.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    classes = input.shape[input.dim() - 1]
    loss = loss.sum(dim=input.dim() - 1) / classes
    return _reduced(loss, reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge loss of scores (batch, classes) against one class each; p is 1 or 2."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    if p not in (1, 2):
        raise advised(ValueError("only p == 1 and p == 2 supported"), f"p is {p}.")
    if weight is not None and weight.dim() != 1:
        raise advised(ValueError("weight must be one-dimensional"), f"It is {weight.shape}.")
    return mq.multi_margin_loss(input, target, p, margin, weight, code)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge loss of scores against several classes each, listed up to the first -1."""
    code = reduction_code(reduction_name(size_average, reduce, reduction))
    return mq.multilabel_margin_loss(input, target, code)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al. 2006) of (time, batch, classes)."""
    code = reduction_code(reduction)
    return mq.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, code, zero_infinity
    )


def _warn_if_broadcast(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def _aligned(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if input.shape == target.shape:
        return input, target
    shape = tuple(broadcast_shapes(input.shape, target.shape))
    aligned = [t if tuple(t.shape) == shape else t.expand(shape) for t in (input, target)]
    return aligned[0], aligned[1]


def _check_equal_shapes(name: str, input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        if name == "binary_cross_entropy":
            raise ValueError(
                f"Using a target size ({target.shape}) that is different to the input size "
                f"({input.shape}) is deprecated. Please ensure they have the same size."
            )
        raise ValueError(
            f"{name}: Target size ({target.shape}) must be the same as input size ({input.shape})"
        )


def _check_weight(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise ValueError(
            f"Weights and input must have the same size; got {weight.shape} and {input.shape}."
        )


def _weighted(errors: Tensor, weight: Tensor, reduction: str) -> Tensor:
    errors = errors * weight
    if reduction == "mean":
        return errors.sum() / weight.sum()
    return _reduced(errors, reduction)


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    reduction_code(reduction)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
