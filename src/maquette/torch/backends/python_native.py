"""`torch.backends.python_native`: languages that kernels are written in beside NumPy; none here."""

from __future__ import annotations

all_dsls: list[str] = []
"""The names of such languages that are known."""
available_dsls: list[str] = []
"""Those that are installed."""


def get_dsl_operations(dsl_name: str) -> list[str]:
    """The operators that have a kernel in a language: none."""
    return []
