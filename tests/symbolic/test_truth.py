"""Every shape rule speaks symbols: a sample here, all recordings by tools/symbolic_truth.py."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import symbolic_truth as truth

EVERY = 60


def _is_for(kind: str, case: dict[str, Any]) -> bool:
    return kind == "program" or truth.has_rule(case)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Counter[str]]:
    cases = [case for number, case in enumerate(truth.cases(())) if number % EVERY == 0]
    return {
        kind: Counter(
            truth.outcome_of(case, kind)[0]
            for case in cases
            if kind == "program" or truth.has_rule(case)
        )
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


def test_F120_operators_on_symbolic_fakes_give_what_was_recorded(
    outcomes: dict[str, Counter[str]],
) -> None:
    counts = outcomes["program"]
    assert counts["right"] >= 0.98 * counts.total()
    assert counts["wrong"] == 0


@pytest.mark.verify
@pytest.mark.parametrize("kind", truth.KINDS)
def test_FX8_all_recordings(kind: str) -> None:
    cases = [case for case in truth.cases(()) if _is_for(kind, case)]
    counts = Counter(truth.outcome_of(case, kind)[0] for case in cases)
    print(counts)
    assert counts["wrong"] == 0
    assert counts["right"] >= (0.98 if kind == "unbacked" else 0.99) * counts.total()
