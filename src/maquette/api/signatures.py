"""What a call that fits no overload is told, in the terms of Python functions.

The operators' own errors (`dispatch.matching`) speak of schemas; functions and methods speak of
*signatures*: an overload and its ``out=`` form are one, ``self`` is ``input`` (or not counted, for
methods), a ``Scalar`` is a Number. But for `called`, by which functions in Python call operators,
nothing here runs unless a call has failed. The one idea: a
signature is meant if the number of arguments allows it; where one is meant, the error says what
is wrong with that one, otherwise it lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import find_packet
from maquette.dispatch.schemas.conversion import Mismatch, convert, is_number
from maquette.dispatch.schemas.matching import MatchError, bind
from maquette.dispatch.schemas.schema import NO_DEFAULT, Argument
from maquette.dispatch.schemas.types import SchemaType
from maquette.library.advice import advised

_Kwargs = Mapping[str, object]
_NAMES = {
    "tensor": "Tensor",
    "scalar": "Number",
    "symint": "int",
    "symfloat": "float",
    "symbool": "bool",
    "dtype": "torch.dtype",
    "layout": "torch.layout",
    "device": "torch.device",
    "memory_format": "torch.memory_format",
    "generator": "torch.Generator",
}
_OPTIONS = ("dtype", "layout", "device", "pin_memory")  # what all factories take, in this order


class Signature(NamedTuple):
    """An overload as a Python function: its parameters, and the outputs that may be given."""

    op: OpOverload
    arguments: tuple[Argument, ...]
    outs: tuple[Argument, ...]
    method: bool

    @property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.kwarg_only)

    @property
    def required(self) -> int:
        return sum(a.default is NO_DEFAULT for a in self.arguments)

    @property
    def largest(self) -> int:
        """The number of arguments when all are given; the outputs are one."""
        return len(self.arguments) + bool(self.outs)

    def label(self, argument: Argument) -> str:
        """The name that functions know an argument by."""
        if argument.name == "self" and argument.type.kind == "tensor" and not self.method:
            return "input"
        return argument.name

    def __str__(self) -> str:
        parts = [self._text(a) for a in self.arguments[self.method :] if not a.kwarg_only]
        keywords = [a for a in self.arguments if a.kwarg_only]
        options = [a for a in keywords if a.name in _OPTIONS]
        factory = len(options) == len(_OPTIONS)
        rest = [self._text(a) for a in keywords if not factory or a.name not in _OPTIONS]
        if self.outs:
            rest.append(f"{'tuple of Tensors' if len(self.outs) > 1 else 'Tensor'} out = None")
        if factory:
            rest += [self._text(a) for a in options]
            rest.append("bool requires_grad = False")
        return ", ".join([*parts, *(["*", *rest] if rest else [])])

    def _text(self, argument: Argument) -> str:
        text = f"{python_type(argument.type)} {self.label(argument)}"
        if argument.default is NO_DEFAULT:
            return text
        if argument.name == "pin_memory" and argument.default is None:
            return f"{text} = False"
        return f"{text} = {_default_text(argument)}"


def _default_text(argument: Argument) -> str:
    value = argument.default
    if isinstance(value, tuple) and value and len(set(value)) == 1:
        value = value[0]  # ``int[2] stride=1``
    return f'"{value}"' if isinstance(value, str) else str(value)


def python_type(type: SchemaType) -> str:
    """What a Python function calls a type: ``tuple of ints`` for ``SymInt[2]?``."""
    if type.is_optional:
        return python_type(type.elem)
    if type.is_list:
        return f"tuple of {python_type(type.elem)}s"
    return _NAMES.get(type.kind, type.written)


def signatures_of(overloads: Sequence[OpOverload], *, method: bool) -> list[Signature]:
    """The signatures of a function, tensors before numbers.

    Methods have no ``out``.
    """
    found: dict[tuple[object, ...], Signature] = {}
    for op in overloads:
        arguments = op._schema.arguments
        outs = () if method else tuple(a for a in arguments if a.is_out)
        rest = tuple(a for a in arguments if not a.is_out)
        key = tuple((a.name, python_type(a.type)) for a in rest if a.name not in _OPTIONS)
        made = Signature(op, rest, outs, method)
        known = found.get(key, made)
        longer = known if len(known.arguments) >= len(rest) else made
        found[key] = longer._replace(outs=known.outs or outs)
    kept = [s for s in found.values() if not any(_covers(o, s) for o in found.values())]
    groups = [tuple(a.name for a in s.positional) for s in kept]
    order = {names: i for i, names in reversed(list(enumerate(groups)))}

    def rank(signature: Signature) -> tuple[object, ...]:
        numbers = [a.type.base.kind == "scalar" for a in signature.positional]
        return order[tuple(a.name for a in signature.positional)], numbers[::-1]

    return sorted(kept, key=rank)


def _covers(one: Signature, other: Signature) -> bool:
    """Whether ``one`` takes all that ``other`` does: numbers where it has tensors."""
    if one is other or not one.op.takes_numbers or len(one.arguments) < len(other.arguments):
        return False
    for mine, theirs in zip(one.arguments, other.arguments, strict=False):  # the rest is optional
        kinds = python_type(mine.type), python_type(theirs.type)
        if mine.name != theirs.name or (kinds[0] != kinds[1] and kinds != ("Tensor", "Number")):
            return False
    return True


def refused(
    name: str,
    overloads: Sequence[OpOverload],
    error: MatchError,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    method: bool,
) -> TypeError:
    """The TypeError for a call of a function or method that an operator refused with ``error``."""
    if any(fits(o, args, kwargs) for o in overloads):
        return TypeError(f"{name}(): {error}")  # it comes from a call further in
    signatures = signatures_of(overloads, method=method)
    given = len(args) + _count(kwargs, signatures)
    meant = [s for s in signatures if s.required <= given <= s.largest]
    if len(signatures) == 1:
        meant = signatures
    if len(meant) == 1:
        fault = _fault(name, meant[0], args, kwargs)
        if fault is not None:
            return advised(TypeError(fault), f"It is {name}({meant[0]}).")
    got = ", ".join(_given(args[method:], kwargs, lambda value, _: _type_name(value)))
    head = f"{name}() received an invalid combination of arguments - got ({got}), but expected"
    if len(signatures) == 1:
        return TypeError(f"{head} ({signatures[0]})")
    lines = [f" * ({s})\n{_marked(s, args, kwargs, given)}" for s in signatures]
    refusal = TypeError(f"{head} one of:\n{''.join(lines)}")
    for reason in dict.fromkeys(_reasons(meant, args, kwargs)):
        advised(refusal, reason)
    return refusal


def called(operator: str, overload: str | None, *args: object, **kwargs: object) -> object:
    """Call an aten operator for a function in Python: this overload or, for None, what fits.

    Raises TypeError, in a function's words, for arguments that it does not take.
    """
    packet = find_packet(f"aten::{operator}")
    if packet is None:
        raise NotImplementedError(f"the operator aten::{operator} is not defined")
    chosen = None if overload is None else getattr(packet, overload)
    try:
        return packet(*args, **kwargs) if chosen is None else chosen(*args, **kwargs)
    except MatchError as error:
        overloads = packet.usual_overloads() if chosen is None else [chosen]
        raise refused(operator, overloads, error, args, kwargs, method=False) from None


def fits(op: OpOverload, args: tuple[object, ...], kwargs: _Kwargs) -> bool:
    """Whether a call matches an overload's schema."""
    try:
        bind(op._schema, args, kwargs, takes_numbers=op.takes_numbers)
    except MatchError:
        return False
    return True


