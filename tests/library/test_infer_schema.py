"""`infer_schema`: which signatures have a schema, and what it is."""

import functools
from collections.abc import Sequence
from typing import Any, List, Optional, Tuple, Union  # noqa: UP035  # users write them

import pytest

import maquette as mq
from maquette import Tensor
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.tags import Tag
from maquette.library import infer_schema

SPACE = {
    "Any": Any,
    "List": List,  # noqa: UP006  # users write it, as they do the next three
    "Number": Union[int, float, bool],  # noqa: UP007
    "Optional": Optional,
    "Sequence": Sequence,
    "Tensor": Tensor,
    "Tuple": Tuple,  # noqa: UP006
    "mq": mq,
}


def schema_of(parameters, returns="Tensor", mutates_args=(), **options):
    """The schema of ``def f(<parameters>) -> <returns>``."""
    space = dict(SPACE)
    exec(f"def f({parameters}) -> {returns}: ...", space)
    return infer_schema(space["f"], mutates_args=mutates_args, **options)


def test_L55_a_nameless_schema():
    text = schema_of("x: Tensor, n: int = 3, *, s: float = 2.5")
    assert text == "(Tensor x, SymInt n=3, *, float s=2.5) -> Tensor"


def test_L55_with_a_name():
    assert schema_of("x: Tensor", op_name="a::f") == "a::f(Tensor x) -> Tensor"


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("Tensor", "Tensor"),
        ("int", "SymInt"),
        ("float", "float"),
        ("bool", "bool"),
        ("str", "str"),
        ("Number", "Scalar"),
        ("int | float | bool", "Scalar"),
        ("mq.dtype", "ScalarType"),
        ("mq.device", "Device"),
        ("mq.dtype | None", "ScalarType?"),
        ("Optional[Tensor]", "Tensor?"),
        ("Optional[Number]", "Scalar?"),
    ],
)
def test_L56_plain_types(annotation, text):
    assert schema_of(f"x: {annotation}") == f"({text} x) -> Tensor"


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("list[Tensor]", "Tensor[]"),
        ("List[Optional[Tensor]]", "Tensor?[]"),
        ("Sequence[int]", "SymInt[]"),
        ("list[float]", "float[]"),
        ("list[bool]", "bool[]"),
        ("list[Number]", "Scalar[]"),
        ("Optional[list[int]]", "SymInt[]?"),
        ("list[float] | None", "float[]?"),
    ],
)
def test_L57_lists(annotation, text):
    assert schema_of(f"x: {annotation}") == f"({text} x) -> Tensor"


@pytest.mark.parametrize(
    "annotation",
    [
        "Optional[List[Tensor]]",
        "List[str]",
        "list[list[int]]",
        "complex",
        "mq.layout",
        "Any",
        "dict",
        "list",
        "List[Optional[int]]",
    ],
)
def test_L57_unsupported_types_list_the_valid_ones(annotation):
    with pytest.raises(ValueError, match=r"parameter x .*valid types.*Tensor, int.*signature"):
        schema_of(f"x: {annotation}")


def test_L58_tuples_suggest_a_list_if_there_is_one():
    with pytest.raises(ValueError, match=r"list\[int\]"):
        schema_of("x: Tuple[int, int]")
    with pytest.raises(ValueError, match="unsupported") as error:
        schema_of("x: Tuple[int, str]")
    assert "annotate it as" not in str(error.value)


def test_L59_string_annotations_are_evaluated():
    assert schema_of("x: 'Tensor', y: List['Tensor']", "'Tensor'") == (
        "(Tensor x, Tensor[] y) -> Tensor"
    )


def test_L59_names_that_are_no_globals():
    with pytest.raises(ValueError, match=r"Local.*postponed"):
        schema_of("x: 'Local'")


@pytest.mark.parametrize("parameters", ["x: Tensor, /", "*xs: Tensor", "x", "x: Tensor, **kw: int"])
def test_L60_parameters_that_a_schema_cannot_have(parameters):
    with pytest.raises(ValueError, match="signature"):
        schema_of(parameters)


def test_L60_a_return_annotation_is_needed():
    def f(x: Tensor): ...

    with pytest.raises(ValueError, match="return"):
        infer_schema(f, mutates_args=())


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ("x: int = 3", "SymInt x=3"),
        ("x: float = 2.5", "float x=2.5"),
        ("x: float = float('inf')", "float x=inf"),
        ("x: float = float('nan')", "float x=nan"),
        ("x: bool = True", "bool x=True"),
        ("x: str = 'a\"b'", 'str x="a\\"b"'),
        ("x: mq.device = mq.device('cuda:0')", 'Device x="cuda:0"'),
        ("x: mq.dtype = mq.float16", "ScalarType x=float16"),
        ("x: Optional[Tensor] = None", "Tensor? x=None"),
        ("x: Tensor = None", "Tensor x=None"),
        ("x: int = None", "SymInt x=None"),
        ("x: float = None", "float x=None"),
        ("x: bool = None", "bool x=None"),
        ("x: str = None", "str x=None"),
        ("x: Number = None", "Scalar x=None"),
        ("x: mq.dtype = None", "ScalarType x=None"),
    ],
)
def test_L61_defaults(parameter, text):
    schema = schema_of(parameter)
    assert schema == f"({text}) -> Tensor"
    assert parse_schema(f"a::f{schema}").arguments[0].has_default_value()


@pytest.mark.parametrize(
    "parameter", ["x: mq.device = None", "x: list[int] = None", "x: List[Tensor] = None"]
)
def test_L61_none_is_no_default_of_devices_and_lists(parameter):
    with pytest.raises(ValueError, match="default of type NoneType"):
        schema_of(parameter)


