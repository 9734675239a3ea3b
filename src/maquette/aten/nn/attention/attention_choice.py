"""Which kernel scaled dot product attention takes on a device: the operator `_fused_sdp_choice`.

Each device type registers its answer at its own key; one that registers none takes the definition
by products. The conditions under which PyTorch takes a fused operator are followed exactly, for
they decide what memory attention takes: a fused one saves a number for each row of scores, the
definition by products the scores themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from maquette.core.dtype import bfloat16, float16, float32, float64
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.remembered import remembered
from maquette.core.symbols import is_true
from maquette.library.page import define
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

HALVES = (float16, bfloat16)


class SDPBackend(Enum):
    """PyTorch's kernels of scaled dot product attention: numbers by `int()`, equal to none."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__
    # By identity, as its members are compared: 0.8 us less a choice than by names (make bench).
    __hash__ = object.__hash__


# --- what may be chosen ------------------------------------------------------------------------

Kinds = tuple[SDPBackend, ...]


class _Allowed(threading.local):
    """The kinds that a block of this thread allows; None outside of all blocks."""

    kinds: Kinds | None = None


_PREFERRED: Kinds = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
)
_EVERYWHERE = [_PREFERRED]
_HERE = _Allowed()


def allowed() -> Kinds:
    """The kinds of attention that may be taken now, the preferred one first."""
    return _EVERYWHERE[0] if _HERE.kinds is None else _HERE.kinds


def allow(kind: SDPBackend, *, enabled: bool) -> None:
    """Allow a kind or not: in the block that this thread is in, else in the whole process."""
    kinds = tuple([k for k in _PREFERRED if (enabled if k is kind else k in allowed())])
    if _HERE.kinds is None:
        _EVERYWHERE[0] = kinds
    else:
        _HERE.kinds = kinds


@contextmanager
def only(kinds: Sequence[SDPBackend], *, in_order: bool = False) -> Iterator[None]:
    """Allow these kinds alone for a block of this thread; in_order: the first one is preferred."""
    had = _HERE.kinds
    preferred = kinds if in_order else _PREFERRED
    _HERE.kinds = tuple([kind for kind in preferred if kind in kinds])
    try:
        yield
    finally:
        _HERE.kinds = had


# --- the operator ------------------------------------------------------------------------------

fused_sdp_choice = define(
    "aten::_fused_sdp_choice(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> int"
)
fused_sdp_choice.nondifferentiable()


@fused_sdp_choice.explicit
def fused_sdp_choice_explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> int:
    """By products, where the device has nothing else."""
    return SDPBackend.MATH.value


@fused_sdp_choice.kernel_on("cpu")
def fused_sdp_choice_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> int:
    """Flash attention where nothing is dropped, and its mask fits."""
    mask = None if attn_mask is None else attn_mask.meta
    learns = wants_derivative(attn_mask)
    metas = (query.meta, key.meta, value.meta)
    return _on_cpu(allowed(), *metas, mask, learns, dropout_p > 0.0, enable_gqa)


