"""Attention: the operator itself, and the multi-head layer around it as PyTorch composes it.

Lives here: projections in, masks brought to one form, heads split and joined. What does not: the
fused operator (`scaled_dot_product_attention` in `maquette.aten`). Inside, sequences come first:
(length, batch, width). A name is rebound, or deleted, where PyTorch's is, so that a plan counts
the same temporaries.
"""

import math
import warnings
from collections.abc import Callable, Sequence

from maquette.api import functions as mq
from maquette.core import dtype as dtypes
from maquette.nn.functional.activation import softmax
from maquette.nn.functional.dropout import dropout
from maquette.nn.functional.linear import linear
from maquette.tensor import Tensor

Triple = tuple[Tensor, Tensor, Tensor]
Weights = tuple[Tensor | None, Tensor | None, Tensor | None]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value over (*, heads, length, width).

    attn_mask: boolean (True takes part) or added to the scores. scale: 1 / sqrt(width) by default.
    enable_gqa: fewer heads of key and value, each shared by several of query.
    """
    return mq.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The arithmetic of `nn.MultiheadAttention`: (output, weights or None).

    Sequences first: query (target, batch, width), key and value (source, batch, width), the batch
    optional. key_padding_mask (batch, source) and attn_mask (target, source) or (batch * heads,
    target, source): True, or -inf, masks out. is_causal: a hint that attn_mask is causal.

    Raises AssertionError for shapes that do not fit, RuntimeError for a mask of a wrong shape.
    """
    is_batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        # Each as a batch of one, squeezed again at the end. Three views are three inputs to
        # `_in_projection_packed`, even of one tensor: so they are in PyTorch.
        query = query.unsqueeze(1)
        key = key.unsqueeze(1)
        value = value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    attn_mask, is_causal = _effective_mask(
        attn_mask, key_padding_mask, query, need_weights, is_causal
    )
    head_dim = _head_width(embed_dim, embed_dim_to_check, num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, separate, in_proj_bias)

    if attn_mask is not None:
        attn_mask = _batched_mask(attn_mask, (tgt_len, key.shape[0]), bsz * num_heads)
    if bias_k is not None and bias_v is not None:
        _expect(static_k is None, lambda: "bias cannot be added to static key.")
        _expect(static_v is None, lambda: "bias cannot be added to static value.")
        k = mq.cat([k, bias_k.repeat(1, bsz, 1)])
        v = mq.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask, key_padding_mask = _padded(attn_mask), _padded(key_padding_mask)
    else:
        _expect(bias_k is bias_v, lambda: "bias_k and bias_v must be given together.")

    q = q.view(tgt_len, bsz * num_heads, head_dim).transpose(0, 1)
    k = _split_heads(k, static_k, "static_k", bsz * num_heads, head_dim)
    v = _split_heads(v, static_v, "static_v", bsz * num_heads, head_dim)
    if add_zero_attn:
        zeros = (bsz * num_heads, 1, head_dim)
        k = mq.cat([k, mq.zeros(zeros, dtype=k.dtype, device=k.device)], dim=1)
        v = mq.cat([v, mq.zeros(zeros, dtype=v.dtype, device=v.device)], dim=1)
        attn_mask, key_padding_mask = _padded(attn_mask), _padded(key_padding_mask)
    src_len = k.shape[1]
    if key_padding_mask is not None:
        key_padding_mask = _mask_per_head(key_padding_mask, bsz, num_heads, src_len)
        attn_mask = key_padding_mask if attn_mask is None else attn_mask + key_padding_mask

    heads = [q, k, v]  # given away: only the callee decides how long they live
    del q, k, v
    p = dropout_p if training else 0.0
    scores = None
    if need_weights:
        _expect(
            not is_causal or attn_mask is not None,
            lambda: "is_causal is not implemented for need_weights",
        )
        output, scores = _attend_with_weights(heads, attn_mask, p)
        output = output.transpose(0, 1).reshape(tgt_len * bsz, embed_dim)
    else:
        output = _attend_fused(heads, attn_mask, p, is_causal, (bsz, num_heads))
        output = output.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim)
    output = linear(output, out_proj_weight, out_proj_bias)
    output = output.view(tgt_len, bsz, output.shape[1])
    if scores is not None:
        scores = scores.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            scores = scores.mean(dim=1)
    if not is_batched:
        output = output.squeeze(1)
        scores = None if scores is None else scores.squeeze(0)
    return output, scores


