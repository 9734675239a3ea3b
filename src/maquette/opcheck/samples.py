"""Calls that operators are checked by: those their module offers, or ones made from the schema.

A module offers samples by a dict ``SAMPLES`` of operator names to calls, or by
`register_samples`. A call is a tuple of arguments, or a pair of a tuple and a dict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from maquette.dispatch.schemas.schema import Argument
from maquette.opcheck.operators import CheckedOperator, checked

Call = tuple[tuple[Any, ...], dict[str, Any]]
_REGISTERED: dict[str, Callable[[], Iterable[Any]]] = {}


def register_samples(op: Any, samples: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
    """Offer calls of an operator to ``maquette check``; a function is called when they are needed.

    op: an overload, an opdef or a name ``ns::op``. Registering again replaces.
    """
    name = op if isinstance(op, str) else checked(op).name
    given = samples if callable(samples) else list(samples)
    _REGISTERED[name] = given if callable(given) else lambda: given


def samples_of(op: CheckedOperator, offered: Mapping[str, Any] | None = None) -> list[Call]:
    """The calls to check an operator by: offered ones, registered ones, else made ones."""
    namespace, _, rest = op.name.partition("::")
    for name in (op.name, f"{namespace}.{rest}", rest, rest.partition(".")[0]):
        if offered and name in offered:
            found = offered[name]
            return [as_call(c) for c in (found() if callable(found) else found)]
    if op.name in _REGISTERED:
        return [as_call(c) for c in _REGISTERED[op.name]()]
    return made_from_schema(op)


def as_call(value: Any) -> Call:
    """A sample as positional and keyword arguments."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        first = value[0]
        return (
            (tuple(first), value[1]) if isinstance(first, (tuple, list)) else (value[:1], value[1])
        )
    return (tuple(value), {}) if isinstance(value, (tuple, list)) else ((value,), {})


# --- made from the schema ---------------------------------------------------------------------

_SHAPES = ((2, 3), (3, 3), (4,), (2, 3, 4), (1, 2, 4, 4), ())
_DTYPES = ("float32", "int64", "complex64", "bool")


def made_from_schema(op: CheckedOperator) -> list[Call]:
    """The first calls with made-up arguments that the operator takes, at most two."""
    found: list[Call] = []
    for shape, dtype, number in itertools.product(_SHAPES, _DTYPES, (1, 0, 2)):
        call = _made(op, shape, dtype, number)
        if call is None:
            return []
        try:
            with op.on.torch.no_grad():
                again = _made(op, shape, dtype, number)
                assert again is not None
                op(*again[0], **again[1])
        except Exception:  # noqa: BLE001  # not a call that it takes
            continue
        found.append(call)
        if len(found) == 2 or dtype != "float32":
            break
    return found


def _made(op: CheckedOperator, shape: Sequence[int], dtype: str, number: int) -> Call | None:
    draw = np.random.default_rng(0)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in op.schema.arguments:
        if argument.has_default_value():
            continue
        values = list(_value(op, argument, shape, dtype, number, draw))
        if not values:
            return None
        if argument.kwarg_only:
            kwargs[argument.name] = values[0]
        else:
            args.append(values[0])
    return tuple(args), kwargs


def _value(
    op: CheckedOperator,
    argument: Argument,
    shape: Sequence[int],
    dtype: str,
    number: int,
    draw: np.random.Generator,
) -> Iterator[Any]:
    kind = argument.type.base.kind
    listed = argument.type.kind == "list" or "[" in argument.type.written
    value: Any = None
    if kind == "tensor":
        wide = draw.standard_normal(tuple(shape)) * 2
        value = op.on.from_array(np.abs(wide) if dtype == "int64" else wide, dtype)
    elif kind in ("int", "symint"):
        value = number
    elif kind in ("float", "scalar"):
        value = 0.5
    elif kind == "bool":
        value = False
    elif kind == "dtype":
        value = op.on.torch.float32
    elif kind == "device":
        value = op.on.torch.device("cpu")
    elif kind == "str":
        value = "mean"
    else:
        return
    yield [value, value] if listed else value
