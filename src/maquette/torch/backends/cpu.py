"""`torch.backends.cpu`: what the processor can do, as far as programs ask."""

from __future__ import annotations

import numpy as np


def get_cpu_capability() -> str:
    """The widest vector instructions that the processor has: AVX512, AVX2 or DEFAULT.

    Programs choose by it how they compute: torchvision resizes bytes as bytes from AVX2 on.
    """
    # NumPy has no public name for it; `numpy.show_runtime` prints the same table.
    has = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    if all(has.get(name, False) for name in ("AVX512_SKX", "FMA3")):
        return "AVX512"
    return "AVX2" if all(has.get(name, False) for name in ("AVX2", "FMA3")) else "DEFAULT"
