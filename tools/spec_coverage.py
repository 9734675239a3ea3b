"""Say which requirements of the specification have a passing test.

The texts in `docs/spec/` number their requirements (**D12**, **LX3**); a test is named for those
that it checks: `test_D12_autograd_key_maps_to_its_backend`, `test_D12_D13_...`. A requirement is
*covered* when a test named for it passes and none fails; where tests are only collected, when one
exists.

    python tools/spec_coverage.py                       # run the tests named for requirements
    python tools/spec_coverage.py --no-run              # find them in the sources only
    python tools/spec_coverage.py --results FILE.xml    # take pytest's --junit-xml for the results
    python tools/spec_coverage.py --summary             # the table only, from the last `make test`
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import enum
import json
import re
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAST_RESULTS = ROOT / ".pytest_results.xml"  # `make test` writes it

GROUPS = ("D", "L", "LX", "F", "FX", "M", "T")
IDENTIFIER = r"(?:LX|FX|[DLFMT])\d+"
IN_TEXT = re.compile(rf"\*\*({IDENTIFIER})\*\*")
IN_TEST_NAME = re.compile(rf"test((?:_{IDENTIFIER})+)(?![A-Za-z0-9])")


# How pytest ends when every test that could be collected was run.
FINISHED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


class Outcome(enum.Enum):
    """What is known of one run of a test."""

    COLLECTED = "collected"
    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"


Outcomes = Mapping[str, Counter[Outcome]]  # requirement -> how its tests went


@dataclass(frozen=True)
class Coverage:
    """The requirements of one group, in the specification's order."""

    group: str
    covered: tuple[str, ...]
    failing: tuple[str, ...]  # a test fails
    missing: tuple[str, ...]  # no test, or only skipped ones

    @property
    def total(self) -> int:
        """How many requirements the group has."""
        return len(self.covered) + len(self.failing) + len(self.missing)


# --- what there is to cover, and by what ---------------------------------------------


def group_of(identifier: str) -> str:
    """The letters of a requirement's identifier."""
    return identifier.rstrip("0123456789")


def requirements(folder: Path) -> list[str]:
    """The identifiers that a folder's texts define, by group, then number."""
    found = {
        identifier
        for path in folder.glob("*.md")
        for identifier in IN_TEXT.findall(path.read_text(encoding="utf-8"))
    }
    return sorted(found, key=lambda i: (GROUPS.index(group_of(i)), int(i[len(group_of(i)) :])))


def named_in(test_name: str) -> list[str]:
    """The requirements that a test's name begins with; a parameter's `[...]` does not count."""
    match = IN_TEST_NAME.match(test_name)
    return match[1].removeprefix("_").split("_") if match else []


# --- three sources of outcomes -------------------------------------------------------


def outcomes_of(results: Iterable[tuple[str, Outcome]]) -> Outcomes:
    """Count (test name, outcome) pairs by requirement."""
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for name, outcome in results:
        for identifier in named_in(name):
            counts[identifier][outcome] += 1
    return counts


def collected(tests: Path) -> Iterator[tuple[str, Outcome]]:
    """The test functions in a folder's sources; nothing is imported."""
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_bytes(), path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, Outcome.COLLECTED


def recorded(junit_xml: Path) -> Iterator[tuple[str, Outcome]]:
    """The tests of a JUnit file; an expected failure is recorded as skipped."""
    for case in ElementTree.parse(junit_xml).iter("testcase"):
        marks = {child.tag for child in case}
        if marks & {"failure", "error"}:
            yield case.get("name", ""), Outcome.FAILED
        else:
            yield case.get("name", ""), Outcome.SKIPPED if "skipped" in marks else Outcome.PASSED


class Recorder:
    """A pytest plugin that keeps the tests named for requirements, and their outcomes."""

    def __init__(self) -> None:
        self.results: list[tuple[str, Outcome]] = []

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect the tests that name no requirement."""
        config.hook.pytest_deselected(items=[i for i in items if not named_in(i.name)])
        items[:] = [item for item in items if named_in(item.name)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's call, or whatever kept it from passing."""
        if report.when == "call" or not report.passed:
            name = report.nodeid.split("::", 1)[-1].split("[", 1)[0].rsplit("::", 1)[-1]
            self.results.append((name, Outcome(report.outcome)))


