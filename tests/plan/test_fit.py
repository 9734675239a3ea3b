"""The search for the largest number that fits, and sizes in bytes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.plan.fit import largest_that_fits, parse_bytes


@given(st.integers(0, 500), st.integers(1, 50), st.integers(0, 20_000), st.integers(1, 40))
def test_the_search_finds_what_trying_all_numbers_finds(
    base: int, slope: int, budget: int, start: int
) -> None:
    def peak(n: int) -> int:
        return base + slope * n + n * n // 7

    expected = max((n for n in range(1, 2000) if peak(n) <= budget), default=0)
    fit = largest_that_fits(peak, budget, start=start)
    assert (fit.largest, fit.next_peak_bytes) == (expected, peak(expected + 1))


def test_a_straight_line_takes_few_plans() -> None:
    asked: list[int] = []

    def peak(n: int) -> int:
        asked.append(n)
        return 1000 + 37 * n

    assert largest_that_fits(peak, 1_000_000).largest == 27_000
    assert len(asked) < 20


@pytest.mark.parametrize("text", ["", "80 apples", "-1GiB", "1..5", "GiB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="like 80GiB"):
        parse_bytes(text)
