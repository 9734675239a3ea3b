"""`torch.backends.opt_einsum`: settings of the order of `einsum`, kept as set."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

enabled = True
strategy: str | None = "auto"


def is_available() -> bool:
    """Whether the library opt_einsum is installed."""
    return importlib.util.find_spec("opt_einsum") is not None


def set_flags(
    _enabled: bool | None = None, _strategy: str | None = None
) -> tuple[bool, str | None]:
    """Set what is given; what was set before."""
    global enabled, strategy
    before = enabled, strategy
    if _enabled is not None:
        enabled = _enabled
    if _strategy is not None:
        strategy = _strategy
    return before


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """`set_flags` for a block."""
    before = set_flags(enabled, strategy)
    try:
        yield
    finally:
        set_flags(*before)
