"""The classes of results whose parts have names, ``torch.max(x, 0).values``.

They are tuples that are made from a sequence and cannot be derived from, as PyTorch's structure
sequences are; each is a node of pytrees.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NoReturn

from maquette.core.pytree import GetAttrKey, register_pytree_node
from maquette.tensor.pickled_form import pickled_form


class _Result(tuple[Any, ...]):
    """What the classes have in common; each is made by `result_class`."""

    __slots__ = ()

    n_fields: int
    n_sequence_fields: int
    n_unnamed_fields = 0
    __match_args__: tuple[str, ...] = ()

    def __new__(cls, sequence: Iterable[object], others: object = None) -> _Result:
        # others: of fields without a place in the sequence; there are none, but pickles say so.
        given = _sequence(sequence)
        if len(given) != cls.n_fields:
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {cls.n_fields}-sequence "
                f"({len(given)}-sequence given)"
            )
        return tuple.__new__(cls, given)

    def __repr__(self) -> str:
        parts = ",\n".join(
            f"{n}={v!r}" for n, v in zip(type(self).__match_args__, self, strict=True)
        )
        return f"torch.return_types.{type(self).__name__}(\n{parts})"

    def __reduce__(self) -> tuple[object, ...]:
        kind = type(self)
        if pickled_form() is not None:
            return kind, (tuple(self),)
        return _rebuilt, (kind.__name__, kind.__match_args__, tuple(self))  # torch is not there


def _rebuilt(name: str, fields: tuple[str, ...], values: tuple[object, ...]) -> object:
    return result_class(name, fields)(values)


def _sequence(given: Iterable[object]) -> tuple[object, ...]:
    try:
        return tuple(given)
    except TypeError:
        raise TypeError("constructor requires a sequence") from None


@functools.cache
def result_class(name: str, fields: tuple[str, ...]) -> type[tuple[object, ...]]:
    """The class of an operator's result ``torch.return_types.<name>`` with these fields."""
    body: dict[str, object] = {f: property(itemgetter(i)) for i, f in enumerate(fields)}
    body.update(
        __slots__=(),
        __module__="torch.return_types",
        __match_args__=fields,
        n_fields=len(fields),
        n_sequence_fields=len(fields),
    )
    made = type(name, (_Result,), body)
    made.__init_subclass__ = classmethod(_refuse)  # type: ignore[assignment]  # of this class on

    keys = [GetAttrKey(field) for field in fields]
    register_pytree_node(
        made,
        lambda result: (tuple(result), None),  # type: ignore[arg-type]  # a tuple
        lambda children, _: made(children),
        flatten_with_keys_fn=lambda result: (list(zip(keys, result, strict=True)), None),  # type: ignore[call-overload]  # a tuple
    )
    return made


def _refuse(cls: type, **kwargs: object) -> NoReturn:
    raise TypeError(
        f"type 'torch.return_types.{cls.__mro__[1].__name__}' is not an acceptable base type"
    )
