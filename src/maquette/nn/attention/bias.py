"""`torch.nn.attention.bias`: a causal mask that is not written out until it must be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, cast

from maquette.api import functions as mq
from maquette.core.device import cpu, device
from maquette.core.dtype import bool_
from maquette.nn import functional as F
from maquette.tensor import Tensor


class CausalVariant(IntEnum):
    """To which corner of (queries, keys) the diagonal of a causal mask is aligned."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """The ``attn_mask`` of causal attention, for `scaled_dot_product_attention` only.

    variant: which corner; seq_len_q, seq_len_kv: the sizes of the mask. UPPER_LEFT is attention
    with ``is_causal``; LOWER_RIGHT of different sizes is a mask that is made for the call, where
    PyTorch on cuda has kernels that need none.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        made: CausalBias = mq.empty(0).as_subclass(cls)
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!",
                stacklevel=2,
            )

    def _materialize(self, device: device | None = None) -> Tensor:
        """The mask: bool (seq_len_q, seq_len_kv), True where a query may look."""
        whole = mq.ones(self.seq_len_q, self.seq_len_kv, device=device or cpu, dtype=bool_)
        moved = self.variant is CausalVariant.LOWER_RIGHT
        return whole.tril(self.seq_len_kv - self.seq_len_q if moved else 0)

    @staticmethod
    def _dispatch(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: CausalBias,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """`scaled_dot_product_attention` with this mask; ValueError with ``is_causal`` besides."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        bias = attn_mask
        upper = bias.seq_len_q == bias.seq_len_kv or bias.variant is CausalVariant.UPPER_LEFT
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            None if upper else bias._materialize(query.device),
            dropout_p,
            upper,
            scale=scale,
            enable_gqa=enable_gqa,
        )

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            return cls._dispatch(*args, **cast("dict[str, Any]", kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def __repr__(self) -> str:
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """The causal mask of this (queries, keys) size whose diagonal begins at the upper left."""
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left only supports 2D tensors, got {len(size)} sizes")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The causal mask of this (queries, keys) size whose diagonal ends at the lower right."""
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right only supports 2D tensors, got {len(size)}D")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)


__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
