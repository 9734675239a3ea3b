"""Whether the settings of `torch.backends` may be set outside of blocks: here they always may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class OperatorFlags:
    """Settings of one kind of operators; kept, the kernels do not read them."""

    def __init__(self, fp32_precision: str = "none") -> None:
        self.fp32_precision = fp32_precision


def flags_frozen() -> bool:
    """False: nothing is frozen."""
    return False


@contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:  # PyTorch's name
    """A block in which settings may be set one by one, as anywhere here (MONAI makes one)."""
    yield
