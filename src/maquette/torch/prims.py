"""`torch._prims`: the operators ``torch.ops.prims`` by name, and its helpers, as ``utils``."""

from __future__ import annotations

import sys

from maquette.dispatch.packet import find_packet
from maquette.torch import prims_common as utils

__all__ = ["utils"]

# Primitives that compute what the operator of the same name does to operands of one dtype.
_AS_OPERATORS = frozenset(
    """
    abs acos acosh add amax amin as_strided as_strided_scatter asin asinh atan atan2 atanh
    bitwise_and bitwise_not bitwise_or bitwise_xor cat ceil clone conj conj_physical cos cosh
    digamma div eq erf erfc exp exp2 expm1 fill floor fmax fmin fmod frexp gcd ge gt hypot igamma
    igammac imag isfinite item le lgamma log log10 log1p log2 lt maximum minimum mul ne neg
    nextafter pow prod real reciprocal remainder reshape round rsqrt scalar_tensor sign signbit sin
    sinh sqrt sub sum svd tan tanh transpose trunc var where
    """.split()
)


def __getattr__(name: str) -> object:
    found = None
    if not name.startswith("__"):
        found = find_packet(f"prims::{name}") or getattr(utils, name, None)
        if found is None and name in _AS_OPERATORS:
            found = find_packet(f"aten::{name}")
    if found is None:
        raise AttributeError(f"module 'torch._prims' has no attribute '{name}': no such operator")
    setattr(sys.modules[__name__], name, found)
    return found
