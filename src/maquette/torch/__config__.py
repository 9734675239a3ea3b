"""`torch.__config__`: how the library was built, for programs that print it."""

from __future__ import annotations

import numpy
import scipy  # noqa: TID253  # asked for by name only

from maquette.torch.version import __version__


def show() -> str:
    """What computes: the array libraries and their versions."""
    return (
        f"maquette for PyTorch {__version__}: NumPy {numpy.__version__}, SciPy {scipy.__version__}"
    )


def _cxx_flags() -> str:
    """Nothing: there is no C++ here."""
    return ""


def parallel_info() -> str:
    """How many threads compute: NumPy's own affair."""
    return "threads: those of NumPy's BLAS"
