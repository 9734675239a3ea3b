"""How many samples pipes have, asked of the pipes that they are made from."""

from __future__ import annotations

from collections.abc import Sized


def length_of(source: object, asker: object) -> int:
    """The number of samples of ``source``; TypeError, in the name of ``asker``, if it has none."""
    if isinstance(source, Sized):
        return len(source)
    raise no_length(asker)


def no_length(asker: object) -> TypeError:
    """The error of a pipe that does not know how many samples it has."""
    return TypeError(f"{type(asker).__name__} instance doesn't have valid length")
