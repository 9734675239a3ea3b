"""Attaching operators to `Tensor`: methods on demand, Python's operators at import.

A method that is an operator is found by name when first used (`from_schema.py`). Python's operators
are bound to one overload each, so that ``a + b`` is one function call away from dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from maquette.api.creation import as_tensor
from maquette.api.from_schema import gives_method, method_face
from maquette.api.layout_methods import SPARSE
from maquette.core.fitting import check_int, plain
from maquette.dispatch.abstract import overrides_torch_function
from maquette.dispatch.call import new_entry
from maquette.dispatch.keysets import TORCH_FUNCTION
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import PACKETS
from maquette.dispatch.registry import find_packet
from maquette.dispatch.schemas.matching import MatchError
from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    NobodyAnswersError,
    Overridden,
    call_torch_function,
    is_overridden,
    modes_are_active,
    offered,
    offered_in_python,
    offered_member,
)
from maquette.symbolic.numbers import SymNumber
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

_NUMBERS = (int, float, bool, complex, SymNumber)


def _binary(
    dunder: str, operator: str, overload: str, scalar: str | None = None
) -> Callable[..., object]:
    """``__op__``: the tensor overload, or ``scalar``'s for numbers; NotImplemented for the rest."""
    op = _overload(operator, overload)
    by_tensor = op.public_entry()
    by_number = by_tensor if scalar is None else _overload(operator, scalar).public_entry()
    known_as = dunder if dunder in _KNOWN_BY_DUNDER else operator
    ask = offered_in_python if dunder in _IN_PYTHON else offered

    def public() -> Callable[..., object]:
        """What handlers of ``__torch_function__`` are told: ``Tensor.add`` of ``a + b``."""
        found: Callable[..., object] = getattr(Tensor, known_as)
        return found

    def method(self: Tensor, other: object) -> object:
        try:
            if isinstance(other, Tensor):
                return by_tensor(self, other)
            if other.__class__ in _NUMBERS or isinstance(other, _NUMBERS):
                return by_number(self, other)
            if overrides_torch_function(type(other)):
                return _answer(public(), self, other)
            if isinstance(other, np.generic):
                return method(self, plain(other))  # a NumPy scalar counts as a number (T51)
            converted = _compared(other) if dunder in _COMPARES else None
            return NotImplemented if converted is None else by_tensor(self, converted)
        except Overridden:
            pass  # errors of handlers are not to name this one
        except MatchError:
            check_int(other)
            raise
        try:
            return ask(public(), (self, other), {})
        except NobodyAnswersError:
            return NotImplemented  # Python asks the other operand's class, then says what is wrong

    def overridden(ks: int, self: Tensor, other: object, *defaults: object) -> object:
        if is_overridden((self, other), {}):
            return method(self, other)
        return op.run_unasked(ks, self, other, *defaults)

    method.__name__ = method.__qualname__ = dunder
    if scalar is None and op.takes_numbers:
        # An entry function of its own that leaves odd operands to `method`: 0.2 us a call less.
        return new_entry(
            op,
            dunder,
            lambda args, kwargs: method(*args),  # type: ignore[arg-type]  # self and the operand
            lambda ks: overridden if ks & TORCH_FUNCTION else op.resolve(ks),
        )
    return method


def _answer(function: Callable[..., object], self: Tensor, other: object) -> object:
    """What the other operand's class, which is no tensor's, answers; NotImplemented for nothing."""
    try:
        answer = call_torch_function(function, (self, other), {})
    except NobodyAnswersError:
        return NotImplemented
    return NotImplemented if answer is NO_OVERRIDE else answer


# Operators that handlers know by Python's name for them; others by the method's.
_KNOWN_BY_DUNDER = frozenset(
    f"__{name}__"
    for name in (
        "floordiv eq and or xor lshift rshift pow iand ior ixor ilshift irshift ipow".split()
    )
)
# Those that PyTorch has in Python: plain tensors count among the classes that are told.
_IN_PYTHON = frozenset(("__floordiv__", "__pow__", "__ipow__"))


def _overload(operator: str, overload: str) -> OpOverload:
    packet = find_packet(f"aten::{operator}")
    if packet is None:
        raise NotImplementedError(f"the operator aten::{operator} is not defined")
    found = getattr(packet, overload)
    assert isinstance(found, OpOverload)
    return found


# What compares a tensor with an array. All else, NumPy computes when the tensor is on the left
# (`Tensor.__array_wrap__` makes a tensor of it); an array on the left is refused, as in PyTorch.
_COMPARES = ("__eq__", "__ne__")


def _compared(other: object) -> Tensor | None:
    """An array as a tensor to compare with; None for what is none, or has no dtype of ours."""
    if not isinstance(other, np.ndarray):
        return None
    try:
        return as_tensor(other)
    except TypeError:
        return None