def _count(kwargs: _Kwargs, signatures: list[Signature]) -> int:
    """How many keyword arguments a Python function was given; all outputs are one."""
    outs = {a.name for s in signatures for a in s.outs} | {"out"}
    return len(kwargs.keys() - outs) + bool(kwargs.keys() & outs)


def _fault(
    name: str, signature: Signature, args: tuple[object, ...], kwargs: _Kwargs
) -> str | None:
    """What is wrong with a call of one signature."""
    positional = signature.positional
    if len(args) > len(positional):
        return _too_many(name, signature, len(args))
    missing = []
    for at, argument in enumerate((*signature.arguments, *signature.outs)):
        label = signature.label(argument)
        if at < len(args) and not argument.kwarg_only:
            if argument.name in kwargs:
                return f"{name}() got multiple values for argument '{label}'"
            value = args[at]
            where = f" (position {at + 1 - signature.method})"
            if signature.method and at == 0:
                where = ", the tensor that the method is called on,"
        elif argument.name in kwargs:
            value, where = kwargs[argument.name], ""
        else:
            if argument.default is NO_DEFAULT and argument not in signature.outs:
                missing.append(f'"{label}"')
            continue
        wrong = _mismatch(signature.op, argument.type, value)
        if wrong is not None and not missing:
            place = at - signature.method
            return _wrong_type(name, f"'{label}'{where}", place, argument.type, value, wrong)
    if missing:
        which = ", ".join(missing)
        return f"{name}() missing {len(missing)} required positional arguments: {which}"
    known = {a.name for a in (*signature.arguments, *signature.outs)}
    unknown = [k for k in kwargs if k not in known]
    return f"{name}() got an unexpected keyword argument '{unknown[0]}'" if unknown else None


