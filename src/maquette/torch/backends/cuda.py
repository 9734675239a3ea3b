"""`torch.backends.cuda`: not built; what programs set is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class _Matmul:
    """Flags of cuBLAS."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()
_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """False."""
    return False


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` set."""
    return _kernels["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept; on cpu attention has one kernel."""
    _kernels["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` set."""
    return _kernels["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept."""
    _kernels["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` set."""
    return _kernels["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept."""
    _kernels["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` set."""
    return _kernels["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept."""
    _kernels["cudnn"] = enabled


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Nothing for the block."""
    yield
