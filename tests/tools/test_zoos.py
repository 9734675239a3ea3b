"""What `tools/verify/zoos.py` makes of the counts of a library."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "verify"))
import zoos

COUNTS = "{} of 100 architectures agree; {} of 1000 aspects; 3 do not run in PyTorch so\n"
KNOWN = "first                    fake cuda: refused\n"


@pytest.fixture(autouse=True)
def one_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoos, "EXPLAINED", {"lib": {"first": "a reason"}})


def test_what_is_explained_passes() -> None:
    assert zoos.judged("lib", KNOWN + COUNTS.format(99, 999), compared=True)


def test_what_nothing_explains_fails(capsys: pytest.CaptureFixture[str]) -> None:
    said = KNOWN + "other                    loss: 1.0, PyTorch 2.0\n" + COUNTS.format(98, 998)
    assert not zoos.judged("lib", said, compared=True)
    assert "other differs" in capsys.readouterr().out


def test_an_explanation_that_is_no_longer_needed_fails() -> None:
    assert not zoos.judged("lib", COUNTS.format(100, 1000), compared=True)
    assert zoos.judged("lib", COUNTS.format(100, 1000), compared=False)


def test_less_than_99_percent_fails() -> None:
    assert not zoos.judged("lib", KNOWN + COUNTS.format(99, 989), compared=True)


def test_no_counts_fail() -> None:
    assert not zoos.judged("lib", "", compared=True)
