"""The fused attention operators: what PyTorch runs in one kernel, forward and backward.

Lives here: the pages of the cpu's flash attention, and of the flash and the memory-efficient
attention of accelerators. Their kernels are one function each way (`attention_kernels.py`); they
differ in what else they return and how results are laid out. Which of them a call takes is decided
in `attention.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import Array
from maquette.aten.common.batching_forms import to_front
from maquette.aten.nn.attention.attention_kernels import attend, attend_backward
from maquette.core.dtype import dtype, float32, float64, int64, uint64
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape, ordered_strides
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Metas = tuple[TensorMeta | None, ...]

# --- shapes -----------------------------------------------------------------------------------


def _check_attention(name: str, query: TensorMeta, key: TensorMeta, value: TensorMeta) -> None:
    check(
        query.ndim == key.ndim == value.ndim == 4,
        lambda: (
            f"{name}: Accept only 4 dims inputs shape of {{B, H, T, K}}; got {query}, {key}, "
            f"{value}"
        ),
    )
    check(
        query.dtype is key.dtype is value.dtype,
        lambda: (
            f"{name}: expected scalar type {query.dtype.scalar_name} for query, key and value, "
            f"but found {key.dtype.scalar_name} and {value.dtype.scalar_name}"
        ),
    )
    check(
        query.dtype.is_floating_point,
        lambda: (
            f"{name}: Expected data type in FP32, FP64, BF16, FP16, but got "
            f"{query.dtype.scalar_name} instead."
        ),
    )
    check(
        query.shape[3] == key.shape[3],
        lambda: f"{name}: Q/K/V should have the same head size; got {query}, {key}, {value}",
    )
    check(
        key.shape[:3] == value.shape[:3] and query.shape[0] == key.shape[0],
        lambda: (
            f"{name}: expected key and value of equal batch, heads and length, and query of "
            f"their batch; got {query}, {key}, {value}"
        ),
    )
    heads, shared = query.shape[1], key.shape[1]
    check(
        heads == 0 if is_true(shared == 0) else heads % shared == 0,
        lambda: (
            f"{name}: the number of heads of query, {heads}, must be a multiple of that of key and "
            f"value, {shared}"
        ),
    )


def _check_mask(name: str, mask: TensorMeta | None, scores: Shape) -> None:
    if mask is None:
        return
    fits = mask.ndim <= 4 and all(
        is_true(m == 1) or m == s for m, s in zip(reversed(mask.shape), reversed(scores))
    )
    check(
        fits,
        lambda: f"{name}: the mask must broadcast to the scores {list(scores)}; got {mask}",
    )


def _by_position(meta: TensorMeta) -> TensorMeta:
    """A fresh (batch, heads, length, width) laid out by (batch, length, heads, width)."""
    return meta.fresh(meta.shape, strides=ordered_strides(meta.shape, (3, 1, 2, 0)))


# --- costs and refusals ----------------------------------------------------------------------


def _refuse_dropout(name: str, dropout_p: float) -> None:
    check_not_implemented(
        dropout_p == 0,
        lambda: (
            f"{name}: dropout inside the fused operator has no kernel for data; use "
            f"dropout_p=0, or scores and nn.functional.dropout"
        ),
    )


def _products(query: TensorMeta, key: TensorMeta) -> int:
    """Twice the number of scores: the FLOPs of a product for each unit of width."""
    return 2 * query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]


def attention_cost(query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: object) -> Cost:
    """Scores, and their product with the values; what a mask hides is counted too."""
    return Cost(flops=_products(query, key) * (query.shape[3] + value.shape[3]))


def attention_backward_cost(
    grad: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: object
) -> Cost:
    """Five products: the scores again, the gradients of both factors of both products."""
    return Cost(flops=_products(query, key) * (3 * query.shape[3] + 2 * value.shape[3]))


# --- flash attention on the cpu ---------------------------------------------------------------

flash_cpu = define(
    "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
    "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
    "(Tensor output, Tensor logsumexp)",
    tags=[Tag.nondeterministic_seeded],
)
FLASH_CPU = "scaled_dot_product_attention_flash_attention"


@flash_cpu.shape
def flash_cpu_shape(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    dropout_p: float,
    is_causal: bool,
    attn_mask: TensorMeta | None,
    scale: float | None,
) -> Metas:
    check(dropout_p == 0, lambda: f"{FLASH_CPU}: Currently do not support dropout > 0")
    _check_attention(FLASH_CPU, query, key, value)
    check(
        query.shape[3] == value.shape[3],
        lambda: f"{FLASH_CPU}: Q/K/V should have the same head size; got {query}, {key}, {value}",
    )
    _check_mask(FLASH_CPU, attn_mask, (*query.shape[:3], key.shape[2]))
    sums = query.shape[:3]
    return query.like(), query.fresh(
        sums, _sums_dtype(query.dtype), strides=ordered_strides(sums, (1, 2, 0))
    )


def _sums_dtype(kind: dtype) -> dtype:
    return float64 if kind is float64 else float32


@flash_cpu.kernel
def flash_cpu_kernel(
    xp: ModuleType,
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Array | None,
    scale: float | None,
) -> tuple[Array, Array]:
    return attend(xp, query, key, value, attn_mask, is_causal, scale)


@flash_cpu.derivative("query", "key", "value")
def flash_cpu_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result0: Tensor,
    result1: Tensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Tensor | None,
    scale: float | None,
) -> object:
    return flash_cpu_backward(
        grad,
        query,
        key,
        value,
        result0,
        result1,
        dropout_p,
        is_causal,
        attn_mask=attn_mask,
        scale=scale,
    )


def _folded(info: VmapInfo, in_dims: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors with vmap's batch in their own first dimension."""
    return [to_front(t, d, info.batch_size).flatten(0, 1) for t, d in zip(tensors, in_dims)]


