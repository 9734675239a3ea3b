"""Remembered answers: one bound and one epoch for all of the process.

A table of remembered answers is a plain dict, so that finding one costs one look-up. What happens
when an answer is put in stands here: it is refused if something was registered since its
computation began, and the oldest answers of all tables are forgotten for it. What an answer means
is said where its table is: outcomes of shape rules in `library.infer`, the choice of overloads in
`dispatch.packet`, generated code in `dispatch.call`.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
Table = dict[Any, Any]

LIMIT = 32_768
"""How many answers the process remembers: about 40 MB of outcomes of shape rules."""
# Oldest first. A plain queue, not the least recently used: that would cost every hit a move.
_queue: deque[tuple[Table, Hashable]] = deque()
# Re-entered where dropping an answer runs a finalizer that calls operators.
_lock = threading.RLock()
EPOCH = [0]
"""What `epoch` gives, for who asks often."""
_evictions = [0]
_ABSENT = object()


def epoch() -> int:
    """A number that grows with every registration; ask before an answer is computed."""
    return EPOCH[0]


def evictions() -> int:
    """How many answers gave way to newer ones, since the last `zero_evictions`."""
    return _evictions[0]


def zero_evictions() -> None:
    """Count evictions from now on."""
    _evictions[0] = 0


def remember(table: Table, key: Hashable, answer: object, since: int) -> None:
    """Put an answer into its table; the oldest answers of all tables give way where it is full.

    since: the `epoch` when its computation began. If it has passed, the answer may be that of
    something replaced, and is not kept.
    """
    with _lock:
        if since != EPOCH[0]:
            return
        if key not in table:
            _queue.append((table, key))
        table[key] = answer
        if len(_queue) > LIMIT:
            _make_room()


def _make_room() -> None:
    while len(_queue) > LIMIT:
        old_table, old_key = _queue.popleft()
        # Some are gone already: whoever forgets a table leaves the queue alone.
        if old_table.pop(old_key, _ABSENT) is not _ABSENT:
            _evictions[0] += 1


def forget(*tables: Table) -> None:
    """Empty tables, and refuse what is being computed for any."""
    with _lock:
        EPOCH[0] += 1
        for table in tables:
            table.clear()


def forget_answers(*tables: Table) -> None:
    """Empty tables, and those of all pure functions; nothing that was in them stays in memory."""
    forget(*tables)
    with _lock:
        forget(*{id(t): t for t, _ in _queue if isinstance(t, _Answers)}.values())
        standing = [(table, key) for table, key in _queue if key in table]
        _queue.clear()
        _queue.extend(standing)


class _Answers(dict[Any, Any]):
    """The table of one function: an answer that is not there is computed."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def __missing__(self, arguments: tuple[object, ...]) -> object:
        since = EPOCH[0]
        answer = self.function(*arguments)
        if any(getattr(a, "is_symbolic", False) for a in arguments):
            return answer  # remembered, it would keep a shape environment alive
        remember(self, arguments, answer, since)
        return answer


def remembered(function: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
    """Remember what a pure function returned for positional arguments.

    Symbolic sizes have no hash, and their metas belong to an environment: nothing is remembered of
    either.
    """
    table = _Answers(function)

    @functools.wraps(function)
    def asked(*args: *Ts) -> R:
        try:
            return table[args]  # type: ignore[no-any-return]  # what the function returned
        except TypeError:  # something without a hash, or the function's own refusal
            return function(*args)

    return asked
