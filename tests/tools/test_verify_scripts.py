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


def test_names_of_torch_in_a_library_are_found_in_its_sources(tmp_path):
    names = script("library_names")
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch.nn import Linear, NoSuchLayer\n"
        "def f(x):\n    return torch.npu.go(torch.relu(x), torch.no_such_function(torch.float32))\n"
    )
    assert sorted(names.absent(tmp_path)) == ["torch.nn.NoSuchLayer", "torch.no_such_function"]
