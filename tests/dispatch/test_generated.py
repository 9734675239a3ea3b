"""Generated functions: made in one place, shown in tracebacks."""

from __future__ import annotations

import gc
import linecache
import pathlib
import re
import traceback

import pytest

import maquette as mq
from maquette.dispatch.generated import _CODE, generate

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


def test_one_code_object_serves_equal_sources() -> None:
    first, second = (generate("def f(x):\n    return y\n", "f", "test", {"y": n}) for n in (1, 2))
    assert first.__code__ is second.__code__
    assert (first(0), second(0)) == (1, 2)


def test_code_is_generated_in_one_module_only() -> None:
    calls = re.compile(r"(?<![\w.])(exec|compile)\(")
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(calls.search(line.partition("#")[0]) for line in path.read_text().splitlines())
    ]
    assert [
        f for f in found if f.startswith(("aten", "autograd", "dispatch", "tensor", "fake"))
    ] == ["dispatch/generated.py"]


def test_nothing_in_aten_is_evaluated_from_text() -> None:
    texts = [p.read_text() for p in (PACKAGE / "aten").rglob("*.py")]
    assert not any(re.search(r"(?<![\w.])(exec|eval)\(", text) for text in texts)
