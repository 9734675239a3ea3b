"""The README's Python example runs and prints what its comments say."""

from __future__ import annotations

import pathlib
import re

import pytest

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def test_readme_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[1]
    exec(compile(code, str(README), "exec"), {})
    said = re.findall(r"print\(.*\)\)?  # (.*)", code)
    assert said == capsys.readouterr().out.splitlines()