def run(tests: Path) -> list[tuple[str, Outcome]]:
    """Run the tests that name requirements; SystemExit if pytest did not finish."""
    recorder = Recorder()
    arguments = ["-q", "--no-header", "--tb=short", "--continue-on-collection-errors"]
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the report
        status = pytest.main([*arguments, str(tests)], plugins=[recorder])
    if status not in FINISHED:
        raise SystemExit(f"pytest stopped ({status!r}): nothing can be said of the coverage")
    return recorder.results


# --- the report ----------------------------------------------------------------------


def coverage(identifiers: Sequence[str], outcomes: Outcomes) -> list[Coverage]:
    """Sort each group's requirements by how their tests went."""
    groups = []
    for group in GROUPS:
        members = [i for i in identifiers if group_of(i) == group]
        tests = {i: outcomes.get(i, Counter()) for i in members}
        failing = [i for i in members if tests[i][Outcome.FAILED]]
        covered = [
            i
            for i in members
            if i not in failing and (tests[i][Outcome.PASSED] or tests[i][Outcome.COLLECTED])
        ]
        missing = [i for i in members if i not in failing and i not in covered]
        groups.append(Coverage(group, tuple(covered), tuple(failing), tuple(missing)))
    return [group for group in groups if group.total]


def table(groups: Sequence[Coverage]) -> Iterator[str]:
    """One line a group, and one for all."""
    for group in groups:
        yield f"{group.group:3} {len(group.covered):4} of {group.total:4}"
    covered, total = sum(len(g.covered) for g in groups), sum(g.total for g in groups)
    yield f"{'all':3} {covered:4} of {total:4}"


def details(groups: Sequence[Coverage], unknown: Sequence[str]) -> Iterator[str]:
    """The requirements that are not covered."""
    for group in groups:
        if group.failing:
            yield f"{group.group}, with a failing test: {' '.join(group.failing)}"
        if group.missing:
            yield f"{group.group}, without a passing test: {' '.join(group.missing)}"
    if unknown:
        yield f"named by tests, but in no text: {' '.join(unknown)}"


def as_json(source: str, groups: Sequence[Coverage], unknown: Sequence[str]) -> str:
    """The whole report for a machine."""
    tables = {
        group.group: {
            "total": group.total,
            "covered": group.covered,
            "failing": group.failing,
            "missing": group.missing,
        }
        for group in groups
    }
    return json.dumps({"source": source, "groups": tables, "unknown": unknown}, indent=1)


def age(path: Path) -> str:
    """How long ago a file was written: `12 min`."""
    minutes = (time.time() - path.stat().st_mtime) / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def results(options: argparse.Namespace) -> tuple[str, Iterable[tuple[str, Outcome]]]:
    """Where the outcomes come from, in words, and the outcomes."""
    last = options.results
    if last is None and options.summary and not options.no_run and LAST_RESULTS.exists():
        last = LAST_RESULTS
    if last is not None:
        return f"passing, by {last.name} of {age(last)} ago", recorded(last)
    if options.no_run or options.summary:
        return "collected, not run", collected(options.tests)
    return "passing", run(options.tests)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "spec",
        nargs="?",
        type=Path,
        default=ROOT / "docs" / "spec",
        help="the folder of the texts (docs/spec)",
    )
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="the tests' folder")
    parser.add_argument("--no-run", action="store_true", help="collect the tests only")
    parser.add_argument("--results", type=Path, metavar="FILE.xml", help="read a JUnit file")
    parser.add_argument("--summary", action="store_true", help="print the table only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; the exit status is 1 if the texts define nothing, else 0."""
    options = parse(argv)
    identifiers = requirements(options.spec)
    if not identifiers:
        print(
            f"{options.spec}: expected *.md with requirements like **D12**; found none",
            file=sys.stderr,
        )
        return 1
    source, outcomes = results(options)
    by_requirement = outcomes_of(outcomes)
    groups = coverage(identifiers, by_requirement)
    unknown = sorted(by_requirement.keys() - set(identifiers))
    if options.json:
        print(as_json(source, groups, unknown))
        return 0
    print(f"Requirements with a test ({source}):")
    print("\n".join(table(groups)))
    if not options.summary:
        print("\n".join(details(groups, unknown)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
