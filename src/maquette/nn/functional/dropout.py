"""Dropout: of elements, of whole channels, and in the form that keeps a selu network normalized.

The random mask and the rescaling are operators. Lives here: the check of `p`, the dimensions that
each form takes.
"""

import warnings

from maquette.api import functions as mq
from maquette.tensor import Tensor


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p and divide the others by 1 - p; nothing if not training."""
    check_probability(p)
    return mq.dropout_(input, p, training) if inplace else mq.dropout(input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of selu activations (Klambauer et al. 2017)."""
    check_probability(p)
    return (mq.alpha_dropout_ if inplace else mq.alpha_dropout)(input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels."""
    check_probability(p)
    op = mq.feature_alpha_dropout_ if inplace else mq.feature_alpha_dropout
    return op(input, p, training)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of (batch, channels, length) or (channels, length).

    Raises RuntimeError for other numbers of dimensions.
    """
    check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. It "
            "drops whole channels; use dropout to drop elements."
        )
    if input.dim() == 3:
        return _drop_channels(input, p, training, inplace)
    # A channel is dropped for each sample: without a batch there must be a batch of one.
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _drop_channels(batch, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of (batch, channels, height, width).

    A 3-d input is taken as (batch, channels, length), with a warning: PyTorch does, for the sake
    of old programs, though the documentation of the layer suggests otherwise.
    """
    check_probability(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, where (batch, channels, "
            "height, width) was expected. Use dropout1d or dropout.",
            stacklevel=2,
        )
    elif input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d, assuming that channel-wise 1D dropout "
            "behavior is desired: use dropout1d for that, or unsqueeze a single sample.",
            stacklevel=2,
        )
    return _drop_channels(input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of (batch, channels, depth, height, width), the batch optional.

    Warns for other numbers of dimensions.
    """
    check_probability(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, where 4 or 5 dimensions "
            "were expected. Use dropout.",
            stacklevel=2,
        )
    if input.dim() == 5:
        return _drop_channels(input, p, training, inplace)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _drop_channels(batch, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    return (mq.feature_dropout_ if inplace else mq.feature_dropout)(input, p, training)


def check_probability(p: float) -> None:
    """ValueError unless 0 <= p <= 1."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
