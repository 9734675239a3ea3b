"""The classes of schema types that PyTorch has: ``isinstance(argument.type, torch.TensorType)``.

A schema's types are values of one class, `maquette.dispatch.schemas.types.SchemaType`. Each class
here stands for its kinds: `isinstance` asks a type for its kind, ``get()`` or a call gives a type.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.dispatch.schemas.types import (
    BASE_TYPES,
    SchemaType,
    constructed,
    list_of,
    optional_of,
)


class SchemaTypeClass(type):
    """The class of the classes below: their instances are schema types of some kinds."""

    kinds: frozenset[str]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, SchemaType) and (not cls.kinds or instance.kind in cls.kinds)

    def __call__(cls, *args: object, **kwargs: object) -> object:
        raise TypeError(f"torch.{cls.__name__} has no constructor; use torch.{cls.__name__}.get()")

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


class Type(metaclass=SchemaTypeClass):
    """Every schema type."""

    kinds: frozenset[str] = frozenset()


class _Composite(SchemaTypeClass):
    """Classes of types with type parameters: a call gives one of these parameters."""

    def __call__(cls, *args: object, **kwargs: object) -> object:
        return cls.of(*args, **kwargs)  # type: ignore[attr-defined]  # each of them has one


def _plain(name: str, written: str, *kinds: str) -> SchemaTypeClass:
    found = BASE_TYPES[written]
    members = {
        "kinds": frozenset((found.kind, *kinds)),
        "get": staticmethod(lambda: found),
        "__module__": "torch",
        "__doc__": f"The schema type {written}.",
    }
    return SchemaTypeClass(name, (Type,), members)


# In `Argument.type` what SymInt, ScalarType, Layout and MemoryFormat are is int (D25).
TensorType = _plain("TensorType", "Tensor")
IntType = _plain("IntType", "int", "symint", "dtype", "layout", "memory_format")
SymIntType = _plain("SymIntType", "SymInt")
FloatType = _plain("FloatType", "float", "symfloat")
BoolType = _plain("BoolType", "bool", "symbool")
SymBoolType = _plain("SymBoolType", "SymBool")
ComplexType = _plain("ComplexType", "complex")
NumberType = _plain("NumberType", "Scalar")
StringType = _plain("StringType", "str")
DeviceObjType = _plain("DeviceObjType", "Device")
StreamObjType = _plain("StreamObjType", "Stream")
NoneType = _plain("NoneType", "NoneType")
AnyType = _plain("AnyType", "Any")


class ListType(Type, metaclass=_Composite):
    """Lists, as ``int[]``: ``ListType(IntType.get())``."""

    kinds = frozenset({"list"})
    of = staticmethod(list_of)

    @staticmethod
    def ofTensors() -> SchemaType:
        """``Tensor[]``."""
        return list_of(BASE_TYPES["Tensor"])

    @staticmethod
    def ofInts() -> SchemaType:
        """``int[]``."""
        return list_of(BASE_TYPES["int"])

    @staticmethod
    def ofFloats() -> SchemaType:
        """``float[]``."""
        return list_of(BASE_TYPES["float"])

    @staticmethod
    def ofBools() -> SchemaType:
        """``bool[]``."""
        return list_of(BASE_TYPES["bool"])

    @staticmethod
    def ofStrings() -> SchemaType:
        """``str[]``."""
        return list_of(BASE_TYPES["str"])


class OptionalType(Type, metaclass=_Composite):
    """What may be None, as ``int?``: ``OptionalType(IntType.get())``."""

    kinds = frozenset({"optional"})
    of = staticmethod(optional_of)

    @staticmethod
    def ofTensor() -> SchemaType:
        """``Tensor?``."""
        return optional_of(BASE_TYPES["Tensor"])


class TupleType(Type, metaclass=_Composite):
    """Tuples, as ``(int, Tensor)``: of a list of types."""

    kinds = frozenset({"tuple"})

    @staticmethod
    def of(elements: Sequence[SchemaType]) -> SchemaType:
        """The type of tuples with elements of these types."""
        return constructed("", tuple(elements))


class DictType(Type, metaclass=_Composite):
    """Dictionaries, as ``Dict(str, int)``: of two types."""

    kinds = frozenset({"dict"})

    @staticmethod
    def of(key: SchemaType, value: SchemaType) -> SchemaType:
        """The type of dictionaries with such keys and values."""
        return constructed("Dict", (key, value))


class UnionType(Type, metaclass=_Composite):
    """What is of one of several types: of a list of types."""

    kinds = frozenset({"union"})

    @staticmethod
    def of(members: Sequence[SchemaType]) -> SchemaType:
        """The type of what is of one of these types."""
        return constructed("Union", tuple(members))


__all__ = [
    "AnyType",
    "BoolType",
    "ComplexType",
    "DeviceObjType",
    "DictType",
    "FloatType",
    "IntType",
    "ListType",
    "NoneType",
    "NumberType",
    "OptionalType",
    "StreamObjType",
    "StringType",
    "SymBoolType",
    "SymIntType",
    "TensorType",
    "TupleType",
    "Type",
    "UnionType",
]
