"""The schema language: text to `FunctionSchema`.

A recursive descent over tokens that are read on demand. The one idea: arguments are immutable, so
an argument text read once (``Tensor self``, ``int dim=-1``) is remembered and shared by all the
schemas that contain it, and so are returns; only new texts are parsed.
"""

from __future__ import annotations

import functools
import re
from typing import Final, NoReturn

import maquette.core.dtype as dtype_names
import maquette.core.layout as layout_names
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.remembered import epoch, remember
from maquette.dispatch.schemas.conversion import Mismatch, convert
from maquette.dispatch.schemas.schema import NO_DEFAULT, AliasInfo, Argument, FunctionSchema
from maquette.dispatch.schemas.types import (
    BASE_TYPES,
    COMMON_TYPES,
    CONSTRUCTORS,
    SchemaType,
    constructed,
    lacking,
    list_of,
    optional_of,
    script_type,
    type_variable,
)

__all__ = ["parse_schema"]

# Spaces and comments, then one token; `end` matches only the empty text at the end.
_TOKEN: Final = re.compile(
    r"""(?:\s|\#[^\n]*)*(?:
    (?P<ident>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?j?)
  | (?P<punct>->|\.\.\.|::|[()\[\],?!*=|:+\-.])
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<end>\Z)
  | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)

# An argument up to the comma or parenthesis after it, when nothing in it nests deeper than one.
_ARGUMENT: Final = re.compile(r"""(?:[^(),\[\]"'#]|\([^()"'#]*\)|\[[^\[\]"'#]*\]|"[^"\\]*")+""")

# An argument of a type without annotations, with a default of one word if any: most of them.
_PLAIN_ARGUMENT: Final = re.compile(
    r"([A-Za-z]+)(?:\[([0-9]{0,2})\])?(\?)? ([A-Za-z_][A-Za-z_0-9]*)"
    r"(?:=(None|True|False|-?[0-9]{1,9}))?"
)

_RESERVED: Final = frozenset(
    "and as assert break class continue def del elif else for global if import in is not or pass "
    "raise return while with None True False".split()
)
_CONSTANTS: Final[dict[str, object]] = {"None": None, "True": True, "False": False, "Mean": 1}
_MOST_DIGITS: Final = 4000  # CPython refuses to read longer integers
# Of a list's size: a single number as its default becomes as many copies.
_MOST_SIZE_DIGITS: Final = 6
_NOT_FINITE: Final = ("inf", "nan")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}

# The name of an operator with its namespace, its overload's if it has one, and a parenthesis.
_NAMES: Final = re.compile(
    r"([A-Za-z_][A-Za-z_0-9]*)::([A-Za-z_][A-Za-z_0-9]*)(?:\.([A-Za-z_][A-Za-z_0-9]*))?\("
)

# Texts of arguments -> the arguments.
_seen: dict[tuple[str, bool, bool], Argument] = {}
# Texts of returns -> the returns, and whether there may be more.
_seen_returns: dict[tuple[str, bool], tuple[list[Argument], bool]] = {}
_CXX_NAMES = {"int64_t": "Use `SymInt` or `int`", "double": "Use `float`"}


def parse_schema(text: str, allow_typevars: bool = True) -> FunctionSchema:
    """Read an operator schema, ``[ns::]name[.overload](args) -> returns``.

    allow_typevars: whether lower-case names that are no types stand for type variables (D24).
    Raises RuntimeError saying what was expected and found, with the place marked in the text.

    >>> parse_schema("  f( Tensor   x )->Tensor ")
    f(Tensor x) -> Tensor
    """
    if not isinstance(text, str):
        raise TypeError(f"expected the text of a schema, got a {type(text).__name__}: {text!r:.80}")
    reader = _Reader(text, allow_typevars)
    try:
        return reader.schema()
    except RecursionError:
        start, end = reader.start, reader.end
    reader.fail("it is nested too deeply", start, end)


# The kinds of types that may have the default None, as in PyTorch, though their text says nothing.
_MAY_LACK: Final = frozenset(
    ("tensor", "int", "symint", "float", "bool", "str", "complex", "scalar", "dtype", "layout",
     "memory_format", "generator")
)  # fmt: skip


class _Reader:
    """Reads one schema; ``kind``, ``token`` and ``start`` are those of the token to come."""

    __slots__ = (
        "allow_typevars",
        "end",
        "fresh_sets",
        "kind",
        "shareable",
        "start",
        "text",
        "token",
    )

    def __init__(self, text: str, allow_typevars: bool) -> None:
        self.text = text
        self.allow_typevars = allow_typevars
        self.fresh_sets = 0
        # Off once an argument means something only here: an anonymous alias set, which is
        # numbered within its schema, or a script type, which may be unregistered later.
        self.shareable = True
        self.start = self.end = 0

    # --- tokens ----------------------------------------------------------------------

    def _seek(self, position: int) -> None:
        match = _TOKEN.match(self.text, position)
        assert match is not None  # the last alternatives match the end and any character
        self.kind = match.lastgroup or "end"
        self.token = match[self.kind]
        self.end = match.end()
        self.start = self.end - len(self.token)

    def _next(self) -> str:
        token = self.token
        self._seek(self.end)
        return token

    def _take(self, token: str) -> bool:
        if self.token != token or self.kind != "punct":
            return False
        self._seek(self.end)
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._fail_expected(f"'{token}'")

    def _identifier(self, what: str) -> str:
        if self.kind != "ident" or self.token in _RESERVED:
            self._fail_expected(what)
        return self._next()

    def _fail_expected(self, what: str) -> NoReturn:
        found = f"'{self.token}'" if self.kind != "end" else "the end of the text"
        if self.kind == "ident" and self.token in _RESERVED:
            found += ", a reserved word"
        self.fail(f"expected {what} but found {found}", self.start, self.end)

    def fail(self, message: str, start: int, end: int) -> NoReturn:
        line = self.text.replace("\n", " ").replace("\t", " ")
        if len(line) > 2000:
            line, start, end = f"{line[:1000]} ... {line[-100:]}", min(start, 1000), min(end, 1001)
        mark = " " * start + "~" * max(end - start, 1)
        raise RuntimeError(
            f"invalid schema: {message} at position {start}:\n{line}\n{mark} <--- HERE"
        )

    # --- the whole -------------------------------------------------------------------

    def schema(self) -> FunctionSchema:
        """``name(args) -> returns`` and nothing after it."""
        name, overload = self._names_at_once() or self._names_before_arguments()
        arguments, is_vararg = self._arguments_and_arrow()
        returns, is_varret = self._remembered_returns()
        return FunctionSchema(name, overload, arguments, returns, is_vararg, is_varret)

    def _names_at_once(self) -> tuple[str, str] | None:
        """The names where they are written as usual; else None, and nothing is read."""
        match = _NAMES.match(self.text)
        if match is None:
            return None
        namespace, name, overload = match.groups("")
        legal = overload != "default" and not overload.startswith("__")
        if not legal or not _RESERVED.isdisjoint((namespace, name, overload)):
            return None  # to be refused in the words of `_names`
        self._seek(match.end())
        return f"{namespace}::{name}", overload

    def _names_before_arguments(self) -> tuple[str, str]:
        self._seek(0)
        name, overload = self._names()
        if self.kind == "end":
            whole = f"{name}.{overload}" if overload else name
            self.fail(
                f"found only the operator name '{whole}'; a schema is written "
                f"'{whole}(Tensor x) -> Tensor', with its arguments",
                self.start,
                self.end,
            )
        self._expect("(")
        return name, overload

    def _names(self) -> tuple[str, str]:
        name = self._identifier("an operator name")
        if self._take("::"):
            name += "::" + self._identifier("an operator name")
        if not self._take("."):
            return name, ""
        start, end = self.start, self.end
        overload = self._identifier("an overload name")
        if overload == "default" or overload.startswith("__"):
            self.fail(f"'{overload}' is not a legal overload name", start, end)
        return name, overload

    def _arguments_and_arrow(self) -> tuple[list[Argument], bool]:
        """The arguments, and whether there may be more; ``start`` is then that of the returns."""
        arguments: list[Argument] = []
        kwarg_only = self._take_usual(arguments)
        if kwarg_only is None:
            return arguments, False
        is_vararg = self._arguments(arguments, kwarg_only)
        self._expect("->")
        return arguments, is_vararg

    def _take_usual(self, arguments: list[Argument]) -> bool | None:
        """Take arguments written as usual, without a look at tokens, up to the first other one.

        Whether that is keyword-only; None where there is none, and the arrow is taken too.
        """
        text, at, kwarg_only = self.text, self.start, False
        while True:
            if not kwarg_only and text.startswith("*, ", at):
                kwarg_only = True
                at += 3
            match = _ARGUMENT.match(text, at)
            argument = match and self._usual_argument(match.group(), kwarg_only)
            if not match or not argument:
                break
            self.start = match.end()  # for the mark of an error
            closed = text.startswith(") -> ", self.start)
            if not closed and not text.startswith(", ", self.start):
                break
            self._check_place(argument, arguments, at)
            arguments.append(argument)
            if closed:
                self.start += 5
                return None
            at = self.start + 2
        self._seek(at)
        return kwarg_only

    def _arguments(self, arguments: list[Argument], kwarg_only: bool) -> bool:
        """Add arguments up to the parenthesis; gives whether there may be more."""
        if not arguments and not kwarg_only and self._take(")"):
            return False
        while True:
            start = self.start
            if self._take("..."):
                self._expect(")")
                if any(argument.default is not NO_DEFAULT for argument in arguments):
                    self.fail(
                        "schemas with vararg (...) can't have default value args", start, self.start
                    )
                return True
            if self._take("*"):
                if kwarg_only:
                    self.fail("a second '*'", start, start + 1)
                kwarg_only = True
            else:
                argument = self._remembered_argument(kwarg_only)
                self._check_place(argument, arguments, start)
                arguments.append(argument)
            if self._take(")"):
                return False
            if not self._take(","):
                self._fail_expected("',' or ')'")

    def _check_place(self, argument: Argument, before: list[Argument], start: int) -> None:
        name = argument.name
        for other in before:
            if other.name == name:
                self.fail(f"a second argument named '{name}'", start, self.start)
        if argument.kwarg_only or argument.default is not NO_DEFAULT or argument.type.is_list:
            return
        if before and before[-1].default is not NO_DEFAULT:
            self.fail(
                f"argument '{name}' without a default follows one with a default; give it a "
                "default too, or move it to the front",
                start,
                self.start,
            )

    def _remembered_argument(self, kwarg_only: bool) -> Argument:
        match = _ARGUMENT.match(self.text, self.start)
        if match is None:
            return self._argument(kwarg_only)
        known = self._usual_argument(match.group(), kwarg_only)
        if known is not None:
            self._seek(match.end())
            return known
        self.shareable = True
        argument = self._argument(kwarg_only)
        if self.shareable and self.start == match.end():
            remember(_seen, (match.group(), kwarg_only, self.allow_typevars), argument, epoch())
        return argument

    def _usual_argument(self, text: str, kwarg_only: bool) -> Argument | None:
        """The argument of a text that was read before, or is plain: `_argument` without tokens.

        None for all others, and for what is to be refused.
        """
        key = (text, kwarg_only, self.allow_typevars)
        known = _seen.get(key)
        if known is not None:
            return known
        match = _PLAIN_ARGUMENT.fullmatch(text)
        if match is None:
            return None
        word, size, optional, name, default = match.groups()
        type = _plain_type(word, size, optional) if word in BASE_TYPES else None
        if type is None or name in _RESERVED:
            return None
        value: object = NO_DEFAULT
        if default is not None:
            literal = _CONSTANTS[default] if default in _CONSTANTS else int(default)
            try:
                value = convert(type, literal)
            except Mismatch:
                return None
        argument = Argument(name, type, _size(type), value, kwarg_only)
        remember(_seen, key, argument, epoch())
        return argument

    def _argument(self, kwarg_only: bool) -> Argument:
        type, alias = self._type()
        name = self._identifier("an argument name")
        default = self._default(type, name) if self._take("=") else NO_DEFAULT
        if default is None and type.kind in _MAY_LACK:
            type = lacking(type)
        return Argument(name, type, _size(type), default, kwarg_only, alias)

    def _remembered_returns(self) -> tuple[list[Argument], bool]:
        """The returns, after which the schema ends."""
        key = self.text[self.start :], self.allow_typevars
        known = _seen_returns.get(key)
        if known is None:
            self._seek(self.start)
            self.shareable = True
            known = self._returns()
            if self.kind != "end":
                self._fail_expected("the end of the schema")
            if self.shareable:
                remember(_seen_returns, key, known, epoch())
        return known

    def _returns(self) -> tuple[list[Argument], bool]:
        if self._take("..."):
            return [], True
        if not self._take("("):
            return [self._return()], False
        returns: list[Argument] = []
        if self._take(")"):
            return returns, False
        while True:
            if self._take("..."):
                self._expect(")")
                return returns, True
            returns.append(self._return())
            if self._take(")"):
                return returns, False
            if not self._take(","):
                self._fail_expected("',' or ')'")

    def _return(self) -> Argument:
        type, alias = self._type()
        name = self._identifier("a name") if self.kind == "ident" else ""
        return Argument(name, type, _size(type), alias_info=alias)

    # --- types -----------------------------------------------------------------------

    def _type(self) -> tuple[SchemaType, AliasInfo | None]:
        type, alias = self._simple_type()
        while True:
            if self._take("?"):
                type = optional_of(type)
            elif _size(type) is None and self._take("["):
                type = list_of(type, self._list_size())
                alias = self._annotation((alias,))
            else:
                return type, alias

    def _simple_type(self) -> tuple[SchemaType, AliasInfo | None]:
        if self._take("("):
            return self._constructed("")
        start = self.start
        if self.token == "None":  # reserved as a name, yet a way to write NoneType
            self._next()
            return BASE_TYPES["NoneType"], None
        name = self._identifier("a type")
        if name in CONSTRUCTORS:
            self._expect("(")
            return self._constructed(name)
        while self._take("."):
            name += "." + self._identifier("a part of a type's name")
        type = BASE_TYPES.get(name) or self._open_type(name, start)
        return type, self._annotation(())

    def _open_type(self, name: str, start: int) -> SchemaType:
        """A registered class, or a type variable."""
        registered = script_type(name)
        if registered is not None:
            self.shareable = False
            return registered
        if not self.allow_typevars or not name[0].islower() or "." in name:
            self._fail_unknown(name, start)
        return type_variable(name)

    def _constructed(self, name: str) -> tuple[SchemaType, AliasInfo | None]:
        """The type parameters after ``(``, and the annotation after ``)``."""
        parts: list[tuple[SchemaType, AliasInfo | None]] = []
        closed = self._take(")")
        while not closed:
            parts.append(self._type())
            closed = not self._take(",")
            if closed:
                self._expect(")")
        type = constructed(name, tuple(t for t, _ in parts))
        return type, self._annotation(tuple(a for _, a in parts))

    def _fail_unknown(self, name: str, start: int) -> NoReturn:
        hint = f"unknown type specifier; usual ones are {COMMON_TYPES}"
        if name in _CXX_NAMES:
            hint = f"{_CXX_NAMES[name]} instead of `{name}`, which is C++"
        if "." in name:
            hint = "register the class first, with register_class or register_opaque_type"
        self.fail(f"unknown type '{name}' ({hint})", start, start + len(name))

    def _list_size(self) -> int | None:
        if self._take("]"):
            return None
        if self.kind != "number" or not self.token.isdigit():
            self._fail_expected("a number of elements or ']'")
        if len(self.token.lstrip("0")) > _MOST_SIZE_DIGITS:
            what = f"expected a list of fewer than {10**_MOST_SIZE_DIGITS:,} elements"
            self.fail(what, self.start, self.end)
        size = int(self._next())
        self._expect("]")
        return size

    # --- aliases ---------------------------------------------------------------------

    def _annotation(self, contained: tuple[AliasInfo | None, ...]) -> AliasInfo | None:
        """The annotation here, if any, around those of the type parameters."""
        inner_write = any(a is not None and a.is_write for a in contained)
        if not any(contained):
            contained = ()
        if self._take("!"):
            name = frozenset((f"${self.fresh_sets}",))
            self.fresh_sets += 1
            self.shareable = False
            return AliasInfo(name, frozenset(), True, contained)
        if not self._take("("):
            return AliasInfo(is_write=inner_write, contained=contained) if contained else None
        before = self._alias_sets()
        is_write = self._take("!")
        after = self._alias_sets() if self._take("->") else before
        self._expect(")")
        return AliasInfo(before, after, is_write or inner_write, contained)

    def _alias_sets(self) -> frozenset[str]:
        if self._take("*"):
            return frozenset("*")
        names = [self._identifier("an alias set")]
        while self._take("|"):
            names.append(self._identifier("an alias set"))
        return frozenset(names)

    # --- defaults --------------------------------------------------------------------

    def _default(self, type: SchemaType, name: str) -> object:
        start = self.start
        value = self._literal(type)
        if value is None and type.kind in _MAY_LACK:
            return None
        try:
            return convert(type, value)
        except Mismatch as mismatch:
            reason = str(mismatch) or f"type '{type}' does not take it"
            self.fail(f"the default of '{name}' is wrong: {reason}", start, self.start)

    def _literal(self, type: SchemaType) -> object:
        if self._take("["):
            return self._literal_list(type)
        if self.kind == "string":
            return re.sub(
                r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), self._next()[1:-1], flags=re.DOTALL
            )
        if self.kind == "ident" and self.token not in _NOT_FINITE:
            return self._named_constant(type)
        return self._number()

    def _literal_list(self, type: SchemaType) -> list[object]:
        values: list[object] = []
        if self._take("]"):
            return values
        while True:
            values.append(self._literal(type))
            if self._take("]"):
                return values
            self._expect(",")

    def _named_constant(self, type: SchemaType) -> object:
        if self.token in _CONSTANTS:
            return _CONSTANTS[self._next()]
        module = dtype_names if type.base.kind == "dtype" else layout_names
        value = getattr(module, self.token, None)
        if not isinstance(value, dtype | layout | memory_format):
            self._fail_expected("a default value")
        self._next()
        return value

    def _number(self) -> int | float | complex:
        first = self._signed()
        if self.token in ("+", "-") and not isinstance(first, complex):
            start = self.start
            second = self._signed()
            if not isinstance(second, complex):
                self.fail("expected an imaginary number such as 2j", start, self.start)
            return complex(first, second.imag)
        return first

    def _signed(self) -> int | float | complex:
        negative = self._take("-")
        if not negative:
            self._take("+")
        if self.kind != "number" and self.token not in _NOT_FINITE:
            self._fail_expected("a default value")
        start, token = self.start, self._next()
        value: int | float | complex
        if token.endswith("j"):
            value = complex(0.0, float(token[:-1]))
            return value.conjugate() if negative else value
        if token.isdigit() and len(token) > _MOST_DIGITS:
            self.fail(f"a number of {len(token)} digits does not fit in 64 bits", start, self.start)
        value = int(token) if token.isdigit() else float(token)
        return -value if negative else value


@functools.cache
def _plain_type(word: str, size: str | None, optional: str | None) -> SchemaType:
    """The type ``word``, a list of it unless size is None, with a question mark if there is one."""
    type = BASE_TYPES[word]
    if size is not None:
        type = list_of(type, int(size) if size else None)
    return optional_of(type) if optional else type


def _size(type: SchemaType) -> int | None:
    """N of ``T[N]`` and ``T[N]?``."""
    return type.params[0].size if type.is_optional else type.size
