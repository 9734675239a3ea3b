"""How the package is laid out: what a reader finds in a folder."""

from __future__ import annotations

import pathlib

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
