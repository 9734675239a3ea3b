"""`torch.backends.mkldnn`: maquette's kernels are NumPy's, which has libraries of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maquette.torch.backends.flags import OperatorFlags

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"
matmul, conv, rnn = OperatorFlags(), OperatorFlags(), OperatorFlags()


def is_available() -> bool:
    """False."""
    return False


@contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Nothing for the block."""
    yield
