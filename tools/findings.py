"""Says, for each of the 61 first findings, where it is answered: a test, or a row of differences.

    python tools/findings.py

A finding is a difference from PyTorch 2.13 that was seen by running both. A test that keeps one
names it in its docstring, or its file's: "Finding 44". One that stays different on purpose is named
in its row of `docs/differences.md`: "(finding 20)". Exit 1 if any has no answer.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FINDINGS = range(1, 62)
_NAMED = re.compile(r"\b[Ff]indings? (\d+(?:(?:, | and |, and )\d+)*)")
_DEF = re.compile(r"^(?:    )?def (test_\w+)", re.MULTILINE)


def numbers(text: str) -> list[int]:
    """The findings that a piece of text names."""
    return [int(n) for found in _NAMED.findall(text) for n in re.findall(r"\d+", found)]


def tests_of(path: Path) -> dict[int, list[str]]:
    """For each finding that a file of tests names, the tests, or the file itself."""
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    starts = [(m.start(), m.group(1)) for m in _DEF.finditer(text)]
    found: dict[int, list[str]] = {}
    for match in _NAMED.finditer(text):
        before = [test for at, test in starts if at < match.start()]
        where = f"{name}::{before[-1]}" if before else name
        for number in numbers(match.group()):
            found.setdefault(number, []).append(where)
    return found


def rows(text: str) -> dict[int, list[str]]:
    """For each finding that a row of a table names, what the row is about."""
    found: dict[int, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| "):
            for number in numbers(line):
                what = re.sub(r" ?\(findings? [^)]*\)", "", line.split(" | ")[0].removeprefix("| "))
                found.setdefault(number, []).append(f"docs/differences.md: {what}")
    return found


def answers() -> dict[int, list[str]]:
    """Every finding's answers."""
    found: dict[int, list[str]] = {number: [] for number in FINDINGS}
    differences = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    for each in (*map(tests_of, sorted((ROOT / "tests").rglob("test_*.py"))), rows(differences)):
        for number, where in each.items():
            found.setdefault(number, []).extend(where)
    return found


def main() -> int:
    """Print a line for each finding; 1 if one has no answer."""
    found = answers()
    for number in FINDINGS:
        where = found[number]
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        print(f"{number:3}  {where[0] + more if where else 'NOT ANSWERED'}")
    missing = [number for number in FINDINGS if not found[number]]
    print(f"{len(FINDINGS) - len(missing)} of {len(FINDINGS)} are answered")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