def test_L61_an_operator_gets_the_none_that_its_annotation_does_not_say():
    def f(x: Tensor, offs: Tensor = None, n: int = None) -> Tensor:  # noqa: RUF013  # users write it
        return x * 2 if offs is None and n is None else x * offs

    op = mq.library.custom_op("infer_none::f", f, mutates_args=())
    op.register_fake(lambda x, offs=None, n=None: mq.empty_like(x))
    op.register_autograd(lambda ctx, grad: (grad * 2, None, None))
    x = mq.ones(2, requires_grad=True)
    assert str(op._opoverload._schema) == (
        "infer_none::f(Tensor x, Tensor offs=None, SymInt n=None) -> Tensor"
    )
    for y in (op(x), op(x, None), mq.ops.infer_none.f(x, n=None), op(x, mq.full((2,), 2.0), 1)):
        assert y.tolist() == [2.0, 2.0]
    op(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="expected a value of type 'int' for argument 'n'"):
        op(x, None, "a")


def test_L62_an_empty_tuple_is_no_return():
    assert schema_of("x: Tensor", "Tuple[()]") == "(Tensor x) -> ()"


@pytest.mark.parametrize("annotation", ["List", "list", "Sequence", "Tuple"])
def test_L57_a_list_of_nothing_said_is_refused(annotation):
    with pytest.raises(ValueError, match="parameter x has the unsupported type"):
        schema_of(f"x: {annotation}")


@pytest.mark.parametrize(
    "parameter", ["x: list[int] = [1, 2]", "x: list[int] = ()", "x: int = 3.5"]
)
def test_L61_other_defaults_are_refused(parameter):
    with pytest.raises(ValueError, match=r"default of type (list|tuple|float)"):
        schema_of(parameter)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("None", "()"),
        ("Tensor", "Tensor"),
        ("List[Tensor]", "Tensor[]"),
        ("int", "SymInt"),
        ("Number", "Scalar"),
        ("Tuple[Tensor, int]", "(Tensor, SymInt)"),
        ("tuple[Tensor, list[Tensor]]", "(Tensor, Tensor[])"),
        ("Tuple[Tensor]", "((Tensor))"),
    ],
)
def test_L62_returns(annotation, text):
    assert schema_of("x: Tensor", annotation) == f"(Tensor x) -> {text}"


@pytest.mark.parametrize(
    "annotation",
    ["Optional[Tensor]", "Sequence[Tensor]", "list[int]", "str", "tuple", "Tuple[Tensor, ...]"],
)
def test_L62_other_returns_are_refused(annotation):
    with pytest.raises(ValueError, match="return"):
        schema_of("x: Tensor", annotation)


def test_L63_written_parameters():
    assert schema_of("x: Tensor, y: Tensor", mutates_args=["y"]) == (
        "(Tensor x, Tensor(a1!) y) -> Tensor"
    )


def test_L63_unknown_means_all_tensors():
    text = schema_of(
        "x: Tensor | None, n: int, y: list[Tensor], z: list[Tensor | None]", mutates_args="unknown"
    )
    assert text == "(Tensor(a0!)? x, SymInt n, Tensor(a2!)[] y, Tensor(a3!)?[] z) -> Tensor"


@pytest.mark.parametrize("mutates_args", [["z"], ["n"], "x"])
def test_L63_only_tensors_are_written(mutates_args):
    with pytest.raises(ValueError, match="mutates_args"):
        schema_of("x: Tensor, n: int", mutates_args=mutates_args)


def test_L64_out_and_inplace_add_aliases():
    out = schema_of("x: Tensor, *, out: Tensor", mutates_args=["out"], tags=Tag.out)
    assert out == "(Tensor x, *, Tensor(a1!) out) -> Tensor(a1!)"
    inplace = schema_of("x: Tensor, n: int", mutates_args=["x"], tags=Tag.inplace)
    assert inplace == "(Tensor(a0!) x, SymInt n) -> Tensor(a0!)"


@pytest.mark.parametrize(
    ("parameters", "returns", "mutates_args", "tag"),
    [
        ("x: Tensor, y: Tensor", "Tensor", ["y"], Tag.inplace),
        ("x: Tensor", "None", ["x"], Tag.inplace),
        ("x: Tensor", "Tensor", [], Tag.inplace),
        ("x: Tensor", "Tensor", ["x"], Tag.out),
        ("x: Tensor, *, out: Tensor", "None", ["out"], Tag.out),
    ],
)
def test_L64_breaches(parameters, returns, mutates_args, tag):
    with pytest.raises(ValueError, match="signature"):
        schema_of(parameters, returns, mutates_args, tags=tag)


def test_L64_not_both_tags():
    with pytest.raises(AssertionError):
        schema_of("x: Tensor", tags=[Tag.out, Tag.inplace])


def test_L65_wrappers_methods_partials_and_objects():
    def f(x: Tensor, n: int) -> Tensor: ...

    class Holder:
        def method(self, x: Tensor) -> Tensor: ...

        def __call__(self, x: Tensor) -> Tensor: ...

    wrapped = functools.wraps(f)(lambda *args: None)
    assert infer_schema(wrapped, mutates_args=()) == "(Tensor x, SymInt n) -> Tensor"
    assert infer_schema(Holder().method, mutates_args=()) == "(Tensor x) -> Tensor"
    assert infer_schema(Holder(), mutates_args=()) == "(Tensor x) -> Tensor"
    assert infer_schema(functools.partial(f, mq.ones(1)), mutates_args=()) == (
        "(SymInt n) -> Tensor"
    )
