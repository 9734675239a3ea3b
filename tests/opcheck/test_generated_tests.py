"""Tests made from tests (L121)."""

import json
import unittest

import pytest

import maquette as mq
from maquette.library import custom_op
from maquette.opcheck.generated_tests import (
    UPDATE,
    OpCheckError,
    dontGenerateOpCheckTests,
    generate_opcheck_tests,
    is_inside_opcheck_mode,
)

SCHEMA = "test_schema"


@pytest.fixture
def case(ns):
    """A test case that calls a right operator and a wrong one."""
    good = custom_op(f"{ns}::good", _double, mutates_args=())
    bad = custom_op(f"{ns}::bad", _writes, mutates_args=())

    class Case(unittest.TestCase):
        def test_good(self):
            assert good(mq.ones(1)).item() == 2

        def test_bad(self):
            bad(mq.ones(1))

        @dontGenerateOpCheckTests("it is slow")
        def test_apart(self):
            bad(mq.ones(1))

    Case.ns = ns
    return Case


def _double(x: mq.Tensor) -> mq.Tensor:
    return x * 2


def _writes(x: mq.Tensor) -> mq.Tensor:
    return x.add_(1) * 1


def generate(case, path, **more):
    generate_opcheck_tests(case, [case.ns], str(path), test_utils=[SCHEMA], **more)


def known(path, case, status, name=f"{SCHEMA}__test_bad"):
    entry = {f"{case.ns}::bad": {f"Case.{name}": {"status": status, "comment": ""}}}
    path.write_text(json.dumps({"data": entry}))


def run(case, name):
    return case(f"{SCHEMA}__{name}").run()


def test_L121_each_test_gets_one_per_utility(case, tmp_path):
    generate(case, tmp_path / "f.json")
    names = [n for n in dir(case) if "__test" in n]
    assert names == [f"{SCHEMA}__test_bad", f"{SCHEMA}__test_good"]
    assert run(case, "test_good").wasSuccessful()


def test_L121_a_failure_prints_how_to_repeat_it(case, tmp_path):
    generate(case, tmp_path / "f.json")
    text = run(case, "test_bad").errors[0][1]
    assert "To run this check alone" in text
    assert f"opcheck(torch.ops.{case.ns}.bad.default, (torch." in text


@pytest.mark.parametrize("status", ["xfail", "skip"])
def test_L121_a_known_failure_passes(case, tmp_path, status):
    known(tmp_path / "f.json", case, status)
    generate(case, tmp_path / "f.json")
    assert run(case, "test_bad").wasSuccessful()


def test_L121_an_unexpected_success_fails(case, tmp_path):
    path = tmp_path / "f.json"
    entry = {f"{case.ns}::good": {f"Case.{SCHEMA}__test_good": {"status": "xfail"}}}
    path.write_text(json.dumps({"data": entry}))
    generate(case, path)
    assert "expected to fail" in run(case, "test_good").errors[0][1]


def test_L121_the_environment_switch_rewrites_the_file(case, tmp_path, monkeypatch):
    path = tmp_path / "f.json"
    generate(case, path)
    monkeypatch.setenv(UPDATE, "1")
    assert run(case, "test_bad").wasSuccessful()
    entry = json.loads(path.read_text())["data"][f"{case.ns}::bad"]
    assert entry[f"Case.{SCHEMA}__test_bad"]["status"] == "xfail"


def test_L121_a_name_that_is_taken_is_a_RuntimeError(case, tmp_path):
    generate(case, tmp_path / "f.json")
    with pytest.raises(RuntimeError, match="has a test test_schema__test_bad already"):
        generate(case, tmp_path / "f.json")


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        '{"data": 3}',
        '{"data": {"a::b": {"Case.test_schema__test_bad": {"status": "fail"}}}}',
        '{"data": {"a::b": {"Case.test_schema__test_none": {"status": "xfail"}}}}',
        '{"data": {"a::b": 3}}',
    ],
)
def test_L121_a_malformed_file_is_a_RuntimeError(case, tmp_path, text):
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(RuntimeError, match="expected"):
        generate(case, path)


def test_L121_decorators_are_applied_by_name(case, tmp_path):
    skipped = {f"{SCHEMA}__test_bad": unittest.skip("known")}
    generate(case, tmp_path / "f.json", additional_decorators=skipped)
    assert run(case, "test_bad").skipped


def test_L121_other_namespaces_are_left_alone(case, tmp_path):
    generate_opcheck_tests(case, ["another"], str(tmp_path / "f.json"), test_utils=[SCHEMA])
    assert run(case, "test_bad").wasSuccessful()
    assert not is_inside_opcheck_mode()
    assert issubclass(OpCheckError, Exception)
