"""Whether an object is held by nobody else: the one place that counts references.

And how often Python's collector looks for what holds itself in a cycle, while programs run on
fakes.

A gradient that nobody else holds may be written to, or given away without a copy. Only CPython can
say so, and not every one: newer versions lend references that no count shows, and without the
global lock counts are spread over threads. So the answer is "shared" wherever it cannot be known,
and before the first answer the counting is tried out on objects whose holders are known.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from sys import getrefcount

_tells: list[bool] = []  # whether counts tell, once it is known


def held_only(obj: object, holders: int) -> bool:
    """Whether ``obj`` is held ``holders`` times and by nobody else.

    holders: what the caller knows of: each local variable, parameter or attribute that names the
    object, in the calling function and in those that handed it down. False where counts don't tell.
    """
    # Ours are the parameter, and getrefcount's.
    return (_tells[0] if _tells else _try_out()) and getrefcount(obj) <= holders + 2


def _try_out() -> bool:
    _tells[:] = [counts_tell()]
    return _tells[0]


def counts_tell() -> bool:
    """Whether reference counts tell in this process who holds an object."""
    gil = getattr(sys, "_is_gil_enabled", None)
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14):
        return False
    return (gil is None or bool(gil())) and _counts_are_exact()


class _Probe:
    """Holds another object, as a tensor holds its storage."""

    __slots__ = ("held",)

    held: object


def _counts_are_exact() -> bool:
    """Compare the counts of objects that one, two and three names hold with what they must be."""
    probe = _Probe()
    probe.held = _Probe()
    known = _excess(probe) == 2 and _handed_down(probe) == 3 and _excess(probe.held) == 2
    kept = [probe, probe.held]
    return known and _excess(probe) == 3 and _excess(kept[1]) == 3


def _handed_down(obj: object) -> int:
    return _excess(obj)


def _excess(obj: object) -> int:
    """The count of an object, less getrefcount's own: its holders, this parameter included."""
    return getrefcount(obj) - 1


# --- the collector ---------------------------------------------------------------------------

_UNGATHERED = 35_000
_lock = threading.Lock()
_patient = [0, 0]  # blocks that have the collector wait, and blocks that forbid it
_usual: list[int] = []  # the threshold of a program whose collector waits


def patient(change: int) -> None:
    """Have the collector wait for 35,000 new objects from now on, by 1, or no more, by -1.

    For while programs run on fakes. Autograd's graph is Python objects here, which the collector
    counts and goes through time and again; in PyTorch it sees none of it. DeepSeek-V3 makes 42,000
    in a step. By the 700 of CPython 3.11 the collector took a tenth of each step of large models,
    and as much as a whole one in the first or second, when it came to all that libraries had made.
    """
    with _lock:
        _patient[0] += change
        _set_threshold()


@contextmanager
def impatient() -> Iterator[None]:
    """In the block the collector is as the program has set it: what cycles hold is counted."""
    with _lock:
        _patient[1] += 1
        _set_threshold()
    try:
        yield
    finally:
        with _lock:
            _patient[1] -= 1
            _set_threshold()


def _set_threshold() -> None:
    waits = _patient[0] > 0 and not _patient[1]
    young, *older = gc.get_threshold()
    if waits and not _usual and 0 < young < _UNGATHERED:  # 0: it never collects
        _usual.append(young)
        gc.set_threshold(_UNGATHERED, *older)
    elif not waits and _usual:
        usual = _usual.pop()
        if young == _UNGATHERED:  # else the program has set another
            gc.set_threshold(usual, *older)
