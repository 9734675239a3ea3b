"""Which arguments of an operator want symmetric memory: an annotation that compilers may read."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from maquette.dispatch.operator import OpOverload
from maquette.library.registrations import Undo, find_overload

log = logging.getLogger(__name__)
_ARGUMENTS: dict[str, frozenset[str]] = {}


def note_symm_mem_args(op: OpOverload | str, names: Iterable[str]) -> Undo:
    """Note the arguments of ``op`` that want symmetric memory; returns what forgets them.

    A repeat replaces, and logs it. ValueError for no names, or one that the schema has not.
    """
    key, given = _name(op), frozenset(names)
    if not given:
        raise ValueError(f"register_symm_mem_args: expected names of arguments of {key}, got none")
    _check_names(key, given)
    if key in _ARGUMENTS:
        log.warning("register_symm_mem_args: %s is replaced for %s", set(_ARGUMENTS[key]), key)
    _ARGUMENTS[key] = given

    def undo() -> None:
        if _ARGUMENTS.get(key) is given:
            del _ARGUMENTS[key]

    return undo


def symm_mem_args(op: OpOverload | str) -> frozenset[str] | None:
    """The names that are noted for an operator, or None."""
    return _ARGUMENTS.get(_name(op))


def _name(op: OpOverload | str) -> str:
    return (op.name() if isinstance(op, OpOverload) else op).removesuffix(".default")


def _check_names(key: str, given: frozenset[str]) -> None:
    op = find_overload(key)
    known = {a.name for a in op._schema.arguments} if op is not None else given
    if not given <= known:
        raise ValueError(
            f"register_symm_mem_args: {key} has the arguments {sorted(known)}, got {sorted(given)}"
        )


__all__ = ["note_symm_mem_args", "symm_mem_args"]
