"""``maquette ops``: an operator's page."""

import json

import pytest

import maquette as mq
from maquette.cli.main import main


@pytest.fixture
def shown(capsys):
    def show(*arguments):
        assert main(["ops", *arguments]) == 0
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize(
    "pattern",
    [
        "aten.mm",
        "aten::mm",
        "aten.mm.default",
        "aten::mm.default",
        "mm",
        "torch.ops.aten.mm",
        "mm.d*",
    ],
)
def test_each_name_and_pattern_finds_the_operator(shown, pattern):
    assert "aten.mm.default" in shown(pattern).splitlines()


def test_a_page_says_what_is_known(shown):
    page = shown("aten.mm.default")
    for text in (
        "aten::mm(Tensor self, Tensor mat2) -> Tensor", "aten.mm.out", "core",
        "no argument is mutated", "batching rule mm_batching",
            "the page's derivatives, of mat2, self",
        "the kernel of arrays, behind the shape rule", "mm_cost", "self (bilinear)", "54 FLOPs",
        "torch.ops.aten.mm.default(",
    ):  # fmt: skip
        assert text in page


def test_forms_say_their_twin_and_what_they_mutate(shown):
    page = shown("aten.add_.Tensor")
    assert "its functional twin aten.add.Tensor" in page
    assert "self is mutated, result 0 is self" in page


@pytest.mark.parametrize("pattern", ["mm", "add_", "aten.reshape", "native_layer_norm*"])
def test_pages_fit_eighty_columns(shown, pattern):
    assert max(map(len, shown(pattern).splitlines())) <= 80


def test_json_has_the_same_facts(shown):
    (page,) = json.loads(shown("aten.t.default", "--json"))
    assert page["form"] == "view"
    assert page["aliases"] == ["result 0 is a view of self"]
    assert page["kernels"]["Fake"].startswith("the shape rule (maquette")
    assert page["rules"]["derivative"] == "self (linear)"
    assert page["registered"]["CPU"] == ["its page"]


def test_which_rule_serves_a_key_is_said(shown):
    with mq.library._scoped_library("ops_command_test", "FRAGMENT") as lib:
        lib.define("f(Tensor x, int n=2) -> Tensor")
        lib.impl("f", lambda x, n=2: x * n, "CompositeExplicitAutograd")
        lib.impl("f", lambda x, n=2: x + n, "CPU")
        kernels = json.loads(shown("ops_command_test.f", "--json"))[0]["kernels"]
    assert kernels["CUDA"].startswith("CompositeExplicitAutograd: one definition")
    assert kernels["CPU"].startswith("a kernel of its own (tests/cli/test_ops_command.py:")
    assert kernels["Fake"] == "its definition by other operators, on fakes"
    assert kernels["AutocastCPU"] == "passed by"


def test_an_override_is_said_to_stand_over_another(shown):
    with mq.library._scoped_library("aten", "IMPL") as lib:
        with pytest.warns(UserWarning, match="is overridden"):
            lib.impl("cosh", lambda x: x, "CPU")
        (page,) = json.loads(shown("aten.cosh.default", "--json"))
    assert page["kernels"]["CPU"].endswith(", over 1 earlier")
    assert page["registered"]["CPU"][1] == "its page"


def test_a_module_is_imported_whose_operators_are_asked_for(shown, tmp_path):
    file = tmp_path / "loaded_ops.py"
    file.write_text(
        "from maquette.library import custom_op\n"
        "import maquette as mq\n"
        '@custom_op("loaded_ops_test::twice", mutates_args=())\n'
        "def twice(x: mq.Tensor) -> mq.Tensor:\n"
        "    return x * 2\n"
    )
    page = shown("loaded_ops_test.*", "--load", str(file))
    assert "loaded_ops_test::twice(Tensor x) -> Tensor" in page
