"""Attention over ``[batch, length, heads, width]``: what libraries of attention call themselves.

The pages of ``_efficient_attention_forward`` and ``_flash_attention_forward`` and of their
backwards, which PyTorch has on accelerators below the operators of `fused_attention.py`. Those have
heads before positions; the kernels are the same. Rows of several sequences in one, with
``cu_seqlens_q``, are taken apart: each attends to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from maquette.aten.common.accumulation import Array
from maquette.aten.nn.attention.attention_kernels import attend, attend_backward
from maquette.aten.nn.attention.fused_attention import Metas, _padded_length, _refuse_dropout
from maquette.core.dtype import float32, int64
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

_FORWARD, _BACKWARD = "_efficient_attention_forward", "_efficient_attention_backward"
_NO_MASK, _CAUSAL, _CAUSAL_AT_THE_END = 0, 1, 2  # custom_mask_type

# --- checks and masks -------------------------------------------------------------------------


def _check(name: str, query: TensorMeta, key: TensorMeta, value: TensorMeta) -> None:
    check(
        query.ndim == key.ndim == value.ndim == 4,
        lambda: (
            f"{name}: expected query, key and value [batch, length, heads, width]; got "
            f"{query}, {key}, {value}"
        ),
    )
    check(
        query.dtype is key.dtype is value.dtype and query.dtype.is_floating_point,
        lambda: f"{name}: expected one floating dtype; got {query}, {key}, {value}",
    )
    check(
        key.shape[:3] == value.shape[:3]
        and query.shape[0] == key.shape[0]
        and query.shape[2:] == key.shape[2:],
        lambda: (
            f"{name}: expected equal batches, heads and widths, and keys and values of one "
            f"length; got {query}, {key}, {value}"
        ),
    )


def _check_kinds(
    name: str,
    query: TensorMeta,
    bias: TensorMeta | None,
    ends_q: TensorMeta | None,
    ends_k: TensorMeta | None,
    mask_type: int,
    window_size: int | None,
) -> None:
    check(
        mask_type in (_NO_MASK, _CAUSAL, _CAUSAL_AT_THE_END),
        lambda: f"{name}: expected custom_mask_type 0, 1 or 2, got {mask_type}",
    )
    check(
        not window_size or mask_type != _NO_MASK,
        lambda: f"{name}: window_size={window_size} needs a causal custom_mask_type",
    )
    check(
        (ends_q is None) is (ends_k is None),
        lambda: f"{name}: cu_seqlens_q and cu_seqlens_k come together",
    )
    check(
        ends_q is None or (bias is None and query.shape[0] == 1),
        lambda: f"{name}: with cu_seqlens_q the batch is 1 and there is no bias; got {query}",
    )


def _hidden(
    xp: ModuleType, m: int, n: int, bias: Array | None, mask_type: int, window_size: int | None
) -> Array | None:
    """The bias, with minus infinity where the type of mask and the window hide the keys."""
    if mask_type == _NO_MASK or (mask_type == _CAUSAL and not window_size):
        return bias
    rows = xp.arange(m)[:, None] + (n - m if mask_type == _CAUSAL_AT_THE_END else 0)
    columns = xp.arange(n)
    seen = columns <= rows
    if window_size:
        seen = seen & (rows - columns < window_size)
    mask = xp.where(seen, xp.float32(0), -xp.inf).astype(xp.float32)
    found: Array = mask if bias is None else bias + mask.astype(bias.dtype)
    return found


def _sequences(ends_q: Array, ends_k: Array) -> Iterator[tuple[slice, slice]]:
    """The queries and the keys of each sequence."""
    q, k = ends_q.tolist(), ends_k.tolist()
    for i in range(len(q) - 1):
        yield slice(q[i], q[i + 1]), slice(k[i], k[i + 1])


def _by_head(xp: ModuleType, *arrays: Array) -> list[Array]:
    return [xp.swapaxes(a, 1, 2) for a in arrays]


# --- the memory-efficient one -----------------------------------------------------------------

efficient_forward = define(
    "aten::_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, "
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, "
    "float dropout_p, int custom_mask_type, bool compute_log_sumexp=False, *, float? scale=None, "
    "Tensor? seqlen_k=None, int? window_size=None) -> (Tensor output, Tensor logsumexp, "
    "Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, "
    "SymInt max_seqlen_batch_k)",
    tags=[Tag.nondeterministic_seeded],
)


@efficient_forward.shape
def efficient_forward_shape(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    bias: TensorMeta | None,
    cu_seqlens_q: TensorMeta | None,
    cu_seqlens_k: TensorMeta | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float,
    custom_mask_type: int,
    compute_log_sumexp: bool,
    scale: float | None,
    seqlen_k: TensorMeta | None,
    window_size: int | None,
) -> tuple[object, ...]:
    _check(_FORWARD, query, key, value)
    _check_kinds(_FORWARD, query, bias, cu_seqlens_q, cu_seqlens_k, custom_mask_type, window_size)
    check_not_implemented(
        seqlen_k is None,
        lambda: f"{_FORWARD}: seqlen_k is not supported; give a bias, or cu_seqlens_k",
    )
    batch, length, heads, _ = query.shape
    longest, longest_k = length, key.shape[1]
    if cu_seqlens_q is not None:
        check(max_seqlen_q is not None, lambda: f"{_FORWARD}: cu_seqlens_q needs max_seqlen_q")
        assert max_seqlen_q is not None
        batch, longest = cu_seqlens_q.shape[0] - 1, max_seqlen_q
        longest_k = longest_k if max_seqlen_k is None else max_seqlen_k
    sums = _padded_length(longest) if compute_log_sumexp else 0
    return (
        query.fresh((*query.shape[:3], value.shape[3])),
        query.fresh((batch, heads, sums), float32),
        query.fresh((), int64),
        query.fresh((), int64),
        longest,
        longest_k,
    )


@efficient_forward.kernel
def efficient_forward_kernel(
    xp: ModuleType,
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float,
    custom_mask_type: int,
    compute_log_sumexp: bool,
    scale: float | None,
    seqlen_k: Array | None,
    window_size: int | None,
) -> tuple[object, ...]:
    _refuse_dropout(_FORWARD, dropout_p)
    q, k, v = _by_head(xp, query, key, value)
    causal = custom_mask_type == _CAUSAL and not window_size

    def one(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
        mask = _hidden(xp, q.shape[2], k.shape[2], bias, custom_mask_type, window_size)
        return attend(xp, q, k, v, mask, causal, scale)

    longest, longest_k = q.shape[2], k.shape[2]
    if cu_seqlens_q is None or cu_seqlens_k is None:
        out, found = one(q, k, v)
    else:
        assert max_seqlen_q is not None
        longest, longest_k = max_seqlen_q, longest_k if max_seqlen_k is None else max_seqlen_k
        out = xp.zeros((*q.shape[:3], v.shape[3]), query.dtype)
        found = xp.zeros((cu_seqlens_q.shape[0] - 1, q.shape[1], longest), xp.float32)
        for i, (rows, columns) in enumerate(_sequences(cu_seqlens_q, cu_seqlens_k)):
            part, sums = one(q[:, :, rows], k[:, :, columns], v[:, :, columns])
            out[:, :, rows] = part
            found[i, :, : sums.shape[2]] = sums[0]
    kept = _padded_length(longest) if compute_log_sumexp else 0
    padded = xp.zeros((*found.shape[:2], kept), xp.float32)
    padded[..., : found.shape[2]] = found[..., :kept]
    zero = xp.zeros((), xp.int64)
    return xp.swapaxes(out, 1, 2), padded, zero, zero.copy(), longest, longest_k


@efficient_forward.derivative("query", "key", "value", "bias")
def efficient_forward_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    result0: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    result4: int,
    result5: int,
    result1: Tensor,
    dropout_p: float,
    result2: Tensor,
    result3: Tensor,
    custom_mask_type: int,
    scale: float | None,
    window_size: int | None,
    needs: list[bool],
) -> object:
    ends = cu_seqlens_q, cu_seqlens_k, result4, result5
    return efficient_attention_backward(
        grad, query, key, value, bias, result0, *ends, result1, dropout_p, result2, result3,
        custom_mask_type, needs[3], scale=scale, window_size=window_size,
    )  # fmt: skip


efficient_forward.nondifferentiable(1, 2, 3, 4, 5)

efficient_attention_backward = define(
    "aten::_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, "
    "Tensor? bias, Tensor out, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt max_seqlen_q, "
    "SymInt max_seqlen_k, Tensor logsumexp, float dropout_p, Tensor philox_seed, "
    "Tensor philox_offset, int custom_mask_type, bool bias_requires_grad, *, float? scale=None, "
    "int? num_splits_key=None, int? window_size=None, bool shared_storage_dqdkdv=False) -> "
    "(Tensor, Tensor, Tensor, Tensor)"
)


@efficient_attention_backward.shape
def efficient_attention_backward_shape(
    grad_out_: TensorMeta,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    bias: TensorMeta | None,
    out: TensorMeta,
    cu_seqlens_q: TensorMeta | None,
    cu_seqlens_k: TensorMeta | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    logsumexp: TensorMeta,
    dropout_p: float,
    philox_seed: TensorMeta,
    philox_offset: TensorMeta,
    custom_mask_type: int,
    bias_requires_grad: bool,
    scale: float | None,
    num_splits_key: int | None,
    window_size: int | None,
    shared_storage_dqdkdv: bool,
) -> Metas:
    _check(_BACKWARD, query, key, value)
    _check_kinds(_BACKWARD, query, bias, cu_seqlens_q, cu_seqlens_k, custom_mask_type, window_size)
    check(
        logsumexp.shape[2] >= max_seqlen_q,
        lambda: (
            f"{_BACKWARD}: expected the logsumexp of {max_seqlen_q} rows, which forward gives "
            f"with compute_log_sumexp=True; got {logsumexp}"
        ),
    )
    check_not_implemented(
        not shared_storage_dqdkdv,
        lambda: f"{_BACKWARD}: shared_storage_dqdkdv=True is not supported",
    )
    grads = [t.fresh(t.shape) for t in (query, key, value)]
    if bias is None or not bias_requires_grad:
        return *grads, None
    # As in PyTorch its rows are of a multiple of 16.
    padded = (bias.shape[-1] + 15) // 16 * 16
    strides = bias.fresh((*bias.shape[:-1], padded)).strides
    return *grads, bias.fresh(bias.shape, strides=strides)


@efficient_attention_backward.kernel
def efficient_attention_backward_kernel(
    xp: ModuleType,
    grad_out_: Array,
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    out: Array,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    logsumexp: Array,
    dropout_p: float,
    philox_seed: Array,
    philox_offset: Array,
    custom_mask_type: int,
    bias_requires_grad: bool,
    scale: float | None,
    num_splits_key: int | None,
    window_size: int | None,
    shared_storage_dqdkdv: bool,
) -> tuple[Array | None, ...]:
    _refuse_dropout(_BACKWARD, dropout_p)
    causal = custom_mask_type == _CAUSAL and not window_size
    wants = bias is not None and bias_requires_grad

    def one(
        g: Array, q: Array, k: Array, v: Array, o: Array, sums: Array
    ) -> tuple[Array, Array, Array, Array | None]:
        mask = _hidden(xp, q.shape[2], k.shape[2], bias, custom_mask_type, window_size)
        return attend_backward(xp, g, q, k, v, o, sums, mask, causal, scale, wants_mask=wants)

    g, q, k, v, o = _by_head(xp, grad_out_, query, key, value, out)
    if cu_seqlens_q is None or cu_seqlens_k is None:
        *grads, by_bias = one(g, q, k, v, o, logsumexp)
        if by_bias is not None and bias is not None:
            by_bias = _summed_to(by_bias, bias.shape)
        return *_by_head(xp, *grads), by_bias
    found = [xp.zeros(t.shape, xp.float32) for t in (q, k, v)]
    for i, (rows, columns) in enumerate(_sequences(cu_seqlens_q, cu_seqlens_k)):
        mine, theirs = (g[:, :, rows], q[:, :, rows]), (k[:, :, columns], v[:, :, columns])
        parts = one(*mine, *theirs, o[:, :, rows], logsumexp[i : i + 1])
        for whole, part, place in zip(found, parts[:3], (rows, columns, columns), strict=True):
            whole[:, :, place] = part
    return *_by_head(xp, *found), None


def _summed_to(grad: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of a bias that was broadcast to the scores."""
    extra = grad.ndim - len(shape)
    grad = grad.sum(axis=tuple(range(extra))) if extra else grad
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    summed: Array = grad.sum(axis=axes, keepdims=True) if axes else grad
    return summed