def _folded_mask(info: VmapInfo, mask: Tensor | None) -> Tensor | None:
    """A mask, which has no batch of vmap's here, for as many samples."""
    if mask is None or mask.meta.ndim == 2 or is_true(mask.shape[0] == 1):
        return mask
    whole: Tensor = to_front(mask, None, info.batch_size).flatten(0, 1)
    return whole


@flash_cpu.batching
def flash_cpu_batching(
    info: VmapInfo,
    in_dims: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    samples = query.meta.shape[0 if in_dims[0] != 0 else 1]
    given = _folded(info, in_dims, (query, key, value))
    mask = _folded_mask(info, attn_mask)
    results = flash_cpu(*given, dropout_p, is_causal, attn_mask=mask, scale=scale)
    return tuple([t.unflatten(0, (info.batch_size, samples)) for t in results]), 0


flash_cpu.nondifferentiable(1)
flash_cpu.cost(attention_cost)

flash_cpu_backward = define(
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, "
    "Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
    "Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, "
    "Tensor grad_value)"
)


@flash_cpu_backward.shape
def flash_cpu_backward_shape(
    grad_out: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: object
) -> Metas:
    _check_attention(FLASH_CPU, query, key, value)
    return _by_position(query), _by_position(key), _by_position(value)


@flash_cpu_backward.kernel
def flash_cpu_backward_kernel(
    xp: ModuleType,
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Array | None,
    scale: float | None,
) -> tuple[Array, ...]:
    return attend_backward(
        xp, grad_out, query, key, value, out, logsumexp, attn_mask, is_causal, scale
    )[:3]


@flash_cpu_backward.batching
def flash_cpu_backward_batching(
    info: VmapInfo,
    in_dims: Any,
    *params: Any,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    tensors, (dropout_p, is_causal) = params[:6], params[6:]
    samples = tensors[1].meta.shape[0 if in_dims[1] != 0 else 1]
    given = _folded(info, in_dims, tensors)
    mask = _folded_mask(info, attn_mask)
    results = flash_cpu_backward(*given, dropout_p, is_causal, attn_mask=mask, scale=scale)
    return tuple([t.unflatten(0, (info.batch_size, samples)) for t in results]), 0


flash_cpu_backward.cost(attention_backward_cost)

# --- flash attention on accelerators ----------------------------------------------------------

flash = define(
    "aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, "
    "float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, "
    "float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, "
    "SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
    tags=[Tag.nondeterministic_seeded],
)
flash.autocast(cuda="lower")
FLASH = "_scaled_dot_product_flash_attention"


@flash.shape
def flash_shape(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
) -> tuple[object, ...]:
    _check_attention(FLASH, query, key, value)
    check(
        not return_debug_mask,
        lambda: f"{FLASH}: return_debug_mask=True is for debugging PyTorch's kernel; there is none",
    )
    return (
        query.like(),
        query.fresh(query.shape[:3], float32),
        None,
        None,
        query.shape[2],
        key.shape[2],
        query.fresh((2,), uint64),
        query.fresh((), uint64),
        query.fresh((0,)),
    )


@flash.kernel
def flash_kernel(
    xp: ModuleType,
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
) -> tuple[object, ...]:
    _refuse_dropout(FLASH, dropout_p)
    out, sums = attend(xp, query, key, value, None, is_causal, scale)
    seeds = xp.zeros(2, xp.uint64), xp.zeros((), xp.uint64)
    return out, sums, None, None, query.shape[2], key.shape[2], *seeds, xp.zeros(0)


@flash.derivative("query", "key", "value")
def flash_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result0: Tensor,
    result1: Tensor,
    result2: Tensor | None,
    result3: Tensor | None,
    result4: int,
    result5: int,
    dropout_p: float,
    is_causal: bool,
    result6: Tensor,
    result7: Tensor,
    scale: float | None,
) -> object:
    results = (result0, result1, result2, result3, result4, result5)
    return flash_backward(
        grad, query, key, value, *results, dropout_p, is_causal, result6, result7, scale=scale
    )


flash.nondifferentiable(1, 2, 3, 4, 5, 6, 7, 8)
flash.cost(attention_cost)

# PyTorch passes undefined tensors where the schemas of backward say ``Tensor?``: None fits no
# ``Tensor`` here.
flash_backward = define(
    "aten::_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, "
    "Tensor value, Tensor out, Tensor logsumexp, Tensor? cum_seq_q, Tensor? cum_seq_k, "
    "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, "
    "Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, "
    "Tensor grad_value)"
)


@flash_backward.shape
def flash_backward_shape(
    grad_out: TensorMeta, query: TensorMeta, key: TensorMeta, value: TensorMeta, *rest: object
) -> Metas:
    _check_attention(FLASH, query, key, value)
    return query.like(), key.like(), value.like()


@flash_backward.kernel
def flash_backward_kernel(
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
    philox_seed: Array,
    philox_offset: Array,
    scale: float | None,
) -> tuple[Array, ...]:
    _refuse_dropout(FLASH, dropout_p)
    return attend_backward(xp, grad_out, query, key, value, out, logsumexp, None, is_causal, scale)[
        :3
    ]


flash_backward.cost(attention_backward_cost)

# --- memory-efficient attention on accelerators -----------------------------------------------

efficient = define(
    "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, "
    "float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, "
    "Tensor philox_offset)",
    tags=[Tag.nondeterministic_seeded],
)
EFFICIENT = "_scaled_dot_product_efficient_attention"


def _padded_length(length: int) -> int:
    """The length of the saved sums: a multiple of 32."""
    return (length + 31) // 32 * 32


@efficient.shape
def efficient_shape(
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    attn_bias: TensorMeta | None,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Metas:
    _check_attention(EFFICIENT, query, key, value)
    _check_mask(EFFICIENT, attn_bias, (*query.shape[:3], key.shape[2]))
    batch, heads, length, _ = query.shape
    out = query.fresh((batch, heads, length, value.shape[3]))
    sums = _padded_length(length) if compute_log_sumexp else 0
    return (
        _by_position(out),
        query.fresh((batch, heads, sums), float32),
        query.fresh((), int64),
        query.fresh((), int64),
    )


@efficient.kernel
def efficient_kernel(
    xp: ModuleType,
    query: Array,
    key: Array,
    value: Array,
    attn_bias: Array | None,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Array, ...]:
    _refuse_dropout(EFFICIENT, dropout_p)
    out, sums = attend(xp, query, key, value, attn_bias, is_causal, scale)
    length = _padded_length(sums.shape[2]) if compute_log_sumexp else 0
    padded = xp.zeros((*sums.shape[:2], length), xp.float32)
    padded[..., : sums.shape[2]] = sums[..., :length]
    return out, padded, xp.zeros((), xp.int64), xp.zeros((), xp.int64)


@efficient.derivative("query", "key", "value", "attn_bias")
def efficient_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    result0: Tensor,
    result1: Tensor,
    result2: Tensor,
    result3: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    needs: list[bool],
) -> object:
    return efficient_backward(
        grad,
        query,
        key,
        value,
        attn_bias,
        result0,
        result1,
        result2,
        result3,
        dropout_p,
        needs,
        is_causal,
        scale=scale,
    )


efficient.nondifferentiable(1, 2, 3)
efficient.cost(attention_cost)

efficient_backward = define(
    "aten::_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, "
    "Tensor key, Tensor value, Tensor? attn_bias, Tensor out, Tensor logsumexp, "
    "Tensor philox_seed, "
    "Tensor philox_offset, float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, "
    "float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)"
)


@efficient_backward.shape
def efficient_backward_shape(
    grad_out: TensorMeta,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    attn_bias: TensorMeta | None,
    out: TensorMeta,
    logsumexp: TensorMeta,
    philox_seed: TensorMeta,
    philox_offset: TensorMeta,
    dropout_p: float,
    grad_input_mask: tuple[bool, ...],
    is_causal: bool,
    scale: float | None,
) -> Metas:
    _check_attention(EFFICIENT, query, key, value)
    grad_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        # The kernel writes rows of a multiple of 16; the gradient is a view of their beginnings.
        padded = (attn_bias.shape[-1] + 15) // 16 * 16
        strides = attn_bias.fresh((*attn_bias.shape[:-1], padded)).strides
        grad_bias = attn_bias.fresh(attn_bias.shape, strides=strides)
    return _by_position(query), _by_position(key), _by_position(value), grad_bias


@efficient_backward.kernel
def efficient_backward_kernel(
    xp: ModuleType,
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_bias: Array | None,
    out: Array,
    logsumexp: Array,
    philox_seed: Array,
    philox_offset: Array,
    dropout_p: float,
    grad_input_mask: tuple[bool, ...],
    is_causal: bool,
    scale: float | None,
) -> tuple[Array | None, ...]:
    _refuse_dropout(EFFICIENT, dropout_p)
    wants = attn_bias is not None and grad_input_mask[3]
    return attend_backward(
        xp,
        grad_out,
        query,
        key,
        value,
        out,
        logsumexp,
        attn_bias,
        is_causal,
        scale,
        wants_mask=wants,
    )


efficient_backward.cost(attention_backward_cost)
