"""`torch.sym_max` and its like: arithmetic on numbers that may be symbols.

They ask Python's operators only, so that whatever counts as a number can take part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Number = bool | int | float


def sym_int(a: Number) -> int:
    """The number without its fraction."""
    return int(a)


def sym_float(a: Number) -> float:
    """The number as a float."""
    return float(a)


def sym_not(a: bool) -> bool:
    """Whether ``a`` is false."""
    return not a


def sym_ite(b: bool, t: Number, f: Number) -> Number:
    """``t`` if ``b``, else ``f``."""
    return t if b else f


def sym_max(a: Number, b: Number) -> Number:
    """The larger; a float if either is one."""
    return _common(max(a, b), a, b)


def sym_min(a: Number, b: Number) -> Number:
    """The smaller; a float if either is one."""
    return _common(min(a, b), a, b)


def _common(chosen: Number, a: Number, b: Number) -> Number:
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


def sym_sqrt(a: Number) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_sum(args: Sequence[Number]) -> Number:
    """The sum of the numbers."""
    return sum(args)


def sym_constrain_range(size: Number, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless ``size`` is from ``min`` to ``max``, both included."""
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


sym_constrain_range_for_size = sym_constrain_range
