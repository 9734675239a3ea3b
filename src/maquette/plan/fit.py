"""The largest number of something, such as a batch, for which a program fits into a memory.

It is searched by planning: doubled until it no longer fits, then halved in on; the answer carries
the plan's peak there and at one more, which is the proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_UNITS = {"": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(i?)B?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Fit:
    """The largest number that fits, 0 if none does; the peaks there and at one more, in bytes."""

    largest: int
    peak_bytes: int
    next_peak_bytes: int


def parse_bytes(text: str) -> int:
    """Bytes of ``80GiB``, ``512 MB``, or of a plain number; ValueError for other text.

    >>> parse_bytes("1.5 KiB"), parse_bytes("2kB"), parse_bytes("7")
    (1536, 2000, 7)
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"a size in bytes is like 80GiB, 512MB or 1024, not {text!r}")
    number, unit, binary = match.groups()
    base = 1024 if binary else 1000
    return int(float(number) * base ** (_UNITS[unit.upper()] if unit else 0))


def largest_that_fits(
    peak_of: Callable[[int], int], budget: int, *, start: int = 1, limit: int = 1 << 24
) -> Fit:
    """The largest number from 1 to ``limit`` whose peak is within ``budget`` bytes.

    peak_of: the peak in bytes at a number; larger numbers need no less. start: where to begin. A
    number that ``peak_of`` refuses with MemoryError or OverflowError does not fit.
    """
    known: dict[int, int] = {}

    def peak(number: int) -> int:
        if number not in known:
            known[number] = peak_of(number)
        return known[number]

    low, high = 0, max(1, min(start, limit))
    while peak(high) <= budget:
        low = high
        if low == limit:
            return Fit(low, peak(low), peak(low))
        # A start that is the answer, as one solved from a formula, is proved by its neighbour.
        high = min(low + 1 if len(known) == 1 else 2 * high, limit)
    while high - low > 1:
        middle = _between(known, low, high, budget)
        if peak(middle) <= budget:
            low = middle
        else:
            high = middle
    return Fit(low, peak(low) if low else 0, peak(low + 1))


def _between(known: dict[int, int], low: int, high: int, budget: int) -> int:
    """Where to look next: where the line through both ends meets the budget, if that is inside."""
    middle = (low + high) // 2
    if not low or known[high] <= known[low]:
        return middle
    slope = (known[high] - known[low]) / (high - low)
    guess = low + int((budget - known[low]) / slope)
    # Peaks are nearly straight lines: the guess, then one more, ends most searches.
    inside = guess if guess > low else low + 1
    return min(max(inside, low + 1), high - 1)
