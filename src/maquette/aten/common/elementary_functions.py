"""Elementary functions of large arrays where NumPy computes one element at a time.

NumPy's tangent, inverse and hyperbolic functions, `expm1`, `exp2` and `log1p` take 10 to 25 ns an
element where the processor has no AVX-512, and its sine and cosine of float64 everywhere; compiled
loops take 1 to 2.5 ns. Where NumPy is fast, its values are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.aten.common.large_arrays import SMALL, loops_of_floats

Array = npt.NDArray[Any]

_ALWAYS = frozenset({("sin", "d"), ("cos", "d")})


@cache
def is_one_by_one(name: str, letter: str) -> bool:
    """Whether NumPy has no wide instructions for a function of one type, on this processor."""
    if (name, letter) in _ALWAYS:
        return True
    from numpy.lib import introspect  # noqa: PLC0415  # nothing else needs it

    found = introspect.opt_func_info(func_name=f"^{name}$").get(name, {})
    chosen = found.get(letter * 2, {}).get("current", "baseline")
    return chosen.startswith("baseline")


def within(
    xp: ModuleType, function: Callable[[Array], Array], x: Array, bounds: tuple[float, float]
) -> Array:
    """``function(x)`` of what is between the bounds, where 0 is too; NaN of what is outside.

    NumPy and SciPy take numbers that a function is not defined for one at a time: `log1p` of 10⁶,
    a third of them below -1, 6.2 to 1 ms; `erfinv`, most of them outside, 2300 to 10 ms.
    """
    if xp is not np or x.size < SMALL or x.dtype.char not in "fd":
        return function(x)
    low, high = bounds
    if x.min() >= low and x.max() <= high:
        return function(x)
    # By products, for a choice of elements costs as much again: 0 / 0 is the NaN of those outside.
    inside = ((x >= low) & (x <= high)).astype(x.dtype)
    return function(x * inside) * (inside / inside)


def elementary(xp: ModuleType, name: str, x: Array) -> Array:
    """``getattr(xp, name)(x)``."""
    loops = loops_of_floats(xp, x)
    if loops is not None and is_one_by_one(name, x.dtype.char):
        looped: Array = loops.function(name, x)
        return looped
    found: Array = getattr(xp, name)(x)
    return found
