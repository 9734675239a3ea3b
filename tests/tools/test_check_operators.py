"""A sample of the built-in operators held to opcheck's properties; `make verify` has all."""

import json

import pytest

import check_operators
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls

NAMES = ("mul.Tensor", "sum.dim_IntList", "gelu.default", "cat.default", "sort.default")
SHORT = ("--inputs=10", "--deadline=0.3")


@pytest.mark.filterwarnings("ignore")
def test_built_in_operators_have_every_property(capsys):
    patterns = [f"--ops=aten.{name}" for name in NAMES]
    code = check_operators.main([*patterns, *SHORT])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert f"{len(NAMES)} overloads" in printed
    assert "properties tried; 0 findings" in printed


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_all_overloads_has_every_property(capsys):
    # About 6 of 1,200 overloads, half a second of the processor each.
    code = check_operators.main(["--every=200", "--start=7", *SHORT])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "properties tried; 0 findings" in printed


@pytest.mark.filterwarnings("ignore")
def test_a_run_goes_on_from_its_log(tmp_path, capsys):
    log = tmp_path / "reports.jsonl"
    assert check_operators.main(["--ops=aten.mul.Tensor", *SHORT, f"--log={log}"]) == 0
    first = capsys.readouterr().out.partition(";")[0]
    lines = log.read_text().splitlines()
    assert json.loads(lines[0])["key"] == "aten.mul.Tensor#1"
    assert check_operators.main(["--ops=aten.mul.Tensor", *SHORT, f"--log={log}"]) == 0
    assert capsys.readouterr().out.partition(";")[0] == first
    assert log.read_text().splitlines() == lines


@pytest.mark.filterwarnings("ignore")
def test_an_overload_takes_no_more_than_its_budget(capsys):
    assert check_operators.main(["--ops=aten.mul.Tensor", "--budget=0.05"]) == 1
    assert "examine failed itself: not done after" in capsys.readouterr().out


def test_a_thread_that_ran_out_of_budget_is_as_it_was():
    def interrupted():
        with check_operators.put_back():  # as within a mode that begins
            tls.st.dispatch_modes.append(object())
            tls.st.add_include(K.WATCHED)
            raise check_operators.OutOfBudget

    before = (tls.st.include, tls.st.effective)
    with pytest.raises(check_operators.OutOfBudget):
        interrupted()
    assert tls.st.dispatch_modes == []
    assert (tls.st.include, tls.st.effective) == before


def test_the_slices_of_all_starts_are_all_overloads():
    def keys(**more):
        return [c.key for c in check_operators.calls(check_operators.Options(["aten.sq*"], **more))]

    slices = [keys(every=3, start=k) for k in range(3)]
    assert sorted([key for each in slices for key in each]) == sorted(keys())
    assert len(slices[0]) > 3
