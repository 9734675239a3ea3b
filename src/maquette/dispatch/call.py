"""The generated entry function of an overload: the hottest dozen lines of the package.

For each overload one plain Python function is generated from its schema. Its signature *is* the
schema, so CPython does the binding; its body checks the class of each plain argument (`is`, a few
ns each), ors the key sets and calls ``table[ks]``. Whatever is not in its exact form (a number for
a tensor, a string for a device, a bool for an int) is left to ``OpOverload.call_slow``, the exact
and plain version, which is also the oracle of the tests.
"""

from __future__ import annotations

import builtins
import keyword
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.remembered import epoch, remember
from maquette.core.size import Size
from maquette.dispatch.generated import Text, generate, indented, short_code
from maquette.dispatch.schemas.schema import Argument
from maquette.dispatch.schemas.types import SchemaType
from maquette.dispatch.tls import tls
from maquette.symbolic.numbers import SymBool, SymFloat, SymInt

if TYPE_CHECKING:
    from maquette.dispatch.kernels import Boxed
    from maquette.dispatch.operator import OpOverload

NUMBERS = frozenset((int, float, bool, complex, SymInt, SymFloat, SymBool))
# Those that kernels may use in keys. To hash a SymFloat or a SymBool is to guard: a call with one
# takes the slow way, which marks it as symbolic.
_HASHED = NUMBERS - {SymFloat, SymBool}
_CLASSES: dict[str, object] = {
    "int": int,
    "symint": int,
    "float": float,
    "bool": bool,
    "str": str,
    "dtype": dtype,
    "layout": layout,
    "memory_format": memory_format,
    "device": device,
}
LOCK = threading.RLock()
"""Held by every registration, every resolution, and while an entry function is built (D138)."""
_LIMIT = 2**63
_ENTRY = "call"
# What a generated entry calls by its own name: no parameter may hide it.
_USED = frozenset(("tuple", "list", "AttributeError", "KeyError"))


def parameter_names(op: OpOverload) -> list[str] | None:
    """The schema's parameter names, or None where one cannot be a parameter of generated code."""
    names = [a.name for a in op._schema.arguments]
    plain = all(
        not keyword.iskeyword(n) and not n.startswith("_") and n not in _USED for n in names
    )
    return names if plain else None


Slow = Callable[[tuple[object, ...], dict[str, object]], object]


def new_entry(
    op: OpOverload,
    name: str,
    slow: Slow | None = None,
    resolve: Callable[[int], Boxed] | None = None,
) -> FunctionType:
    """An entry function of ``op``, which generates its own body when it is called again.

    It stays the same object: whoever calls an operator often may keep it. A plain function costs
    0.35 us less to call than an object with ``__call__`` (timeit, CPython 3.11).
    slow: what takes over where an argument is not in its exact form; else `call_slow` of ``op``.
    resolve: gives the kernel of a key set that ``op`` remembers none for; else its own `resolve`.
    """
    space: dict[str, object] = {"_op": op, "_slow": slow or op.call_slow}
    space["_resolve"] = resolve or op.resolve
    space["__builtins__"] = builtins
    entry = FunctionType(_UNBUILT, space, name)
    space["_entry"] = entry
    return entry


_BUILT: weakref.WeakSet[FunctionType] = weakref.WeakSet()
ASKED: list[Callable[[object], None]] = []
"""What each tensor argument is given to before its keys are read; mostly nothing."""


def ask_first(prepare: Callable[[object], None]) -> None:
    """Have every entry function give its tensor arguments to ``prepare`` from now on.

    It takes what is no tensor too, and leaves it alone.
    """
    with LOCK:
        if prepare in ASKED:
            return
        ASKED.append(prepare)
        for entry in list(_BUILT):
            entry.__code__ = _generated(entry, entry.__globals__["_op"]).__code__


def prepared(params: Sequence[object]) -> None:
    """Give the tensors among parameters, and in lists of them, to what asks first."""
    for prepare in ASKED:
        for p in params:
            for item in p if p.__class__ in (tuple, list) else (p,):
                prepare(item)


_SPACE: dict[str, object] = {
    "_prepared": prepared,
    "_tls": tls,
    "_NUMBERS": NUMBERS,
    "_HASHED": _HASHED,
    "_Size": Size,
    "_SymInt": SymInt,
    "_LIMIT": _LIMIT,
    "_LEAST": -_LIMIT,
    **{f"_{kind}": cls for kind, cls in _CLASSES.items()},
}


def build_entry(entry: FunctionType, op: OpOverload) -> None:
    """Give an entry function its body, generated from the schema; its caller holds the lock."""
    if entry.__code__ is not _UNBUILT:
        return
    space = entry.__globals__
    space |= _SPACE
    space["_table"] = op._table
    known = next((e for e in op.entries() if e.__code__ is not _UNBUILT), None)
    built = known or _generated(entry, op)
    _BUILT.add(entry)
    entry.__defaults__ = built.__defaults__
    entry.__kwdefaults__ = built.__kwdefaults__
    # Last: other threads may be calling. Each has a copy, as generated functions have.
    entry.__code__ = built.__code__ if known is None else built.__code__.replace()


