"""Which compiled step an operator's kernel is on large arrays of 16-bit floats (`facts.on_halves`).

A rule takes the kernel's parameters and gives the name of a step of `maquette.backends.loops`, its
operands and its numbers, as the kernel would compute with them in single precision; None where the
kernel itself is to do it. That operands are of one type, the caller sees to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Step = tuple[str, tuple[Array, ...], tuple[float, ...]]
Rule = Callable[..., Step | None]

_SINGLE = np.dtype(np.float32)


def _is_number(value: object) -> bool:
    return value.__class__ is float or value.__class__ is int


def _are_arrays(*values: object) -> bool:
    return all(isinstance(v, np.ndarray) for v in values)


def _single(number: float) -> float:
    return float(np.asarray(number, _SINGLE))


_KEPT = frozenset({0.0, 1.0, 6.0, math.inf, -math.inf})


def _rounded(number: float, like: Array) -> float:
    """A number as an operand of a 16-bit type is one."""
    if number in _KEPT:  # most often
        return float(number)
    return float(np.asarray(number, _SINGLE).astype(like.dtype))


def of_arrays(name: str) -> Rule:
    """The step of all parameters, which are arrays."""
    return lambda *given: (name, given, ()) if _are_arrays(*given) else None


def times_number(factor: float) -> Rule:
    """A product with one number."""
    return lambda self: ("times", (self,), (_single(factor),))


def of_sum(sign: int) -> Rule:
    """``self + sign * alpha * other``."""

    def rule(self: Any, other: Any, alpha: Any) -> Step | None:
        if not _is_number(alpha):
            return None
        if _are_arrays(self, other):
            return "add", (self, other), (sign * _rounded(alpha, self),)
        if _are_arrays(self) and _is_number(other):
            added = np.float32(_rounded(other, self)) * np.float32(_rounded(alpha, self))
            return "plus", (self,), (sign * float(added),)
        if _are_arrays(other) and _is_number(self) and sign < 0 and alpha == 1:
            return "from", (other,), (_rounded(self, other),)
        return None

    return rule


def of_product(name: str, with_number: str) -> Rule:
    """A product or quotient, whose second operand is not rounded if it is a number."""

    def rule(self: Any, other: Any) -> Step | None:
        if _are_arrays(self, other):
            return name, (self, other), ()
        if _are_arrays(self) and _is_number(other):
            return with_number, (self,), (_single(other),)
        return None

    return rule


def between(self: Array, low: Any = None, high: Any = None) -> Step | None:
    """Each element brought between bounds, which are numbers rounded like operands, or arrays."""
    if _are_arrays(low, high):
        return "clip_between", (self, low, high), ()
    bounds = -math.inf if low is None else low, math.inf if high is None else high
    if not all(map(_is_number, bounds)):
        return None
    least, most = (_rounded(b, self) for b in bounds)
    return None if math.isnan(least) or math.isnan(most) else ("clip", (self,), (least, most))


def with_numbers(name: str, arrays: int = 1) -> Rule:
    """The step of the first parameters and the numbers after them, which are not rounded."""

    def rule(*given: Any) -> Step | None:
        operands, numbers = given[:arrays], given[arrays : arrays + 2]
        if not (_are_arrays(*operands) and all(map(_is_number, numbers))):
            return None
        return name, operands, tuple(map(_single, numbers))

    return rule


_POWERS = {
    2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", -2: "inverse_square",
}  # fmt: skip


def of_power(self: Array, exponent: Any) -> Step | None:
    """A power with an exponent that is computed by products, quotients and roots."""
    name = _POWERS.get(exponent) if _is_number(exponent) else None
    return None if name is None else (name, (self,), ())
