"""`torch.backends`: settings of libraries that maquette does not use, kept as they are set."""

from __future__ import annotations

from maquette.torch.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
