"""Whether the settings of `torch.backends` may be set outside of blocks: here they always may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def flags_frozen() -> bool:
    """False: nothing is frozen."""
    return False


@contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:  # PyTorch's name
    """A block in which settings may be set one by one, as anywhere here (MONAI makes one)."""
    yield
