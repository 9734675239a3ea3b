"""The coverage tool: what it reads from texts, names and results."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import spec_coverage
from spec_coverage import Outcome

TEXT = """
**D1** One thing. — *check:* it holds.
**D2** Another, see D1 and **emphasis**.
**LX10** A tenth.
**LX2** A second.
"""

TESTS = """
import pytest

def test_D1_holds():
    pass

@pytest.mark.parametrize("n", [1, 2])
def test_D2_LX2_hold(n):
    assert n == 1

@pytest.mark.skip
def test_LX10_holds():
    pass

def test_without_a_requirement():
    raise SystemError("must not run")
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "spec"
    folder.mkdir()
    (folder / "one.md").write_text(TEXT)
    return folder


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "tests" / "package"
    folder.mkdir(parents=True)
    (folder / "test_one.py").write_text(TESTS)
    return folder.parent


def test_requirements_come_by_group_and_number(spec: Path) -> None:
    assert spec_coverage.requirements(spec) == ["D1", "D2", "LX2", "LX10"]


@pytest.mark.parametrize(
    ("name", "identifiers"),
    [
        ("test_D12_autograd_key", ["D12"]),
        ("test_D12_LX3_FX1_together", ["D12", "LX3", "FX1"]),
        ("test_T7", ["T7"]),
        ("test_M3_case[F41]", ["M3"]),
        ("test_M3[F41]", ["M3"]),
        ("test_D12x_is_no_requirement", []),
        ("test_without_one_D12", []),
        ("test_X4_is_no_group", []),
        ("helper_D12_of_tests", []),
    ],
)
def test_a_test_names_requirements_first(name: str, identifiers: list[str]) -> None:
    assert spec_coverage.named_in(name) == identifiers


def test_collecting_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("import no_such_module\ndef test_D1_x(): pass\n")
    assert list(spec_coverage.collected(tmp_path)) == [("test_D1_x", Outcome.COLLECTED)]


def test_junit_cases_have_their_outcomes(tmp_path: Path) -> None:
    cases = '<testcase name="a"/><testcase name="b"><failure/></testcase>'
    cases += '<testcase name="c"><skipped/></testcase><testcase name="d"><error/></testcase>'
    path = tmp_path / "r.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert dict(spec_coverage.recorded(path)) == {
        "a": Outcome.PASSED,
        "b": Outcome.FAILED,
        "c": Outcome.SKIPPED,
        "d": Outcome.FAILED,
    }


def test_one_failing_test_uncovers_a_requirement() -> None:
    outcomes = {"D1": Counter({Outcome.PASSED: 3, Outcome.FAILED: 1})}
    (group,) = spec_coverage.coverage(["D1"], outcomes)
    assert (group.covered, group.failing, group.missing) == ((), ("D1",), ())


def test_a_skipped_test_covers_nothing() -> None:
    (group,) = spec_coverage.coverage(["D1"], {"D1": Counter({Outcome.SKIPPED: 1})})
    assert (group.covered, group.missing) == ((), ("D1",))


def test_the_table_ends_with_the_total() -> None:
    groups = spec_coverage.coverage(["D1", "D2", "T1"], {"D2": Counter({Outcome.PASSED: 1})})
    lines = [line.split() for line in spec_coverage.table(groups)]
    assert lines == [["D", "1", "of", "2"], ["T", "0", "of", "1"], ["all", "1", "of", "3"]]


def test_running_reports_each_requirement_as_its_tests_went(spec: Path, tests: Path) -> None:
    command = [sys.executable, spec_coverage.__file__, spec, "--tests", tests, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tests)
    report = json.loads(done.stdout)
    assert report["source"] == "passing"
    assert report["groups"]["D"] == {
        "total": 2,
        "covered": ["D1"],
        "failing": ["D2"],
        "missing": [],
    }
    assert report["groups"]["LX"]["missing"] == ["LX10"]


def test_names_of_no_requirement_are_told(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_x.py").write_text("def test_D77_x(): pass\n")
    assert spec_coverage.main([str(spec), "--tests", str(tmp_path), "--no-run"]) == 0
    assert "in no text: D77" in capsys.readouterr().out


def test_the_summary_reads_the_last_results(
    spec: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    last = tmp_path / "last.xml"
    last.write_text('<testsuite><testcase name="test_D1_x"/></testsuite>')
    monkeypatch.setattr(spec_coverage, "LAST_RESULTS", last)
    spec_coverage.main([str(spec), "--summary"])
    lines = capsys.readouterr().out.splitlines()
    assert "passing, by last.xml of 0 min ago" in lines[0]
    assert lines[1].split() == ["D", "1", "of", "2"]
    assert lines[-1].split() == ["all", "1", "of", "4"]


def test_a_folder_without_requirements_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spec_coverage.main([str(tmp_path)]) == 1
    assert "found none" in capsys.readouterr().err
