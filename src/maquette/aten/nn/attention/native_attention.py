"""`_native_multi_head_attention`: projections, attention of each head and the output's projection.

PyTorch's is one kernel without derivative; here it is a definition by products, which has one.
`nn.MultiheadAttention` does not come by.
"""

from __future__ import annotations

import math

from maquette.aten.common.operators import aten
from maquette.core.dtype import bool_
from maquette.core.errors import check
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

_transform_bias_rescale_qkv = define(
    "aten::_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> "
    "(Tensor, Tensor, Tensor)",
)
_transform_bias_rescale_qkv.describe(
    "Three projections side by side, with their bias, as queries (divided by the root of a head's "
    "size), keys and values of each head: (batch, heads, length, size)."
)


@_transform_bias_rescale_qkv.composite
def split_by_heads(qkv: Tensor, qkv_bias: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    check(qkv.ndim == 3, lambda: f"expected 3-D `qkv`, got {qkv.ndim}-D tensor")
    batch, length, wide = qkv.shape
    check(wide % 3 == 0, lambda: f"expected a multiple of 3 as last size of `qkv`; got {wide}")
    size = wide // 3
    check(
        num_heads > 0 and size % num_heads == 0,
        lambda: f"`embed_dim` {size} must divide evenly by `num_heads` {num_heads}",
    )
    heads = (qkv + qkv_bias).reshape(batch, length, 3, num_heads, size // num_heads)
    query, key, value = heads.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
    return query / math.sqrt(size // num_heads), key.clone(), value.clone()


_native_multi_head_attention = define(
    "aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, "
    "int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, "
    "Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, "
    "int? mask_type=None) -> (Tensor, Tensor)",
)
_native_multi_head_attention.describe(
    "Attention of several heads over (batch, length, embed_dim), and its weights if they are "
    "wanted. The mask is True where nothing is seen; its kind is that of `_masked_softmax`."
)


def _check_operands(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, weights: list[Tensor]
) -> None:
    check(query.ndim == 3, lambda: f"expected 3-D `query`, got {query.ndim}-D tensor")
    check(
        query.shape[2] == embed_dim,
        lambda: f"passed-in embed_dim {embed_dim} didn't match last dim of query {query.shape[2]}",
    )
    check(
        query.shape == key.shape == value.shape,
        lambda: (
            f"expected `query`/`key`/`value` shapes to match; got {list(query.shape)}, "
            f"{list(key.shape)}, {list(value.shape)}"
        ),
    )
    names = ("qkv_weight", "qkv_bias", "proj_weight", "proj_bias")
    shapes = ([3 * embed_dim, embed_dim], [3 * embed_dim], [embed_dim, embed_dim], [embed_dim])
    for name, weight, shape in zip(names, weights, shapes, strict=True):
        check(
            list(weight.shape) == shape,
            lambda name=name, weight=weight, shape=shape: (
                f"expected `{name}` of shape {shape}, its first dim by `embed_dim` {embed_dim}; "
                f"got {list(weight.shape)}"
            ),
        )
    check(
        num_head > 0 and embed_dim % num_head == 0,
        lambda: f"`embed_dim` {embed_dim} must divide evenly by `num_heads` {num_head}",
    )


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor) -> Tensor:
    """The three projections side by side: one product where one tensor is projected."""
    if query is key is value:
        return aten.linear(query, weight)
    parts = zip((query, key, value), weight.chunk(3), strict=True)
    return aten.cat([aten.linear(x, w) for x, w in parts], -1)


_native_multi_head_attention.autocast(cpu="lower")


@_native_multi_head_attention.composite
def attend_by_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor | None]:
    given = [qkv_weight, qkv_bias, proj_weight, proj_bias]
    _check_operands(query, key, value, embed_dim, num_head, given)
    projected = _projected(query, key, value, qkv_weight)
    queries, keys, values = aten._transform_bias_rescale_qkv(projected, qkv_bias, num_head)
    scores = queries @ keys.transpose(-1, -2)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        check(mask_type is not None, lambda: "Mask Type should be defined")
        weights = aten._masked_softmax(scores, mask.to(bool_), scores.ndim - 1, mask_type)
    seen = (weights @ values).transpose(1, 2).reshape(query.shape)
    out = aten.linear(seen, proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights
