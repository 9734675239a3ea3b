"""Comparing copies with originals, and what the repository's own copies must hold."""

import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import check_copies
import spec_coverage

CONFORMANCE = check_copies.ROOT / "conformance"
SECTIONS = ("aten", "grad", "errors")


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    for folder, name in (("conformance", "check.py"), ("spec", "meta.md")):
        (tmp_path / "originals" / folder).mkdir(parents=True)
        (tmp_path / "originals" / folder / name).write_text("text\n")
    return tmp_path / "originals"


@pytest.fixture
def root(tmp_path: Path, originals: Path) -> Path:
    for copy, original in check_copies.COPIES.items():
        shutil.copytree(originals / original, tmp_path / "root" / copy)
    return tmp_path / "root"


def test_equal_copies_pass(root: Path, originals: Path) -> None:
    assert check_copies.main([str(originals)], root) == 0


def test_a_changed_copy_is_told(
    root: Path, originals: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "docs" / "spec" / "meta.md").write_text("Text\n")
    assert check_copies.main([str(originals)], root) == 1
    assert re.search(r"meta\.md: differs from .*meta\.md", capsys.readouterr().out)


def test_missing_and_surplus_copies_are_told(root: Path, originals: Path) -> None:
    (root / "conformance" / "check.py").rename(root / "conformance" / "other.py")
    lines = check_copies.differences(root / "conformance", originals / "conformance")
    assert [line.rsplit("/", 1)[-1] for line in lines] == [
        "check.py: missing",
        "other.py: has no original",
    ]


def test_a_folder_without_originals_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        check_copies.main([str(tmp_path)])
    assert "no folder conformance and no folder spec" in capsys.readouterr().err


# --- the repository's own ------------------------------------------------------------


def lines(section: str) -> Iterator[str]:
    with gzip.open(CONFORMANCE / f"{section}_public.jsonl.gz", "rt", encoding="utf-8") as text:
        yield from text


@pytest.mark.parametrize("section", SECTIONS)
def test_conformance_files_say_what_they_hold(section: str) -> None:
    header = json.loads(next(lines(section)))["header"]
    assert (header["format"], header["section"], header["part"]) == (1, section, "public")


def test_overloads_json_counts_the_cases_of_the_aten_file() -> None:
    cases: Counter[str] = Counter()
    for line in lines("aten"):
        name = re.search(r'"op": ?"([^"]+)"', line)
        if name:
            cases[name[1]] += 1
    overloads = json.loads((CONFORMANCE / "overloads.json").read_text())
    assert cases == Counter({row["name"]: row["cases"] for row in overloads if row["cases"]})


def test_every_group_is_numbered_without_a_gap() -> None:
    found = spec_coverage.requirements(check_copies.ROOT / "docs" / "spec")
    groups = Counter(spec_coverage.group_of(identifier) for identifier in found)
    assert set(groups) == set(spec_coverage.GROUPS)
    assert found == [f"{group}{n + 1}" for group in groups for n in range(groups[group])]
