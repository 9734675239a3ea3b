"""Small pieces of derivative formulas that several families use, and operators by name.

They speak operators, so they work under every transform; a value may be a tensor or a number.
"""

from __future__ import annotations

from typing import Any

from maquette.aten.faces import find_function
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex
Value = Tensor | Number


class Operators:
    """Every operator as a function, found when first used.

    Pages call those of other families through it, so that families need not import one another:
    `maquette.aten.functions`, which users see, itself imports some of them.
    """

    def __getattr__(self, name: str) -> Any:  # what an operator returns, its schema says
        found = None if name.startswith("__") else find_function(name)
        if found is None:
            raise AttributeError(f"there is no operator aten::{name}")
        setattr(self, name, found)
        return found


aten = Operators()


def conj(value: Value) -> Value:
    """The conjugate of a tensor or a number; what is real is returned as it is."""
    if isinstance(value, Tensor):
        return value.conj() if value.meta.dtype.is_complex else value
    return value.conjugate() if isinstance(value, complex) else value


def no_slope(grad: Tensor) -> Tensor:
    """The gradient of a function that is flat: zeros."""
    return aten.zeros_like(grad)


def real_part(value: Tensor) -> Tensor:
    """The real part of a tensor; what is real is returned as it is."""
    return aten.real(value) if value.meta.dtype.is_complex else value
