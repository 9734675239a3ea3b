"""Who is told of each fake that is made: debug traces and leak tracking (F20, F21).

While nobody wants to know, fakes are made by ``object.__new__`` itself and nothing is asked. As
soon as somebody does, another maker takes its place, and the kernels that made fakes inline are
resolved anew with it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from maquette.dispatch.operator import resolve_anew
from maquette.fake.call_sites import current_stack
from maquette.fake.config import config
from maquette.fake.tensor import FakeTensor, make_fakes_with

_new = object.__new__


class FakeSet:
    """The fakes of a set that still live. By identity: tensors compare elementwise."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[FakeTensor]] = {}

    def add(self, fake: FakeTensor) -> None:
        """Put a fake into the set, for as long as it lives."""
        key, references = id(fake), self._references
        references[key] = weakref.ref(fake, lambda _: references.pop(key, None))

    def __len__(self) -> int:
        return len(self._references)

    def __contains__(self, t: object) -> bool:
        reference = self._references.get(id(t))
        return reference is not None and reference() is t

    def __iter__(self) -> Iterator[FakeTensor]:
        for reference in list(self._references.values()):
            fake = reference()
            if fake is not None:
                yield fake


class _Trackers(threading.local):
    """The sets that fakes made in this thread enter."""

    def __init__(self) -> None:
        self.sets: list[FakeSet] = []


_trackers = _Trackers()
_lock = threading.Lock()
_tracking = [0]  # open blocks in all threads


@contextmanager
def track_fakes() -> Iterator[FakeSet]:
    """Gather the fakes that this thread makes in the block, as long as they live."""
    made = FakeSet()
    _trackers.sets.append(made)
    _count(1)
    try:
        yield made
    finally:
        _trackers.sets.remove(made)
        _count(-1)


def _count(change: int) -> None:
    with _lock:
        before = _tracking[0] > 0
        _tracking[0] += change
        if before != (_tracking[0] > 0):
            _choose_maker()


def _choose_maker() -> None:
    make_fakes_with(_noted if config.debug or _tracking[0] else _new)
    resolve_anew()


def _noted(cls: type[FakeTensor]) -> FakeTensor:
    fake = _new(cls)
    if config.debug:
        fake._debug_trace = current_stack(skip=2)
    for made in _trackers.sets:
        made.add(fake)
    return fake


config.on_debug(_choose_maker)
