"""`torch.backends.nnpack`: maquette's kernels are NumPy's; the setting is kept and not used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_state = [True]


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Keep the setting; the one that was kept before."""
    before = _state[0]
    _state[0] = _enabled
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Keep the setting for the block."""
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(*before)
