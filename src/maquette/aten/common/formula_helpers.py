"""Small pieces of derivative formulas that several families use.

They speak operators, so they work under every transform; a value may be a tensor or a number.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from maquette.aten.common.fresh_writes import outside_its_mode
from maquette.aten.common.operators import aten
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex
Value = Tensor | Number
V = TypeVar("V", bound=Value)


def conj(value: V) -> V:
    """The conjugate of a tensor or a number; what is real is returned as it is."""
    found: Any = value
    if isinstance(value, Tensor):
        found = value.conj() if value.meta.dtype.is_complex else value
    elif isinstance(value, complex):
        found = value.conjugate()
    return found


# A formula's arithmetic with a number is the overload of a tensor and a number, which PyTorch's
# formulas call: `x * 2` in one would show modes and graphs what a program's own `x * 2` shows.


def times(value: Tensor, number: Number) -> Tensor:
    """``value * number``."""
    result: Tensor = aten.mul.Scalar(value, number)
    return result


def over(value: Tensor, number: Number) -> Tensor:
    """``value / number``."""
    result: Tensor = aten.div.Scalar(value, number)
    return result


def plus(value: Tensor, number: Number) -> Tensor:
    """``value + number``."""
    result: Tensor = aten.add.Scalar(value, number)
    return result


def minus(value: Tensor, number: Number) -> Tensor:
    """``value - number``."""
    result: Tensor = aten.sub.Scalar(value, number)
    return result


def zero_for(value: Tensor) -> Tensor:
    """The 0-dim zero that, in `where` beside ``value``, stands for zeros of any shape."""
    if outside_its_mode(value):
        return value.new_zeros(())
    meta = value.meta
    zero: Tensor = aten.scalar_tensor.default(0.0, dtype=meta.dtype, device=meta.device)
    return zero


def no_slope(grad: Tensor) -> Tensor:
    """The gradient of a function that is flat: zeros."""
    return aten.zeros_like(grad)


def not_implemented(what: str) -> NoReturn:
    """The derivative that nobody knows how to compute; ``what`` names it as PyTorch does."""
    raise NotImplementedError(f"the derivative for '{what}' is not implemented.")


def real_part(value: Tensor) -> Tensor:
    """The real part of a tensor; what is real is returned as it is."""
    return aten.real(value) if value.meta.dtype.is_complex else value
