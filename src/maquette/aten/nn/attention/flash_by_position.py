"""Flash attention over ``[batch, length, heads, width]``, forward and backward.

PyTorch has the two operators on accelerators; libraries of attention call them. Several sequences
in one tensor, by ``cum_seq_q``, and what only servers of models ask for are refused.
"""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.accumulation import Array
from maquette.aten.nn.attention.attention_by_position import (
    _by_head,
    _check,
    products,
)
from maquette.aten.nn.attention.attention_kernels import attend, attend_backward
from maquette.aten.nn.attention.fused_attention import Metas, _refuse_dropout
from maquette.core.dtype import float32, uint64
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

_FORWARD, _BACKWARD = "_flash_attention_forward", "_flash_attention_backward"


def _refuse(name: str, what: str, given: object) -> None:
    check_not_implemented(
        given is None, lambda: f"{name}: {what} is not supported; use _efficient_attention_forward"
    )


def _seen(
    xp: ModuleType, m: int, n: int, causal: bool, left: int | None, right: int | None
) -> Array | None:
    """Minus infinity for the keys that a query does not see: those aligned at the end are its own.

    left, right: how many before and behind its own it sees; None or less than 0 for all.
    """
    right = 0 if causal else right
    if (left is None or left < 0) and (right is None or right < 0):
        return None
    behind = xp.arange(n) - (xp.arange(m)[:, None] + n - m)
    seen = xp.ones((m, n), bool)
    if left is not None and left >= 0:
        seen = seen & (behind >= -left)
    if right is not None and right >= 0:
        seen = seen & (behind <= right)
    found: Array = xp.where(seen, xp.float32(0), -xp.inf).astype(xp.float32)
    return found


flash_forward = define(
    "aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, "
    "Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, "
    "bool return_debug_mask, *, float? scale=None, SymInt? window_size_left=None, "
    "SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, "
    "Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, "
    "Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
    tags=[Tag.nondeterministic_seeded],
)


@flash_forward.shape
def flash_forward_shape(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    cum_seq_q: TensorMeta | None,
    cum_seq_k: TensorMeta | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
    seqused_k: TensorMeta | None,
    alibi_slopes: TensorMeta | None,
    block_table: TensorMeta | None,
    num_splits: int | None,
) -> Metas:
    _refuse(_FORWARD, "cum_seq_q", cum_seq_q)
    _refuse(_FORWARD, "cum_seq_k", cum_seq_k)
    _refuse(_FORWARD, "seqused_k", seqused_k)
    _refuse(_FORWARD, "alibi_slopes", alibi_slopes)
    _refuse(_FORWARD, "block_table", block_table)
    _refuse(_FORWARD, "return_debug_mask=True", True if return_debug_mask else None)
    _check_flash(_FORWARD, query, key, value)
    batch, length, heads, _ = query.shape
    return (
        query.fresh(query.shape),
        query.fresh((batch, heads, length), float32),
        query.fresh((2,), uint64),
        query.fresh((), uint64),
        query.fresh((0,)),
    )


def _check_flash(name: str, query: TensorMeta, key: TensorMeta, value: TensorMeta) -> None:
    _check(name, query, key, value)
    check(
        query.shape[3] == value.shape[3],
        lambda: f"{name}: expected query, key and value of one width; got {query}, {key}, {value}",
    )


@flash_forward.kernel
def flash_forward_kernel(
    xp: ModuleType,
    query: Array,
    key: Array,
    value: Array,
    cum_seq_q: Array | None,
    cum_seq_k: Array | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
    seqused_k: Array | None,
    alibi_slopes: Array | None,
    block_table: Array | None,
    num_splits: int | None,
) -> tuple[Array, ...]:
    _refuse_dropout(_FORWARD, dropout_p)
    q, k, v = _by_head(xp, query, key, value)
    mask = _seen(xp, q.shape[2], k.shape[2], is_causal, window_size_left, window_size_right)
    out, sums = attend(xp, q, k, v, mask, False, scale)
    seeds = xp.zeros(2, xp.uint64), xp.zeros((), xp.uint64)
    return xp.swapaxes(out, 1, 2), sums, *seeds, xp.zeros(0, query.dtype)


@flash_forward.derivative("query", "key", "value")
def flash_forward_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result0: Tensor,
    result1: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    result2: Tensor,
    result3: Tensor,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
) -> object:
    return flash_attention_backward(
        grad, query, key, value, result0, result1, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
        is_causal, result2, result3, scale=scale, window_size_left=window_size_left,
        window_size_right=window_size_right,
    )  # fmt: skip


flash_forward.nondifferentiable(1, 2, 3, 4)


@flash_forward.cost
def flash_forward_cost(
    query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: object
) -> Cost:
    """Scores, and their product with the values; what a mask hides is counted too."""
    return Cost(flops=products(query, key) * (query.shape[3] + value.shape[3]))


# PyTorch passes undefined tensors where its schema says ``Tensor cum_seq_q``: None fits none here.
flash_attention_backward = define(
    "aten::_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
    "Tensor out, Tensor logsumexp, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, "
    "SymInt max_k, float dropout_p, bool is_causal, Tensor rng_state, Tensor unused, *, "
    "float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None) -> "
    "(Tensor, Tensor, Tensor)"
)


@flash_attention_backward.shape
def flash_attention_backward_shape(
    grad_out: TensorMeta,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    out: TensorMeta,
    logsumexp: TensorMeta,
    cum_seq_q: TensorMeta | None,
    cum_seq_k: TensorMeta | None,
    *rest: object,
) -> Metas:
    _refuse(_BACKWARD, "cum_seq_q", cum_seq_q)
    _refuse(_BACKWARD, "cum_seq_k", cum_seq_k)
    _check_flash(_BACKWARD, query, key, value)
    return query.fresh(query.shape), key.fresh(key.shape), value.fresh(value.shape)


@flash_attention_backward.kernel
def flash_attention_backward_kernel(
    xp: ModuleType,
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    cum_seq_q: Array | None,
    cum_seq_k: Array | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: Array,
    unused: Array,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
) -> tuple[Array, ...]:
    _refuse_dropout(_BACKWARD, dropout_p)
    g, q, k, v, o = _by_head(xp, grad_out, query, key, value, out)
    mask = _seen(xp, q.shape[2], k.shape[2], is_causal, window_size_left, window_size_right)
    found = attend_backward(xp, g, q, k, v, o, logsumexp, mask, False, scale)
    return tuple(_by_head(xp, *found[:3]))


@flash_attention_backward.cost
def flash_attention_backward_cost(
    grad_out: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: object
) -> Cost:
    """Five products: the scores again, the gradients of both factors of both products."""
    return Cost(flops=products(query, key) * (3 * query.shape[3] + 2 * value.shape[3]))
