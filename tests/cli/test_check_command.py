"""``maquette check`` (LX18)."""

import json
import xml.etree.ElementTree as ET

import pytest

from maquette.cli.main import main

GOOD = """
import torch
@torch.library.custom_op("{ns}::good", mutates_args=())
def good(x: torch.Tensor) -> torch.Tensor:
    return x * 2
good.register_fake(torch.empty_like)
"""
BAD = """
@torch.library.custom_op("{ns}::bad", mutates_args=())
def bad(x: torch.Tensor) -> torch.Tensor:
    return x * 2
bad.register_fake(lambda x: x.new_empty(3))
SAMPLES = {{"{ns}::bad": [(torch.ones(2, 3),), ((torch.ones(2),), {{}})]}}
"""


@pytest.fixture
def check(tmp_path, request, capsys):
    ns = f"check_{abs(hash(request.node.name))}"

    def run(source, *options, op=""):
        file = tmp_path / f"{ns}.py"
        file.write_text(source.format(ns=ns))
        code = main(
            ["check", f"{file}{op}", "--properties", "fake", "--max-inputs", "20", *options]
        )
        return code, capsys.readouterr().out

    run.ns = ns
    run.folder = tmp_path
    return run


def test_LX18_no_finding_is_exit_code_0(check):
    code, out = check(GOOD)
    assert code == 0
    assert "0 findings" in out


def test_LX18_findings_are_exit_code_1_with_input_and_hint(check):
    code, out = check(GOOD + BAD)
    assert code == 1
    assert "fake.shape" in out
    assert "hint" in out
    assert "2 operators" in out


@pytest.mark.parametrize("op", [":good", ":*good", ":{ns}.good", ":{ns}::good"])
def test_LX18_one_operator_is_chosen_by_name_or_pattern(check, op):
    code, out = check(GOOD + BAD, op=op.format(ns=check.ns))
    assert code == 0
    assert "1 operators" in out


def test_LX18_list_shows_operators_and_samples(check):
    code, out = check(GOOD + BAD, "--list")
    assert code == 0
    assert f"{check.ns}::bad  2 samples" in out


def test_LX18_json_and_junit_hold_the_findings(check):
    folder = check.folder
    check(GOOD + BAD, "--json", str(folder / "r.json"), "--junit", str(folder / "r.xml"))
    reports = json.loads((folder / "r.json").read_text())["reports"]
    bad = [r for r in reports if r["operator"].endswith("bad")]
    assert [f["property"] for f in bad[0]["findings"]] == ["fake.shape"]
    failures = ET.parse(folder / "r.xml").getroot().findall(".//failure")
    assert len(failures) >= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing_here"],
        ["nothing.py"],
        ["x.py", "--properties", "nothing"],
        ["x.py", "--deadline", "0"],
    ],
)
def test_LX18_a_wrong_command_line_says_what_is_wrong(arguments, capsys):
    code = main(["check", *arguments])
    assert code in (1, 2)
    assert capsys.readouterr().err.startswith("maquette: ")


def test_LX18_no_such_operator_names_those_that_are_there(check, capsys):
    code, _ = check(GOOD, op=":nothing")
    assert code == 2


def test_LX18_an_operator_without_samples_is_said_not_to_be_checked(check):
    source = GOOD + ('torch.library.define("{ns}::strange", "(Dict(str, Tensor) x) -> Tensor")\n')
    code, out = check(source)
    assert code == 1
    assert "no call of it could be made" in out
