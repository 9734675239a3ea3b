"""A sample of the built-in operators held to opcheck's properties; `make verify` has all."""

import pytest

import check_operators

NAMES = ("mul.Tensor", "sum.dim_IntList", "gelu.default", "cat.default", "sort.default")


@pytest.mark.filterwarnings("ignore")
def test_built_in_operators_have_every_property(capsys):
    patterns = [f"--ops=aten.{name}" for name in NAMES]
    code = check_operators.main([*patterns, "--inputs=10", "--deadline=0.3"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert f"{len(NAMES)} overloads" in printed
    assert "properties tried; 0 findings" in printed
