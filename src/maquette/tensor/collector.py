"""How often Python's garbage collector runs while programs run on fake tensors.

A fake step makes tens of thousands of small objects and no cycles worth the search, so the
collector waits longer there. Who holds an object is `core/ownership.py`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_UNGATHERED = 100_000
_lock = threading.Lock()
_patient = [0, 0]  # blocks that have the collector wait, and blocks that forbid it
_usual: list[int] = []  # the threshold of a program whose collector waits


def patient(change: int) -> None:
    """Have the collector wait for 100,000 new objects from now on, by 1, or no more, by -1.

    For while programs run on fakes. Autograd's graph is Python objects here, which the collector
    counts and goes through time and again; in PyTorch it sees none of it. DeepSeek-V3 makes 42,000
    in a step, which end with its graph: none is in a cycle. By the 700 of CPython 3.11 the
    collector took a tenth of each step of large models, and as much as a whole one in the first or
    second, when it came to all that libraries had made; after 35,000 it took 7 ms of a first step
    of Llama-3.1-70B and 14 of one of DeepSeek-V3.
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
