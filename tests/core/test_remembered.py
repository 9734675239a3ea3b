"""Remembered answers: the bound, and what is refused (`maquette.core.remembered`)."""

from collections import deque

import pytest

from maquette.core import remembered
from maquette.core.remembered import epoch, forget, remember


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "LIMIT", 3)
    monkeypatch.setattr(remembered, "_queue", deque())


def test_D140_the_oldest_answer_of_all_tables_gives_way() -> None:
    first: dict[int, int] = {}
    second: dict[int, int] = {}
    for n in range(2):
        remember(first, n, n, epoch())
        remember(second, n, n, epoch())
    assert (first, second) == ({1: 1}, {0: 0, 1: 1})


def test_D140_what_a_forgotten_table_held_counts_for_no_eviction() -> None:
    table: dict[int, int] = {}
    remembered.zero_evictions()
    remember(table, 0, 0, epoch())
    before = remembered.evictions()
    forget(table)
    for n in range(1, 4):
        remember(table, n, n, epoch())
    assert remembered.evictions() == before
    assert set(table) == {1, 2, 3}


def test_L43_an_answer_that_was_computed_before_a_registration_is_not_kept() -> None:
    table: dict[str, int] = {}
    since = epoch()
    forget()
    remember(table, "a", 1, since)
    assert not table


def test_D140_a_remembered_function_computes_an_answer_once() -> None:
    seen: list[int] = []

    @remembered.remembered
    def double(n: int) -> int:
        seen.append(n)
        return 2 * n

    assert (double(2), double(2), seen) == (4, 4, [2])


def test_D140_dropping_an_answer_may_ask_for_others() -> None:
    table: dict[int, object] = {}

    class Asking:
        def __del__(self) -> None:
            remember(table, -1, "from a finalizer", epoch())

    for n in range(5):
        remember(table, n, Asking(), epoch())
    assert len(table) <= 3
