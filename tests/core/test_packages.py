"""How the package is laid out: what a reader finds in a folder."""

from __future__ import annotations

import pathlib
import re

import maquette

ROOT = pathlib.Path(maquette.__file__).parent


def packages() -> list[pathlib.Path]:
    return sorted({path.parent for path in ROOT.rglob("*.py")})


def test_no_package_has_more_than_25_files_or_6000_lines() -> None:
    large = {}
    for package in packages():
        files = list(package.glob("*.py"))
        lines = sum(len(f.read_text().splitlines()) for f in files)
        if len(files) > 25 or lines > 6000:
            large[package.relative_to(ROOT).as_posix()] = (len(files), lines)
    assert large == {}


def test_contributing_names_every_package() -> None:
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text()
    top = {p.name for p in packages() if p.parent == ROOT}
    assert [name for name in sorted(top) if name not in text] == []


def test_contributing_names_every_family_of_operators() -> None:
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text()
    families = {p.name for p in packages() if ROOT / "aten" in p.parents}
    assert [name for name in sorted(families) if name not in text] == []


def source(*folders: str) -> dict[str, str]:
    files = [f for folder in folders for f in sorted((ROOT / folder).rglob("*.py"))]
    return {f.relative_to(ROOT).as_posix(): f.read_text() for f in files}


def test_no_operator_is_made_from_text() -> None:
    made = re.compile(r"(?<![.\w])(exec|eval|compile)\(")
    assert [name for name, text in source("aten").items() if made.search(text)] == []


def test_no_argument_of_a_call_is_read_from_a_stack_frame() -> None:
    folders = ("dispatch", "tensor", "library", "aten", "api", "nn")
    assert [name for name, text in source(*folders).items() if "f_locals" in text] == []


def test_no_fact_hangs_on_the_namespace_of_an_operator() -> None:
    """What a built-in operator says, a user's can say: nobody asks which it is."""
    asked = re.compile(r"namespace (==|!=) \"aten\"")
    folders = ("dispatch", "tensor", "autograd", "transforms", "library", "fake")
    assert [name for name, text in source(*folders).items() if asked.search(text)] == []
