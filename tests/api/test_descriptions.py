"""What public functions and methods say of themselves."""

from __future__ import annotations

import importlib

import pytest

import maquette as mq
from maquette.api.descriptions import description, summary
from maquette.api.from_schema import function_names
from maquette.dispatch.registry import find_packet

MODULES = ["", ".linalg", ".fft", ".special", ".nn.functional", ".nn.init", ".func", ".autograd"]
# Values on the class, which have no docstring of their own.
VALUES = {"constant", "fake_mode", "meta"}


def lacks_words(value: object) -> bool:
    """Whether a docstring is empty, or says nothing of what is computed."""
    said = (getattr(value, "__doc__", None) or "").strip()
    return not said or said.startswith(("The operator `", "As PyTorch's function"))


@pytest.mark.parametrize("name", MODULES)
def test_no_public_function_lacks_a_description(name: str) -> None:
    module = importlib.import_module("maquette.torch" + name)
    public = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
    functions = {n: f for n, f in public.items() if callable(f) and not isinstance(f, type)}
    assert functions
    assert [n for n, f in functions.items() if lacks_words(f)] == []


def test_no_member_of_tensor_lacks_a_description() -> None:
    members = {n for n in dir(mq.Tensor) if not n.startswith("_")} - VALUES
    assert len(members) > 600
    assert sorted(n for n in members if lacks_words(getattr(mq.Tensor, n))) == []


def test_every_operator_that_is_a_function_has_a_sentence_on_its_page() -> None:
    packets = [find_packet(f"aten::{name}") for name in function_names()]
    assert [p.__name__ for p in packets if not summary(p).endswith(".")] == []


def test_functions_that_transforms_alone_call_are_not_listed() -> None:
    assert not {"cauchy", "uniform", "resize"} & set(function_names())


def test_a_description_tells_what_the_schemas_say() -> None:
    said = description(find_packet("aten::add"))
    assert said.startswith("The sum ``self + alpha * other``.\n")
    assert "broadcast to" in said
    assert "out: a tensor to write the result to" in said
    assert "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" in said


def test_an_alias_says_what_it_is_another_name_of() -> None:
    assert mq.arccos.__doc__.startswith("Another name of `acos`: the angle")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("add_", "In place: the tensor itself is changed, and returned; RuntimeError"),
        ("sum", "size 1 in it with `keepdim`"),
        ("transpose", "shares the memory of the tensor"),
        ("masked_select", "raises DynamicOutputShapeException"),
        ("allclose", "raises DataDependentOutputException"),
        ("uniform_", "generator: what draws the numbers"),
    ],
)
def test_descriptions_name_memory_data_and_errors(name: str, words: str) -> None:
    assert words in getattr(mq.Tensor, name).__doc__


def test_a_users_page_may_describe_its_operator() -> None:
    page = mq.library.page.define("described::twice(Tensor x) -> Tensor")
    page.describe("Twice the tensor.").composite(lambda x: x + x)
    assert description(page.op.overloadpacket).startswith("Twice the tensor.\n")
    page.withdraw()
