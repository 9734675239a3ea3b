"""The tool that builds the models of transformers' own tests: helpers that are absent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TEST = """
import unittest
from absent_library import absent
from ...test_modeling_common import ModelTesterMixin, ids_tensor, random_attention_mask
import torch


class Small(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = torch.nn.Embedding(config, 4)

    def forward(self, input_ids, attention_mask):
        return self.table(input_ids) * attention_mask[..., None]


class SmallTester:
    def prepare_config_and_inputs_for_common(self):
        ids, mask = ids_tensor([2, 3], 9), random_attention_mask([2, 3])
        return 9, {"input_ids": ids, "attention_mask": mask}


@absent
class SmallTest(ModelTesterMixin, unittest.TestCase):
    all_model_classes = (Small,)

    def setUp(self):
        self.model_tester = SmallTester()
"""
_LATE = _TEST.replace(
    "    all_model_classes = (Small,)\n", "    model_tester_class = SmallTester\n"
).replace(
    "        self.model_tester = SmallTester()\n",
    "        self.model_tester = SmallTester()\n        self.all_model_classes = [Small]\n",
)


_PROGRAM = """
import sys
from pathlib import Path
import maquette.torch
maquette.torch.install()
from model_tests import model_of, names_in
folder = Path(sys.argv[1])
(name,) = names_in(folder)
print(name)
model, inputs = model_of(folder, name)
print(inputs["input_ids"].equal(model_of(folder, name)[1]["input_ids"]))
print(tuple(model(**inputs).shape))
"""


@pytest.mark.parametrize("test", [_TEST, _LATE], ids=["listed", "set up late"])
def test_a_test_file_runs_without_the_helpers_that_it_names(tmp_path: Path, test: str) -> None:
    place = tmp_path / "tests" / "models" / "small"
    place.mkdir(parents=True)
    for package in (place, place.parent, place.parent.parent):
        (package / "__init__.py").touch()
    (place / "test_modeling_small.py").write_text(test)
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "tests")],
        cwd=Path(__file__).parents[2] / "tools",
        capture_output=True,
        text=True,
        check=False,
    )
    name = "small:test_modeling_small:SmallTest:Small"
    assert ran.stdout.splitlines() == [name, "True", "(2, 3, 4)"], ran.stderr
