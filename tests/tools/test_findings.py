"""The tool that says where each of the first findings is answered."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "findings.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("findings", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_finding_has_a_test_or_a_row(tool: ModuleType) -> None:
    assert [number for number, where in tool.answers().items() if not where] == []


def test_numbers_are_read_from_text(tool: ModuleType) -> None:
    assert tool.numbers("Findings 7, 8 and 39: and 12 others; finding 4.") == [7, 8, 39, 4]


def test_rows_are_named_by_what_they_are_about(tool: ModuleType) -> None:
    row = "| `array * tensor` (finding 20) | refused | a tensor | friendlier |"
    assert tool.rows(row) == {20: ["docs/differences.md: `array * tensor`"]}