_BINARY = {
    "div": ("div", "Tensor", None),  # Python 2's name, which PyTorch keeps
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
    "ilshift": ("bitwise_left_shift_", "Tensor", "Tensor_Scalar"),
    "irshift": ("bitwise_right_shift_", "Tensor", "Tensor_Scalar"),
    "idiv": ("div_", "Tensor", None),  # Python 2's name, which PyTorch keeps
}
_REFLECTED = {
    "rsub": lambda self, other: operators.rsub(self, other),
    "rdiv": lambda self, other: self.reciprocal() * other,  # Python 2's name, which PyTorch keeps
    "rfloordiv": lambda self, other: _overload("floor_divide", "default")(other, self),
    "rpow": lambda self, other: _by_left(other, "pow", "Scalar", "Tensor_Tensor", self),
    "rmod": lambda self, other: _by_left(other, "remainder", "Scalar_Tensor", "Tensor", self),
    "rmatmul": lambda self, other: _overload("matmul", "default")(other, self),
    "rlshift": lambda self, other: _by_left(
        other, "bitwise_left_shift", "Scalar_Tensor", "Tensor", self
    ),
    "rrshift": lambda self, other: _by_left(
        other, "bitwise_right_shift", "Scalar_Tensor", "Tensor", self
    ),
}


_BY_RECIPROCAL = ("__rdiv__",)  # it multiplies from the left: arrays will do


def _reflected(dunder: str, rule: Callable[..., object]) -> Callable[..., object]:
    """``__rop__`` by its rule on tensors and numbers; NotImplemented for the rest."""

    def method(self: Tensor, other: object) -> object:
        if _may_be_overridden(self) and is_overridden((self, other), {}):
            try:
                return offered_in_python(getattr(Tensor, dunder), (self, other), {})
            except NobodyAnswersError:
                return NotImplemented
        if not isinstance(other, (Tensor, *_NUMBERS)):
            if overrides_torch_function(type(other)):
                return _answer(getattr(Tensor, dunder), self, other)
            if isinstance(other, np.generic):
                other = plain(other)
            elif not (isinstance(other, np.ndarray) and dunder in _BY_RECIPROCAL):
                return NotImplemented
        check_int(other)
        return rule(self, other)

    method.__name__ = method.__qualname__ = dunder
    return method


def _by_left(left: object, operator: str, number: str, tensor: str, right: Tensor) -> object:
    """The operator on (left, right), by its overload for a number or a tensor on the left."""
    return _overload(operator, tensor if isinstance(left, Tensor) else number)(left, right)


_UNARY = {"neg": "neg", "pos": "positive", "abs": "abs"}


def _reversed(self: Tensor) -> object:
    """The tensor from its last element on, for `reversed`; itself where it has no dimensions."""
    return self.flip((0,)) if self.meta.ndim else self


def _inverted(self: Tensor) -> object:
    if _may_be_overridden(self) and is_overridden((self,), {}):
        return offered_member(Tensor.__invert__, (self,), {})
    if self.meta.dtype.is_floating_point or self.meta.dtype.is_complex:
        raise TypeError(
            f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, "
            f"not for {self.meta}"
        )
    return self.bitwise_not()


def _may_be_overridden(t: Tensor) -> bool:
    """A quick question before `is_overridden`."""
    return t.__class__ is not Tensor or modes_are_active()


_OTHERS: dict[str, Callable[..., object]] = {
    "reversed": _reversed,
    "invert": _inverted,
    "long": lambda self: self.__int__(),  # Python 2's names, which PyTorch keeps
    "nonzero": lambda self: self.__bool__(),
}


def _unary(operator: str) -> Callable[[Tensor], object]:
    def method(self: Tensor) -> object:
        return getattr(self, operator)()

    return method


# Who is told of each method once it is made.
TOLD: list[Callable[[Callable[..., Any]], None]] = []


class LateMethod:
    """Stands in `Tensor` for a method that an operator gives, until it is first asked for."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[str], Callable[..., Any]]) -> None:
        self.name = name
        self.make = make

    def __get__(self, t: Tensor | None, cls: type[Tensor]) -> Callable[..., Any]:
        method = self.make(self.name)
        setattr(Tensor, self.name, method)
        for tell in TOLD:
            tell(method)
        return method if t is None else MethodType(method, t)


def attach() -> None:
    """Bind Python's operators to `Tensor`, and put the operators' methods where they are found."""
    known = set(dir(Tensor))
    for qualified, packet in PACKETS.items():
        name = qualified.removeprefix("aten::")
        if name not in known and name.isidentifier() and not name.startswith("__"):
            if gives_method(packet):
                setattr(Tensor, name, LateMethod(name, method_face))
    for name in SPARSE:
        setattr(Tensor, name, LateMethod(name, method_face))
    for name, (operator, overload, scalar) in {**_BINARY, **_IN_PLACE}.items():
        dunder = f"__{name}__"
        setattr(Tensor, dunder, _binary(dunder, operator, overload, scalar))
    for name in ("add", "mul", "and", "or", "xor"):
        dunder = f"__r{name}__"
        setattr(Tensor, dunder, _binary(dunder, *_BINARY[name]))
    for name, method in _REFLECTED.items():
        setattr(Tensor, f"__{name}__", _reflected(f"__{name}__", method))
    Tensor.__rtruediv__ = Tensor.__rdiv__  # type: ignore[method-assign, attr-defined]  # just set
    for name, operator in _UNARY.items():
        setattr(Tensor, f"__{name}__", _unary(operator))
    for name, method in _OTHERS.items():
        method.__name__ = method.__qualname__ = f"__{name}__"
        setattr(Tensor, method.__name__, method)


attach()
