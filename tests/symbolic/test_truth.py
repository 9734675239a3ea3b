"""Every shape rule speaks symbols: a sample here, all recordings by tools/symbolic_truth.py."""

from __future__ import annotations

from collections import Counter

import pytest

import symbolic_truth as truth

EVERY = 60


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Counter[str]]:
    cases = [case for number, case in enumerate(truth.cases(())) if number % EVERY == 0]
    return {
        kind: Counter(truth.outcome_of(case, kind == "unbacked")[0] for case in cases)
        for kind in truth.KINDS
    }


def test_FX8_rules_on_hinted_symbols_give_what_was_recorded(
    outcomes: dict[str, Counter[str]],
) -> None:
    counts = outcomes["hinted"]
    assert counts["right"] >= 0.99 * counts.total()
    assert counts["wrong"] == 0


def test_F78_rules_on_unbacked_symbols_give_what_was_recorded(
    outcomes: dict[str, Counter[str]],
) -> None:
    counts = outcomes["unbacked"]
    assert counts["right"] >= 0.95 * counts.total()
    assert counts["wrong"] == 0


@pytest.mark.verify
@pytest.mark.parametrize("unbacked", [False, True])
def test_FX8_all_recordings(unbacked: bool) -> None:
    counts = Counter(truth.outcome_of(case, unbacked)[0] for case in truth.cases(()))
    print(counts)
    assert counts["wrong"] == 0
    assert counts["right"] >= (0.98 if unbacked else 0.999) * counts.total()
