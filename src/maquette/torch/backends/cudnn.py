"""`torch.backends.cudnn`: not available; what programs set is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maquette.torch.backends.flags import OperatorFlags

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"
conv, rnn = OperatorFlags("tf32"), OperatorFlags("tf32")


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Nothing for the block."""
    yield
