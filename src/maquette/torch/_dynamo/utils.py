"""`torch._dynamo.utils`: questions that libraries ask of a compiler; there is none."""

from __future__ import annotations


def is_compile_supported(device_type: str) -> bool:
    """False: nothing is compiled for any device."""
    return False
