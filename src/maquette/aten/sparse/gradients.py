"""Gradients of look-ups as COO tensors: the rows that were read, and nothing of the rest."""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.core.dtype import int64
from maquette.core.errors import check, check_not_implemented
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

embedding_sparse_backward = define(
    "aten::embedding_sparse_backward(Tensor grad, Tensor indices, int num_weights, int "
    "padding_idx, bool scale_grad_by_freq) -> Tensor"
)


@embedding_sparse_backward.composite
def embedding_sparse_backward_composite(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    check(
        not scale_grad_by_freq,
        lambda: "embedding_backward: scale_grad_by_freq not supported with sparse gradients",
    )
    rows = indices.reshape((-1,))
    values = grad.reshape((rows.size(0), grad.size(-1)))
    if padding_idx != -1:
        kept = (rows != padding_idx).nonzero().reshape((-1,))
        rows, values = rows.index_select(0, kept), values.index_select(0, kept)
    found: Tensor = aten._sparse_coo_tensor_unsafe(
        rows.to(int64).unsqueeze(0), values, (num_weights, grad.size(-1))
    )
    return found


_bag = define(
    "aten::_embedding_bag_sparse_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor "
    "offset2bag, Tensor bag_size, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? "
    "per_sample_weights, int padding_idx=-1) -> Tensor"
)


@_bag.composite
def _bag_composite(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    check_not_implemented(
        mode in (0, 1),
        lambda: "embedding_bag: a sparse gradient of mode 'max' is not supported; use sparse=False",
    )
    if mode == 1:
        grad = grad / bag_size.clamp(min=1).to(grad.dtype).unsqueeze(1)
    positions = aten.arange(indices.size(0), device=indices.device)
    bounds = offsets[: grad.size(0)].contiguous()
    bag = aten.searchsorted(bounds, positions.to(bounds.dtype), right=True) - 1
    values = grad.index_select(0, bag)
    if per_sample_weights is not None:
        values = values * per_sample_weights.unsqueeze(1)
    return embedding_sparse_backward_composite(
        values, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def gather_sparse_gradient(grad: Tensor, shape: tuple[int, ...], dim: int, index: Tensor) -> Tensor:
    """The gradient of ``gather`` at the places that it read."""
    if not shape:
        made: Tensor = aten._sparse_coo_tensor_unsafe(
            index.new_empty((0, grad.numel())), grad.reshape((-1,)), ()
        )
        return made
    if not index.shape:  # one place of a vector
        index = index.reshape((1,))
    rows = []
    for d, extent in enumerate(index.shape):
        if d == dim % len(shape):
            rows.append(index.reshape((-1,)))
            continue
        view = [1] * index.ndim
        view[d] = extent
        numbers = aten.arange(extent, device=index.device).view(view)
        rows.append(numbers.expand(index.shape).reshape((-1,)))
    found: Tensor = aten._sparse_coo_tensor_unsafe(aten.stack(rows), grad.reshape((-1,)), shape)
    return found


_gather = define(
    "aten::_gather_sparse_backward(Tensor self, int dim, Tensor index, Tensor grad) -> Tensor"
)
_gather.composite(
    lambda self, dim, index, grad: gather_sparse_gradient(grad, self.shape, dim, index)
)
