"""Rows of a table by number, the gradient that adds up in them, and renormalizing the rows used.

Bags of rows are in `embedding_bag.py`, gradients as sparse tensors in `aten/sparse/gradients.py`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import combined_at, data_says
from maquette.aten.common.batching_forms import to_front
from maquette.aten.common.narrow_floats import converted
from maquette.aten.common.operators import aten
from maquette.core.device_rules import any_elsewhere
from maquette.core.dtype import int32, int64
from maquette.core.errors import check, of_data
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo


def check_indices(name: str, indices: TensorMeta) -> None:
    """Refuse indices that are not int64 or int32."""
    check(
        indices.dtype in (int64, int32),
        lambda: (
            f"Expected tensor for argument #1 'indices' to have one of the following scalar "
            f"types: Long, Int; but got {indices.dtype.scalar_name} instead (while checking "
            f"arguments for {name})"
        ),
    )


def checked_rows(xp: ModuleType, indices: Array, rows: int) -> Array:
    """The indices, all within the table; IndexError otherwise."""
    if indices.size and data_says(lambda: indices.min() < 0 or indices.max() >= rows):
        wrong = int(indices.min()) if int(indices.min()) < 0 else int(indices.max())
        raise of_data(IndexError(f"index out of range in self: {wrong} for a table of {rows} rows"))
    return indices


embedding = define(
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    tags=[Tag.core],
)
embedding.describe(
    "The rows of `weight` at positions `indices`: the shape of `indices`, and a last dimension."
)


@embedding.shape
def embedding_shape(
    weight: TensorMeta,
    indices: TensorMeta,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> TensorMeta:
    check_advised(
        check, weight.ndim == 2, lambda: "'weight' must be 2-D", lambda: f"It is {weight}."
    )
    check_indices("embedding", indices)
    return weight.fresh((*indices.shape, weight.shape[1]))


def _may_be_apart(weight: TensorMeta, indices: TensorMeta, *rest: object) -> bool:
    """One of the two may be meta beside another device (F57)."""
    types = (weight.device.type, indices.device.type)
    return types == ("meta", "cpu") or ("meta" in types and any_elsewhere((weight, indices)))


embedding.any_device(when=_may_be_apart)


@embedding.kernel
def embedding_kernel(
    xp: ModuleType,
    weight: Array,
    indices: Array,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Array:
    return weight[checked_rows(xp, indices, weight.shape[0])]


@embedding.linear("weight")
def embedding_weight_gradient(
    grad: Tensor,
    indices: Tensor,
    weight_meta: TensorMeta,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> tuple[Tensor]:
    if sparse:
        check(
            not scale_grad_by_freq,
            lambda: "embedding_backward: scale_grad_by_freq not supported with sparse gradients",
        )
        found: Tensor = aten.embedding_sparse_backward(
            grad, indices, weight_meta.shape[0], padding_idx, scale_grad_by_freq
        )
        return (found,)
    return (
        embedding_dense_backward(
            grad, indices, weight_meta.shape[0], padding_idx, scale_grad_by_freq
        ),
    )


embedding.real_derivative()


@embedding.tangent
def embedding_tangent(weight_t: Tensor, indices: Tensor, sparse: bool) -> Tensor:
    """All rows move, the padding's too: only gradients leave it out, or count how often it is read.

    So what transposes the tangent, as `linearize` does twice, finds all of them.
    """
    return embedding(weight_t, indices, -1, False, sparse)


@embedding.batching
def embedding_batching(
    info: VmapInfo,
    in_dims: Any,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    options = (scale_grad_by_freq, sparse)
    of_weight, of_indices = in_dims[:2]
    if of_weight is None:
        return embedding(weight, indices, padding_idx, *options), of_indices
    size = info.batch_size
    tables = to_front(weight, of_weight)
    width = tables.meta.shape[-1]
    beside = tables.movedim(0, 1).flatten(1)  # one table, of the rows of all tables side by side
    if of_indices is None:
        out = embedding(beside, indices, padding_idx, *options)
        return out.unflatten(-1, (size, width)), indices.meta.ndim
    index = to_front(indices, of_indices)
    ones = [1] * (index.meta.ndim - 1)
    member = aten.arange(size, device=index.device).reshape([size, *ones])
    if scale_grad_by_freq:  # rows of one long table, which count how often they are read
        count = tables.meta.shape[1]
        own = aten.where((index >= 0) & (index < count), index + member * count, -1)
        rows = embedding(tables.flatten(0, 1), own, -1, True, sparse)
    else:
        rows = aten.index.Tensor(tables, [member, index])
    if padding_idx < 0:
        return rows, 0
    # Read by the operator itself, which lets tangents through and keeps the gradient.
    padding = embedding(beside[padding_idx : padding_idx + 1], index.new_zeros(()), 0)
    padding = padding.reshape([size, *ones, width])
    return aten.where((index == padding_idx).unsqueeze(-1), padding, rows), 0


embedding_dense_backward = define(
    "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
    "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
    tags=[Tag.core],
)


@embedding_dense_backward.shape
def embedding_dense_backward_shape(
    grad_output: TensorMeta,
    indices: TensorMeta,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> TensorMeta:
    check_indices("embedding_backward", indices)
    check(
        grad_output.ndim > 0,
        lambda: f"embedding_dense_backward: expected a gradient for each row, got {grad_output}",
    )
    width = grad_output.shape[-1]
    check(
        grad_output.numel == indices.numel * width,
        lambda: (
            f"shape '[{indices.numel}, {width}]' is invalid for input of size "
            f"{grad_output.numel} (embedding_dense_backward of {grad_output} for {indices})"
        ),
    )
    return grad_output.fresh((num_weights, width))


@embedding_dense_backward.kernel
def embedding_dense_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    indices: Array,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Array:
    rows = indices.reshape(-1)
    values = wide(grad_output).reshape(rows.size, grad_output.shape[-1])
    kept = rows != padding_idx
    if padding_idx >= 0:
        values = xp.where(kept[:, None], values, values.dtype.type(0))
        rows = xp.where(kept, rows, 0)
    rows = checked_rows(xp, rows, num_weights)
    if scale_grad_by_freq:
        ones = kept.astype(xp.int64)
        counts = combined_at(xp, "add", xp.zeros(num_weights, xp.int64), rows, ones)
        # Rows of the padding are zero: what they are counted at may not be there at all.
        values = values / xp.maximum(counts[rows], 1).astype(values.dtype)[:, None]
    # Added up in the gradient's own type, one by one, as PyTorch does and `index_add` too.
    result: Array = xp.zeros((num_weights, values.shape[1]), grad_output.dtype)
    return combined_at(xp, "add", result, rows, converted(values, grad_output.dtype))


embedding_dense_backward.linear(
    grad_output=lambda grad, indices, padding_idx, scale_grad_by_freq: _dense_backward_gradient(
        grad, indices, padding_idx, scale_grad_by_freq
    )
)


@embedding_dense_backward.batching_decomposition
def embedding_dense_backward_batching(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, by_frequency: bool
) -> Tensor:
    width = grad.shape[-1]
    flat, rows = indices.reshape(-1), grad.reshape(-1, width)
    if by_frequency:
        rows = rows / _frequencies(flat)
    if padding_idx >= 0:
        rows = rows.masked_fill((flat == padding_idx).unsqueeze(-1), 0)
    return aten.index_put(rows.new_zeros((num_weights, width)), [flat], rows, True)


def _frequencies(flat: Tensor) -> Tensor:
    """How often each index is there, as a column."""
    return (flat.unsqueeze(-1) == flat).sum(-1, True)


def _dense_backward_gradient(
    grad: Tensor, indices: Tensor, padding_idx: int, by_frequency: bool
) -> Tensor:
    rows = grad.index_select(0, indices.reshape([-1]))
    if by_frequency:  # PyTorch's second derivative leaves this out
        rows = rows / _frequencies(indices.reshape([-1]))
    if padding_idx >= 0:
        rows = rows.masked_fill(indices.reshape([-1, 1]) == padding_idx, 0)
    return rows.reshape([*indices.shape, grad.shape[1]])


embedding_renorm_ = define(
    "aten::embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) "
    "-> Tensor(a!)",
    tags=[Tag.inplace],
)
embedding_renorm_.describe(
    "Scale those rows at positions `indices` down whose norm exceeds `max_norm`."
)


@embedding_renorm_.shape
def embedding_renorm_shape(
    self: TensorMeta, indices: TensorMeta, max_norm: float, norm_type: float
) -> TensorMeta:
    check_advised(check, self.ndim == 2, lambda: "'self' must be 2-D", lambda: f"It is {self}.")
    check_indices("embedding_renorm_", indices)
    check(
        self.dtype.category > 1,
        lambda: f"norm(): input dtype should be either floating point or complex. Got {self}.",
    )
    return self


@embedding_renorm_.kernel
def embedding_renorm_kernel(
    xp: ModuleType, self: Array, indices: Array, max_norm: float, norm_type: float
) -> None:
    rows = xp.unique(checked_rows(xp, indices, self.shape[0]))
    norms = xp.linalg.norm(wide(self[rows]), norm_type, axis=1)
    over = norms > max_norm
    scale = max_norm / (norms[over] + 1e-7)
    self[rows[over]] = converted(wide(self[rows[over]]) * scale[:, None], self.dtype)
