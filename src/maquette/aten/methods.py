"""Attaching operators to `Tensor`: methods on demand, Python's operators at import.

A method that is an operator is found by name when first used (`faces.py`). Python's operators are
bound to one overload each, so that ``a + b`` is one function call away from dispatch.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.aten.faces import find_method
from maquette.dispatch.registry import find_packet
from maquette.tensor.tensor import METHOD_FINDER, Tensor

_NUMBERS = (int, float, bool, complex)

METHOD_FINDER[0] = find_method


def _binary(operator: str, overload: str, scalar: str | None = None) -> Callable[..., object]:
    """``__op__``: the tensor overload, or ``scalar``'s for numbers; NotImplemented for the rest."""
    cell: list[Callable[..., object]] = []

    def method(self: Tensor, other: object) -> object:
        if not cell:
            cell.append(_overload(operator, overload))
            cell.append(_overload(operator, scalar or overload))
        if isinstance(other, Tensor):
            return cell[0](self, other)
        if other.__class__ in _NUMBERS or isinstance(other, _NUMBERS):
            return cell[1](self, other)
        converted = _as_operand(self, other)
        return NotImplemented if converted is None else cell[0](self, converted)

    return method


def _overload(operator: str, overload: str) -> Callable[..., object]:
    packet = find_packet(f"aten::{operator}")
    if packet is None:
        raise NotImplementedError(f"the operator aten::{operator} is not defined")
    found = getattr(packet, overload)
    # The generated entry itself: the overload object's __call__ would add 0.2 us (make bench).
    found._compile()
    return found._call


def _as_operand(self: Tensor, other: object) -> object:
    item = getattr(other, "item", None)
    if item is not None and getattr(other, "ndim", None) == 0:
        return item()  # a NumPy scalar counts as a number (T51)
    if hasattr(other, "__array__") and hasattr(other, "dtype"):
        make = NUMPY_DOOR[0]
        return None if make is None else make(other)
    return None


NUMPY_DOOR: list[Callable[[object], Tensor] | None] = [None]


_BINARY = {
    "add": ("add", "Tensor", None),
    "sub": ("sub", "Tensor", None),
    "mul": ("mul", "Tensor", None),
    "truediv": ("div", "Tensor", None),
    "floordiv": ("floor_divide", "default", None),
    "mod": ("remainder", "Tensor", "Scalar"),
    "pow": ("pow", "Tensor_Tensor", "Tensor_Scalar"),
    "matmul": ("matmul", "default", None),
    "eq": ("eq", "Tensor", "Scalar"),
    "ne": ("ne", "Tensor", "Scalar"),
    "lt": ("lt", "Tensor", "Scalar"),
    "le": ("le", "Tensor", "Scalar"),
    "gt": ("gt", "Tensor", "Scalar"),
    "ge": ("ge", "Tensor", "Scalar"),
    "and": ("bitwise_and", "Tensor", "Scalar"),
    "or": ("bitwise_or", "Tensor", "Scalar"),
    "xor": ("bitwise_xor", "Tensor", "Scalar"),
    "lshift": ("bitwise_left_shift", "Tensor", "Tensor_Scalar"),
    "rshift": ("bitwise_right_shift", "Tensor", "Tensor_Scalar"),
}
_IN_PLACE = {
    "iadd": ("add_", "Tensor", None),
    "isub": ("sub_", "Tensor", None),
    "imul": ("mul_", "Tensor", None),
    "itruediv": ("div_", "Tensor", None),
    "ifloordiv": ("floor_divide_", "Tensor", None),
    "imod": ("remainder_", "Tensor", "Scalar"),
    "ipow": ("pow_", "Tensor", "Scalar"),
    "iand": ("bitwise_and_", "Tensor", "Scalar"),
    "ior": ("bitwise_or_", "Tensor", "Scalar"),
    "ixor": ("bitwise_xor_", "Tensor", "Scalar"),
}
_REFLECTED = {
    "rsub": lambda self, other: self.rsub(other),
    "rtruediv": lambda self, other: self.reciprocal() * other,
    "rfloordiv": lambda self, other: _overload("floor_divide", "default")(other, self),
    "rpow": lambda self, other: _by_left(other, "pow", "Scalar", "Tensor_Tensor", self),
    "rmod": lambda self, other: _by_left(other, "remainder", "Scalar_Tensor", "Tensor", self),
    "rmatmul": lambda self, other: _overload("matmul", "default")(other, self),
}


def _by_left(left: object, operator: str, number: str, tensor: str, right: Tensor) -> object:
    """The operator on (left, right), by its overload for a number or a tensor on the left."""
    return _overload(operator, tensor if isinstance(left, Tensor) else number)(left, right)


_UNARY = {"neg": "neg", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}


def _unary(operator: str) -> Callable[[Tensor], object]:
    def method(self: Tensor) -> object:
        return getattr(self, operator)()

    return method


def attach() -> None:
    """Bind Python's operators to `Tensor`."""
    for name, (operator, overload, scalar) in {**_BINARY, **_IN_PLACE}.items():
        setattr(Tensor, f"__{name}__", _binary(operator, overload, scalar))
    for name in ("add", "mul", "and", "or", "xor"):
        setattr(Tensor, f"__r{name}__", getattr(Tensor, f"__{name}__"))
    for name, method in _REFLECTED.items():
        setattr(Tensor, f"__{name}__", method)
    for name, operator in _UNARY.items():
        setattr(Tensor, f"__{name}__", _unary(operator))


attach()
