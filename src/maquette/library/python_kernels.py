"""Kernels written in Python by users: called in the normalised form, their results checked.

A user's function gets positional parameters, keywords only for keyword-only ones, lists as lists,
and defaults dropped unless the function requires them (D50, L28); what it returns must fit the
schema (D51, L27). The one idea: where a function's signature shows that it cannot tell a dropped
default from a given one, a straight call is generated; `_normalised` is the plain form, and the
oracle.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.generated import generate
from maquette.dispatch.keysets import DispatchKeySet
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import check_result, normalise
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.dispatch.schemas.types import SchemaType

Function = Callable[..., object]
Factory = Callable[[OpOverload, int], Function]
_PARAMETER = inspect.Parameter
_POSITIONAL = (_PARAMETER.POSITIONAL_ONLY, _PARAMETER.POSITIONAL_OR_KEYWORD)
_NAMED = (_PARAMETER.KEYWORD_ONLY, _PARAMETER.POSITIONAL_OR_KEYWORD)


def python_kernel(
    function: Function, *, with_keyset: bool = False, own_results: str = ""
) -> Factory:
    """A kernel factory for a user's Python function.

    with_keyset: the function takes the current key set first.
    own_results: results may share no storage with arguments or each other; if one does, an error is
    raised that names the operator and this place (L75).
    """

    def factory(op: OpOverload, ks: int) -> Function:
        call = _straight(function, op._schema, with_keyset, own_results)
        return call or _normalised(function, op._schema, with_keyset, own_results)

    return factory


# --- the plain form --------------------------------------------------------------------------


def _normalised(
    function: Function, schema: FunctionSchema, with_keyset: bool, own_results: str
) -> Function:
    arguments = schema.arguments
    needs = _Needs.of(function, with_keyset)
    named = [(i, a.name) for i, a in enumerate(arguments) if a.kwarg_only]
    refilled = [(i, name) for i, name in named if name in needs.names]
    positional = len(arguments) - len(named)

    def kernel(ks: int, *params: object) -> object:
        args, kwargs = normalise(schema, params)
        if len(args) < needs.positional:
            args += params[len(args) : min(needs.positional, positional)]
        for i, name in refilled:
            kwargs.setdefault(name, params[i])
        if with_keyset:
            args = (DispatchKeySet.from_raw_repr(ks), *args)
        result = check_result(schema, function(*args, **kwargs))
        if own_results:
            check_own(schema, params, result, own_results)
        return result

    return kernel


class _Needs(NamedTuple):
    """How many positional parameters, and which keyword ones, a function cannot do without."""

    positional: int
    names: frozenset[str]

    @staticmethod
    def of(function: Function, with_keyset: bool) -> _Needs:
        parameters = _parameters(function) or []
        required = [p for p in parameters if p.default is _PARAMETER.empty]
        positional = sum(p.kind in _POSITIONAL for p in required) - with_keyset
        names = frozenset(p.name for p in required if p.kind is _PARAMETER.KEYWORD_ONLY)
        return _Needs(positional, names)


def _parameters(function: Function) -> list[inspect.Parameter] | None:
    """The parameters of the function itself, not of one it wraps; None where none are known."""
    try:
        return list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        return None


# --- the straight form -----------------------------------------------------------------------


def _straight(
    function: Function, schema: FunctionSchema, with_keyset: bool, own_results: str
) -> Function | None:
    """A generated call of ``function`` with every parameter; None where that is not the same."""
    passed = _passed(function, schema, with_keyset)
    if passed is None:
        return None
    names = [f"p{i}" for i in range(len(schema.arguments))]
    source = f"""
def _kernel(_ks, {", ".join(names)}):
    _r = _f({", ".join(passed)})
    if not ({_fits_expression(schema)}):
        _r = _check(_schema, _r)
    if {_shared_expression(schema) if own_results else "False"}:
        _check_own(_schema, ({"".join(f"{n}, " for n in names)}), _r, _own)
    return _r
