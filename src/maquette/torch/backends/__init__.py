"""`torch.backends`: settings of libraries that maquette does not use, kept as they are set."""

from __future__ import annotations

from maquette.torch.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
