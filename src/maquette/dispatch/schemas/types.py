"""The types of the schema language, such as ``Tensor?``, ``int[2]`` or ``Dict(str, Tensor)``.

What a type accepts is in `matching`. The one idea: a type keeps the text it is written with for
printing and a long form for comparing (D25); in the long form SymInt, ScalarType, Layout and
MemoryFormat are all ``int``. Types are made by the functions below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = [
    "BASE_TYPES",
    "COMMON_TYPES",
    "CONSTRUCTORS",
    "SchemaType",
    "constructed",
    "fits_script_type",
    "lacking",
    "list_of",
    "names_script_type",
    "optional_of",
    "register_script_type",
    "script_type",
    "type_variable",
    "unregister_script_type",
]

# Written name -> kind.
_KINDS: Final[dict[str, str]] = {
    "Tensor": "tensor",
    "int": "int",
    "SymInt": "symint",
    "float": "float",
    "SymFloat": "symfloat",
    "bool": "bool",
    "SymBool": "symbool",
    "str": "str",
    "complex": "complex",
    "Scalar": "scalar",
    "number": "scalar",
    "ScalarType": "dtype",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Device": "device",
    "Generator": "generator",
    "Storage": "storage",
    "Stream": "stream",
    "QScheme": "qscheme",
    "Quantizer": "quantizer",
    "Any": "any",
    "AnyEnumType": "enum",
    "NoneType": "none",
    "Capsule": "capsule",
}

# The kinds whose long form is not the written name; of these all but SymInt keep a real name (D25).
_LONG: Final[dict[str, str]] = {
    "symint": "int",
    "dtype": "int",
    "layout": "int",
    "memory_format": "int",
    "scalar": "number",
}
_REAL: Final = {"symint": "int", "scalar": "number"}

_Text: TypeAlias = str  # `SchemaType.str` hides the class in its body

COMMON_TYPES: Final = "Tensor, int, SymInt, float, bool, str, Scalar, ScalarType, Device"
"""What an error about an unknown type proposes."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SchemaType:
    """A type of the schema language, such as ``Tensor?`` or ``int[2]``.

    ``kind`` is one lower-case word: tensor, int, symint, float, bool, str, scalar, complex, dtype,
    layout, memory_format, device, generator, any, script, typevar, ... or, with type parameters,
    list, optional, dict, tuple, union, future, await, rref. ``str()`` is the long form used in
    errors, ``Optional[int]``; ``written`` the text of the schema language, ``int?``. Equality is
    that of the long forms, so ``SymInt`` equals ``int``.
    """

    kind: _Text
    written: _Text
    long: _Text
    real_long: _Text
    params: tuple[SchemaType, ...] = ()
    size: int | None = None
    is_real: bool = False

    @property
    def elem(self) -> SchemaType:
        """The type inside a list, an optional, a future, ...: the first type parameter."""
        if not self.params:
            raise AttributeError(f"type {self.written} has no element type")
        return self.params[0]

    @property
    def is_list(self) -> bool:
        """Whether this is ``T[]`` or ``T[N]``; an optional list is not."""
        return self.kind == "list"

    @property
    def is_optional(self) -> bool:
        """Whether this is ``T?``."""
        return self.kind == "optional"

    @property
    def base(self) -> SchemaType:
        """What is left when every list and optional around it is taken off."""
        found = self
        while found.kind in ("list", "optional"):
            found = found.params[0]
        return found

    @property
    def real(self) -> SchemaType:
        """The same type, called (and compared) by the name that `int` hides: ScalarType, ..."""
        params = tuple([inner.real for inner in self.params])
        return SchemaType(
            self.kind, self.written, self.real_long, self.real_long, params, self.size, is_real=True
        )

    def str(self) -> _Text:
        """The type as PyTorch writes it: ``int?``, ``Tensor[]``; SymInt only as a `real` type."""
        inner = [param.str() for param in self.params]
        if self.kind == "optional":
            return f"{inner[0]}?" if self.written.endswith("?") else inner[0]
        if self.kind == "list":
            return f"{inner[0]}[]"
        if self.kind in ("future", "await", "rref"):
            return f"{self.written.partition('(')[0]}[{inner[0]}]"
        if inner:
            return f"{self.written.partition('(')[0]}({', '.join(inner)})"
        if self.kind == "scalar":
            return "Scalar"
        return self.long if self.long == "int" and not self.is_real else self.written

    def is_subtype_of(self, other: SchemaType) -> bool:
        """Whether every value of this type is one of ``other``."""
        if self == other or other.kind == "any":
            return True
        if other.kind == "optional":
            inner = self.params[0] if self.kind == "optional" else self
            return self.kind == "none" or inner.is_subtype_of(other.params[0])
        if other.kind == "union":
            return any(self.is_subtype_of(member) for member in other.params)
        return other.kind == "scalar" and self.kind in ("int", "symint", "float", "complex")

    #: PyTorch's names of the questions above.
    isSubtypeOf = is_subtype_of

    def getElementType(self) -> SchemaType:
        """The type inside a list or an optional; AttributeError for a type without one."""
        return self.elem

    def containedTypes(self) -> list[SchemaType]:
        """The type parameters, in order."""
        return list(self.params)

    @property
    def annotation_str(self) -> _Text:
        """The type as Python would annotate it: ``Optional[int]``."""
        return self.long

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SchemaType):
            return NotImplemented
        return self.long == other.long

    def __hash__(self) -> int:
        return hash(self.long)

    def __str__(self) -> _Text:
        return self.long

    def __repr__(self) -> _Text:
        return self.long


