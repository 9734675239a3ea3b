"""Matching calls and results with schemas (D39-D51, L27), on tensors known by their base only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from maquette.core.device import device
from maquette.core.dtype import float32
from maquette.core.layout import preserve_format, strided
from maquette.core.size import Size
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.schemas.matching import MatchError, bind, check_result, normalise
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.types import register_script_type, unregister_script_type


class Stub(TensorBase):
    """A tensor as the dispatcher knows it, with the numbers in it."""

    def __init__(self, *numbers: object, ndim: int = 1) -> None:
        self.numbers = numbers
        self.ndim = ndim

    def numel(self) -> int:
        return len(self.numbers)

    def item(self) -> object:
        return self.numbers[0]

    def tolist(self) -> list[object]:
        return list(self.numbers)


class Symbol:
    """A symbolic number that counts how often it was specialised."""

    def __init__(self, pytype: type, value: int) -> None:
        self.node = self
        self.pytype = pytype
        self.value = value
        self.guards = 0

    def __int__(self) -> int:
        self.guards += 1
        return self.value

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a comparison leaves a guard")

    __hash__ = None  # type: ignore[assignment]


X = Stub(1.0, 2.0)
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
UNSQUEEZE = "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"
SUM = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"  # noqa: E501


def bound(
    schema: str, args: Sequence[object], kwargs: Mapping[str, object] | None = None
) -> tuple[object, ...]:
    return bind(parse_schema(schema), args, kwargs or {}, takes_numbers=False)


def one(type: str, value: object) -> object:
    """What becomes of a value passed for a parameter of this type."""
    return bound(f"m::f({type} p) -> ()", (value,))[0]


def refuses(type: str, value: object, *parts: str) -> None:
    with pytest.raises(MatchError) as caught:
        one(type, value)
    for part in ("m::f", "'p'", "Position: 0", "Value:", f"m::f({type} p) -> ()", *parts):
        assert part in str(caught.value)


# --- binding ---------------------------------------------------------------------------------


def test_D39_every_parameter_passes_by_keyword() -> None:
    schema = "m::f(int self, int keyset, int dispatch_key, int op) -> ()"
    names = {"op": 4, "self": 1, "dispatch_key": 3, "keyset": 2}
    assert bound(schema, (), names) == (1, 2, 3, 4)


def test_D39_defaults_are_filled_in() -> None:
    assert bound(ADD, (X,), {"other": X}) == (X, X, 1)


def test_D40_the_first_missing_argument_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"aten::add.*missing.*'self'.*Scalar alpha=1"):
        bound(ADD, ())
    with pytest.raises(RuntimeError, match=r"missing.*'other'"):
        bound(ADD, (X,))


def test_D40_a_misspelt_keyword_is_named_beside_the_missing_argument() -> None:
    with pytest.raises(RuntimeError, match=r"'other'.*'oter'"):
        bound(ADD, (X,), {"oter": X})


def test_D41_too_many_positionals_are_counted() -> None:
    with pytest.raises(RuntimeError, match=r"aten::add.* 2 .* 3 .*Scalar alpha=1"):
        bound(ADD, (X, X, 2))


def test_D41_a_vararg_schema_takes_more() -> None:
    assert bound("m::f(int x, ...) -> ()", (1, "a", None)) == (1, "a", None)


def test_D42_unknown_keywords_are_named() -> None:
    with pytest.raises(RuntimeError, match=r"'foo'.*aten::add.*Scalar alpha=1"):
        bound(ADD, (X, X), {"foo": 1})


def test_D42_an_argument_given_twice_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"'self'.*positional and keyword"):
        bound(ADD, (X,), {"other": X, "self": X})


def test_D43_a_wrong_type_is_told_with_position_value_and_schema() -> None:
    with pytest.raises(RuntimeError) as caught:
        bound(UNSQUEEZE, (X, 0.0))
    text = str(caught.value)
    for part in ("aten::unsqueeze", "'int'", "'dim'", "'float'", "Position: 1", "Value: 0.0"):
        assert part in text
    assert UNSQUEEZE in text


@pytest.mark.parametrize(
    "type, long", [("int?", "Optional[int]"), ("Tensor[]", "List[Tensor]"), ("Scalar", "number")]
)
def test_D43_types_are_named_in_their_long_form(type: str, long: str) -> None:
    refuses(type, "a", f"'{long}'", "'str'")


def test_D43_tensors_are_not_printed_in_errors() -> None:
    refuses("Scalar", Stub(2), "Value: <Stub>")
    refuses("int[]", [1, Stub(1, 2)], "[1, <Stub>]", "element 1")


# --- conversions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, expected",
    [(True, 1), (np.int64(3), 3), (Stub(4), 4), (Stub(1.0), 1), (Stub(True), 1), (-(2**63),) * 2],
)
def test_D44_int_takes(value: object, expected: int) -> None:
    found = one("int", value)
    assert (found, type(found)) == (expected, int)


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        "1",
        None,
        1j,
        [1],
        2**70,
        2**63,
        Stub(1, 2),
        Stub(1j),
        Stub(1.5),
        Stub(float("nan")),
        int,
    ],
)
def test_D44_int_refuses(value: object) -> None:
    refuses("int", value, "'int'")


def test_D44_a_symint_is_specialised_for_int_only() -> None:
    symbol = Symbol(int, 7)
    assert one("int", symbol) == 7
    assert symbol.guards == 1
    assert one("SymInt", symbol) is symbol
    assert one("SymInt[]", [symbol, 2]) == (symbol, 2)
    assert symbol.guards == 1


@pytest.mark.parametrize("value, expected", [(0, 0.0), (True, 1.0), (Stub(2), 2.0), (0.5, 0.5)])
def test_D45_float_takes(value: object, expected: float) -> None:
    found = one("float", value)
    assert (found, type(found)) == (expected, float)


@pytest.mark.parametrize("value", [1j, "1.0", None, Stub(1j), 10**400, np.zeros(1), float])
def test_D45_float_refuses(value: object) -> None:
    refuses("float", value, "'float'")


@pytest.mark.parametrize("value", [1, True, np.True_, np.int32(1), Stub(1), Stub(1.0)])
def test_D45_bool_takes(value: object) -> None:
    assert one("bool", value) is True


@pytest.mark.parametrize("value", [None, 1.0, "a", [True]])
def test_D45_bool_refuses(value: object) -> None:
    refuses("bool", value, "'bool'")


@pytest.mark.parametrize("value", [1, 2.5, True, 1j, 2**64 - 1])
def test_D46_scalar_takes_numbers_as_they_are(value: object) -> None:
    assert one("Scalar", value) is value


@pytest.mark.parametrize("value", [Stub(2), "a", None, 2**64])
def test_D46_scalar_refuses(value: object) -> None:
    refuses("Scalar", value, "'number'")


def test_D46_symbolic_numbers_are_scalars() -> None:
    symbol = Symbol(float, 1)
    assert one("Scalar", symbol) is symbol


def test_D47_numbers_pass_for_tensors_only_where_the_operator_takes_them() -> None:
    schema = parse_schema("aten::mul.Tensor(Tensor self, Tensor? other) -> Tensor")
    assert bind(schema, (X, 2.5), {}, takes_numbers=True) == (X, 2.5)
    with pytest.raises(MatchError, match=r"Optional\[Tensor\].*'float'"):
        bind(schema, (X, 2.5), {}, takes_numbers=False)


@pytest.mark.parametrize(
    "value", [[2, 3], (2, 3), Size((2, 3)), range(2, 4), np.array([2, 3]), Stub(2, 3)]
)
def test_D48_lists_become_tuples(value: object) -> None:
    found = one("int[]", value)
    assert found == (2, 3)
    assert type(found) is tuple


@pytest.mark.parametrize(
    "value", [6, {6}, {6: 1}, iter([6]), "6", [6.0], ["a"], None, Stub(6.0), Stub(6, ndim=2)]
)
def test_D48_lists_refuse(value: object) -> None:
    refuses("int[]", value, "'List[int]'")


def test_D48_one_number_stands_for_a_sized_list() -> None:
    assert one("int[2]", 3) == (3, 3)
    assert one("float[2]?", 3) == (3.0, 3.0)
    refuses("bool[2]", True)
    refuses("int[2]", Stub(0, ndim=0))
    assert one("int[2]", [1, 2, 3]) == (1, 2, 3)


def test_D48_a_tensor_is_no_list_of_tensors() -> None:
    refuses("Tensor[]", X, "'Stub'")
    refuses("Tensor[]", [X, None], "element 1")
    assert one("Tensor?[]", [X, None]) == (X, None)


def test_D49_dtypes_layouts_and_formats_come_by_object_or_code() -> None:
    assert one("ScalarType", 6) is one("ScalarType", float32) is float32
    assert one("Layout", 0) is one("Layout", strided) is strided
    assert one("MemoryFormat", 1) is one("MemoryFormat", preserve_format) is preserve_format


@pytest.mark.parametrize("value", ["float", float, np.float32, strided, 999])
def test_D49_dtypes_refuse(value: object) -> None:
    refuses("ScalarType?", value, "'Optional[int]'")


def test_D49_devices_come_by_object_or_text() -> None:
    assert one("Device", "cuda:1") is device("cuda:1")
    refuses("Device?", 0, "'Optional[Device]'", "'int'")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        one("Device", "foo")


@pytest.mark.parametrize("type", ["Tensor", "int", "ScalarType", "str", "int[]", "Generator"])
def test_D49_none_is_for_optional_types_only(type: str) -> None:
    assert one(f"{type}?", None) is None
    refuses(type, None, "'NoneType'")


def test_D125_script_arguments_are_checked_by_their_class() -> None:
    register_script_type("m.Thing", lambda value: isinstance(value, Symbol))
    thing = Symbol(int, 1)
    assert one("m.Thing", thing) is thing
    refuses("m.Thing", 3, "'m.Thing'")
    unregister_script_type("m.Thing")


def test_D23_unions_tuples_and_dicts_convert_their_parts() -> None:
    assert one("Union(int, str)", "a") == "a"
    assert one("(int, float)", [1, 2]) == (1, 2.0)
    assert one("Dict(str, float)", {"a": 1}) == {"a": 1.0}
    refuses("(int, float)", (1, 2, 3), "2 elements")


# --- normalised calls ------------------------------------------------------------------------


def normal(
    schema: str, args: Sequence[object], kwargs: Mapping[str, object] | None = None
) -> tuple[tuple[object, ...], dict[str, object]]:
    return normalise(parse_schema(schema), bound(schema, args, kwargs))


def test_D50_trailing_defaults_are_dropped_and_lists_are_lists() -> None:
    assert normal(SUM, (X, [0], False), {"dtype": None}) == ((X, [0]), {})
    assert normal(SUM, (X, 0)) == ((X, [0]), {})
    assert normal(SUM, (X, None)) == ((X, None), {})


def test_D50_keywords_become_positional() -> None:
    assert normal(ADD, (), {"self": X, "other": X, "alpha": 1}) == ((X, X), {})


def test_D50_what_is_not_the_default_stays() -> None:
    assert normal(SUM, (X, 0, True), {"dtype": float32}) == ((X, [0], True), {"dtype": float32})
    args, kwargs = normal(ADD, (X, X), {"alpha": 1.0})
    assert (args, kwargs) == ((X, X), {"alpha": 1.0})


def test_D50_a_default_before_a_kept_positional_stays() -> None:
    assert normal("m::f(int a=1, int b=2) -> ()", (), {"b": 3}) == ((1, 3), {})
    assert normal("m::f(int a=1, int[] b) -> ()", (), {"b": [1]}) == ((1, [1]), {})


def test_D50_list_defaults_are_recognised() -> None:
    schema = "m::f(Tensor x, int[2] s=1, *, int[] t=[]) -> ()"
    assert normal(schema, (X, [1, 1]), {"t": ()}) == ((X,), {})
    assert normal(schema, (X, [1, 2]), {"t": [4]}) == ((X, [1, 2]), {"t": [4]})


def test_D50_symbols_are_not_compared_with_defaults() -> None:
    symbol = Symbol(int, 1)
    args, _ = normal("m::f(SymInt n=1, SymInt[1] s=1) -> ()", (symbol, [symbol]))
    assert args[0] is symbol


# --- results ---------------------------------------------------------------------------------


def result(returns: str, value: object) -> object:
    return check_result(parse_schema(f"m::f(Tensor x) -> {returns}"), value)


@pytest.mark.parametrize(
    "returns, value, expected",
    [
        ("()", None, None),
        ("Tensor", X, X),
        ("Tensor", None, None),
        ("(Tensor, Tensor)", [X, X], (X, X)),
        ("(Tensor, Tensor)", (X, None), (X, None)),
        ("Tensor[]", (X, X), [X, X]),
        ("((Tensor))", (X,), (X,)),
        ("(Tensor, int[])", (X, (1, 2)), (X, [1, 2])),
        ("float", 1, 1.0),
        ("...", "anything", "anything"),
    ],
)
def test_D51_results_come_back_in_their_form(returns: str, value: object, expected: object) -> None:
    found = result(returns, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "returns, value, expected, found",
    [
        ("()", X, "None", "Stub"),
        ("Tensor", "s", "Tensor", "str"),
        ("Tensor", (X,), "Tensor", "tuple"),
        ("(Tensor, Tensor)", X, "tuple of 2", "Stub"),
        ("(Tensor, Tensor)", (X,), "2 values", "1 values"),
        ("(Tensor, Tensor)", (X, X, X), "2 values", "3 values"),
        ("(Tensor a, Tensor b)", (X, 1), "for 'b'", "int"),
        ("Tensor[]", X, "List[Tensor]", "Stub"),
        ("int", 1.5, "int", "float"),
    ],
)
def test_L27_results_that_do_not_fit_are_refused(
    returns: str, value: object, expected: str, found: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        result(returns, value)
    for part in ("m::f", expected, found):
        assert part in str(caught.value)
