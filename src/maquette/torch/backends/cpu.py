"""`torch.backends.cpu`: what the processor can do, as far as programs ask."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """DEFAULT: NumPy chooses its instructions by itself."""
    return "DEFAULT"
