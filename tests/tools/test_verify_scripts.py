"""The long checks of `make verify`, each for a moment."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "verify"


def script(name):
    spec = importlib.util.spec_from_file_location(f"verify_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_L12_malformed_schemas_give_the_parse_error_and_leave_no_trace(capsys):
    assert script("schema_fuzz").main(1500, 7) == 0
    assert "wrong" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_L43_registering_while_others_call_loses_nothing(capsys):
    assert script("registrations").Stress(0.6, 3).run() == 0
    assert "0 problems" in capsys.readouterr().out
