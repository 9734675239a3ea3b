"""`torch.backends`: settings of libraries that maquette does not use, kept as they are set."""

from __future__ import annotations

from maquette.torch.backends import (
    cpu,
    cuda,
    cudnn,
    cusparselt,
    kleidiai,
    mha,
    miopen,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
    python_native,
    quantized,
    xnnpack,
)
from maquette.torch.backends.flags import __allow_nonbracketed_mutation, flags_frozen

fp32_precision = "none"
"""What products of float32 may be rounded to; kept, the kernels do not read it."""

__all__ = [
    "__allow_nonbracketed_mutation",
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "flags_frozen",
    "fp32_precision",
    "kleidiai",
    "mha",
    "miopen",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "python_native",
    "quantized",
    "xnnpack",
]