def _attend_with_weights(
    heads: list[Tensor], attn_mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    q, k, v = heads
    heads.clear()
    scores = _scores(q, k, attn_mask)
    del k
    scores = softmax(scores, dim=-1)
    if dropout_p > 0.0:
        scores = dropout(scores, p=dropout_p)
    return mq.bmm(scores, v), scores


def _scores(q: Tensor, k: Tensor, attn_mask: Tensor | None) -> Tensor:
    scaled = q * math.sqrt(1.0 / float(q.shape[-1]))
    if attn_mask is None:
        return mq.bmm(scaled, k.transpose(-2, -1))
    return mq.baddbmm(attn_mask, scaled, k.transpose(-2, -1))


def _attend_fused(
    heads: list[Tensor],
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    batch_heads: tuple[int, int],
) -> Tensor:
    if attn_mask is not None:
        if attn_mask.shape[0] == 1 and attn_mask.dim() == 3:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(*batch_heads, -1, heads[1].shape[1])
    q, k, v = (head.view(*batch_heads, *head.shape[1:]) for head in heads)
    heads.clear()
    return scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)


def _project(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packed: Tensor | None,
    separate: Weights | None,
    bias: Tensor | None,
) -> Triple:
    if separate is not None:
        _expect(
            key.shape[:2] == value.shape[:2],
            lambda: (
                f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}"
            ),
        )
        w_q, w_k, w_v = (_given(w, name) for w, name in zip(separate, ("query", "key", "value")))
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return _in_projection(query, key, value, w_q, w_k, w_v, *biases)
    _expect(
        key.shape == value.shape,
        lambda: f"key shape {key.shape} does not match value shape {value.shape}",
    )
    if packed is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    return _in_projection_packed(query, key, value, packed, bias)


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> Triple:
    """Query, key and value by the three thirds of one weight, in as few products as can be."""
    width = q.shape[-1]
    if k is v and q is k:
        proj = linear(q, w, b)
        proj = _unpacked(proj, 3, width)
        return proj[0], proj[1], proj[2]
    if k is v:
        w_q, w_kv = w.split([width, width * 2])
        b_q, b_kv = (None, None) if b is None else b.split([width, width * 2])
        q_proj = linear(q, w_q, b_q)
        kv_proj = linear(k, w_kv, b_kv)
        kv_proj = _unpacked(kv_proj, 2, width)
        return q_proj, kv_proj[0], kv_proj[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _given(weight: Tensor | None, name: str) -> Tensor:
    if weight is None:
        raise AssertionError(f"use_separate_proj_weight is True but there is no {name} weight")
    return weight


def _unpacked(proj: Tensor, parts: int, width: int) -> Tensor:
    """(*, parts * width) to (parts, *, width), copied so that each part is contiguous."""
    return proj.unflatten(-1, (parts, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


def _in_projection(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
) -> Triple:
    """Query, key and value by a weight each: (width, width of the input)."""
    width = q.shape[-1]
    for name, input, weight in (("query", q, w_q), ("key", k, w_k), ("value", v, w_v)):
        if weight.shape != (width, input.shape[-1]):
            raise AssertionError(
                f"expecting {name} weights shape of {(width, input.shape[-1])}, but got "
                f"{weight.shape}"
            )
    for name, bias in (("query", b_q), ("key", b_k), ("value", b_v)):
        if bias is not None and bias.shape != (width,):
            raise AssertionError(f"expecting {name} bias shape of {(width,)}, but got {bias.shape}")
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _split_heads(
    projected: Tensor, static: Tensor | None, name: str, batch_heads: int, head_dim: int
) -> Tensor:
    if static is None:
        return projected.view(projected.shape[0], batch_heads, head_dim).transpose(0, 1)
    _expect(
        (static.shape[0], static.shape[2]) == (batch_heads, head_dim),
        lambda: f"expecting {name} of shape ({batch_heads}, *, {head_dim}), but got {static.shape}",
    )
    return static


def _effective_mask(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    query: Tensor,
    need_weights: bool,
    is_causal: bool,
) -> tuple[Tensor | None, bool]:
    """The mask to add, and whether the operator may take the causal shortcut in its place."""
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint: make one by the Transformer method "
            "`generate_square_subsequent_mask`."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        return None, True
    mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
    return mask, is_causal and key_padding_mask is None


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: dtypes.dtype | None,
    other_name: str,
    target_type: dtypes.dtype,
    check_other: bool = True,
) -> Tensor | None:
    """A boolean mask as zeros and -inf of `target_type`; a floating one as it is.

    Warns where `other_type`, that of the mask that goes along, is another, if `check_other`.
    """
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    _expect(
        is_float or mask.dtype == dtypes.bool,
        lambda: f"only bool and floating types of {mask_name} are supported; got {mask.dtype}",
    )
    if check_other and other_type is not None and other_type != mask.dtype:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. "
            "Use same type for both instead.",
            stacklevel=3,
        )
    if is_float:
        return mask
    return mq.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _none_or_dtype(input: Tensor | None) -> dtypes.dtype | None:
    """A tensor's dtype; None of None."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError(
            f"_none_or_dtype takes a Tensor or None, and was given a {type(input).__name__}"
        )
    return None if input is None else input.dtype


def _batched_mask(mask: Tensor, size: tuple[int, int], batch_heads: int) -> Tensor:
    expected = size if mask.dim() == 2 else (batch_heads, *size)
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported; use 2 or 3.")
    if mask.shape != expected:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _mask_per_head(mask: Tensor, bsz: int, num_heads: int, src_len: int) -> Tensor:
    _expect(
        mask.shape == (bsz, src_len),
        lambda: f"expecting key_padding_mask shape of {(bsz, src_len)}, but got {mask.shape}",
    )
    return (
        mask.view(bsz, 1, 1, src_len)
        .expand(-1, num_heads, -1, -1)
        .reshape(bsz * num_heads, 1, src_len)
    )


def _padded(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mq.pad(mask, (0, 1))


def _head_width(embed_dim: int, expected: int, num_heads: int) -> int:
    _expect(
        embed_dim == expected,
        lambda: f"was expecting embedding dimension of {expected}, but got {embed_dim}",
    )
    head_dim = embed_dim // num_heads
    _expect(
        head_dim * num_heads == embed_dim,
        lambda: f"embed_dim {embed_dim} not divisible by num_heads {num_heads}",
    )
    return head_dim


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether there is a batch dimension; AssertionError where ranks do not go together."""
    ndim = query.dim()
    _expect(
        ndim in (2, 3),
        lambda: f"query should be unbatched 2D or batched 3D but received {ndim}-D",
    )
    form = f"For {'batched' if ndim == 3 else 'unbatched'} ({ndim}-D) `query`, expected"
    _expect(
        key.dim() == value.dim() == ndim,
        lambda: (
            f"{form} `key` and `value` to be {ndim}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        ),
    )
    if key_padding_mask is not None:
        _expect(
            key_padding_mask.dim() == ndim - 1,
            lambda: (
                f"{form} `key_padding_mask` to be `None` or {ndim - 1}-D but found "
                f"{key_padding_mask.dim()}-D tensor instead"
            ),
        )
    if attn_mask is not None:
        _expect(
            attn_mask.dim() in (2, 3),
            lambda: (
                f"{form} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
                "instead"
            ),
        )
        if ndim == 2 and attn_mask.dim() == 3:
            expected: Sequence[int] = (num_heads, query.shape[0], key.shape[0])
            _expect(
                attn_mask.shape == expected,
                lambda: f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}",
            )
    return ndim == 3


def _expect(condition: bool, message: Callable[[], str]) -> None:
    if not condition:  # the class that PyTorch raises here
        raise AssertionError(message())
