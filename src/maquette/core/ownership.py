"""Whether an object is held by nobody else: the one place that counts references.

A gradient that nobody else holds may be written to, or given away without a copy. Only CPython can
say so, and not every one: newer versions lend references that no count shows, and without the
global lock counts are spread over threads. So the answer is "shared" wherever it cannot be known,
and before the first answer the counting is tried out on objects whose holders are known.
"""

from __future__ import annotations

import sys
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
