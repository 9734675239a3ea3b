"""`torch.backends.mkl`: maquette's kernels are NumPy's, which has libraries of its own."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward


def is_available() -> bool:
    """False."""
    return False


__getattr__ = forward(__name__)
