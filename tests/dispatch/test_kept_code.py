"""Code of generated functions is kept from one process to the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType

import pytest

from maquette.dispatch.kept.code import KeptCode, file_of_the_user
from maquette.dispatch.kept.stamps import stamp, stamp_of

CODE = compile("answer = 42\n", "<maquette test 1>", "exec")


def _answer(code: CodeType | tuple[CodeType, str] | None) -> object:
    assert isinstance(code, CodeType)
    space: dict[str, object] = {}
    exec(code, space)
    return space["answer"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "folder" / "code.functions")


def _kept(path: str | None) -> KeptCode:
    return KeptCode(lambda: path)


def _written(path: str | None, digest: bytes) -> KeptCode:
    kept = _kept(path)
    assert kept.find(digest) is None
    kept.keep(digest, CODE)
    kept.write()
    return kept


def test_what_one_process_compiled_the_next_reads(path: str) -> None:
    _written(path, b"a")
    assert _answer(_kept(path).find(b"a")) == 42


def test_two_writers_do_not_forget_each_others_code(path: str) -> None:
    first, second = _kept(path), _kept(path)
    for kept, digest in ((first, b"a"), (second, b"b")):
        kept.find(digest)
        kept.keep(digest, CODE)
    first.write()
    second.write()
    assert _kept(path).find(b"a")
    assert _kept(path).find(b"b")


@pytest.mark.parametrize("damage", [slice(0, -1), slice(1, None), slice(0, 0)])
def test_a_damaged_file_holds_nothing(path: str, damage: slice) -> None:
    _written(path, b"a")
    Path(path).write_bytes(Path(path).read_bytes()[damage])
    assert _kept(path).find(b"a") is None


def test_a_damaged_code_is_not_found_and_others_are(path: str) -> None:
    _written(path, b"a")
    _written(path, b"b")
    file = Path(path)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert [_kept(path).find(digest) is not None for digest in (b"a", b"b")] == [True, False]


def test_a_code_may_be_kept_with_its_source(path: str) -> None:
    kept = _kept(path)
    kept.keep(b"a", (CODE, "answer = 42\n"))
    kept.write()
    found = _kept(path).find(b"a")
    assert isinstance(found, tuple)
    assert (_answer(found[0]), found[1]) == (42, "answer = 42\n")


LATE = 2**63


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "inner").mkdir()
    (folder / "inner" / "one.py").write_text("1")
    return folder


def test_a_stamp_changes_with_each_module(modules: Path) -> None:
    before = stamp_of([str(modules)], LATE)
    assert before is not None
    (modules / "__pycache__" / "one.pyc").write_text("no module")
    assert stamp_of([str(modules)], LATE) == before
    (modules / "inner" / "one.py").write_text("11")
    longer = stamp_of([str(modules)], LATE)
    os.utime(modules / "inner" / "one.py", (1, 1))
    assert len({before, longer, stamp_of([str(modules)], LATE)}) == 3


def test_no_stamp_says_which_modules_run_where_some_were_written_to_since(modules: Path) -> None:
    written = (modules / "inner" / "one.py").stat().st_ctime_ns
    assert stamp_of([str(modules)], written) is not None
    assert stamp_of([str(modules)], written - 1) is None
    os.utime(modules / "inner" / "one.py", (1, 1))  # as installers set it: it is new all the same
    assert stamp_of([str(modules)], written - 1) is None


def test_there_is_no_stamp_of_folders_that_are_not_there(tmp_path: Path) -> None:
    assert stamp_of([str(tmp_path / "absent")], LATE) is None
    assert stamp_of([str(tmp_path)], LATE) is None  # nothing is in it


def test_this_process_has_a_stamp() -> None:
    assert stamp() is not None


def test_without_a_file_nothing_is_kept() -> None:
    assert _written(None, b"a").find(b"a") is None


def test_a_folder_that_cannot_be_written_to_is_no_error(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    _written(path, b"a")
    assert _kept(path).find(b"a") is None


def test_the_file_stays_bounded_and_drops_what_was_not_used(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maquette.dispatch.kept.code.LIMIT", 2)
    _written(path, b"a")
    _written(path, b"b")
    kept = _kept(path)
    assert kept.find(b"a")
    kept.keep(b"c", CODE)
    kept.write()
    assert [_kept(path).find(digest) is not None for digest in (b"a", b"b", b"c")] == [1, 0, 1]


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"MAQUETTE_CACHE_DIR": "/here"}, "/here"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/maquette"),
        ({"HOME": "/home/me"}, "/home/me/.cache/maquette"),
    ],
)
def test_the_file_lies_in_the_users_cache_folder(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAQUETTE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert file_of_the_user() == f"{folder}/functions.{sys.implementation.cache_tag}"


def test_an_empty_variable_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAQUETTE_CACHE_DIR", "")
    assert file_of_the_user() is None


def test_nothing_is_kept_for_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAQUETTE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert file_of_the_user() is None
