"""Operator schemas as values: aliases, arguments, and the schema that holds them.

Types are in `types`, reading a schema from text in `parser`, matching a call
against one in `matching`. The one idea: a schema is plain immutable data that prints to the text
it is read from (D22, D35).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.dispatch.schemas.types import SchemaType

__all__ = ["NO_DEFAULT", "AliasInfo", "Argument", "FunctionSchema", "SchemaType"]


class NoDefault:
    """The class of `NO_DEFAULT`; one object, also after copying and pickling."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = NoDefault()
"""Stands in `Argument.default` when there is none, since None is itself a default."""


@dataclass(frozen=True, slots=True)
class AliasInfo:
    """Which alias sets a value is in before and after the call, and whether it is written.

    ``"*"`` is the wildcard set. Sets named ``$0``, ``$1``, ... are the anonymous ones of
    ``Tensor!``. ``contained`` holds the annotations of the type parameters (a list's elements),
    whose writes count as writes of the whole (D33).
    """

    before_set: frozenset[str] = frozenset()
    after_set: frozenset[str] = frozenset()
    is_write: bool = False
    contained: tuple[AliasInfo | None, ...] = ()

    @property
    def is_wildcard(self) -> bool:
        """Whether the value may alias anything before the call."""
        return "*" in self.before_set

    @property
    def is_wildcard_after(self) -> bool:
        """Whether the value may alias anything after the call."""
        return "*" in self.after_set

    def __str__(self) -> str:
        """The annotation of the value itself, ``(a! -> *)``; "" when only its parts have one."""
        if not self.before_set:
            return ""
        if any(name.startswith("$") for name in self.before_set):
            return "!"
        before = "|".join(sorted(self.before_set)) + ("!" if self.is_write else "")
        if self.after_set == self.before_set:
            return f"({before})"
        return f"({before} -> {'|'.join(sorted(self.after_set))})"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Argument:
    """One parameter or one return of a schema."""

    name: str
    type: SchemaType
    N: int | None
    default: object
    """The default as kernels get it: lists as tuples, dtypes as objects; or `NO_DEFAULT`."""
    kwarg_only: bool
    alias_info: AliasInfo | None

    def __init__(
        self,
        name: str,
        type: SchemaType,
        N: int | None = None,
        default: object = NO_DEFAULT,
        kwarg_only: bool = False,
        alias_info: AliasInfo | None = None,
    ) -> None:
        assign = object.__setattr__
        assign(self, "name", name)
        assign(self, "type", type)
        assign(self, "N", N)
        assign(self, "default", default)
        assign(self, "kwarg_only", kwarg_only)
        assign(self, "alias_info", alias_info)

    @property
    def real_type(self) -> SchemaType:
        """The type by its own name where ``type`` says int: ScalarType, Layout, MemoryFormat."""
        return self.type.real

    def has_default_value(self) -> bool:
        """Whether the argument may be left out."""
        return self.default is not NO_DEFAULT

    @property
    def default_value(self) -> object:
        """The default as PyTorch shows it: lists as lists, dtypes and layouts as codes; or None."""
        return None if self.default is NO_DEFAULT else _shown(self.default)

    @property
    def is_write(self) -> bool:
        """Whether the call writes to this argument, or to a tensor in it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether this is an ``out`` argument: keyword-only and written."""
        return self.kwarg_only and self.is_write

    def _key(self) -> tuple[object, ...]:
        # The printed default tells 1, 1.0 and True apart, which Python's equality does not.
        default = default_text(self) if self.default is not NO_DEFAULT else None
        return (self.name, self.type.long, self.N, default, self.kwarg_only, self.alias_info)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Argument):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        text = written_type(self.type, self.alias_info)
        if self.name:
            text += " " + self.name
        if self.default is not NO_DEFAULT:
            text += "=" + default_text(self)
        return text

    def __repr__(self) -> str:
        return f"Argument({self})"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class FunctionSchema:
    """The signature of one operator overload: ``aten::add.Tensor(Tensor self, ...) -> Tensor``.

    Immutable and hashable. Equality covers names, arguments, returns and the var flags (D35).
    """

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool
    is_varret: bool
    is_mutable: bool
    """Whether some argument is written; aliases of returns do not count (D34)."""
    memo: dict[str, object]
    """What other packages work out from the schema once; no part of its value."""

    def __init__(
        self,
        name: str,
        overload_name: str,
        arguments: Iterable[Argument],
        returns: Iterable[Argument],
        is_vararg: bool = False,
        is_varret: bool = False,
    ) -> None:
        assign = object.__setattr__
        assign(self, "name", name)
        assign(self, "overload_name", overload_name)
        assign(self, "arguments", tuple(arguments))
        assign(self, "returns", tuple(returns))
        assign(self, "is_vararg", is_vararg)
        assign(self, "is_varret", is_varret)
        written = [a for a in self.arguments if a.alias_info is not None and a.alias_info.is_write]
        assign(self, "is_mutable", bool(written))
        assign(self, "memo", {})

    @property
    def namespace(self) -> str:
        """The part of the name before ``::``, or "" without one."""
        return self.name.rpartition("::")[0]

    @property
    def op_name(self) -> str:
        """The name without namespace and overload: ``add``."""
        return self.name.rpartition("::")[2]

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether every call written for ``old`` works with this schema (D37)."""
        if _why_ends_differ(old, self) or not all(_takes(a, b) for b, a in _pairs(old, self)):
            return False
        return all(
            len(mine) >= len(theirs) and all(a.has_default_value() for a in mine[len(theirs) :])
            for mine, theirs in zip(_split(self), _split(old), strict=True)
        )

    def check_forward_compatible_with(self, old: FunctionSchema) -> tuple[bool, str]:
        """Whether a program written for this schema runs where only ``old`` is known, and why not.

        Arguments added must have a default that is not a list, and stand before the ``out`` ones.
        """
        reason = _why_ends_differ(self, old) or _why_not_forward(self, old)
        return reason is None, reason or ""

    def _key(self) -> tuple[object, ...]:
        return (
            self.name,
            self.overload_name,
            self.arguments,
            self.returns,
            self.is_vararg,
            self.is_varret,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionSchema):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __copy__(self) -> FunctionSchema:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> FunctionSchema:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return FunctionSchema, self._key()

    def __str__(self) -> str:
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({self._arguments_text()}) -> {self._returns_text()}"

    def __repr__(self) -> str:
        return str(self)

    def _arguments_text(self) -> str:
        parts: list[str] = []
        keyword_only = False
        for argument in self.arguments:
            if argument.kwarg_only and not keyword_only:
                parts.append("*")
                keyword_only = True
            parts.append(str(argument))
        return ", ".join([*parts, "..."] if self.is_vararg else parts)

    def _returns_text(self) -> str:
        parts = [str(r) for r in self.returns]
        if self.is_varret:
            parts.append("...")
        if len(parts) == 1 and not parts[0].startswith("("):
            return parts[0]
        return f"({', '.join(parts)})"


def written_type(type: SchemaType, alias: AliasInfo | None) -> str:
    """The schema text of a type with its alias annotations: ``Tensor(a!)[]``."""
    if alias is None:
        return type.written
    if type.kind == "optional":
        return written_type(type.params[0], alias) + "?"
    inner = alias.contained or (None,) * len(type.params)
    parts = [written_type(p, a) for p, a in zip(type.params, inner, strict=True)]
    if type.kind == "list":
        size = "" if type.size is None else type.size
        return f"{parts[0]}[{size}]{alias}"
    if parts:
        return f"{type.written.partition('(')[0]}({', '.join(parts)}){alias}"
    return f"{type.written}{alias}"


def default_text(argument: Argument) -> str:
    """The default of an argument as the schema language writes it (D36)."""
    value = argument.default_value
    if isinstance(value, list):
        elem = argument.type.base
        same = len(value) >= 2 and all(v == value[0] for v in value)
        if same and elem.written == "int" and argument.N == len(value):
            return str(value[0])
        return f"[{', '.join(map(_literal, value))}]"
    return _literal(value)


def _literal(value: object) -> str:
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, complex):
        sign = "-" if str(value.imag).startswith("-") else "+"
        return f"{_float_text(value.real)}{sign}{_float_text(abs(value.imag))}j"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, device):
        return _quoted(str(value))
    return str(value)


def _float_text(value: float) -> str:
    text = f"{value:.17g}"
    return text + "." if text.lstrip("-").isdigit() else text


_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return [_shown(v) for v in value]
    if isinstance(value, dtype | layout | memory_format):
        return value.code
    return value


def _why_ends_differ(caller: FunctionSchema, known: FunctionSchema) -> str | None:
    """Why ``known`` does not serve as ``caller`` by name or returns; None when it does."""
    if (caller.name, caller.overload_name) != (known.name, known.overload_name):
        return "the names differ"
    if (caller.is_vararg, caller.is_varret) != (known.is_vararg, known.is_varret):
        return "only one of the two takes or returns any number of values"
    if len(caller.returns) != len(known.returns):
        return f"one returns {len(caller.returns)} values, the other {len(known.returns)}"
    for wanted, given in zip(caller.returns, known.returns, strict=True):
        fits = given.name == wanted.name and given.alias_info == wanted.alias_info
        if not fits or not given.type.is_subtype_of(wanted.type):
            return f"the return {given} does not serve as {wanted}"
    return None


def _pairs(a: FunctionSchema, b: FunctionSchema) -> Iterable[tuple[Argument, Argument]]:
    """Arguments that correspond: the plain ones in order, then the ``out`` ones in order."""
    (plain_a, out_a), (plain_b, out_b) = _split(a), _split(b)
    yield from zip(plain_a, plain_b, strict=False)
    yield from zip(out_a, out_b, strict=False)


def _split(schema: FunctionSchema) -> tuple[list[Argument], list[Argument]]:
    plain = [a for a in schema.arguments if not a.is_out]
    return plain, [a for a in schema.arguments if a.is_out]


def _takes(known: Argument, passed: Argument) -> bool:
    """Whether what is passed, or left out, for one argument suits the other."""
    if (known.name, known.N, known.alias_info) != (passed.name, passed.N, passed.alias_info):
        return False
    if not passed.type.is_subtype_of(known.type) or (known.kwarg_only and not passed.kwarg_only):
        return False
    return not passed.has_default_value() or (
        known.has_default_value() and default_text(known) == default_text(passed)
    )


def _why_not_forward(new: FunctionSchema, old: FunctionSchema) -> str | None:
    """Why programs cannot pass the arguments of ``new`` to ``old``; None when they can.

    Arguments that both have agree in their defaults, too. The words are PyTorch's.
    """
    (plain, outs), (plain_old, outs_old) = _split(new), _split(old)
    for mine, theirs in zip(plain, plain_old, strict=False):
        alike = _takes(theirs, mine) and mine.kwarg_only == theirs.kwarg_only
        if not alike or mine.has_default_value() != theirs.has_default_value():
            return f"'{mine.name}' is not forward compatible with the older version of the schema"
    for gone in plain_old[len(plain) :]:
        if not gone.has_default_value():
            return f"the argument '{gone.name}' was removed, which has no default"
    for added in plain[len(plain_old) :]:
        begin = (
            "Function schema is not forward compatible since the new argument "
            f"'{added.name}' of type {added.type.str()}"
        )
        if not added.has_default_value():
            return f"{begin} did not provide a default value."
        if isinstance(added.default, tuple):
            return f"{begin} has a container type as its default value."
    if len(outs) != len(outs_old):
        return "Function schema should have the same number of out arguments"
    for mine, theirs in zip(outs, outs_old, strict=True):
        if not _takes(theirs, mine):
            return f"Out argument '{mine.name}' is not FC with the older version of the schema"
    return None
