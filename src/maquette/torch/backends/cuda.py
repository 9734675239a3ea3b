"""`torch.backends.cuda`: not built; flags are kept, and those of attention decide its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from maquette.aten.nn.attention.attention_choice import SDPBackend, allow, allowed, only
from maquette.core.warned import warn
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward
from maquette.torch.settings import get_float32_matmul_precision, set_float32_matmul_precision


class _Matmul:
    """Flags of cuBLAS; one of them is the precision of products by another name."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "none"  # kept

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be less precise than ``"highest"``."""
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")


matmul = _Matmul()


class SDPAParams(NamedTuple):
    """What a call of attention is asked about."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool = False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: there is no device with such a kernel."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def is_flash_attention_available() -> bool:
    """False."""
    return False


def preferred_linalg_library(backend: str | None = None) -> str:
    """``"default"``; a choice is taken and makes no difference."""
    return "default"


preferred_blas_library = preferred_linalg_library


preferred_rocm_fa_library = preferred_linalg_library


def is_ck_sdpa_available() -> bool:
    """False."""
    return False


_reduced = [False]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Kept: attention adds 16-bit floats in float32."""
    _reduced[0] = enabled


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What was set."""
    return _reduced[0]


def is_built() -> bool:
    """False."""
    return False


def flash_sdp_enabled() -> bool:
    """Whether attention may take flash attention."""
    return SDPBackend.FLASH_ATTENTION in allowed()


def enable_flash_sdp(enabled: bool) -> None:
    """Allow flash attention, or not."""
    allow(SDPBackend.FLASH_ATTENTION, enabled=enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may take the memory-efficient kernel."""
    return SDPBackend.EFFICIENT_ATTENTION in allowed()


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow the memory-efficient kernel, or not."""
    allow(SDPBackend.EFFICIENT_ATTENTION, enabled=enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may be computed by products of matrices."""
    return SDPBackend.MATH in allowed()


def enable_math_sdp(enabled: bool) -> None:
    """Allow the definition by products, or not."""
    allow(SDPBackend.MATH, enabled=enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` set; there is no such kernel here."""
    return SDPBackend.CUDNN_ATTENTION in allowed()


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept; there is no such kernel here."""
    allow(SDPBackend.CUDNN_ATTENTION, enabled=enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Allow only the named kernels of attention, for a block of this thread.

    The former name of `torch.nn.attention.sdpa_kernel`: FutureWarning.
    """
    warn("sdp_kernel is deprecated: call torch.nn.attention.sdpa_kernel", FutureWarning)
    said = {
        SDPBackend.FLASH_ATTENTION: enable_flash,
        SDPBackend.MATH: enable_math,
        SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient,
        SDPBackend.CUDNN_ATTENTION: enable_cudnn,
    }
    with only([kind for kind, enabled in said.items() if enabled]):
        yield


__getattr__ = forward(__name__)
