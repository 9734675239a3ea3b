"""Normalization over batches, layers, groups, instances and channels.

What lives here: refusing a training batch whose statistics would be of one value, and the forms
that are composed of other operators (`normalize`, `local_response_norm`). The rest are operators.
"""

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.tensor import Tensor

# PyTorch hands its operators the switch `torch.backends.cudnn.enabled`, which is on by default and
# changes a choice of kernel that we do not have; its schemas keep the argument.
_CUDNN_ENABLED = True


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel (dimension 1), by the batch in training, else by running statistics.

    In training the running statistics, where given, move by `momentum`, in place.

    Raises ValueError when training on one value a channel, and for an `eps` that is negative, or
    zero in training.
    """
    if training:
        _check_more_than_one_value("batch_norm", input.shape, _values_per_channel(input.shape))
    if eps < 0.0 or (training and eps == 0.0):
        least = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm: eps must be {least}, but got {eps}.")
    return mq.batch_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        momentum,
        eps,
        _CUDNN_ENABLED,
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of each sample over its space.

    Raises ValueError when the space, whose statistics are asked for, is a single value.
    """
    if use_input_stats:
        values = _product(input.shape[2:])
        _check_more_than_one_value("instance_norm", input.shape, values)
    return mq.instance_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        use_input_stats,
        momentum,
        eps,
        _CUDNN_ENABLED,
    )


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize over the trailing dimensions `normalized_shape` (Ba et al. 2016)."""
    return mq.layer_norm(input, normalized_shape, weight, bias, eps, _CUDNN_ENABLED)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide by the root mean square over the trailing dimensions (Zhang and Sennrich 2019)."""
    return mq.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each sample over groups of channels (Wu and He 2018).

    Raises RuntimeError for fewer than two dimensions, ValueError when each group is one value.
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    values = _product((input.shape[0] * input.shape[1] // num_groups, *input.shape[2:]))
    _check_more_than_one_value("group_norm", input.shape, values)
    return mq.group_norm(input, num_groups, weight, bias, eps, _CUDNN_ENABLED)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    Shapes (batch, channels, *space) with at least one dimension of space; else ValueError.
    """
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: expected at least 3 dimensions; got {input.dim()}.")
    if input.numel() == 0:
        return input
    # One name throughout: each temporary is free once the next one stands.
    scale = input.mul(input)
    padding = (size // 2, (size - 1) // 2)
    if input.dim() == 3:
        scale = scale.unsqueeze(1)
        scale = mq.pad(scale, (0, 0, *padding))
        scale = mq.avg_pool2d(scale, (size, 1), stride=1).squeeze(1)
    else:
        n, c, d = input.shape[:3]
        scale = scale.view(n, 1, c, d, -1)
        scale = mq.pad(scale, (0, 0, 0, 0, *padding))
        scale = mq.avg_pool3d(scale, (size, 1, 1), stride=1).squeeze(1)
        scale = scale.view(input.shape)
    scale = scale.mul(alpha).add(k).pow(beta)
    return input / scale


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide by the p-norm along `dim`, or by `eps` where that is larger."""
    norm = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norm.clamp_min(eps).expand_as(input)
    return mq.div(input, norm.clamp_min_(eps).expand_as(input), out=out)


def _values_per_channel(shape: Sequence[int]) -> int:
    return shape[0] * _product(shape[2:])


def _product(sizes: Sequence[int]) -> int:
    # Not math.prod: a symbolic size must see its own multiplication.
    result = 1
    for size in sizes:
        result = result * size
    return result


def _check_more_than_one_value(name: str, shape: Sequence[int], values: int) -> None:
    if values == 1:
        raise ValueError(
            f"{name}: Expected more than 1 value per channel when training, got input size "
            f"{shape}: the variance of one value is zero. Use a larger batch or eval()."
        )
