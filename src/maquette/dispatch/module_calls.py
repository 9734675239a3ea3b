"""Who stands around the calls of modules: a list that `nn` asks and that lower layers fill.

A module's call goes through each of them, the last entered outermost; while there is nobody, a call
pays 10 ns for asking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Run = Callable[..., object]
Around = Callable[[object, Run, tuple[object, ...], dict[str, object]], object]
"""``around(module, run, args, kwargs)`` gives the result; ``run(*args, **kwargs)`` calls on."""
AROUND: list[Around] = []
"""Those of all threads: each asks whether the calling thread is one of its own."""
HOOKS: set[int] = set()
"""The ids of the hooks on every module's calls, which `nn` keeps: who stands around may ask."""


@contextmanager
def around_modules(around: Around) -> Iterator[None]:
    """Have every call of a module go through ``around`` in the block."""
    AROUND.append(around)
    try:
        yield
    finally:
        AROUND.remove(around)


def call_around(
    module: object, run: Run, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Call a module's ``run`` through all who stand around."""
    *inner, outermost = AROUND
    for around in inner:
        run = _Inside(around, module, run)
    return outermost(module, run, args, kwargs)


class _Inside:
    """A call through one of those around, as the ``run`` of the next."""

    __slots__ = ("_around", "_module", "_run")

    def __init__(self, around: Around, module: object, run: Run) -> None:
        self._around = around
        self._module = module
        self._run = run

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._around(self._module, self._run, args, kwargs)