def _generated(entry: FunctionType, op: OpOverload) -> FunctionType:
    # A shape rule refuses large ints in its own words; where there is none, we do (25 ns each).
    bounded = op.shape_rule is None
    text = Text((op.form_facts, bounded, bool(ASKED)), lambda: _source(op, bounded))
    built = generate(text, "_call", _ENTRY, entry.__globals__)
    assert isinstance(built, FunctionType)
    if not built.__code__.co_flags & CO_VARARGS:
        # The text has no defaults, so that more operators share it.
        optional = [a for a in op._schema.arguments if a.has_default_value()]
        built.__defaults__ = tuple([a.default for a in optional if not a.kwarg_only])
        built.__kwdefaults__ = {a.name: a.default for a in optional if a.kwarg_only}
    return built


CO_VARARGS = 0x04  # `inspect`'s: that module is imported where signatures are asked for
_SLOW_SOURCE = "def _call(*args, **kwargs):\n    return _slow(args, kwargs)\n"
_UNBUILT = short_code(
    "def _call(*args, **kwargs): return _op._first_call(_entry, args, kwargs)", _ENTRY
)


def _has_fast_form(op: OpOverload) -> bool:
    schema = op._schema
    if schema.is_vararg or parameter_names(op) is None:
        return False
    positional = [a for a in schema.arguments if not a.kwarg_only]
    optional = [a.has_default_value() for a in positional]
    if optional != sorted(optional):
        return False  # a list without default after a default (D27), which Python does not have
    return all(_guard(a) is not None for a in schema.arguments)


def _source(op: OpOverload, bounded: bool) -> str:
    """The text of an entry; bounded: whether ints must fit in 64 bits."""
    if not _has_fast_form(op):
        return _SLOW_SOURCE
    arguments = op._schema.arguments
    lines = [f"def _call({_signature(arguments)}):"]
    slow = f"return _slow({_forward(arguments)})"
    tensors = [a.name for a in arguments if _unlisted(a.type).kind == "tensor"]
    if ASKED and tensors:
        lines += [f"    _prepared(({', '.join(tensors)},))"]
    keys: list[tuple[str, str]] = []
    for argument in arguments:
        lines += indented(_guard(argument, bounded=bounded) or ())
        key = _key_source(argument, op.takes_numbers)
        if key is not None:
            keys.append(key)
    # No key set is negative: -1 stands for "not a tensor", so that errors of the slow path are not
    # raised while handling ours. Equal key sets are mostly one object: asking costs 10 ns, the or
    # of two three-digit ints 40. tls.st costs 55, and nothing else is read per thread.
    lines += _keys_lines(keys)
    lines += ["    _st = _tls.st", "    try:", "        _ks = _st.effective[_k]"]
    lines += ["    except KeyError:", "        _ks = _st.remember_effective(_k)"]
    lines += ["    try:", "        _kernel = _table[_ks]"]
    lines += ["    except KeyError:", "        _kernel = None"]
    lines += ["    if _kernel is None:", "        if _ks < 0:", f"            {slow}"]
    lines += ["        _kernel = _resolve(_ks)"]
    passed = ", ".join(["_ks", *(a.name for a in arguments)])
    lines += [f"    return _kernel({passed})"]
    return "\n".join(lines).replace("SLOW", slow) + "\n"


def _signature(arguments: tuple[Argument, ...]) -> str:
    parts: list[str] = []
    star = False
    for a in arguments:
        if a.kwarg_only and not star:
            parts.append("*")
            star = True
        parts.append(a.name)
    return ", ".join(parts)


def _forward(arguments: tuple[Argument, ...]) -> str:
    positional = ", ".join(a.name for a in arguments if not a.kwarg_only)
    keywords = ", ".join(f"'{a.name}': {a.name}" for a in arguments if a.kwarg_only)
    comma = "," if positional else ""
    return f"({positional}{comma}), {{{keywords}}}"


def _unwrapped(type_: SchemaType) -> SchemaType:
    """The type without its ``?``."""
    return type_.elem if type_.is_optional else type_


def _unlisted(type_: SchemaType) -> SchemaType:
    """The type of what a list holds, or of the argument itself."""
    base = _unwrapped(type_)
    return _unwrapped(base.elem) if base.is_list else base