"""
    space: dict[str, object] = {
        "_f": function,
        "_schema": schema,
        "_check": check_result,
        "_check_own": check_own,
        "_own": own_results,
        "_TensorBase": TensorBase,
        "_KeySet": DispatchKeySet.from_raw_repr,
    }
    return generate(source, "_kernel", "python kernel", space)


def _passed(function: Function, schema: FunctionSchema, with_keyset: bool) -> list[str] | None:
    """The argument expressions of a straight call; None where only the plain form is exact."""
    parameters = _parameters(function)
    if parameters is None or schema.is_vararg:
        return None
    positional = [p for p in parameters if p.kind in _POSITIONAL][int(with_keyset) :]
    named = {p.name: p for p in parameters if p.kind in _NAMED}
    passed = ["_KeySet(_ks)"] if with_keyset else []
    for i, argument in enumerate(schema.arguments):
        if argument.kwarg_only:
            taker = None if keyword.iskeyword(argument.name) else named.get(argument.name)
            prefix = f"{argument.name}="
        else:
            taker = positional[i] if i < len(positional) else None
            prefix = ""
        value = _expression(f"p{i}", argument.type)
        if taker is None or value is None or not _indifferent(taker, argument):
            return None
        passed.append(prefix + value)
    return passed


def _indifferent(parameter: inspect.Parameter, argument: Argument) -> bool:
    """Whether giving a default and leaving it out are the same to a parameter."""
    if not argument.has_default_value() or parameter.default is _PARAMETER.empty:
        return True
    mine, theirs = parameter.default, argument.default
    if isinstance(mine, (bool, int, float, str)):
        return type(mine) is type(theirs) and mine == theirs
    return mine is theirs


def _expression(name: str, type_: SchemaType) -> str | None:
    """A parameter as handlers see it: its lists as lists."""
    inner = type_.elem if type_.is_optional else type_
    if inner.is_list:
        if _holds_lists(inner.elem):
            return None
        listed = f"list({name})"
        return f"None if {name} is None else {listed}" if type_.is_optional else listed
    return None if _holds_lists(type_) else name


def _holds_lists(type_: SchemaType) -> bool:
    return type_.is_list or any(map(_holds_lists, type_.params))


def _fits_expression(schema: FunctionSchema) -> str:
    """Whether ``_r`` is plainly what the schema returns; if not, `check_result` decides."""
    kinds = [r.type.written for r in schema.returns]
    if schema.is_varret:
        return "False"
    if not kinds:
        return "_r is None"
    if kinds == ["Tensor"]:
        return "isinstance(_r, _TensorBase)"
    if kinds == ["Tensor[]"]:
        return "_r.__class__ is list and not [_t for _t in _r if not isinstance(_t, _TensorBase)]"
    if set(kinds) != {"Tensor"}:
        return "False"
    each = [f"isinstance(_r[{n}], _TensorBase)" for n in range(len(kinds))]
    return " and ".join(["_r.__class__ is tuple", f"len(_r) == {len(kinds)}", *each])


def _shared_expression(schema: FunctionSchema) -> str:
    """Whether the result may share storage with an argument, so that `check_own` must look."""
    if [r.type.written for r in schema.returns] != ["Tensor"]:
        return "True" if schema.returns else "False"
    parts = ["_r is None"]  # an undefined tensor
    for i, argument in enumerate(schema.arguments):
        if argument.type.kind == "tensor":
            parts.append(f"_r._storage is p{i}._storage")
        elif argument.type.base.kind == "tensor":
            return "True"
    return " or ".join(parts)


# --- results that must be the operator's own -------------------------------------------------


def check_own(schema: FunctionSchema, params: Sequence[object], result: object, place: str) -> None:
    """Refuse a result that shares storage with an argument or with another result (L75)."""
    seen = set(map(id, _storages(params)))
    for storage in _storages((result,)):
        if id(storage) in seen:
            _fail_shared(schema, params, result, storage, place)
        seen.add(id(storage))


def _storages(values: Sequence[object]) -> list[object]:
    found: list[object] = []
    for v in values:
        if isinstance(v, TensorBase):
            found.append(v._storage)  # type: ignore[attr-defined]  # every tensor has one
        elif v.__class__ is tuple or v.__class__ is list:
            found += _storages(v)
    return found


def _fail_shared(
    schema: FunctionSchema, params: Sequence[object], result: object, storage: object, place: str
) -> NoReturn:
    named = zip(schema.arguments, params, strict=False)
    names = [f"the argument '{a.name}'" for a, p in named if storage in _storages((p,))]
    raise RuntimeError(
        f"{schema.name} (with implementation in {place}): an output shares memory with "
        f"{' and '.join(names) or 'another output'}. The outputs of a custom operator "
        "may not alias its inputs or each other; return a clone(), or declare the alias in a "
        f"schema: {schema}"
    )
