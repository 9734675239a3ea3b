"""`torch.backends.mkl`: maquette's kernels are NumPy's, which has libraries of its own."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