def _too_many(name: str, signature: Signature, given: int) -> str:
    positional = signature.positional[signature.method :]
    given -= signature.method
    most, least = len(positional), sum(a.default is NO_DEFAULT for a in positional)
    many = f"{most}" if least == most else f"from {least} to {most}"
    plural = "" if most == 1 else "s"
    were = "was" if given == 1 else "were"
    return f"{name}() takes {many} positional argument{plural} but {given} {were} given"


def _mismatch(op: OpOverload, type: SchemaType, value: object) -> Mismatch | None:
    """Why a value does not fit a parameter, or None."""
    inner = type.elem if type.is_optional else type
    if op.takes_numbers and inner.kind == "tensor" and is_number(value):
        return None
    try:
        convert(type, value)
    except Mismatch as mismatch:
        return mismatch
    return None


def _wrong_type(
    name: str, label: str, at: int, type: SchemaType, value: object, wrong: Mismatch
) -> str:
    inner = type.elem if type.is_optional else type
    due = python_type(type)
    if inner.is_list and isinstance(value, list | tuple):
        for i, element in enumerate(value):
            try:
                convert(inner.elem, element)
            except Mismatch as mismatch:
                if inner.elem.kind == "tensor":
                    what = _type_name(element)
                    return f"expected Tensor as element {i} in argument {at}, but got {what}"
                what = f"but found element of type {_type_name(element)} at pos {i}"
                return f"{name}(): argument {label} must be {due}, {what}{_reason(mismatch)}"
    what = f"{due}, not {_type_name(value)}{_reason(wrong)}"
    return f"{name}(): argument {label} must be {what}"


def _reason(wrong: Mismatch) -> str:
    """What the two types do not say: that a number is too large, for instance."""
    text = str(wrong)
    return "" if text.endswith("due") or not text else f": {text}"


def _reasons(meant: list[Signature], args: tuple[object, ...], kwargs: _Kwargs) -> Iterator[str]:
    """The reasons why an argument of the right type does not fit any of the signatures."""
    for signature in meant:
        named = [(a, kwargs[a.name]) for a in signature.arguments if a.name in kwargs]
        for argument, value in (*zip(signature.positional, args, strict=False), *named):
            wrong = _mismatch(signature.op, argument.type, value)
            reason = "" if wrong is None else _reason(wrong)
            if reason and not reason.endswith("'"):  # which ends in the type alone
                yield f"'{signature.label(argument)}'{reason}"


def _marked(signature: Signature, args: tuple[object, ...], kwargs: _Kwargs, given: int) -> str:
    """For a signature of as many parameters as were given: which of them do not fit."""
    if signature.largest != given or len(args) > len(signature.positional):
        return ""
    known = {a.name: a for a in (*signature.arguments, *signature.outs)}
    unknown = [k for k in kwargs if k not in known]
    if unknown:
        which = ", ".join(unknown)
        return f"      didn't match because some of the keywords were incorrect: {which}\n"
    method = signature.method

    def mark(value: object, argument: int | str) -> str:
        if isinstance(argument, str):
            parameter: Argument | None = known[argument]
        else:
            parameter = next(iter(signature.positional[argument + method :]), None)
        right = parameter is not None and _may_fit(signature.op, parameter.type, value)
        return _type_name(value) if right else f"!{_type_name(value)}!"

    marks = ", ".join(_given(args[method:], kwargs, mark))
    if "!" not in marks:
        return ""
    return f"      didn't match because some of the arguments have invalid types: ({marks})\n"


def _may_fit(op: OpOverload, type: SchemaType, value: object) -> bool:
    """Whether a value fits, as far as one can tell without reading a tensor's number."""
    if isinstance(value, TensorBase):
        return type.base.kind in ("tensor", "any") and not type.is_list
    return _mismatch(op, type, value) is None


def _given(
    args: tuple[object, ...], kwargs: _Kwargs, text: Callable[[object, int | str], str]
) -> Iterator[str]:
    """The arguments of a call, each as ``text`` has it."""
    yield from (text(value, i) for i, value in enumerate(args))
    yield from (f"{key}={text(value, key)}" for key, value in kwargs.items())


def _type_name(value: object) -> str:
    return type(value).__name__
