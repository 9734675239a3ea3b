"""Scaled dot product attention: which operator a call takes, and the definition by products.

Which one a device takes is the answer of another operator, in `attention_choice.py`. The fused
operators are in `fused_attention.py`.
"""

from __future__ import annotations

import math

from maquette.aten.common.operators import aten
from maquette.aten.elementwise.arithmetic import mul_scalar
from maquette.aten.elementwise.where import where
from maquette.aten.factory.factories import scalar_tensor
from maquette.aten.nn.attention.attention_choice import HALVES, SDPBackend, fused_sdp_choice
from maquette.aten.nn.attention.attention_kernels import calculate_scale
from maquette.aten.nn.attention.fused_attention import efficient, flash, flash_cpu
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.dtype import bool_, dtype, float32
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.remembered import remembered
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.keys import keys_for_device
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

attention = define(
    "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, "
    "bool enable_gqa=False) -> Tensor",
    tags=[Tag.nondeterministic_seeded],
)
attention.describe(
    "Attention ``softmax(query @ key.T * scale + mask) @ value``: [..., L, E] with S keys "
    "gives [..., L, Ev]."
)
attention.autocast("lower")


@attention.composite
def attention_composite(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    if _is_of_nothing(
        query.meta, key.meta, value.meta, None if attn_mask is None else attn_mask.meta
    ):
        return _of_nothing(query, key, value)
    # The answer of the device, whatever mode or transform watches: as in PyTorch, none sees it.
    chosen = fused_sdp_choice.op.run(
        keys_for_device(query.meta.device),
        (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa),
    )
    mask = _additive_mask(attn_mask, query.dtype)
    if chosen == SDPBackend.FLASH_ATTENTION.value:
        attend = _FLASH.get(query.meta.device.type, _flash_padded)
        return attend(query, key, value, mask, dropout_p, is_causal, scale)
    if chosen == SDPBackend.EFFICIENT_ATTENTION.value:
        return _efficient_biased(query, key, value, mask, dropout_p, is_causal, scale)
    out, _ = attention_math(
        query, key, value, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )
    return out


@remembered
def _is_of_nothing(
    query: TensorMeta, key: TensorMeta, value: TensorMeta, mask: TensorMeta | None
) -> bool:
    """Whether an input has no element; refuses what no kind of attention takes."""
    kinds = (query.dtype, key.dtype, value.dtype)
    check(
        kinds[0] is kinds[1] is kinds[2],
        lambda: (
            f"Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{kinds[0].name} key.dtype: {kinds[1].name} and value.dtype: {kinds[2].name} instead."
        ),
    )
    check(
        query.device == key.device == value.device,
        lambda: (
            f"Expected query, key, and value to have the same device type, but got "
            f"query.device: {query.device} key.device: {key.device} and value.device: "
            f"{value.device} instead."
        ),
    )
    check(
        min(query.ndim, key.ndim, value.ndim) >= 2,
        lambda: (
            f"Expected query, key, and value to all be  at least 2 dimensional, but got "
            f"query.dim: {query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        ),
    )
    check(
        mask is None or mask.dtype in (bool_, float32, query.dtype),
        lambda: (
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {'' if mask is None else mask.dtype.name} and  query.dtype: "
            f"{query.dtype.name} instead."
        ),
    )
    return any(is_true(t.numel == 0) for t in (query, key, value))


def _of_nothing(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Zeros that depend on all three, so that each has a gradient."""
    shape = [*query.shape[:-1], value.shape[-1]]
    zeros = aten.zeros(shape, dtype=query.dtype, layout=query.layout, device=query.device)
    last, middle, first = value.sum(), key.sum(), query.sum()
    return zeros + mul_scalar(first + middle + last, 0)


def _additive_mask(mask: Tensor | None, kind: dtype) -> Tensor | None:
    """A boolean mask as zeros, and -inf where it is False; another as it is."""
    if mask is None or mask.dtype is not bool_:
        return mask
    # The operators of `where.ScalarSelf`, without its choice of dtypes: 7.7 to 4.1 us on fakes.
    hidden = scalar_tensor(-math.inf, dtype=kind, device=mask.device)
    shown = scalar_tensor(0.0, dtype=kind, device=mask.device)
    return where(mask, shown, hidden)


# --- the fused operators ----------------------------------------------------------------------


def _flash_on_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    """Flash attention as the cpu has it, which takes masks."""
    out: Tensor
    out, _ = flash_cpu(query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale)
    return out


def _flash_padded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    """Flash attention of widths that are no multiple of 8, filled up with zeros."""
    width = query.shape[-1]
    short = not is_true(width % 8 == 0)
    if short:
        padding = [0, 8 - width % 8]
        query, key, value = (aten.pad(t, padding) for t in (query, key, value))
    factor = calculate_scale(width, scale)
    out: Tensor = flash(query, key, value, dropout_p, is_causal, False, scale=factor)[0]
    return out.narrow(-1, 0, width) if short else out


# Flash attention is an operator of its own on some device types.
_FLASH = {"cpu": _flash_on_cpu}


def _efficient_biased(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    grads = is_grad_enabled() and any(map(wants_derivative, (query, key, value)))
    bias = None if mask is None else _aligned_bias(mask, query, key)
    out: Tensor = efficient(query, key, value, bias, grads, dropout_p, is_causal, scale=scale)[0]
    return out


def _aligned_bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask spread over the scores, its rows beginning at multiples of 8 elements."""
    strides = mask.meta.strides
    aligned = is_true(strides[-1] == 1) and all(is_true(s % 8 == 0) for s in strides[:-1])
    if not aligned:
        columns = mask.shape[-1]
        mask = aten.pad(mask, [0, 8 - columns % 8]).narrow(-1, 0, columns)
    return mask.expand([query.shape[0], query.shape[1], query.shape[2], key.shape[2]])


# --- by products ------------------------------------------------------------------------------

attention_math = define(
    "aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, "
    "Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
    tags=[Tag.nondeterministic_seeded],
)


@attention_math.composite
def attention_math_composite(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    dropout_mask: Tensor | None,
    scale: float | None,
    enable_gqa: bool,
) -> tuple[Tensor, Tensor]:
    given = query.dtype
    if given in HALVES:
        query, key, value = query.to(float32), key.to(float32), value.to(float32)
    # Both factors are scaled by the root: products of halves stay in range.
    negative = scale is not None and scale < 0
    root = math.sqrt(calculate_scale(query.shape[-1], -scale if negative else scale))  # type: ignore[operator]  # a float, if negative
    query = mul_scalar(query, -root if negative else root)
    if is_causal:
        check(
            attn_mask is None,
            lambda: (
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            ),
        )
        attn_mask = _causal_mask(query, key)
    mask = _additive_mask(attn_mask, query.dtype)
    if enable_gqa:
        key, value = _repeated_heads(query, key, value)
    scores = query.matmul(mul_scalar(key.transpose(-2, -1), root))
    if mask is not None:
        scores = scores + mask
    scores = aten._safe_softmax(scores, -1)  # by the same name: their memory is free from here on
    if dropout_p > 0:
        scores, value = _dropped(scores, value, dropout_p, dropout_mask)
    converted = scores.to(given)
    return scores.matmul(value).to(given), converted


def _causal_mask(query: Tensor, key: Tensor) -> Tensor:
    shape = [query.shape[-2], key.shape[-2]]
    return aten.ones(shape, dtype=bool_, layout=query.layout, device=query.device).tril()


def _repeated_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    heads, of_key, of_value = query.shape[-3], key.shape[-3], value.shape[-3]
    check(
        heads % of_key == 0 and heads % of_value == 0,
        lambda: (
            f"Number of heads in key and value must divide the number of heads in query; got "
            f"{of_key} and {of_value} for {heads}"
        ),
    )
    if is_true(of_key == heads) and is_true(of_value == heads):
        return key, value
    return key.repeat_interleave(heads // of_key, -3), value.repeat_interleave(
        heads // of_value, -3
    )


def _dropped(
    weights: Tensor, value: Tensor, dropout_p: float, keep: Tensor | None
) -> tuple[Tensor, Tensor]:
    if keep is None:
        return aten.dropout(weights, dropout_p, True), value
    kept = weights.masked_fill(keep.logical_not(), 0.0)
    return kept, mul_scalar(value, 1.0 / (1.0 - dropout_p))
