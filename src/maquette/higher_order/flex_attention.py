"""`flex_attention`: attention whose scores a function changes and whose mask is a function.

Here is the operator, which computes with plain operators. Block masks and the public function,
which checks its arguments, are `maquette.nn.attention.flex_attention`.
"""

from __future__ import annotations

import math
from typing import Any

from maquette.core.dtype import float32, float64
from maquette.higher_order.common import Function, FunctionalHop
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators
from maquette.transforms.vmap import vmap

_INDICES = ((0, None, None, None), (None, 0, None, None), (None, None, 0, None))


def over_positions(function: Function, *, with_score: bool, others: int = 0) -> Function:
    """A function of one position as a function of all: of (batch,), (heads,), (rows,), (columns,).

    with_score: whether a score of shape (batch, heads, rows, columns) comes first. others: how many
    further arguments come last, the same everywhere.
    """
    found = function
    for dims in ((None, None, None, 0), *_INDICES[::-1]):
        in_dims = (*((0,) if with_score else ()), *dims, *[None] * others)
        found = vmap(found, in_dims=in_dims)
    return found


def _shared_places(places: list[Tensor], block_mask: tuple[Any, ...]) -> list[Tensor]:
    """Positions for the mask: one batch or head where its blocks say that all have the same."""
    indices = next((t for t in block_mask if isinstance(t, Tensor) and t.dim() == 4), None)
    if indices is None:
        return places
    firsts = [p[:1] if n == 1 else p for p, n in zip(places, indices.shape[:2])]
    return [*firsts, *places[2:]]


class FlexAttention(FunctionalHop):
    """``higher_order.flex_attention(query, key, value, score_mod, block_mask, scale, ...)``.

    Gives ``(out, logsumexp, max_scores)``; logsumexp is in powers of two, as PyTorch's is.
    score_mod: None for none. block_mask: the parts of a `BlockMask`, the mask's function last, or
    () for none.
    """

    def __init__(self) -> None:
        super().__init__("flex_attention", cacheable=True)

    def eager(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Function | None,
        block_mask: tuple[Any, ...],
        scale: float,
        kernel_options: dict[str, Any],
        score_mod_other_buffers: tuple[Any, ...] = (),
        mask_mod_other_buffers: tuple[Any, ...] = (),
    ) -> Any:
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key = key.repeat_interleave(groups, 1)
            value = value.repeat_interleave(groups, 1)
        working = float64 if query.dtype is float64 else float32
        scores = (query @ key.transpose(-2, -1)).to(working) * scale
        batch, heads, rows, columns = scores.shape
        places = [operators.arange(n, device=query.device) for n in (batch, heads, rows, columns)]
        if score_mod is not None:
            modified = over_positions(
                score_mod, with_score=True, others=len(score_mod_other_buffers)
            )
            scores = modified(scores, *places, *score_mod_other_buffers).to(working)
        mask_mod = block_mask[-1] if block_mask else None
        if mask_mod is not None:
            allowed = over_positions(mask_mod, with_score=False, others=len(mask_mod_other_buffers))
            shared = _shared_places(places, block_mask)
            mask = allowed(*shared, *mask_mod_other_buffers)
            scores = operators.where(mask, scores, -math.inf)
        # A row that sees nothing gives zeros, not NaN.
        weights = operators._safe_softmax(scores, -1)
        out = weights.to(query.dtype) @ value
        lse, highest = scores.logsumexp(-1), scores.amax(-1)
        return out, lse / math.log(2), highest

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        query = args[0]
        index = operators.zeros([], dtype=operators.arange(1).dtype, device=query.device)
        return (operators.new_zeros(query, []), *[index] * 4, *args[7])

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:  # recorded as what it computes: a mask's function may hold tensors
            return self.eager(*args, **kwargs)


flex_attention = FlexAttention()

__all__ = ["FlexAttention", "flex_attention", "over_positions"]
