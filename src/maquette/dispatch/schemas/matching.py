"""Matching calls and results with schemas, exactly and with errors that say what was wrong.

What a type accepts is in `conversion`; the generated entry of an operator, which handles calls
whose arguments already have their exact form, in `call`. The one idea: a call becomes all
parameters in schema order in the form kernels get (`bind`), and that form becomes the call a
user's handler sees (`normalise`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, cast

from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.schemas.conversion import Mismatch, convert, is_number, plain_number
from maquette.dispatch.schemas.schema import NO_DEFAULT, Argument, FunctionSchema
from maquette.dispatch.schemas.types import SchemaType

__all__ = ["MatchError", "bind", "check_result", "normalise"]

_LONGEST_VALUE: Final = 300


class MatchError(RuntimeError):
    """A call does not match a schema: the class that lets packets try the next overload."""


def bind(
    schema: FunctionSchema,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    takes_numbers: bool,
) -> tuple[object, ...]:
    """All parameters in schema order, converted to the form that kernels get.

    takes_numbers: whether Python numbers pass for Tensor parameters; they stay numbers (D47).
    Raises MatchError, a RuntimeError, with the parameter and the full schema (D40-D49).
    """
    given = len(args)
    arguments = schema.arguments
    if given > len(arguments) or (given and arguments[given - 1].kwarg_only):
        _check_count(schema, given)
    params: list[object] = []
    keywords_used = 0
    for position, argument in enumerate(arguments):
        name = argument.name
        if position < given:
            if name in kwargs:
                _fail_given_twice(schema, name)
            value = args[position]
        elif name in kwargs:
            keywords_used += 1
            value = kwargs[name]
        elif argument.default is not NO_DEFAULT:
            params.append(argument.default)
            continue
        else:
            _fail_missing(schema, argument, kwargs)
        params.append(_fit(schema, position, value, takes_numbers))
    if keywords_used != len(kwargs):
        _fail_unknown(schema, kwargs)
    return (*params, *args[len(arguments) :])


def _fit(schema: FunctionSchema, position: int, value: object, takes_numbers: bool) -> object:
    argument = schema.arguments[position]
    type = argument.type
    if takes_numbers and _is_tensor_type(type) and is_number(value) and not argument.is_write:
        return plain_number(value)
    try:
        return convert(type, value)
    except Mismatch as mismatch:
        detail = f" ({mismatch})" if str(mismatch) else ""
        found = "got None, of" if value is None else "found"
        raise MatchError(
            f"{_op(schema)} expected a value of type '{type}' for argument '{argument.name}' but "
            f"{found} type '{_type_name(value)}'{detail}.\nPosition: {position}\n"
            f"Value: {_shown(value)}\nDeclaration: {schema}"
        ) from None


def _is_tensor_type(type: SchemaType) -> bool:
    return (type.elem if type.is_optional else type).kind == "tensor"


def _check_count(schema: FunctionSchema, given: int) -> None:
    allowed = sum(not a.kwarg_only for a in schema.arguments)
    if not schema.is_vararg:
        raise MatchError(
            f"{_op(schema)} takes {allowed} positional argument(s) but {given} were given. "
            f"Declaration: {schema}"
        )


def _fail_given_twice(schema: FunctionSchema, name: str) -> NoReturn:
    raise MatchError(
        f"{_op(schema)}: argument '{name}' was given twice, as positional and keyword argument. "
        f"Declaration: {schema}"
    )


def _fail_missing(
    schema: FunctionSchema, argument: Argument, kwargs: Mapping[str, object]
) -> NoReturn:
    unknown = sorted(set(kwargs) - {a.name for a in schema.arguments})
    hint = f" (and got an unknown keyword argument '{unknown[0]}')" if unknown else ""
    raise MatchError(
        f"{_op(schema)} is missing a value for argument '{argument.name}' of type "
        f"'{argument.type}'{hint}. Declaration: {schema}"
    )


def _fail_unknown(schema: FunctionSchema, kwargs: Mapping[str, object]) -> NoReturn:
    known = {a.name for a in schema.arguments}
    name = next(k for k in kwargs if k not in known)
    raise MatchError(
        f"Unknown keyword argument '{name}' for operator {_op(schema)}. Declaration: {schema}"
    )


def _op(schema: FunctionSchema) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def _type_name(value: object) -> str:
    return type(value).__name__


def _shown(value: object) -> str:
    """A value for an error. Printing a tensor would run operators, so tensors show their meta."""
    if isinstance(value, TensorBase):
        return str(getattr(value, "meta", None) or f"<{_type_name(value)}>")
    if isinstance(value, list | tuple):
        inside = ", ".join(_shown(v) for v in value[:8]) + (", ..." if len(value) > 8 else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


# --- the form handlers see -------------------------------------------------------------------


_Call = tuple[tuple[object, ...], dict[str, object]]


def normalise(schema: FunctionSchema, params: tuple[object, ...]) -> _Call:
    """The call that handlers see: defaults dropped where they may be, lists as lists (D50)."""
    return normaliser(schema)(params)


def normaliser(schema: FunctionSchema) -> Callable[[tuple[object, ...]], _Call]:
    """`normalise` for one schema, for who calls it often."""
    made = schema.memo.get("normalise")
    if made is None:
        made = schema.memo["normalise"] = _normaliser(schema)
    return cast(Callable[[tuple[object, ...]], _Call], made)


def _normaliser(schema: FunctionSchema) -> Callable[[tuple[object, ...]], _Call]:
    """`normalise` for one schema, with everything worked out that does not depend on the call."""
    arguments = schema.arguments
    positional = sum(not a.kwarg_only for a in arguments)
    required = positional
    while required and arguments[required - 1].default is not NO_DEFAULT:
        required -= 1
    defaults = [a.default for a in arguments]
    keywords = [(i, a.name, a.default) for i, a in enumerate(arguments) if a.kwarg_only]
    lists = [(i, a.name, a.type) for i, a in enumerate(arguments) if _holds_lists(a.type)]
    count = len(arguments)

    def normalised(params: tuple[object, ...]) -> _Call:
        if len(params) > count:  # what follows is for `...`: nothing before it may be dropped
            return _listed(lists, params, positional, {})
        end = positional
        while end > required:
            value, default = params[end - 1], defaults[end - 1]
            if value is not default and not is_default(value, default):
                break
            end -= 1
        named: dict[str, object] = {}
        for i, name, default in keywords:
            value = params[i]
            if value is not default and not is_default(value, default):
                named[name] = value
        args = params[:end]
        return _listed(lists, args, end, named) if lists else (args, named)

    return normalised


def _listed(
    lists: list[tuple[int, str, SchemaType]],
    args: tuple[object, ...],
    end: int,
    named: dict[str, object],
) -> _Call:
    """The call with lists where the types say so; ``end`` positional parameters are kept."""
    positions = list(args)
    for i, name, type in lists:
        if i < end:
            value = positions[i]
            flat = value.__class__ is tuple and type.kind == "list" and not type.elem.params
            positions[i] = list(cast(tuple[object], value)) if flat else _with_lists(type, value)
        elif name in named:
            named[name] = _with_lists(type, named[name])
    return tuple(positions), named


def is_default(value: object, default: object) -> bool:
    """Whether a value is exactly the default: 1.0 is not 1, and no symbol is compared."""
    if value.__class__ is not default.__class__:
        return False
    if isinstance(default, tuple):
        values = cast(tuple[object, ...], value)
        return len(values) == len(default) and all(map(is_default, values, default))
    # Other defaults (dtypes, devices, None) are one object each: equal ones are identical.
    return value is default or (
        isinstance(default, int | float | complex | str) and value == default
    )


def _holds_lists(type: SchemaType) -> bool:
    return type.kind == "list" or any(map(_holds_lists, type.params))


def _with_lists(type: SchemaType, value: object) -> object:
    """A value in kernel form with lists where its type says list."""
    if type.kind == "optional":
        return None if value is None else _with_lists(type.elem, value)
    if type.kind == "list" and isinstance(value, tuple):
        return [_with_lists(type.elem, v) for v in value]
    if type.kind == "tuple" and isinstance(value, tuple):
        return tuple(map(_with_lists, type.params, value))
    if type.kind == "dict" and isinstance(value, dict):
        return {k: _with_lists(type.params[1], v) for k, v in value.items()}
    return value


# --- results ---------------------------------------------------------------------------------


def check_result(schema: FunctionSchema, result: object) -> object:
    """A kernel's result in the form callers get, checked against the returns (D51, L27).

    None for ``()``, the value itself for one return, a tuple for several; lists come as lists.
    Raises RuntimeError with the operator, what it returns and what came.
    """
    returns = schema.returns
    if len(returns) == 1:
        return _check_return(schema, returns[0], result)
    if schema.is_varret:
        return result
    if not returns:
        if result is not None:
            _fail_result(schema, "None", result)
        return None
    if not isinstance(result, tuple | list):
        _fail_result(schema, f"a tuple of {len(returns)} values", result)
    if len(result) != len(returns):
        _fail_result(schema, f"{len(returns)} values", result, f"{len(result)} values")
    return tuple([_check_return(schema, r, v) for r, v in zip(returns, result, strict=True)])


def _check_return(schema: FunctionSchema, expected: Argument, value: object) -> object:
    type = expected.type
    if type.kind == "tensor" and (value is None or isinstance(value, TensorBase)):
        return value  # None is an undefined tensor
    try:
        return _with_lists(type, convert(type, value))
    except Mismatch:
        name = f" for '{expected.name}'" if expected.name else ""
        _fail_result(schema, f"a value of type '{type}'{name}", value)


def returned_arguments(schema: FunctionSchema) -> tuple[int | None, ...]:
    """For each return, the position of the written argument that it is; () if none is one.

    ``Tensor(a!)`` among the arguments and again among the returns is one tensor.
    """
    known = schema.memo.get("returned_arguments")
    if known is None:
        written = {_written_set(a): i for i, a in enumerate(schema.arguments)}
        written.pop(None, None)
        found = [written.get(_written_set(r)) for r in schema.returns]
        known = () if all(i is None for i in found) else tuple(found)
        schema.memo["returned_arguments"] = known
    return cast("tuple[int | None, ...]", known)


def _written_set(a: Argument) -> frozenset[str] | None:
    """The alias sets of one written tensor."""
    alias = a.alias_info
    if alias is None or not alias.is_write or a.type.kind != "tensor":
        return None
    return alias.before_set


def _fail_result(
    schema: FunctionSchema, expected: str, result: object, found: str = ""
) -> NoReturn:
    found = found or f"type '{_type_name(result)}'"
    raise RuntimeError(
        f"{_op(schema)}: its kernel or handler must return {expected}, but returned {found}: "
        f"{_shown(result)}. Unable to cast that. Declaration: {schema}"
    )
