"""Generated functions: made in one place, shown in tracebacks."""

from __future__ import annotations

import gc
import linecache
import pathlib
import re
import traceback
from collections.abc import Callable

import pytest

import maquette as mq
from maquette.dispatch import generated
from maquette.dispatch.generated import _CODE, Text, generate
from maquette.dispatch.kept.code import KeptCode

PACKAGE = pathlib.Path(mq.__file__).parent


def test_tracebacks_show_generated_lines() -> None:
    fail = generate("def fail(x):\n    return x / 0  # here\n", "fail", "test", {})
    with pytest.raises(ZeroDivisionError) as caught:
        fail(1)
    assert "return x / 0  # here" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_lines_go_with_the_last_function_that_has_them() -> None:
    source = "def f():\n    return 'shown for a while'\n"
    f = generate(source, "f", "test", {})
    file = f.__code__.co_filename
    _CODE.pop(source)  # as when newer code takes its place among what is remembered
    assert linecache.getline(file, 2) == "    return 'shown for a while'\n"
    del f
    gc.collect()
    assert file not in linecache.cache


def test_equal_sources_are_compiled_once_and_each_function_has_its_own_copy() -> None:
    first, second = (generate("def f(x):\n    return y\n", "f", "test", {"y": n}) for n in (1, 2))
    assert first.__code__.co_filename == second.__code__.co_filename
    assert first.__code__ is not second.__code__  # CPython adapts code to one set of globals
    assert (first(0), second(0)) == (1, 2)


@pytest.fixture
def processes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], KeptCode]:
    """Begins a process, as far as generated code goes, that finds what earlier ones kept."""

    def begun() -> KeptCode:
        kept = KeptCode(lambda: str(tmp_path / "code"))
        monkeypatch.setattr(generated, "kept_code", kept)
        monkeypatch.setattr(generated, "_CODE", {})
        return kept

    monkeypatch.setattr(generated, "stamp", lambda: b"a stamp")
    return begun


def _text(*facts: object, source: str | None = None) -> Text:
    def write() -> str:
        assert source is not None, "written again"
        return source

    return Text(facts, write)


FAIL = "def fail(x):\n    return x / 0  # kept\n"


def test_a_text_that_an_earlier_process_wrote_is_not_written(
    processes: Callable[[], KeptCode],
) -> None:
    first = processes()
    generate(_text("a", 1, source=FAIL), "fail", "test", {})
    first.write()
    processes()
    fail = generate(_text("a", 1), "fail", "test", {})
    with pytest.raises(ZeroDivisionError) as caught:
        fail(1)
    assert "return x / 0  # kept" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_a_text_is_written_again_for_other_facts_kinds_and_stamps(
    processes: Callable[[], KeptCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = processes()
    generate(_text("a", 1, source=FAIL), "fail", "test", {})
    first.write()
    processes()
    for facts, kind in ((("a", 2), "test"), (("a", 1), "other")):
        with pytest.raises(AssertionError, match="written again"):
            generate(_text(*facts), "fail", kind, {})
    monkeypatch.setattr(generated, "stamp", lambda: b"another")
    with pytest.raises(AssertionError, match="written again"):
        generate(_text("a", 1), "fail", "test", {})


def test_without_a_stamp_a_text_is_written_and_its_code_found_by_it(
    processes: Callable[[], KeptCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "stamp", lambda: None)
    first = processes()
    generate(_text("a", source=FAIL), "fail", "test", {})
    first.write()
    processes()
    with pytest.raises(AssertionError, match="written again"):
        generate(_text("a"), "fail", "test", {})
    monkeypatch.setattr(generated, "_compiled", None)
    generate(_text("a", source=FAIL), "fail", "test", {})


def test_equal_facts_in_a_process_are_written_once(processes: Callable[[], KeptCode]) -> None:
    processes()
    first = generate(_text("a", source=FAIL), "fail", "test", {})
    second = generate(_text("a"), "fail", "test", {})
    assert first.__code__.co_filename == second.__code__.co_filename
    assert first.__code__ is not second.__code__


# What evaluates text that a user or a guard wrote, which is no code of ours.
EVALUATES = {
    "cli/program.py",
    "cli/sources.py",
    "library/infer_schema.py",
    "symbolic/program/producing.py",
    "symbolic/reading.py",
}


def test_code_is_generated_in_one_module_only() -> None:
    calls = re.compile(r"(?<![\w.`])(exec|eval)\(|(linecache\.cache)\b")
    found: dict[str, set[str]] = {"exec": set(), "eval": set(), "linecache.cache": set()}
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            called = None if "def " in line or '"' in line else calls.search(line.partition("#")[0])
            if called is not None:
                name = called[1] or called[2]
                found[name].add(path.relative_to(PACKAGE).as_posix())
    assert found["exec"] == found["linecache.cache"] == {"dispatch/generated.py"}
    assert found["eval"] <= EVALUATES


def test_lines_of_a_program_are_known_as_long_as_its_function_is() -> None:
    file = "<a graph of this test>"
    source = "other = lambda: 0\n\ndef forward(x):\n    return x + 1\n"
    made = generated.generate_in(file, source, "forward", {})
    assert made(1) == 2
    assert linecache.getline(file, 4) == "    return x + 1\n"
    del made
    gc.collect()
    assert file not in linecache.cache
