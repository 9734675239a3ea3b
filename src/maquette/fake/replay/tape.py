"""Tapes: what a run of a block did, so that it can be done again without running it.

A tape has the events of a run in order: operators (for a mode that records them), storages made,
resized and released, each under a number of its own. It holds metas, never tensors. Where nobody
watches, there is nothing to tell and the events are left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.tensor.storage import UntypedStorage


class Witness(Protocol):
    """A mode that records operators and knows how to record them again, unseen."""

    def mark(self) -> int:
        """How many operators it has recorded."""

    def since(self, mark: int) -> Sequence[Any]:
        """Its records from ``mark`` on."""

    def unrepeatable(self) -> int:
        """How often something happened so far that `repeat` cannot tell of."""

    def here(self) -> Any:
        """Where the program is."""

    def moved(self, place: Any, there: Any, here: Any) -> Any:
        """A place under ``there`` as it is under ``here``."""

    def repeat(self, record: Any, there: Any, here: Any) -> None:
        """Record an operator again: what was under ``there`` is under ``here`` this time."""

    def shadow(self, here: Any) -> object:
        """A mode to run the same operators under, which records nowhere."""


class Made(NamedTuple):
    """A storage was made."""

    number: int
    nbytes: int
    device: device


class Resized(NamedTuple):
    """A storage became larger or smaller."""

    number: int
    nbytes: int


class Released(NamedTuple):
    """The block let go of a storage. Negative: of an incoming tensor's, counted from -1."""

    number: int


class Repeated(NamedTuple):
    """An operator ran: the record of it."""

    record: Any


Event = Made | Resized | Released | Repeated
Storages = dict[int, UntypedStorage]


class Watch:
    """An observer of allocations that numbers storages from ``first`` on and lists the events."""

    def __init__(self, first: int, witness: Witness | None) -> None:
        self.first = first
        self.witness = witness
        self.events: list[tuple[int, Event]] = []
        self.numbers: dict[int, int] = {}  # by the id of the storage
        self.made: list[weakref.ref[UntypedStorage]] = []
        self.strange: str | None = None  # what happened that no tape can tell
        self._mark = 0 if witness is None else witness.mark()

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        """A storage was made."""
        number = self.first + len(self.numbers)
        self.numbers[storage.id] = number
        self.made.append(weakref.ref(storage))
        if not isinstance(nbytes, int):
            self.strange = "a symbolic size"
        self._note(Made(number, nbytes, storage.device))

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None:
        """A storage grew or shrank."""
        number = self.numbers.get(storage_id)
        if number is None:
            self.strange = "a storage from outside was resized"
        else:
            self._note(Resized(number, new_nbytes))

    def released(self, storage_id: int) -> None:
        """The last reference to a storage went."""
        number = self.numbers.get(storage_id)
        if number is not None:
            self._note(Released(number))

    def let_go(self, number: int) -> None:
        """The block let go of a storage that was there before."""
        self._note(Released(number))

    def _note(self, event: Event) -> None:
        self.events.append((0 if self.witness is None else self.witness.mark(), event))

    def alive(self) -> set[int]:
        """The numbers of the storages that are there."""
        gone = {event.number for _, event in self.events if event.__class__ is Released}
        return set(self.numbers.values()) - gone

    def told(self) -> list[Event]:
        """The events so far with the operators among them."""
        if self.witness is None:
            return [event for _, event in self.events]
        records = self.witness.since(self._mark)
        found: list[Event] = []
        done = self._mark
        for mark, event in self.events:
            found += [Repeated(r) for r in records[done - self._mark : mark - self._mark]]
            found.append(event)
            done = mark
        return [*found, *(Repeated(r) for r in records[done - self._mark :])]


def play(
    events: Iterable[Event], storages: Storages, witness: Witness | None, there: Any, here: Any
) -> None:
    """Have the events happen again; ``storages`` has those that are there, by number."""
    for event in events:
        kind = event.__class__
        if kind is Repeated:
            assert witness is not None
            witness.repeat(event[0], there, here)
        elif kind is Made:
            number, nbytes, on = event  # type: ignore[misc]  # by its class
            storages[number] = UntypedStorage(nbytes, on)
        elif kind is Released:
            storages.pop(event[0], None)
        else:
            number, nbytes = event  # type: ignore[misc]  # by its class
            storages[number].resize_(nbytes)


class Fresh(NamedTuple):
    """A tensor over a storage of the tape: its meta, key set and version; the node's output."""

    storage: int
    meta: TensorMeta
    keys: int
    version: int
    output: int  # -1: it has no history
