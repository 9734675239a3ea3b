"""Code of generated functions is kept from one process to the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest

from maquette.dispatch.kept_code import KeptCode, kept_code

CODE = compile("answer = 42\n", "<maquette test 1>", "exec")


def _answer(code: CodeType | None) -> object:
    assert code is not None
    space: dict[str, object] = {}
    exec(code, space)
    return space["answer"]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return str(tmp_path / "folder" / "code.functions")


def _written(path: str, digest: bytes) -> KeptCode:
    kept = KeptCode(path)
    assert kept.find(digest) is None
    kept.keep(digest, CODE)
    kept.write()
    return kept


def test_what_one_process_compiled_the_next_reads(path: str) -> None:
    _written(path, b"a")
    assert _answer(KeptCode(path).find(b"a")) == 42


def test_two_writers_do_not_forget_each_others_code(path: str) -> None:
    first, second = KeptCode(path), KeptCode(path)
    for kept, digest in ((first, b"a"), (second, b"b")):
        kept.find(digest)
        kept.keep(digest, CODE)
    first.write()
    second.write()
    assert KeptCode(path).find(b"a")
    assert KeptCode(path).find(b"b")


@pytest.mark.parametrize("damage", [slice(0, -1), slice(1, None), slice(0, 0)])
def test_a_damaged_file_holds_nothing(path: str, damage: slice) -> None:
    _written(path, b"a")
    Path(path).write_bytes(Path(path).read_bytes()[damage])
    assert KeptCode(path).find(b"a") is None


def test_nothing_is_written_where_python_writes_no_bytecode(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    _written(path, b"a")
    assert not Path(path).exists()


def test_a_folder_that_cannot_be_written_to_is_no_error(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    _written(path, b"a")
    assert KeptCode(path).find(b"a") is None


def test_the_file_stays_bounded_and_drops_what_was_not_used(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maquette.dispatch.kept_code.LIMIT", 2)
    _written(path, b"a")
    _written(path, b"b")
    kept = KeptCode(path)
    assert kept.find(b"a")
    kept.keep(b"c", CODE)
    kept.write()
    assert [KeptCode(path).find(digest) is not None for digest in (b"a", b"b", b"c")] == [1, 0, 1]


def test_the_file_lies_with_the_bytecode_of_the_interpreter(tmp_path: Path) -> None:
    ask = "from maquette.dispatch.kept_code import kept_code; print(kept_code.path)"
    command = [sys.executable, "-X", f"pycache_prefix={tmp_path}", "-c", ask]
    elsewhere = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert elsewhere.startswith(str(tmp_path))
    assert kept_code.path is not None
    assert str(sys.implementation.cache_tag) in kept_code.path
