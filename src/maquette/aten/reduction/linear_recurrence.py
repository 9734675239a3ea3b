"""``y[j] = b[j] + a[j] * y[j - 1]`` along a dimension, and the products that it gives.

Derivatives of products are such sums. They divide by nothing, so factors may be zero, and the
derivative of a recurrence is one again: derivatives of every order are exact.
"""

from __future__ import annotations

from math import isqrt
from types import ModuleType

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import along
from maquette.aten.common.operators import aten
from maquette.core.broadcast import wrap_dim
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

linear_recurrence = define("maquette::linear_recurrence(Tensor a, Tensor b, int dim) -> Tensor")
linear_recurrence.describe(
    "The sums ``y[j] = b[j] + a[j] * y[j - 1]`` along `dim`, of the shape of both; `a[0]` unread."
)


@linear_recurrence.shape
def linear_recurrence_shape(a: TensorMeta, b: TensorMeta, dim: int) -> TensorMeta:
    wrap_dim(dim, b.ndim)
    check(
        a.shape == b.shape and a.dtype is b.dtype,
        lambda: f"linear_recurrence: expected a and b of one shape and dtype; got {a} and {b}",
    )
    return b.fresh(b.shape)


@linear_recurrence.kernel
def linear_recurrence_kernel(xp: ModuleType, a: Array, b: Array, dim: int) -> Array:
    if not b.ndim or b.shape[dim] == 0:
        return b.copy()
    found = _recurrence(xp, xp.moveaxis(wide(a), dim, 0), xp.moveaxis(wide(b), dim, 0))
    result: Array = xp.moveaxis(found, 0, dim)
    return result


#: Up to so many steps one after the other; beyond, by blocks side by side.
#: A vector of 10**6: by blocks of 1000 14 ms, step by step 900 ms (NumPy 2.3, two cores).
_STEPS = 64


def _recurrence(xp: ModuleType, a: Array, b: Array) -> Array:
    """Along the first axis."""
    count = b.shape[0]
    wide_enough = b[0].size >= _STEPS
    if count <= _STEPS or (wide_enough and count <= _STEPS * _STEPS):
        result: Array = xp.stack(_steps(a, b))
        return result
    size = isqrt(count)
    blocks = -(-count // size)
    missing = blocks * size - count
    tail = xp.zeros((missing, *b.shape[1:]), b.dtype)
    shape = (blocks, size, *b.shape[1:])
    a_blocks = xp.concatenate([a, tail]).reshape(shape)
    b_blocks = xp.concatenate([b, tail]).reshape(shape)
    rows_a = [a_blocks[:, k] for k in range(size)]
    within = _steps(rows_a, [b_blocks[:, k] for k in range(size)])
    factors = [rows_a[0]]
    for row in rows_a[1:]:
        factors.append(factors[-1] * row)
    ends = _recurrence(xp, factors[-1], within[-1])
    before = xp.concatenate([xp.zeros_like(ends[:1]), ends[:-1]])
    # A product of factors may overflow where nothing is carried on.
    idle = before == 0
    rows = [
        xp.where(idle, own, own + factor * before)
        for own, factor in zip(within, factors, strict=True)
    ]
    found: Array = xp.stack(rows, axis=1).reshape((-1, *b.shape[1:]))[:count]
    return found


def _steps(a: list[Array] | Array, b: list[Array] | Array) -> list[Array]:
    found = [b[0]]
    for factor, term in zip(a[1:], b[1:], strict=True):
        found.append(term + factor * found[-1])
    return found


def _later(t: Tensor, dim: int) -> Tensor:
    """Each element at the place behind its own, zero at the first."""
    n = t.meta.shape[dim]
    first = t.new_zeros(tuple(1 if d == dim else s for d, s in enumerate(t.meta.shape)))
    moved: Tensor = aten.cat([first, t.narrow(dim, 0, n - 1)], dim)
    return moved


def recurrence_from_end(a: Tensor, b: Tensor, dim: int) -> Tensor:
    """``y[j] = b[j] + a[j + 1] * y[j + 1]``."""
    flipped: Tensor = linear_recurrence(_later(a.flip((dim,)), dim), b.flip((dim,)), dim)
    return flipped.flip((dim,))


@linear_recurrence.derivative("a", "b")
def linear_recurrence_grad(
    grad: Tensor, a: Tensor, dim: int, result: Tensor
) -> tuple[Tensor, Tensor]:
    if not a.meta.ndim:
        return grad.new_zeros(()), grad
    dim = wrap_dim(dim, a.meta.ndim)
    terms = recurrence_from_end(a.conj() if a.is_complex() else a, grad, dim)
    before = _later(result, dim)
    return terms * (before.conj() if before.is_complex() else before), terms


@linear_recurrence.tangent
def linear_recurrence_tangent(
    a: Tensor, a_t: Tensor, b_t: Tensor, dim: int, result: Tensor
) -> Tensor:
    if not a.meta.ndim:
        return b_t
    moved: Tensor = linear_recurrence(
        a, b_t + a_t * _later(result, wrap_dim(dim, a.meta.ndim)), dim
    )
    return moved


linear_recurrence.batching(along)
linear_recurrence.cost(lambda a, b, dim, out: Cost(flops=2 * out.numel))


# --- products ------------------------------------------------------------------------


def products_before(x: Tensor, same: Tensor | None, dim: int) -> Tensor:
    """For each element the product of those before it along ``dim``.

    same: where given, whether an element is of one group with the one before it: groups are apart.
    """
    factors = _later(x, dim)
    first = aten.arange(x.meta.shape[dim], device=x.device) == 0
    starts = first.view(tuple(-1 if d == dim else 1 for d in range(x.meta.ndim)))
    if same is not None:
        factors = aten.where(same, factors, 0)
        starts = same.logical_not().logical_or(starts)
    found: Tensor = linear_recurrence(factors, starts.to(x.dtype).expand(x.meta.shape), dim)
    return found
