"""`flex_attention`: attention whose scores and mask are functions of positions.

``score_mod(score, b, h, q, kv)`` and ``mask_mod(b, h, q, kv)`` are written for one element and run
for all at once by `vmap`. A `BlockMask` says which blocks of keys a block of queries sees at all;
the reference here computes every score, so the blocks are what programs ask for, and the mask
function decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from maquette.api import functions as mq
from maquette.core.device import device as Device
from maquette.core.dtype import bool_, int32
from maquette.core.errors import check_value
from maquette.dispatch.registry import ops
from maquette.tensor.tensor import Tensor
from maquette.transforms import vmap

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_ONE_BLOCK = 1 << 30  # larger than any sequence
ScoreMod = Callable[..., Tensor]
MaskMod = Callable[..., Tensor]
# Programs annotate with them, by PyTorch's names.
_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
BlockSize = int | tuple[int, int]

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "create_nested_block_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What `flex_attention` is to give beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: log-sum-exp and maxima of the scores, shape (batch, heads, queries)."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _identity(
    score: Tensor, batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor
) -> Tensor:
    """A function of scores that changes none."""
    return score


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask function by which every query sees every key."""
    return batch.new_ones((), dtype=bool_)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask function of what all of these let through."""
    check_value(
        all(map(callable, mask_mods)),
        lambda: f"All inputs should be callable mask_mods: {mask_mods}",
    )

    def both(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = b.new_ones((), dtype=bool_)
        for mask in mask_mods:
            result = result & mask(b, h, q, kv)
        return result

    return both


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The mask function of what any of these lets through."""
    check_value(
        all(map(callable, mask_mods)),
        lambda: f"All inputs should be callable mask_mods: {mask_mods}",
    )

    def either(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=bool_)
        for mask in mask_mods:
            result = result | mask(b, h, q, kv)
        return result

    return either


def _over_all(function: Callable[..., Any], *, scores: bool) -> Callable[..., Any]:
    """A function of one position as one of all: batches, heads, queries, keys."""
    first = (0,) if scores else ()
    for at in (3, 2, 1, 0):  # the innermost dimension first
        dims = tuple(0 if i == at else None for i in range(4))
        function = vmap(function, in_dims=(*first, *dims))
    return function


def create_mask(
    mod_fn: ScoreMod | MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device | str | None = None,
) -> Tensor:
    """The values of a mask function, or of a score function on zeros: (B, H, Q_LEN, KV_LEN)."""
    places = [mq.arange(0, n or 1, device=device) for n in (B, H, Q_LEN, KV_LEN)]
    if mod_fn.__code__.co_argcount == 5 if hasattr(mod_fn, "__code__") else False:
        zeros = mq.zeros([len(p) for p in places], device=device)
        values = _over_all(mod_fn, scores=True)(zeros, *places)
        return mq.isneginf(values).logical_not()
    mask: Tensor = _over_all(mod_fn, scores=False)(*places)
    return mask