def _base(name: str, kind: str) -> SchemaType:
    return SchemaType(kind, name, _LONG.get(kind, name), _REAL.get(kind, name))


BASE_TYPES: Final = {name: _base(name, kind) for name, kind in _KINDS.items()}
"""Every type that is neither composite nor registered, by its written name."""

CONSTRUCTORS: Final = ("Dict", "Union", "Future", "Await", "RRef")
"""The type constructors that are written like calls."""


def list_of(elem: SchemaType, size: int | None = None) -> SchemaType:
    """``T[]``, or ``T[N]``, for which a call may give one number instead of N equal ones."""
    written = f"{elem.written}[{'' if size is None else size}]"
    long, real = f"List[{elem.long}]", f"List[{elem.real_long}]"
    return SchemaType("list", written, long, real, (elem,), size)


def optional_of(elem: SchemaType) -> SchemaType:
    """``T?``."""
    long, real = f"Optional[{elem.long}]", f"Optional[{elem.real_long}]"
    return SchemaType("optional", f"{elem.written}?", long, real, (elem,))


def lacking(elem: SchemaType) -> SchemaType:
    """``T`` with the default None, which a call may give too: ``T?`` that is written ``T``."""
    return SchemaType("optional", elem.written, elem.long, elem.real_long, (elem,))


def constructed(name: str, params: tuple[SchemaType, ...]) -> SchemaType:
    """``Dict(K, V)``, ``Union(...)``, ...; for the name "" a tuple type ``(T, U)``."""
    written = f"{name}({', '.join(p.written for p in params)})"
    long = f"{name or 'Tuple'}[{', '.join(p.long for p in params) or '()'}]"
    real = f"{name or 'Tuple'}[{', '.join(p.real_long for p in params) or '()'}]"
    return SchemaType(name.lower() or "tuple", written, long, real, params)


def type_variable(name: str) -> SchemaType:
    """A type variable such as ``t1``, which any value fits."""
    return SchemaType("typevar", name, name, name)


_SCRIPT_TYPES: Final[dict[str, Callable[[object], bool]]] = {}


def register_script_type(name: str, accepts: Callable[[object], bool]) -> None:
    """Make a dotted name, ``__torch__.torch.classes.ns.Name``, a schema type (D125).

    accepts: tells whether an object may be passed where a schema asks for this type.
    """
    _SCRIPT_TYPES[name] = accepts


def names_script_type(schema_text: str) -> bool:
    """Whether a schema's text has an argument of a registered script type."""
    arguments = schema_text.partition("->")[0]
    return any(name in arguments for name in _SCRIPT_TYPES)


def unregister_script_type(name: str) -> None:
    """Undo `register_script_type`; schemas already read keep the type, but nothing fits it."""
    _SCRIPT_TYPES.pop(name, None)


def script_type(name: str) -> SchemaType | None:
    """The registered script or opaque type of that name; None when there is none."""
    return SchemaType("script", name, name, name) if name in _SCRIPT_TYPES else None


def fits_script_type(type: SchemaType, value: object) -> bool:
    """Whether an object may be passed for a script type."""
    accepts = _SCRIPT_TYPES.get(type.written)
    return accepts is not None and accepts(value)
