"""Schemas: the grammar, types, aliases, defaults, printing and compatibility (D22-D37)."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core.device import device
from maquette.core.dtype import float32, int64
from maquette.core.layout import contiguous_format, strided
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import AliasInfo, Argument, FunctionSchema
from maquette.dispatch.schemas.types import register_script_type, unregister_script_type

TYPES = (
    "Tensor", "int", "float", "bool", "str", "complex", "Scalar", "number", "SymInt", "SymBool",
    "SymFloat", "ScalarType", "Layout", "MemoryFormat", "Device", "Generator", "Storage", "Stream",
    "QScheme", "Quantizer", "Any", "AnyEnumType", "NoneType", "Capsule", "Tensor?[]", "Tensor[]?",
    "int[][]", "int[2]?", "Dict(str, Tensor)", "(int, Tensor)", "(int, int)[]",
    "Union(int, Tensor)", "Future(int)", "Await(int)", "RRef(Tensor)",
)  # fmt: skip


def only(text: str) -> Argument:
    """The argument of a schema that is written with just one."""
    (argument,) = parse_schema(f"f({text}) -> ()").arguments
    return argument


def fails(text: str, *parts: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        parse_schema(text)
    for part in parts:
        assert part in str(caught.value)


# --- grammar ---------------------------------------------------------------------------------


def test_D22_spaces_and_a_missing_namespace_do_not_matter() -> None:
    schema = parse_schema("  f( Tensor   x )->Tensor ")
    assert str(schema) == "f(Tensor x) -> Tensor"
    assert schema.namespace == ""


def test_D22_a_full_name_has_its_parts() -> None:
    schema = parse_schema("aten::add.Tensor(Tensor self) -> Tensor")
    assert (schema.name, schema.overload_name) == ("aten::add", "Tensor")
    assert (schema.namespace, schema.op_name) == ("aten", "add")


@pytest.mark.parametrize(
    "text",
    [
        "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        'aten::gelu(Tensor self, *, str approximate="none") -> Tensor',
        "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
        "aten::batch_norm(Tensor x, float eps=1.0000000000000001e-05) -> (Tensor, Tensor)",
        "m::f(Tensor(a)?[] x, Tensor[](b!)? y, Tensor(c)[](d) z, (int, Tensor(e!)) t) -> ()",
        "m::f(Tensor! x, Tensor![] y, ...) -> (Tensor, ...)",
    ],
)
def test_D22_the_text_of_a_schema_reads_back(text: str) -> None:
    assert str(parse_schema(text)) == text
    assert parse_schema(str(parse_schema(text))) == parse_schema(text)


@given(st.floats(), st.text(max_size=5), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_D22_defaults_read_back(number: float, text: str, numbers: list[int]) -> None:
    arguments = [
        Argument("a", only("float x").type, default=number),
        Argument("b", only("str x").type, default=text),
        Argument("c", only("int[] x").type, default=tuple(numbers)),
    ]
    schema = FunctionSchema("m::f", "", arguments, ())
    assert parse_schema(str(schema)) == schema


@pytest.mark.parametrize("written", TYPES)
def test_D23_every_type_prints_as_written(written: str) -> None:
    assert str(only(f"{written} x")) == f"{written} x"
    assert only(f"{written} x").type.written == written


def test_D23_an_unknown_type_is_marked_and_usual_ones_listed() -> None:
    fails("f(Foo x) -> ()", "unknown type", "Tensor, int", "f(Foo x) -> ()\n  ~~~ <--- HERE")


def test_D23_composites_know_their_parts() -> None:
    found = only("int[2]? x").type
    assert (found.kind, found.elem.kind, found.elem.elem.kind) == ("optional", "list", "int")
    assert found.is_optional
    assert found.elem.is_list
    assert (found.elem.size, found.base.kind) == (2, "int")


def test_D24_lower_case_names_are_variables_only_where_allowed() -> None:
    assert only("t1 x").type.kind == "typevar"
    with pytest.raises(RuntimeError, match="unknown type 't'"):
        parse_schema("f(t x) -> t", allow_typevars=False)


def test_D24_an_argument_read_with_variables_allowed_is_not_remembered_where_they_are_not() -> None:
    parse_schema("f(t99 x) -> ()")
    with pytest.raises(RuntimeError, match="t99"):
        parse_schema("f(t99 x) -> ()", allow_typevars=False)


def test_D25_codes_have_type_int_and_a_real_type() -> None:
    found = only("ScalarType? x")
    assert (str(found.type), str(found.real_type)) == ("Optional[int]", "Optional[ScalarType]")
    assert (only("SymInt x").type.kind, str(only("SymInt x").type)) == ("symint", "int")


def test_D25_equality_uses_the_type_and_printing_the_text() -> None:
    symbolic, plain = parse_schema("f(SymInt a) -> ()"), parse_schema("f(int a) -> ()")
    assert symbolic == plain
    assert hash(symbolic) == hash(plain)
    assert (str(symbolic), str(plain)) == ("f(SymInt a) -> ()", "f(int a) -> ()")


def test_D125_a_registered_class_is_a_type_until_it_is_withdrawn() -> None:
    text = "f(__torch__.torch.classes.my.Foo x) -> ()"
    fails(text, "my.Foo", "register")
    register_script_type("__torch__.torch.classes.my.Foo", lambda value: True)
    assert parse_schema(text).arguments[0].type.kind == "script"
    unregister_script_type("__torch__.torch.classes.my.Foo")
    fails(text, "my.Foo")


# --- defaults --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, shown, canonical",
    [
        ("int k=-1", -1, -1),
        ("bool k=True", True, True),
        ("int? k=None", None, None),
        ("float k=2", 2.0, 2.0),
        ("float k=-inf", float("-inf"), float("-inf")),
        ("complex k=1j", 1j, 1j),
        ("str k='a\"b'", 'a"b', 'a"b'),
        ("int k=Mean", 1, 1),
        ("ScalarType k=float", 6, float32),
        ("ScalarType? k=long", 4, int64),
        ("MemoryFormat k=contiguous_format", 0, contiguous_format),
        ("Layout k=strided", 0, strided),
        ("Device k='cpu'", device("cpu"), device("cpu")),
        ("int[2] k=1", [1, 1], (1, 1)),
        ("float[2] k=1", [1.0, 1.0], (1.0, 1.0)),
        ("int[2]? k=1", [1, 1], (1, 1)),
        ("bool[] k=[True, False]", [True, False], (True, False)),
        ("int[] k=[]", [], ()),
    ],
)
def test_D26_defaults(text: str, shown: object, canonical: object) -> None:
    found = only(text)
    assert found.has_default_value()
    assert (found.default_value, found.default) == (shown, canonical)
    assert type(found.default_value) is type(shown)


def test_D26_a_number_is_no_default_for_an_unsized_list() -> None:
    fails("f(int[] k=0) -> ()", "'k'", "list")


def test_D27_only_lists_without_a_default_follow_a_default() -> None:
    fails("f(int a=1, int b) -> ()", "'b'", "default")
    assert len(parse_schema("f(int a=1, int[] b) -> ()").arguments) == 2
    assert parse_schema("f(int a=1, *, int b) -> ()").arguments[1].kwarg_only


@pytest.mark.parametrize(
    "text",
    [
        "int a=2.5",
        "str a=1",
        "Device a=None",
        "Tensor a=1",
        "int? a=[1]",
        "int a=9223372036854775808",
    ],
)
def test_D27_a_default_of_the_wrong_type_is_refused(text: str) -> None:
    fails(f"f({text}) -> ()", "default", "'a'")


@pytest.mark.parametrize("type_", "Tensor int float bool str Scalar ScalarType Layout".split())
def test_D26_none_is_a_default_of_types_that_do_not_say_so(type_: str) -> None:
    schema = parse_schema(f"f({type_} a=None) -> ()")
    assert str(schema) == f"f({type_} a=None) -> ()"
    assert schema.arguments[0].default_value is None


def test_D27_a_star_comes_once() -> None:
    fails("f(int a, *, int b, *, int c) -> ()", "second '*'")


def test_D27_names_are_unique() -> None:
    fails("f(int a, int a) -> ()", "'a'")


@pytest.mark.parametrize("arguments", ["Tensor", "Tensor class", "Tensor x,", "Tensor x, /"])
def test_D28_parameters_need_names_that_are_not_reserved(arguments: str) -> None:
    fails(f"f({arguments}) -> ()", "expected", "HERE")


def test_D28_self_from_and_lambda_are_names() -> None:
    names = [a.name for a in parse_schema("f(int self, int from, int lambda) -> ()").arguments]
    assert names == ["self", "from", "lambda"]


@pytest.mark.parametrize("name", ["default", "__x"])
def test_D29_some_overload_names_are_illegal(name: str) -> None:
    fails(f"m::f.{name}(Tensor x) -> ()", name, "overload name")


@pytest.mark.parametrize("name", ["a::b::c", "f.a.b", "::f", "f::", "f."])
def test_D29_one_dot_and_one_double_colon(name: str) -> None:
    fails(f"{name}(Tensor x) -> ()", "HERE")


def test_D30_returns_may_be_named() -> None:
    returns = parse_schema("f() -> (Tensor values, Tensor idx)").returns
    assert [r.name for r in returns] == ["values", "idx"]
    assert parse_schema("f() -> Tensor").returns[0].name == ""


def test_D30_one_return_in_parentheses_is_that_return() -> None:
    assert parse_schema("f() -> (Tensor)") == parse_schema("f() -> Tensor")
    assert parse_schema("f() -> ((Tensor))").returns[0].type.kind == "tuple"


def test_D30_dots_mean_any_number() -> None:
    schema = parse_schema("f(int x, ...) -> ...")
    assert (schema.is_vararg, schema.is_varret) == (True, True)
    assert str(schema) == "f(int x, ...) -> ..."


@pytest.mark.parametrize(
    "text, part",
    [
        ("m::f(Tensor x)", "'->'"),
        ("m::f(Tensor x -> Tensor", "')'"),
        ("m::f(Tensor x) -> Tensor a b", "'b'"),
        ("(Tensor x) -> Tensor", "operator name"),
        ("f5", "only the operator name"),
        ("f(int x) -> (int", "the end of the text"),
    ],
)
def test_D31_errors_say_what_is_missing(text: str, part: str) -> None:
    fails(text, part)


# --- aliases ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation, before, after, writes",
    [
        ("(a)", "a", "a", False),
        ("(a!)", "a", "a", True),
        ("(a|b)", "ab", "ab", False),
        ("(a -> *)", "a", "*", False),
        ("(a! -> b)", "a", "b", True),
    ],
)
def test_D32_alias_sets(annotation: str, before: str, after: str, writes: bool) -> None:
    found = only(f"Tensor{annotation} x").alias_info
    assert found == AliasInfo(frozenset(before), frozenset(after), writes)


def test_D32_an_exclamation_mark_writes_to_a_fresh_set() -> None:
    first, second = parse_schema("f(Tensor! x, Tensor! y) -> ()").arguments
    assert first.is_write
    assert first.alias_info != second.alias_info
    assert only("Tensor! x").alias_info == first.alias_info


def test_D32_the_annotation_stands_before_the_question_mark() -> None:
    assert only("Tensor(a!)? x").is_write
    fails("f(Tensor?(a!) x) -> ()", "'('")


def test_D32_the_wildcard_is_told() -> None:
    found = only("Tensor(*) x").alias_info
    assert found is not None
    assert found.is_wildcard


def test_D33_an_annotation_in_a_list_is_contained_and_its_write_counts() -> None:
    found = only("Tensor(a!)[] x").alias_info
    assert found is not None
    assert (found.before_set, found.is_write) == (frozenset(), True)
    assert found.contained == (AliasInfo(frozenset("a"), frozenset("a"), True),)


def test_D33_out_arguments_are_keyword_only_and_written() -> None:
    positional, out = parse_schema("f(Tensor(a!) x, *, Tensor(b!) out) -> ()").arguments
    assert (positional.is_out, out.is_out) == (False, True)


@pytest.mark.parametrize("text, size", [("int[3] x", 3), ("int[3]? x", 3), ("int[] x", None)])
def test_D33_N_is_the_size_of_the_list(text: str, size: int | None) -> None:
    assert only(text).N == size


def test_D34_only_written_arguments_make_a_schema_mutable() -> None:
    assert not parse_schema("f(Tensor x) -> Tensor(a!)").is_mutable
    assert parse_schema("f(Tensor(a!)[] x) -> ()").is_mutable


# --- values ----------------------------------------------------------------------------------


def test_D35_schemas_are_immutable_and_copy_and_pickle() -> None:
    schema = parse_schema("m::f.x(Tensor(a!) x, *, ScalarType? d=float) -> (Tensor(a!) y)")
    with pytest.raises(AttributeError):
        schema.name = "g"  # type: ignore[misc]
    assert copy.deepcopy(schema) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert {schema: 1}[parse_schema(str(schema))] == 1


@pytest.mark.parametrize(
    "other",
    [
        "m::g(Tensor(a) x, Scalar s=1) -> Tensor y",
        "m::f.o(Tensor(a) x, Scalar s=1) -> Tensor y",
        "m::f(Tensor(a) z, Scalar s=1) -> Tensor y",
        "m::f(Tensor(b) x, Scalar s=1) -> Tensor y",
        "m::f(Tensor(a) x, Scalar s=1.) -> Tensor y",
        "m::f(Tensor(a) x, Scalar s=True) -> Tensor y",
        "m::f(Tensor(a) x, Scalar s) -> Tensor y",
        "m::f(Tensor(a) x, *, Scalar s=1) -> Tensor y",
        "m::f(Tensor(a) x, Scalar s=1) -> Tensor z",
    ],
)
def test_D35_every_part_counts_for_equality(other: str) -> None:
    assert parse_schema("m::f(Tensor(a) x, Scalar s=1) -> Tensor y") != parse_schema(other)


@pytest.mark.parametrize(
    "written, printed",
    [
        ("float a=2", "float a=2."),
        ("float a=0.1", "float a=0.10000000000000001"),
        ("float a=1e20", "float a=1e+20"),
        ("int[2] k=[1,1]", "int[2] k=1"),
        ("int[] a=[5,5]", "int[] a=[5, 5]"),
        ("int[1] a=5", "int[1] a=[5]"),
        ("SymInt[2] a=1", "SymInt[2] a=[1, 1]"),
        ("float[2] a=1", "float[2] a=[1., 1.]"),
        ("str a='x'", 'str a="x"'),
        ("Device a='cuda:1'", 'Device a="cuda:1"'),
        ("complex a=2j", "complex a=0.+2.j"),
        ("*, int a", "*, int a"),
    ],
)
def test_D36_printing(written: str, printed: str) -> None:
    assert str(parse_schema(f"f({written}) -> ()")) == f"f({printed}) -> ()"


# --- compatibility ---------------------------------------------------------------------------

OLD = parse_schema("m::f(int a, *, Tensor(a!) out) -> Tensor(a!)")


@pytest.mark.parametrize(
    "arguments, backward, reason",
    [
        ("int a, int y=1, *, Tensor(a!) out", True, ""),
        ("int a, int y, *, Tensor(a!) out", False, "'y'"),
        ("int a, int[] y=[], *, Tensor(a!) out", True, "'y'"),
        ("Scalar a, *, Tensor(a!) out", True, "'a'"),
        ("int a=1, *, Tensor(a!) out", True, "'a'"),
        ("int b, *, Tensor(a!) out", False, "'b'"),
        ("int a, *, Tensor(a!) out, Tensor(b!) more", False, "out arguments"),
    ],
)
def test_D37_compatibility(arguments: str, backward: bool, reason: str) -> None:
    new = parse_schema(f"m::f({arguments}) -> Tensor(a!)")
    assert new.is_backward_compatible_with(OLD) is backward
    compatible, why = new.check_forward_compatible_with(OLD)
    assert compatible is (reason == "")
    assert reason in why


def test_D37_a_default_may_go_and_a_return_keeps_its_name() -> None:
    more = parse_schema("m::f(int a, int y=1) -> Tensor")
    assert parse_schema("m::f(int a) -> Tensor").check_forward_compatible_with(more)[0]
    named = parse_schema("m::f(int a, int y=1) -> Tensor out")
    assert not named.is_backward_compatible_with(more)


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ("int a, int y", "'y' is not forward compatible with the older version of the schema"),
        ("int a, *, int y=1", "'y' is not forward compatible"),
        ("int a, int y=1, *, int z", "'z' of type int did not provide a default value."),
        ("int a, int y=1, SymInt[2] z=1", "'z' of type int[] has a container type as its default"),
        ("int a, int y=1, *, Tensor(a!) out", "should have the same number of out arguments"),
    ],
)
def test_D37_why_an_older_program_cannot_serve(arguments: str, reason: str) -> None:
    old = parse_schema("m::f(int a, int y=1) -> Tensor")
    serves, why = parse_schema(f"m::f({arguments}) -> Tensor").check_forward_compatible_with(old)
    assert not serves
    assert reason in why


def test_D25_types_as_the_schema_language_says_them() -> None:
    text = "f(SymInt[2] a, Layout? b, Scalar c, (int, ScalarType) d, Future(int) e) -> ()"
    types = [argument.type for argument in parse_schema(text).arguments]
    assert [t.str() for t in types] == ["int[]", "int?", "Scalar", "(int, int)", "Future[int]"]
    assert [t.real.str() for t in types[:3]] == ["SymInt[]", "Layout?", "Scalar"]


def test_D27_any_number_of_values_leaves_no_place_for_defaults() -> None:
    with pytest.raises(RuntimeError, match=r"vararg \(\.\.\.\) can't have default value args"):
        parse_schema("f(int a, int b=0, ...) -> ()")


def test_D35_schemas_that_differ_in_a_default_hash_differently() -> None:
    one, two = (parse_schema(f"f(Tensor x, int a={n}) -> Tensor") for n in (1, 2))
    assert hash(one) != hash(two)


def test_D37_the_names_must_agree() -> None:
    assert not parse_schema("m::g(int a, *, Tensor(a!) out) -> Tensor(a!)") \
        .is_backward_compatible_with(OLD)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        f"f({'(' * 3000}Tensor x{')' * 3000}) -> ()",
        f"f() -> {'(' * 3000}Tensor{')' * 3000}",
        f"f(int[] x={'[' * 3000}1{']' * 3000}) -> ()",
        f"f(int x={'9' * 5000}) -> ()",
        f"f(int[] x=[{'9' * 5000}]) -> ()",
        f"f(int[{'9' * 5000}] x) -> ()",
        f"f(int[{'9' * 41}] x=0) -> ()",
        "f(int[1000000] x=0) -> ()",
    ],
    ids=["arguments", "returns", "default", "number", "list", "size", "copies", "million"],
)
def test_D22_schemas_beyond_all_measure_are_the_parsers_own_error(text):
    """Finding 55."""
    with pytest.raises(RuntimeError, match="invalid schema") as caught:
        parse_schema(text)
    assert len(str(caught.value)) < 5000


@pytest.mark.parametrize("text", [None, 3, b"f() -> ()"])
def test_D22_a_schema_is_a_string(text):
    with pytest.raises(TypeError, match="expected the text of a schema"):
        parse_schema(text)
