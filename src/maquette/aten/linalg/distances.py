"""Distances between all rows: cdist between two sets, pdist within one.

Distances of two rows, element by element, are in `loss_composites.py`.
"""

from __future__ import annotations

import math
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import combined_at
from maquette.aten.common.axes import Array
from maquette.aten.common.backward_checks import check_floats_only, check_sizes
from maquette.aten.common.batching_forms import solving
from maquette.aten.common.element_types import check_no_halves_on_cpu
from maquette.aten.common.large_arrays import LARGE
from maquette.aten.common.operators import aten
from maquette.aten.reduction.vector_norms import norm_array
from maquette.core.broadcast import broadcast_shapes
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.strides import has_no_elements
from maquette.core.symbols import is_true
from maquette.dispatch.guards import AutoDispatchBelowADInplaceOrView
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.backend import backend_for
from maquette.tensor.tensor import Tensor

# Above this many rows PyTorch takes euclidean distances by a matrix product.
_MANY = 25
_BY_PRODUCT = 1
_AS_IT_FITS = 0

_DIFFERENCES_AT_ONCE = 1 << 17  # elements that stay in a core's cache


# --- between two sets ----------------------------------------------------------------


def _check_pairs(x1: TensorMeta, x2: TensorMeta, p: float) -> None:
    for name, x in (("X1", x1), ("X2", x2)):
        _check_matrix(name, x)
    check(
        x1.shape[-1] == x2.shape[-1],
        lambda: (
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        ),
    )
    check(p >= 0, lambda: f"cdist only supports non-negative p values; got p={p}")


