"""`torch.nn.attention`: the choice among kernels of attention, which changes nothing here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum


class SDPBackend(IntEnum):
    """PyTorch's kernels of scaled dot product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Taken and not used: results are the same whichever kernel computes them.

    Raises TypeError for what is no `SDPBackend`.
    """
    listed = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in listed:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"expected SDPBackends, got {backend!r}")
    yield


__all__ = ["SDPBackend", "sdpa_kernel"]