@fused_sdp_choice.kernel_on("cuda")
def fused_sdp_choice_cuda(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> int:
    """The first of the allowed kinds that takes the inputs."""
    metas = (query.meta, key.meta, value.meta)
    return _on_cuda(allowed(), *metas, attn_mask is None, is_causal, enable_gqa)


# The choice depends on metas alone, so it is remembered: 6 us less.
@remembered
def _on_cpu(
    kinds: Kinds,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    mask: TensorMeta | None,
    mask_learns: bool,
    drops: bool,
    enable_gqa: bool,
) -> int:
    _check_any(kinds, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH)
    takes_mask = mask is None or _fits_mask(mask, mask_learns, query, key)
    fits = not drops and takes_mask and _fits_flash_cpu(query, key, value, enable_gqa)
    if SDPBackend.FLASH_ATTENTION in kinds and fits:
        return SDPBackend.FLASH_ATTENTION.value
    return _products(kinds)


@remembered
def _on_cuda(
    kinds: Kinds,
    query: TensorMeta,
    key: TensorMeta,
    value: TensorMeta,
    unmasked: bool,
    is_causal: bool,
    enable_gqa: bool,
) -> int:
    _check_any(kinds, *_PREFERRED[:3])
    for kind in kinds:
        if kind is SDPBackend.FLASH_ATTENTION:
            fits = unmasked and _fits_flash(query, key, value, is_causal, enable_gqa)
        elif kind is SDPBackend.EFFICIENT_ATTENTION:
            fits = _fits_efficient(query, key, value)
        else:
            fits = kind is SDPBackend.MATH
        if fits:
            return kind.value
    return _products(kinds)


def _check_any(kinds: Kinds, *known: SDPBackend) -> None:
    check(
        any(kind in kinds for kind in known),
        lambda: (
            f"No viable backend for scaled_dot_product_attention was found: of "
            f"{', '.join(k.name for k in known)} none is allowed; allow one by "
            f"torch.nn.attention.sdpa_kernel"
        ),
    )


def _products(kinds: Kinds) -> int:
    check(
        SDPBackend.MATH in kinds,
        lambda: (
            f"No available kernel. Aborting execution: only "
            f"{', '.join(k.name for k in kinds)} is allowed, which does not take these inputs; "
            f"allow SDPBackend.MATH, too"
        ),
    )
    return SDPBackend.MATH.value


# --- what kernels take -------------------------------------------------------------------------


def _last_strides_are_one(*metas: TensorMeta) -> bool:
    return all(is_true(t.strides[-1] == 1) for t in metas)


def _heads_fit(query: TensorMeta, key: TensorMeta, value: TensorMeta, enable_gqa: bool) -> bool:
    if not (query.shape[0] == key.shape[0] == value.shape[0]):
        return False
    if enable_gqa:
        heads = query.shape[1]
        shared, other = key.shape[1], value.shape[1]
        return bool(shared == other and heads % shared == 0)
    return bool(query.shape[1] == key.shape[1] == value.shape[1])


def _fits_flash_cpu(
    query: TensorMeta, key: TensorMeta, value: TensorMeta, enable_gqa: bool
) -> bool:
    return (
        query.ndim == key.ndim == value.ndim == 4
        and _heads_fit(query, key, value, enable_gqa)
        and bool(query.shape[-1] == key.shape[-1] == value.shape[-1])
        and query.dtype in (float32, float64, *HALVES)
        and _last_strides_are_one(query, key, value)
    )


def _fits_mask(mask: TensorMeta, learns: bool, query: TensorMeta, key: TensorMeta) -> bool:
    """Whether the cpu's kernel takes the mask: two or four dimensions, no gradient."""
    if learns or mask.ndim not in (2, 4) or query.ndim != 4 or key.ndim != 4:
        return False
    wanted = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return all(
        is_true(size == 1) or bool(size == full)
        for size, full in zip(reversed(mask.shape), reversed(wanted))
    )


def _fits_flash(
    query: TensorMeta, key: TensorMeta, value: TensorMeta, is_causal: bool, enable_gqa: bool
) -> bool:
    return (
        query.dtype in HALVES
        and query.ndim == key.ndim == value.ndim == 4
        and bool(query.shape[-1] == key.shape[-1] == value.shape[-1])
        and bool(query.shape[-1] <= 256)
        and not (is_causal and not is_true(query.shape[2] == key.shape[2]))
        and _heads_fit(query, key, value, enable_gqa)
        and _last_strides_are_one(query, key, value)
    )


def _fits_efficient(query: TensorMeta, key: TensorMeta, value: TensorMeta) -> bool:
    """The memory-efficient kernel: any mask, float32 too, but widths in steps of 16 bytes."""
    step = 8 if query.dtype in HALVES else 4
    return (
        query.dtype in (float32, *HALVES)
        and query.ndim == key.ndim == value.ndim == 4
        and bool(query.shape[-1] == key.shape[-1])
        and bool(query.shape[-1] % step == 0)
        and bool(value.shape[-1] % step == 0)
        and _heads_fit(query, key, value, False)
        and _last_strides_are_one(query, key, value)
    )
