"""Our properties on PyTorch's own operators, and PyTorch's `opcheck` beside ours."""

import warnings

import pytest
import torch
from planted import DEFECTS
from planted.planting import for_torch

from maquette.cli.main import main
from maquette.opcheck import opcheck
from maquette.opcheck.framework import framework_of
from maquette.opcheck.utilities import UTILITIES

NAMES = {d.name: d for d in DEFECTS}
CAUGHT = {
    "writes_for_one_dtype": "writes.undeclared",
    "returns_its_input_if_contiguous": "aliases.undeclared",
    "fake_right_for_the_sample_size_only": "fake.shape",
    "fake_wrong_promotion": "fake.dtype",
    "fake_branches_on_a_size": "symbolic.fixed size",
    "dynamic_range_excludes_zero": "symbolic.range",
    "missing_conj": "derivative.value",
    "second_derivative_zero": "derivative.second",
    "vmap_wrong_for_none": "vmap.values",
}


def planted(name, wrong):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        planter = for_torch()
        return planter, NAMES[name].plant(planter, wrong)


@pytest.mark.parametrize(("name", "property"), CAUGHT.items())
def test_LX18_a_defect_planted_in_a_pytorch_operator_is_caught(name, property):
    _kept, (op, args, kwargs) = planted(name, True)
    report = opcheck(op, args, kwargs, report=True, properties=[property], deadline=20)
    assert [f.property for f in report.findings] == [property]


def test_LX18_a_right_pytorch_operator_is_not_flagged():
    _kept, (op, args, kwargs) = planted("loses_a_gradient_for_one_subset", False)
    report = opcheck(op, args, kwargs, report=True, max_inputs=40, deadline=10)
    assert report.ok, str(report)
    assert framework_of(op).torch is torch


UTILITY = {
    "writes_undeclared": "test_schema",
    "returns_its_input": "test_schema",
    "function_at_a_backend_key": "test_autograd_registration",
    "differentiable_body_at_a_backend_key": "test_autograd_registration",
    "fake_on_meta": "test_faketensor",
    "no_fake": "test_faketensor",
    "no_formula": "test_aot_dispatch_dynamic",
    "too_many_gradients": "test_aot_dispatch_dynamic",
}


@pytest.mark.parametrize(("name", "utility"), UTILITY.items())
def test_L113_the_utilities_say_what_pytorchs_say(name, utility):
    for wrong in (True, False):
        _kept, (op, args, kwargs) = planted(name, wrong)
        theirs = torch.library.opcheck(op, args, kwargs, raise_exception=False)
        ours = opcheck(op, args, kwargs, raise_exception=False)
        assert (ours[utility] == "SUCCESS") == (theirs[utility] == "SUCCESS") == (not wrong)
        assert set(ours) == set(theirs) <= set(UTILITIES)


def test_LX18_the_command_checks_pytorch_operators(tmp_path, capsys):
    file = tmp_path / "pytorch_operators.py"
    file.write_text(
        "import torch\n"
        "@torch.library.custom_op('peer_check::bad', mutates_args=())\n"
        "def bad(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n"
        "bad.register_fake(lambda x: x.new_empty(3))\n"
    )
    command = ["check", "--on", "torch", str(file), "--properties", "fake", "--max-inputs", "20"]
    assert main(command) == 1
    assert "peer_check::bad" in capsys.readouterr().out
