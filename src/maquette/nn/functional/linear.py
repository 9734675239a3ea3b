"""Linear maps: dense, bilinear, and the look-up of rows that an embedding is.

The products themselves are operators; what lives here is what comes before one: normalizing a
padding index, renormalizing touched rows, choosing how bags are laid out.
"""

import warnings

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.core.dtype import dtype, int64
from maquette.tensor import Tensor

_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (*, in_features) with (out_features, in_features)."""
    return mq.linear(input, weight, bias)


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: dtype | None = None,
) -> Tensor:
    """Products of groups: rows of mat_a (m, k) up to ``offs[g]`` with mat_b[g] (k, n).

    offs: (groups,), int32, where each group ends: along the rows of mat_a, the columns of mat_b
    (mat_a is (groups, m, k) then), or what two matrices sum over; None for two batches.
    """
    return mq._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1' A x2 + b for each of the matrices A of `weight`: (out, in1, in2)."""
    return mq.bilinear(input1, input2, weight, bias)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` (rows, width) at the integer `input` (*): shape (*, width).

    padding_idx: a row that gets no gradient, negative from the end. max_norm: rows used are first
    rescaled, in place and outside autograd, to at most this norm.

    Raises AssertionError when padding_idx lies outside the rows.
    """
    row = -1
    if padding_idx is not None:
        row = padding_row("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        input = input.contiguous()  # the operator walks the indices as they lie
        _renorm_rows(weight, input, max_norm, norm_type)
    return mq.embedding(weight, input, row, scale_grad_by_freq, sparse)


def padding_row(name: str, padding_idx: int, rows: int) -> int:
    """`padding_idx` counted from the front; AssertionError if there is no such row.

    As in PyTorch 0 passes for no rows, too: who writes to that row is refused then.
    """
    if padding_idx and not -rows <= padding_idx < rows:
        what = "padding_idx" if name == "EmbeddingBag" else "Padding_idx"
        raise AssertionError(
            f"{name}: {what} must be within num_embeddings; got {padding_idx}, and there "
            f"are {rows} embeddings."
        )
    return padding_idx + rows if padding_idx < 0 else padding_idx


def _renorm_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    with no_grad():
        mq.embedding_renorm_(weight.detach(), input, max_norm, norm_type)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Reduce the embeddings of each bag of indices to one row: shape (bags, width).

    A 2-d `input` holds one bag a row; a 1-d one is cut at `offsets`. `mode` is sum, mean or max.

    Raises ValueError for shapes that do not fit, NotImplementedError for weighted samples with a
    mode other than sum.
    """
    if weight.dtype is int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        input, weight = weight, input
    _check_bags(input, weight, per_sample_weights, mode, scale_grad_by_freq, sparse)
    if input.dim() == 2:
        offsets = _row_offsets(input, offsets)
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif offsets is None or offsets.dim() != 1:
        found = "None" if offsets is None else f"{offsets.dim()}D"
        raise ValueError(f"embedding_bag: offsets has to be a 1D Tensor; got {found}.")
    if max_norm is not None:
        _renorm_rows(weight, input, max_norm, norm_type)
    return mq.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _BAG_MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]


def _row_offsets(input: Tensor, offsets: Tensor | None) -> Tensor:
    if offsets is not None:
        raise ValueError(
            "embedding_bag: if input is 2D, then offsets has to be None, as each row is a bag; "
            f"got offsets of type {type(offsets).__name__}."
        )
    return mq.arange(0, input.numel(), input.shape[1], dtype=input.dtype, device=input.device)


def _check_bags(
    input: Tensor,
    weight: Tensor,
    per_sample_weights: Tensor | None,
    mode: str,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> None:
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
            f"then it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        found = weight.dim()
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {found}")
    if input.dim() not in (1, 2):
        found = input.dim()
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {found}")
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max; got {mode!r}.")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: max mode does not support scaling the gradient.")
    if mode == "max" and sparse:
        raise ValueError("embedding_bag: max mode does not support sparse weights.")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights is only supported for mode='sum'; got {mode!r}."
        )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension with a one at each index, as int64; -1 takes the largest index + 1."""
    return mq.one_hot(tensor, num_classes)