def _guard(argument: Argument, *, bounded: bool = False) -> list[str] | None:
    """Lines that send anything not in its exact form to SLOW; None: no fast form exists.

    bounded: whether an int must fit in 64 bits to be in its exact form.
    """
    # Operators share names and types of arguments: asked twice for each, the lines were half of
    # what an entry costs.
    key = argument.name, argument.type.written, bounded
    lines = _GUARDS.get(key)
    if lines is None:
        lines = _guard_lines(argument, bounded)
        remember(_GUARDS, key, lines, epoch())
    return lines


_GUARDS: dict[tuple[str, str, bool], list[str] | None] = {}


def _guard_lines(argument: Argument, bounded: bool) -> list[str] | None:
    name = argument.name
    base = _unwrapped(argument.type)
    if base.is_list:
        lines = _spread_number(name, base) + _list_guard(name, base.elem, bounded)
    elif base.kind == "tensor":
        lines = []
    elif base.kind == "generator":
        # A generator is any object; None is the common case.
        return [f"if {name} is not None:", "    SLOW"]
    elif base.kind == "scalar":
        lines = [f"if {name}.__class__ not in _HASHED:", "    SLOW"]
    elif base.kind in _CLASSES:
        lines = [f"if {_not_exact(name, base.kind, bounded)}:", *_unless_symbolic(name, base.kind)]
    else:
        return None
    if argument.type.is_optional and lines:
        return [f"if {name} is not None:", *(f"    {line}" for line in lines)]
    return lines


def _not_exact(name: str, kind: str, bounded: bool) -> str:
    wrong_class = f"{name}.__class__ is not _{kind}"
    if bounded and kind in ("int", "symint"):
        return f"{wrong_class} or not _LEAST <= {name} < _LIMIT"
    return wrong_class


def _unless_symbolic(name: str, kind: str) -> list[str]:
    """Lines for what is not exact: a symbolic int may be where a SymInt is due."""
    if kind != "symint":
        return ["    SLOW"]
    return [f"    if {name}.__class__ is not _SymInt:", "        SLOW"]


def _spread_number(name: str, listed: SchemaType) -> list[str]:
    """``x.mean(-1)``: one integer for a sized list is as many copies (D48)."""
    if not listed.size or listed.elem.kind not in ("int", "symint"):
        return []
    return [f"if {name}.__class__ is int:", f"    {name} = ({name},) * {listed.size}"]


def _list_guard(name: str, elem: SchemaType, bounded: bool) -> list[str]:
    lines = [f"if {name}.__class__ is not tuple:"]
    lines += [f"    if {name}.__class__ is list or {name}.__class__ is _Size:"]
    lines += [f"        {name} = tuple({name})", "    else:", "        SLOW"]
    inner = _unwrapped(elem)
    if inner.kind in _CLASSES and not elem.is_optional:
        wrong = _not_exact("_i", inner.kind, bounded)
        unless = [f"    {line}" for line in _unless_symbolic("_i", inner.kind)]
        lines += [f"for _i in {name}:", f"    if {wrong}:", *unless]
    elif inner.kind == "scalar" and not elem.is_optional:
        lines += [f"for _i in {name}:", "    if _i.__class__ not in _HASHED:", "        SLOW"]
    elif inner.kind == "tensor":
        lines += [f"_keys_{name} = 0", f"for _i in {name}:"]
        if elem.is_optional:
            lines += ["    if _i is None:", "        continue"]
        lines += ["    try:", f"        _keys_{name} |= _i._keys"]
        lines += ["    except AttributeError:", f"        _keys_{name} = -1", "        break"]
        lines += [f"if _keys_{name} < 0:", "    SLOW"]
    else:
        lines += ["SLOW"]
    return lines


def _keys_lines(keys: list[tuple[str, str]]) -> list[str]:
    """Lines that or the key sets together into ``_k``; -1 if something is not a tensor."""
    if not keys:
        return ["    _k = 0"]
    lines: list[str] = []
    (condition, first), *rest = keys
    lines += [f"_k = {first} if {condition} else 0" if condition else f"_k = {first}"]
    for condition, other in rest:
        indent = ""
        if condition:
            lines += [f"if {condition}:"]
            indent = "    "
        lines += [f"{indent}_l = {other}", f"{indent}if _l is not _k:", f"{indent}    _k |= _l"]
    return indented(["try:", *indented(lines), "except AttributeError:", "    _k = -1"])


def _key_source(argument: Argument, takes_numbers: bool) -> tuple[str, str] | None:
    """Under which condition an argument has keys, "" for always, and source of them."""
    name = argument.name
    optional = argument.type.is_optional
    base = _unwrapped(argument.type)
    given = f"{name} is not None" if optional else ""
    if base.is_list:
        return (given, f"_keys_{name}") if _unwrapped(base.elem).kind == "tensor" else None
    if base.kind != "tensor":
        return None
    if takes_numbers and not optional and not argument.is_write:
        return f"{name}.__class__ not in _NUMBERS", f"{name}._keys"
    return given, f"{name}._keys"
