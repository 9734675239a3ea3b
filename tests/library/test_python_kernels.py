"""Kernels in Python: the generated straight call against the plain, normalised one."""

import pytest

import maquette as mq
from maquette.dispatch.schemas.parser import parse_schema
from maquette.library.python_kernels import _normalised, _straight

X = mq.ones(2)


def same(x, a=3, *, b=2.5):
    return x, a, b


def required(x, a, *, b):
    return x, a, b


def lists(x, xs, ns=None, *, ys=None):
    return x, xs, ns, ys


@pytest.mark.parametrize(
    ("schema", "function", "params"),
    [
        ("(Tensor x, int a=3, *, float b=2.5) -> ...", same, (X, 3, 2.5)),
        ("(Tensor x, int a=3, *, float b=2.5) -> ...", same, (X, 4, 1.5)),
        ("(Tensor x, int a=3, *, float b=2.5) -> ...", required, (X, 3, 2.5)),
        (
            "(Tensor x, int[] xs, int[]? ns=None, *, Tensor[]? ys=None) -> ...",
            lists,
            (X, (1,), None, None),
        ),
        (
            "(Tensor x, int[] xs, int[]? ns=None, *, Tensor[]? ys=None) -> ...",
            lists,
            (X, (), (2,), (X,)),
        ),
    ],
)
def test_D50_a_straight_call_is_the_normalised_one(schema, function, params):
    parsed = parse_schema(f"a::f{schema}")
    straight = _straight(function, parsed, False, "")
    assert straight is not None
    assert straight(0, *params) == _normalised(function, parsed, False, "")(0, *params)


@pytest.mark.parametrize(
    "function",
    [lambda x, a=4: a, lambda x, a=3.0: a, lambda *args: args, lambda x, **kwargs: x, max],
)
def test_L28_a_call_is_not_straight_where_that_would_show(function):
    assert _straight(function, parse_schema("a::f(Tensor x, int a=3) -> ..."), False, "") is None


def test_L28_a_bound_method_is_called_straight():
    class Holder:
        def f(self, x, a):
            return a

    call = _straight(Holder().f, parse_schema("a::f(Tensor x, int a=3) -> int"), False, "")
    assert call(0, X, 5) == 5
