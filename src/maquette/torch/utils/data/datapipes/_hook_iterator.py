"""Iterations over a pipe: which one is valid, how many samples it gave, and when to start anew.

A pipe may hold a buffer, so only one iteration at a time is valid: a new one resets the pipe, and
the older ones end with an error. Each iteration takes the next number; the pipe knows which number
is valid. The methods of each class of pipes are wrapped for this when the class is made.

A pipe that was brought back to a snapshot (`utils/snapshot.py`) hands its next iteration on where
the snapshot was taken, without a reset.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from maquette.torch.profiling.recording import is_recording
from maquette.torch.profiling.whole import record_function

_THROWN_BY = "This exception is thrown by __iter__ of "


class _SnapshotState(enum.Enum):
    """Where a pipe is: before its first iteration, brought back to a snapshot, or in use."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def track(kind: type) -> None:
    """Wrap the methods that a class of pipes defines itself: iterations are numbered from here on.

    Applied to a class whose methods are wrapped already it would count samples twice.
    """
    own = vars(kind)
    wrappers: dict[str, Callable[[Any], Any]] = {
        "__iter__": _iterated,
        "__next__": _counted,
        "reset": _reset_unless_restored,
    }
    for name, wrapper in wrappers.items():
        if name in own:
            setattr(kind, name, wrapper(own[name]))


def describe(pipe: object) -> str:
    """``Mapper(datapipe=..., fn=...)``: the class, and the attributes its constructor takes."""
    names = set(inspect.signature(type(pipe)).parameters)
    members = ((name, value) for name, value in vars(pipe).items() if name in names)
    told = (
        f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}"
        for name, value in sorted(members)
    )
    return f"{type(pipe).__name__}({', '.join(told)})"


def _range_name(pipe: object) -> str:
    return describe(pipe).replace("IterDataPipe", "")


def _reset_unless_restored(reset: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(reset)
    def reset_unless_restored(self: Any, *args: object, **kwargs: object) -> None:
        if self._snapshot_state is not _SnapshotState.Restored:
            self._number_of_samples_yielded = 0
            self._fast_forward_iterator = None
            reset(self, *args, **kwargs)
        self._snapshot_state = _SnapshotState.Iterating

    return reset_unless_restored


def _counted(following: Callable[[Any], object]) -> Callable[[Any], object]:
    @functools.wraps(following)
    def counted(self: Any) -> object:
        sample = following(self)
        self._number_of_samples_yielded += 1
        return sample

    return counted


def _iterated(iterate: Callable[[Any], Iterator[object]]) -> Callable[[Any], Iterator[object]]:
    return _by_generator(iterate) if inspect.isgeneratorfunction(iterate) else _by_object(iterate)


def _by_generator(iterate: Callable[[Any], Iterator[object]]) -> Callable[[Any], Iterator[object]]:
    """For methods that are generators: nothing happens before the first sample is asked for."""

    @functools.wraps(iterate)
    def iterated(self: Any) -> Iterator[object]:
        restored = _take_restored(self)
        if restored is not None:
            yield from restored
            return
        number = self._begin_iteration()
        samples = iterate(self)
        try:
            for sample in _recorded(self, samples) if is_recording() else samples:
                self._number_of_samples_yielded += 1
                yield sample
                _check_valid(self, number)
        except Exception as error:
            if not any(note.startswith(_THROWN_BY) for note in getattr(error, "__notes__", ())):
                error.add_note(_THROWN_BY + describe(self))
            raise

    return iterated


def _by_object(iterate: Callable[[Any], Iterator[object]]) -> Callable[[Any], Iterator[object]]:
    """For methods that give an iterator: the iteration begins at once."""

    @functools.wraps(iterate)
    def iterated(self: Any) -> Iterator[object]:
        samples = iterate(self)
        restored = _take_restored(self)
        self._snapshot_state = _SnapshotState.Iterating
        return restored or _Iteration(self, samples, self._begin_iteration())

    return iterated


def _take_restored(pipe: Any) -> Iterator[object] | None:
    """The iteration that a snapshot left on the pipe, which is then as any other."""
    restored: Iterator[object] | None = pipe._fast_forward_iterator
    if restored is not None:
        pipe._fast_forward_iterator = None
        pipe._snapshot_state = _SnapshotState.Iterating
    return restored


class _Iteration:
    """One iteration over a pipe by an iterator of its own; that one's other names can be reached.

    A pipe that is its own iterator counts its samples itself.
    """

    def __init__(self, pipe: Any, samples: Iterator[object], number: int) -> None:
        self._pipe = pipe
        self._samples = samples
        self._number = number
        self._source = _recorded(pipe, samples) if is_recording() else samples

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> object:
        _check_valid(self._pipe, self._number)
        sample = next(self._source)
        if self._samples is not self._pipe:
            self._pipe._number_of_samples_yielded += 1
        return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self._samples, name)


def _recorded(pipe: object, samples: Iterator[object]) -> Iterator[object]:
    """The same samples, each made in a range that a profiler sees."""
    name = _range_name(pipe)
    while True:
        with record_function(name):
            try:
                sample = next(samples)
            except StopIteration:
                return
        yield sample


def _check_valid(pipe: Any, number: int) -> None:
    if not pipe._is_valid_iteration(number):
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the "
            f"same IterDataPipe: {describe(pipe)}. There is a single iterator per IterDataPipe; to "
            f"read the samples twice, call .fork() before."
        )