def _check_matrix(name: str, x: TensorMeta) -> None:
    check(x.ndim >= 2, lambda: f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    check(
        x.dtype.is_floating_point,
        lambda: f"cdist only supports floating-point dtypes, {name} got: {x.dtype.scalar_name}",
    )


_cdist_forward = define(
    "aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
    tags=[Tag.core],
)
_cdist_forward.node_name("CdistBackward0")
_cdist_backward = define(
    "aten::_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor"
)


@_cdist_forward.shape
def _cdist_forward_shape(
    x1: TensorMeta, x2: TensorMeta, p: float, compute_mode: int | None
) -> TensorMeta:
    _check_pairs(x1, x2, p)
    if not is_true(x1.numel == 0) and not is_true(x2.numel == 0):
        check_no_halves_on_cpu("cdist", x1)
        check_no_halves_on_cpu("cdist", x2)
    batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.fresh((*batch, x1.shape[-2], x2.shape[-2]))


@_cdist_forward.kernel
def _cdist_forward_kernel(
    xp: ModuleType, x1: Array, x2: Array, p: float, compute_mode: int | None
) -> Array:
    if not x1.shape[-1]:
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return xp.zeros((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
    sides = _sides(xp, x1, x2, p)
    if sides is not None:
        loops, first, second, batch = sides
        distances: Array = loops.distances_between(first, second, p)
        return distances.reshape(*batch, *distances.shape[1:])
    found = []
    for rows in _in_cache(xp, x1, x2):
        difference = x1[..., rows, None, :] - x2[..., None, :, :]
        found.append(norm_array(xp, difference, p, (difference.ndim - 1,), False))
    return found[0] if len(found) == 1 else xp.concatenate(found, -2)


_LOOPED = (0, 1, 2, math.inf)


def _sides(
    xp: ModuleType, x1: Array, x2: Array, p: float
) -> tuple[ModuleType, Array, Array, tuple[int, ...]] | None:
    """The compiled loops for many pairs, both sets of rows in one batch dimension, and the batch.

    None where there are no loops for them.
    """
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]) if xp is np else ()
    pairs = prod(batch) * x1.shape[-2] * x2.shape[-2]
    if (
        xp is not np
        or p not in _LOOPED
        or pairs * x1.shape[-1] < LARGE
        or x1.dtype.char not in "fd"
    ):
        return None
    loops = backend_for(xp).loops if x2.dtype == x1.dtype else None
    if loops is None:
        return None
    first, second = (
        np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (x1, x2)
    )
    return loops, first, second, batch


def _slopes(grad: Array, p: float, distances: Array) -> Array:
    """What loops multiply differences, or their signs, by."""
    if p != 2:
        return grad
    still = distances == 0
    found: Array = np.where(still, 0, grad / np.where(still, 1, distances))
    return found.astype(grad.dtype, copy=False)


def _in_cache(xp: ModuleType, x1: Array, x2: Array) -> list[slice]:
    """The rows of ``x1`` in parts whose differences from all of ``x2`` stay in the cache.

    23.6 to 12 ms of [512, 64] and as many.
    """
    count = x1.shape[-2]
    each = x2.size * max(1, prod(x1.shape[:-2]))
    step = max(1, _DIFFERENCES_AT_ONCE // max(each, 1)) if xp is np else max(count, 1)
    return [slice(start, start + step) for start in range(0, max(count, 1), step)]


def _pull(xp: ModuleType, grad: Array, difference: Array, p: float, distance: Array) -> Array:
    """The gradient of every distance by every coordinate of its difference."""
    d, g, length = difference, grad[..., None], distance[..., None]
    with np.errstate(all="ignore"):
        if p == 0:
            return xp.zeros(xp.broadcast_shapes(d.shape, g.shape), d.dtype)
        if p == 1:
            return xp.sign(d) * g
        if math.isinf(p):
            return xp.sign(d) * (xp.abs(d) == length) * g
        if p < 1:
            slope = xp.where(d == 0, 0, xp.sign(d) * xp.abs(d) ** (p - 1) * length ** (1 - p))
        elif p < 2:
            slope = xp.sign(d) * xp.abs(d) ** (p - 1) / length ** (p - 1)
        else:
            slope = d * xp.abs(d) ** (p - 2) / length ** (p - 1)
        found: Array = xp.where(length == 0, 0, slope * g)
    return found


@_cdist_backward.shape
def _cdist_backward_shape(
    grad: TensorMeta, x1: TensorMeta, x2: TensorMeta, p: float, cdist: TensorMeta
) -> TensorMeta:
    _check_pairs(x1, x2, p)
    batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    pairs = (*batch, x1.shape[-2], x2.shape[-2])
    check_sizes("_cdist_backward", "a gradient", grad, pairs)
    check_sizes("_cdist_backward", "distances", cdist, pairs)
    check_floats_only("_cdist_backward", grad, cdist)
    if any(map(has_no_elements, (grad.shape, x1.shape, x2.shape))):
        return x1.fresh(x1.shape)
    return x1.fresh((*batch, *x1.shape[-2:]))


@_cdist_backward.kernel
def _cdist_backward_kernel(
    xp: ModuleType, grad: Array, x1: Array, x2: Array, p: float, cdist: Array
) -> Array:
    if not grad.size or not x1.size or not x2.size:
        return xp.zeros(x1.shape, x1.dtype)
    if not p:
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return xp.zeros((*batch, *x1.shape[-2:]), x1.dtype)
    sides = _sides(xp, x1, x2, p) if {grad.dtype, cdist.dtype} == {x1.dtype} else None
    if sides is not None:
        loops, first, second, batch = sides
        shape = (len(first), *grad.shape[-2:])
        slopes, most = _slopes(grad, p, cdist).reshape(shape), cdist.reshape(shape)
        pulls: Array = loops.pulls_between(first, second, slopes, p, most)
        return pulls.reshape(*batch, *pulls.shape[1:])
    found = []
    for rows in _in_cache(xp, x1, x2):
        difference = x1[..., rows, None, :] - x2[..., None, :, :]
        pulled = _pull(xp, grad[..., rows, :], difference, p, cdist[..., rows, :])
        found.append(pulled.sum(axis=-2))
    return found[0] if len(found) == 1 else xp.concatenate(found, -2)


_cdist_backward.batching(solving)


_cdist_forward.derivative(
    x1=lambda grad, x1, x2, p, result: _cdist_backward(grad, x1, x2, p, result),
    x2=lambda grad, x1, x2, p, result: _cdist_backward(
        grad.transpose(-2, -1).contiguous(), x2, x1, p, result.transpose(-2, -1).contiguous()
    ),
)
_cdist_forward.cost(lambda x1, x2, p, mode, out: Cost(flops=3 * out.numel * x1.shape[-1]))


@_cdist_forward.batching_decomposition
def cdist_batching(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return aten.linalg_vector_norm(difference, p, [-1])


_euclidean_dist = define("aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor")


@_euclidean_dist.explicit
def _euclidean_dist_explicit(x1: Tensor, x2: Tensor) -> Tensor:
    """By ``|a|² - 2ab + |b|²``, in one matrix product."""
    first, second = x1.pow(2).sum((-1,), True), x2.pow(2).sum((-1,), True)
    left: Tensor = aten.cat([x1 * -2, first, first.new_ones(first.meta.shape)], -1)
    right: Tensor = aten.cat([x2, second.new_ones(second.meta.shape), second], -1)
    squares = left.matmul(right.transpose(-2, -1))
    with AutoDispatchBelowADInplaceOrView():  # what is returned is new, not mutated
        return squares.clamp_min_(0).sqrt_()


@_euclidean_dist.derivative("x1", "x2")
def _euclidean_dist_grad(
    grad: Tensor, x1: Tensor, x2: Tensor, result: Tensor
) -> tuple[Tensor, Tensor]:
    ratio = (grad / result).masked_fill(result == 0, 0)
    return (
        x1 * ratio.sum((-1,), True) - ratio.matmul(x2),
        x2 * ratio.sum((-2,), False).unsqueeze(-1) - ratio.transpose(-2, -1).matmul(x1),
    )


cdist = define("aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor")
cdist.describe(
    "The distances of order `p` of each row of `x1` to each of `x2`: [..., n, k] and "
    "[..., m, k] give [..., n, m]."
)
cdist.autocast("float32")


@cdist.composite
def cdist_composite(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> object:
    _check_pairs(x1.meta, x2.meta, p)
    mode = _AS_IT_FITS if compute_mode is None else compute_mode
    rows = max(x1.meta.shape[-2], x2.meta.shape[-2])
    if p != 2 or not (mode == _BY_PRODUCT or (mode == _AS_IT_FITS and rows > _MANY)):
        return _cdist_forward(x1, x2, p, compute_mode)
    batch = broadcast_shapes(x1.meta.shape[:-2], x2.meta.shape[:-2])
    if 0 in (*x1.meta.shape, *x2.meta.shape, *batch):
        return _cdist_forward(x1, x2, p, compute_mode)  # zeros, which keep their place in the graph
    count = prod(batch)
    sides = []
    for x in (x1, x2):  # one batch dimension
        sizes = x.meta.shape[-2:]
        sides.append(x.expand((*batch, *sizes)).contiguous().view((count, *sizes)))
    pair = (x1, x2) if is_true(count == 1) else sides
    distances = _euclidean_dist(*pair)
    assert isinstance(distances, Tensor)
    return distances.view((*batch, x1.meta.shape[-2], x2.meta.shape[-2]))


# --- within one set ------------------------------------------------------------------

_pdist_forward = define("aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", tags=[Tag.core])
_pdist_forward.node_name("PdistBackward0")
_pdist_backward = define(
    "aten::_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor"
)
pdist = define("aten::pdist(Tensor self, float p=2.) -> Tensor")
pdist.describe("The distances of order `p` of all pairs of rows: a vector of ``n * (n - 1) / 2``.")
pdist.autocast(cuda="float32")


@_pdist_forward.shape
def _pdist_forward_shape(self: TensorMeta, p: float) -> TensorMeta:
    check(self.ndim == 2, lambda: f"pdist only supports 2D tensors, got: {self.ndim}D")
    check(
        self.dtype.is_floating_point,
        lambda: f"pdist only supports floating-point dtypes; got {self}",
    )
    check(p >= 0, lambda: f"pdist only supports non-negative p values; got p={p}")
    if not is_true(self.numel == 0):
        check_no_halves_on_cpu("pdist", self)
    rows = self.shape[0]
    return self.fresh((rows * (rows - 1) // 2,))


def _row_pairs(xp: ModuleType, self: Array) -> tuple[Array, Array, Array]:
    """The rows of each pair and their difference, in the order of the upper triangle."""
    first, second = xp.triu_indices(len(self), 1)
    return first, second, self[first] - self[second]


def _loops_of_pairs(xp: ModuleType, self: Array) -> ModuleType | None:
    """The compiled loops for many pairs of rows of single or double numbers."""
    if xp is not np or len(self) ** 2 < LARGE or self.dtype.char not in "fd":
        return None
    return backend_for(xp).loops


@_pdist_forward.kernel
def _pdist_forward_kernel(xp: ModuleType, self: Array, p: float) -> Array:
    loops = _loops_of_pairs(xp, self) if p in _LOOPED else None
    if loops is not None:
        distances: Array = loops.pair_distances(self, p)
        return distances
    _, _, difference = _row_pairs(xp, self)
    if not difference.size:
        return xp.zeros(len(difference), self.dtype)
    return norm_array(xp, difference, p, (1,), False)


@_pdist_backward.shape
def _pdist_backward_shape(
    grad: TensorMeta, self: TensorMeta, p: float, pdist: TensorMeta
) -> TensorMeta:
    pairs = _pdist_forward_shape(self, p).shape
    check_sizes("_pdist_backward", "a gradient", grad, pairs)
    check_sizes("_pdist_backward", "distances", pdist, pairs)
    check_floats_only("_pdist_backward", grad, pdist)
    return self.fresh(self.shape)


@_pdist_backward.kernel
def _pdist_backward_kernel(
    xp: ModuleType, grad: Array, self: Array, p: float, pdist: Array
) -> Array:
    if not p:
        return xp.zeros(self.shape, self.dtype)
    alike = p in _LOOPED and {grad.dtype, pdist.dtype} == {self.dtype}
    loops = _loops_of_pairs(xp, self) if alike else None
    if loops is not None:
        pulled: Array = loops.pair_gradients(self, _slopes(grad, p, pdist), p, pdist)
        return pulled
    first, second, difference = _row_pairs(xp, self)
    pulls = _pull(xp, grad, difference, p, pdist)
    found: Array = xp.zeros(self.shape, self.dtype)
    found = combined_at(xp, "add", found, first, pulls)
    return combined_at(xp, "subtract", found, second, pulls)


_pdist_forward.derivative(self=lambda grad, self, p, result: _pdist_backward(grad, self, p, result))
_pdist_forward.cost(lambda self, p, out: Cost(flops=3 * out.numel * self.shape[1]))


@_pdist_forward.batching_decomposition
def pdist_batching(self: Tensor, p: float) -> Tensor:
    check(self.ndim == 2, lambda: f"pdist only supports 2D tensors, got: {self.ndim}D")
    n = self.shape[0]
    rows, columns = aten.triu_indices(n, n, 1, device=self.device).unbind(0)
    return aten.linalg_vector_norm(self[rows] - self[columns], p, [-1])


pdist.composite(lambda self, p: _pdist_forward(self.contiguous(), p))
