"""The generated entry function of an overload: the hottest dozen lines of the package.

For each overload one plain Python function is generated from its schema. Its signature *is* the
schema, so CPython does the binding; its body checks the class of each plain argument (`is`, a few
ns each), ors the key sets and calls ``table[ks]``. Whatever is not in its exact form (a number for a
tensor, a string for a device, a bool for an int) is left to ``OpOverload.call_slow``, the exact and
plain version, which is also the oracle of the tests.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.size import Size
from maquette.dispatch.schema import Argument
from maquette.dispatch.tls import tls

if TYPE_CHECKING:
    from maquette.dispatch.operator import OpOverload

NUMBERS = frozenset((int, float, bool, complex))
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
_CODE: dict[str, CodeType] = {}


def compiled(source: str, name: str) -> CodeType:
    """Compile generated source once per distinct text: unary operators all share one code object."""
    code = _CODE.get(source)
    if code is None:
        code = _CODE[source] = compile(source, f"<maquette {name}>", "exec")
    return code


def parameter_names(op: OpOverload) -> list[str] | None:
    """The schema's parameter names, or None where one cannot be a Python parameter."""
    names = [a.name for a in op._schema.arguments]
    return None if any(keyword.iskeyword(n) for n in names) else names


def build_call(op: OpOverload) -> Callable[..., object]:
    """The entry function of ``op``."""
    schema = op._schema
    names = parameter_names(op)
    plain = names is not None and not schema.is_vararg
    if not plain or any(_guard(a, op.takes_numbers) is None for a in schema.arguments):
        return lambda *args, **kwargs: op.call_slow(args, kwargs)
    defaults = {
        f"_d{i}": a.default for i, a in enumerate(schema.arguments) if a.has_default_value()
    }
    space: dict[str, object] = {
        "_slow": op.call_slow,
        "_table": op._table,
        "_resolve": op.resolve,
        "_tls": tls,
        "_NUMBERS": NUMBERS,
        "_Size": Size,
        **{f"_{kind}": cls for kind, cls in _CLASSES.items()},
        **defaults,
    }
    exec(compiled(_source(op), "call"), space)
    call = space["_call"]
    assert callable(call)
    return call


def _source(op: OpOverload) -> str:
    arguments = op._schema.arguments
    lines = [f"def _call({_signature(arguments)}):"]
    slow = f"return _slow({_forward(arguments)})"
    keys: list[str] = []
    for argument in arguments:
        guard = _guard(argument, op.takes_numbers)
        assert guard is not None
        lines += [f"    {line}" for line in guard]
        key = _key_expression(argument, op.takes_numbers)
        if key:
            keys.append(key)
    # tls.st costs 50 ns, the or and and of three-digit ints 80 ns (timeit, CPython 3.11): together
    # they are the floor of a call, and nothing else is read per thread.
    lines += ["    _st = _tls.st"]
    lines += ["    try:"]
    lines += [f"        _ks = ({' | '.join([*keys, '_st.include'])}) & _st.keep"]
    lines += ["    except AttributeError:", f"        {slow}"]
    lines += ["    try:", "        _kernel = _table[_ks]"]
    lines += ["    except KeyError:", "        _kernel = _resolve(_ks)"]
    passed = ", ".join(["_ks", *(a.name for a in arguments)])
    lines += [f"    return _kernel({passed})"]
    return "\n".join(lines).replace("SLOW", slow) + "\n"


def _signature(arguments: tuple[Argument, ...]) -> str:
    parts: list[str] = []
    star = False
    required_after_default = False
    for i, a in enumerate(arguments):
        if a.kwarg_only and not star:
            parts.append("*")
            star = True
        if a.has_default_value():
            parts.append(f"{a.name}=_d{i}")
            required_after_default = True
        elif required_after_default and not star:
            parts.append(f"{a.name}=None")  # a list after a default (D27): left to the slow path
        else:
            parts.append(a.name)
    return ", ".join(parts)


def _forward(arguments: tuple[Argument, ...]) -> str:
    positional = ", ".join(a.name for a in arguments if not a.kwarg_only)
    keywords = ", ".join(f"'{a.name}': {a.name}" for a in arguments if a.kwarg_only)
    comma = "," if positional else ""
    return f"({positional}{comma}), {{{keywords}}}"


def _guard(argument: Argument, takes_numbers: bool) -> list[str] | None:
    """Lines that send anything not in its exact form to SLOW; None: no fast form exists."""
    name, type_ = argument.name, argument.type
    optional = type_.is_optional
    base = type_.elem if optional else type_
    if base is None:
        return None
    if base.is_list:
        lines = _list_guard(name, base)
    elif base.kind == "tensor":
        lines = []
    elif base.kind == "generator":
        # A generator is any object; None is the common case.
        return [f"if {name} is not None:", "    SLOW"]
    elif base.kind == "scalar":
        lines = [f"if {name}.__class__ not in _NUMBERS:", "    SLOW"]
    elif base.kind in _CLASSES:
        lines = [f"if {name}.__class__ is not _{base.kind}:", "    SLOW"]
    else:
        return None
    if optional and lines:
        return [f"if {name} is not None:", *(f"    {line}" for line in lines)]
    return lines


def _list_guard(name: str, type_: object) -> list[str]:
    elem = getattr(type_, "elem")  # noqa: B009  # the schema's type objects are one class
    lines = [f"if {name}.__class__ is not tuple:"]
    lines += [f"    if {name}.__class__ is list or {name}.__class__ is _Size:"]
    lines += [f"        {name} = tuple({name})", "    else:", "        SLOW"]
    inner = elem.elem if elem.is_optional else elem
    if inner.kind in _CLASSES and not elem.is_optional:
        lines += [f"for _i in {name}:", f"    if _i.__class__ is not _{inner.kind}:", "        SLOW"]
    elif inner.kind == "scalar":
        lines += [f"for _i in {name}:", "    if _i.__class__ not in _NUMBERS:", "        SLOW"]
    elif inner.kind == "tensor":
        lines += [f"_keys_{name} = 0", f"for _i in {name}:"]
        if elem.is_optional:
            lines += ["    if _i is None:", "        continue"]
        lines += ["    try:", f"        _keys_{name} |= _i._keys"]
        lines += ["    except AttributeError:", "        SLOW"]
    else:
        lines += ["SLOW"]
    return lines


def _key_expression(argument: Argument, takes_numbers: bool) -> str:
    name, type_ = argument.name, argument.type
    optional = type_.is_optional
    base = type_.elem if optional else type_
    assert base is not None
    if base.is_list:
        elem = base.elem
        assert elem is not None
        inner = elem.elem if elem.is_optional else elem
        if inner is None or inner.kind != "tensor":
            return ""
        return f"(0 if {name} is None else _keys_{name})" if optional else f"_keys_{name}"
    if base.kind != "tensor":
        return ""
    if optional:
        return f"(0 if {name} is None else {name}._keys)"
    if takes_numbers:
        return f"(0 if {name}.__class__ in _NUMBERS else {name}._keys)"
    return f"{name}._keys"