def products(query: TensorMeta, key: TensorMeta) -> int:
    """Twice the number of scores: the FLOPs of a product for each unit of width."""
    batch, length, heads, _ = query.shape
    return 2 * batch * length * heads * key.shape[1]


def _products_of(
    query: TensorMeta,
    key: TensorMeta,
    ends: TensorMeta | None,
    longest_q: int | None,
    longest_k: int | None,
) -> int:
    """`products`; of several sequences, as if each were as long as the longest."""
    if ends is None or longest_q is None:
        return products(query, key)
    longest_k = key.shape[1] if longest_k is None else longest_k
    return 2 * (ends.shape[0] - 1) * longest_q * query.shape[2] * longest_k


@efficient_forward.cost
def efficient_forward_cost(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    bias: TensorMeta | None,
    cu_seqlens_q: TensorMeta | None,
    cu_seqlens_k: TensorMeta | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    *rest: object,
) -> Cost:
    """Scores, and their product with the values; what a mask hides is counted too."""
    pairs = _products_of(query, key, cu_seqlens_q, max_seqlen_q, max_seqlen_k)
    return Cost(flops=pairs * (query.shape[3] + value.shape[3]))


@efficient_attention_backward.cost
def efficient_attention_backward_cost(
    grad_out_: TensorMeta,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    bias: TensorMeta | None,
    out: TensorMeta,
    cu_seqlens_q: TensorMeta | None,
    cu_seqlens_k: TensorMeta | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *rest: object,
) -> Cost:
    """Five products: the scores again, the gradients of both factors of both products."""
    pairs = _products_of(query, key, cu_seqlens_q, max_seqlen_q, max_seqlen_k)
    return Cost(flops=pairs * (3 * query.shape[3] + 2 * value.shape[3]))
