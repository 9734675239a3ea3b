"""Schema types of Python values."""

import typing

import pytest

import maquette.torch as torch
from maquette.fx.operator_schemas import _torchscript_type_to_python_type


def inferred(value):
    return torch._C._jit_try_infer_type(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "bool"),
        (torch.float32, "int"),
        (torch.zeros(1), "Tensor"),
        ([1, None], "List[Optional[int]]"),
        ([(1, None), (2, 3)], "List[Tuple[int, Optional[int]]]"),
        ({"a": torch.zeros(1)}, "Dict[str, Tensor]"),
        (torch.Size([1, 2]), "Tuple[int, int]"),
        ((), "Tuple[()]"),
    ],
)
def test_a_value_has_the_type_that_holds_it(value, written):
    found = inferred(value)
    assert found.success()
    assert str(found.type()) == written
    assert found.reason() == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2.0], "one type; found int and float"),
        ([(1, 2), (1, "a")], "found Tuple"),
        ([], "must be one"),
        ({"a": 1, 2: 3}, "a dict's keys must be of one type"),
        (torch.nn.Linear(1, 1), "a module"),
        (object(), "got object"),
    ],
)
def test_a_value_without_a_type_says_why(value, words):
    found = inferred(value)
    assert not found.success()
    assert words in found.reason()
    with pytest.raises(RuntimeError, match="no schema type"):
        found.type()


def test_a_type_of_the_schema_language_has_a_python_type():
    found = _torchscript_type_to_python_type(inferred(({"a": [1.0]}, None)).type())
    assert found == typing.Tuple[typing.Dict[str, typing.List[float]], None]  # noqa: UP006