class BlockMask:
    """Which blocks of keys each block of queries sees: shape (batch, heads, queries, keys).

    ``kv_indices`` (batch, heads, query blocks, key blocks, int32) lists the blocks that are seen in
    part, the first ``kv_num_blocks`` of each row; ``full_kv_...`` those that are seen whole.
    ``mask_mod`` decides element by element. Indexing picks batches and heads.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        # In which order a kernel of PyTorch's adds its gradients up; kept.
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: BlockSize = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Any = None,
    ) -> BlockMask:
        """The mask of these blocks; which queries see each block of keys is worked out."""
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            rows, columns = kv_indices.shape[-2:]
            seq_lengths = (rows * size[0], columns * size[1])
        q: tuple[Tensor | None, Tensor | None] = (None, None)
        full_q: tuple[Tensor | None, Tensor | None] = (None, None)
        if compute_q_blocks:
            q = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_q = _ordered(_dense(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            *q, *full_q, size, mask_mod or noop_mask,
            dq_write_order=dq_write_order, dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All parts, in the order of the constructor."""
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, *self._tensors().values(), *size, self.mask_mod)

    def _tensors(self) -> dict[str, Tensor | None]:
        names = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
        others = ("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices")
        return {name: getattr(self, name) for name in (*names, *others)}

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries, keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def __getitem__(self, index: object) -> BlockMask:
        def picked(t: Tensor | None) -> Tensor | None:
            return None if t is None else t[index]

        num, indices = self.kv_num_blocks[index], self.kv_indices[index]
        return BlockMask.from_kv_blocks(
            num, indices, picked(self.full_kv_num_blocks), picked(self.full_kv_indices),
            BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=None, seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def numel(self) -> int:
        """Elements of the mask, seen or not."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """1 for each block that is seen at all: (batch, heads, query blocks, key blocks)."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return partial
        return partial | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def sparsity(self) -> float:
        """The percentage of blocks that are not seen."""
        dense = self.to_dense()
        return float(100 * (1 - dense.sum().item() / dense.numel()))

    def to(self, device: Device | str) -> BlockMask:
        """The same mask on another device."""

        def moved(t: Tensor | None) -> Any:
            return None if t is None else t.to(device)

        tensors = [moved(t) for t in self._tensors().values()]
        parts: tuple[Any, ...] = (*tensors, self.BLOCK_SIZE, self.mask_mod)
        return BlockMask(self.seq_lengths, *parts)

    def to_string(self, grid_size: tuple[int, int] | int = (20, 20), limit: int = 4) -> str:
        """The blocks as a picture: full, partly seen, not seen."""
        full = (
            mq.zeros_like(self.kv_indices)
            if self.full_kv_num_blocks is None or self.full_kv_indices is None
            else _dense(self.full_kv_num_blocks, self.full_kv_indices)
        )
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        rows = []
        for whole, part in zip(full.flatten(0, -3)[0].tolist(), partial.flatten(0, -3)[0].tolist()):
            rows.append("".join("██" if w else "░░" if p else "  " for w, p in zip(whole, part)))
        return "\n".join(rows)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"BlockMask(shape=({shape}), sparsity={self.sparsity():.2f}%)"

    __str__ = __repr__


def _dense(num_blocks: Tensor, indices: Tensor) -> Tensor:
    """1 at the first ``num_blocks`` indices of each row, else 0; shape of ``indices``."""
    columns = indices.shape[-1]
    listed = mq.arange(columns, device=indices.device) < num_blocks.unsqueeze(-1)
    places = mq.where(listed, indices.long(), columns)
    wide = indices.new_zeros((*indices.shape[:-1], columns + 1))
    return wide.scatter(-1, places, 1)[..., :columns]


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row are seen, and all blocks with those that are seen first."""
    seen = dense.to(int32)
    indices = mq.argsort(seen, dim=-1, descending=True, stable=True)
    return seen.sum(-1).to(int32), indices.to(int32).contiguous()


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device | str | None = None,
    BLOCK_SIZE: BlockSize = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: object = True,
) -> BlockMask:
    """The `BlockMask` of a mask function; None for B or H: the same for all.

    separate_full_blocks: whether blocks that are seen whole have a list of their own. An order of
    writing is of PyTorch's CUDA kernels alone: NotImplementedError.
    """
    if compute_dq_write_order:
        raise NotImplementedError(
            "create_block_mask(compute_dq_write_order=True) is not supported by maquette: leave "
            "it out, gradients are added up in one order"
        )
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device).to(bool_)
    mask = mask.expand(B or 1, H or 1, Q_LEN, KV_LEN)
    down, across = -Q_LEN % size[0], -KV_LEN % size[1]
    padded = mq.constant_pad_nd(mask.to(int32), (0, across, 0, down))
    rows, columns = padded.shape[2] // size[0], padded.shape[3] // size[1]
    tiles = padded.reshape(B or 1, H or 1, rows, size[0], columns, size[1])
    seen = tiles.permute(0, 1, 2, 4, 3, 5).sum((-2, -1))
    full_num = full_indices = None
    if separate_full_blocks:
        full = seen == size[0] * size[1]
        full_num, full_indices = _ordered(full)
        num, indices = _ordered((seen > 0) & ~full)
    else:
        num, indices = _ordered(seen > 0)
    return BlockMask.from_kv_blocks(
        num, indices, full_num, full_indices,
        BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN),
    )  # fmt: skip


def create_nested_block_mask(*args: object, **kwargs: object) -> BlockMask:
    """NotImplementedError: there are no ragged tensors here yet."""
    raise NotImplementedError(
        "create_nested_block_mask is not supported by maquette: pad the sequences and use "
        "create_block_mask"
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention of (batch, heads, length, width) tensors with modified and masked scores.

    scale: 1 / sqrt(width) by default. enable_gqa: heads of queries share heads of keys. return_lse:
    also the log-sum-exp of the scores; return_aux: what it asks for. ValueError for other ranks,
    heads that do not fit, or a mask of other lengths.
    """
    _check(query, key, value, block_mask, enable_gqa)
    if enable_gqa:
        share = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(share, dim=1) for t in (key, value))
    if key.shape[0] != query.shape[0]:
        key, value = (t.expand(query.shape[0], -1, -1, -1) for t in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    masked = block_mask is not None and block_mask.mask_mod is not noop_mask
    mask: tuple[Any, ...] = block_mask.as_tuple() if block_mask is not None and masked else ()
    operator = ops.higher_order.flex_attention
    options = dict(kernel_options) if kernel_options else {}
    out, lse, most = operator(query, key, value, score_mod, mask, scale, options)
    lse = lse * math.log(2)  # the operator's is in powers of two
    if return_aux is not None:
        return out, AuxOutput(
            lse if return_aux.lse else None, most if return_aux.max_scores else None
        )
    return (out, lse) if return_lse else out


def _check(
    query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | None, enable_gqa: bool
) -> None:
    for name, t in (("query", query), ("key", key), ("value", value)):
        check_value(
            t.ndim == 4,
            lambda name=name, t=t: f"NYI: query, key, and value must be 4D tensors; {name} is {t}",
        )
    check_value(
        query.dtype is key.dtype is value.dtype,
        lambda: (
            f"Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        ),
    )
    heads, shared = query.shape[1], key.shape[1]
    check_value(
        enable_gqa or heads == shared,
        lambda: (
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
            f"Hkv={shared}. Try setting enable_gqa=True for GQA."
        ),
    )
    check_value(
        not enable_gqa or heads % shared == 0,
        lambda: (
            f"Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={shared}."
        ),
    )
    if mask is not None:
        given, lengths = (query.shape[-2], key.shape[-2]), tuple(mask.seq_lengths)
        check_value(
            lengths == given or lengths == (_ONE_BLOCK, _ONE_BLOCK),
            lambda: (
                f"block_mask was created for block_mask.shape={mask.shape} but got "
                f"q_len={given[0]} and kv_len={given[1]}; create it for these lengths"
            ),
        )
