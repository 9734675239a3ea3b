"""Multi-head attention as a layer: the parameters; the arithmetic is `nn.functional`'s."""

from maquette.core.dtype import dtype as dtype_
from maquette.nn import functional as F
from maquette.nn import init
from maquette.nn.base import Module
from maquette.nn.functional.attention import _canonical_mask, _none_or_dtype
from maquette.nn.modules._construct import DeviceLike, add_parameter
from maquette.nn.modules.linear import NonDynamicallyQuantizableLinear
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor


class MultiheadAttention(Module):
    """Attention of several heads between projections (Vaswani et al. 2017).

    Query, key and value of one width share `in_proj_weight`; other widths (kdim, vdim) have a
    weight each. Sequences come first unless batch_first. Different from PyTorch: in evaluation
    there is no fused kernel for the whole layer; the result is the same.
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike | None = None,
        dtype: dtype_ | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got embed_dim="
                f"{embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads != 0:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads; got {embed_dim} and {num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self._mq_add_projections(device, dtype)
        add_parameter(self, "in_proj_bias", (3 * embed_dim,), device, dtype, wanted=bias)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        if add_bias_kv:
            add_parameter(self, "bias_k", (1, 1, embed_dim), device, dtype)
            add_parameter(self, "bias_v", (1, 1, embed_dim), device, dtype)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _mq_add_projections(self, device: DeviceLike | None, dtype: dtype_ | None) -> None:
        packed, width = self._qkv_same_embed_dim, self.embed_dim
        separate = {"q_proj_weight": width, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if packed:
            add_parameter(self, "in_proj_weight", (3 * width, width), device, dtype)
        for name, columns in separate.items():
            add_parameter(self, name, (width, columns), device, dtype, wanted=not packed)
        if not packed:
            self.register_parameter("in_proj_weight", None)

    def _reset_parameters(self) -> None:
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.constant_(bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """One mask of both, and its kind: 1 (of keys alone), 2 (one of scores is there), None.

        A mask of scores becomes (batch, heads, length, length); that of keys is added to it.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        # A three-dimensional mask has batch and heads as one dimension.
        whole = (
            attn_mask.view(batch, self.num_heads, -1, length)
            if attn_mask.dim() == 3
            else attn_mask.view(1, 1, length, length)
        ).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is None:
            return whole, 2
        keys = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return whole + keys, 2

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(output, weights or None); shapes and masks as `multi_head_attention_forward` says."""
        key_padding_mask = _canonical_mask(
            key_padding_mask,
            "key_padding_mask",
            _none_or_dtype(attn_mask),
            "attn_mask",
            query.dtype,
        )
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
        swap = self.batch_first and query.dim() == 3
        if swap:
            query, key, value = _transposed(query, key, value)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(1, 0) if swap else output), weights


def _transposed(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each with its first two dimensions swapped; what was one tensor stays one."""
    q = query.transpose(1, 0)
    k = q if key is query and key is value else key.transpose(1, 0)
    v = k if value is key else value.transpose(1, 0)
    return q, k, v
