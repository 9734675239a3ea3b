"""`torch.backends.opt_einsum`: settings of the order of `einsum`, kept as set."""

from __future__ import annotations

import importlib.util

enabled = True
strategy: str | None = "auto"


def is_available() -> bool:
    """Whether the library opt_einsum is installed."""
    return importlib.util.find_spec("opt_einsum") is not None
