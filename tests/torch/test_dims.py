"""`torch.export.Dim`: declared sizes, derived ones, and what a program's guards make of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import maquette as mq
from maquette.symbolic import ConstraintViolationError
from maquette.torch import export
from maquette.torch.export import Dim, dims
from maquette.torch.tracing.dims import Declared, declare

B = Dim("B", min=2, max=16)
S = Dim("S")


@pytest.mark.parametrize(
    ("dim", "shown", "bounds"),
    [
        (B, "Dim('B', max=16)", (2, 16)),
        (S, "Dim('S', min=0)", (0, float("inf"))),
        (2 * B + 1, "2*B + 1", (5, 33)),
        (B - 1, "B - 1", (1, 15)),
        (3 * (B + 2), "3*B + 6", (12, 54)),
    ],
)
def test_a_dim_and_what_is_derived_from_it(dim: Dim, shown: str, bounds: tuple) -> None:
    assert (repr(dim), dim.min, dim.max) == (shown, *bounds)


def test_a_derived_dim_knows_its_root_and_function() -> None:
    assert (2 * B + 1).root is B
    assert (2 * B + 1).fn(3) == 7


def test_dims_copies_and_hints() -> None:
    assert repr(dims("a", "b", min=2, max=4)) == "(Dim('a', max=4), Dim('b', max=4))"
    assert repr(copy.copy(B)) == repr(pickle.loads(pickle.dumps(B))) == repr(B)
    assert repr(Dim.AUTO(min=2, max=5)) == "DimHint(AUTO, min=2, max=5)"
    assert export.dynamic_shapes.Dim is Dim


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: 1 - B, NotImplementedError, "Attempted to negate B"),
        (lambda: B * -1, NotImplementedError, "multiply -1 with B, where a positive integer"),
        (lambda: B + S, NotImplementedError, "Attempted to add .* to B, where an integer"),
        (lambda: B / 2, TypeError, "unsupported operand"),
        (lambda: Dim("x y"), AssertionError, "must be a valid identifier, got x y"),
        (lambda: Dim("x", min=5, max=3), AssertionError, "inconsistent min=5, max=3"),
    ],
)
def test_what_is_no_increasing_linear_function_is_refused(make, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_exporting_itself_is_refused_with_advice() -> None:
    with pytest.raises(NotImplementedError, match=r"torch\.export\.export .*make_fx"):
        export.export(lambda x: x, ())


# --- a program's guards ---------------------------------------------------------------------------


def run(f: Callable[..., object], shapes: dict, rows: int = 4, others: int = 4) -> Declared:
    given = declare({"x": mq.ones(rows, 6), "y": mq.ones(others, 6)}, shapes)
    with given.fakes["x"].fake_mode:
        f(*given.fakes.values())
    return given


def added(x: mq.Tensor, y: mq.Tensor) -> mq.Tensor:
    return x + y


@pytest.mark.parametrize(
    ("f", "x", "y", "others"),
    [
        (added, B, B, 4),
        (added, Dim.AUTO, Dim.AUTO, 4),
        (added, Dim.DYNAMIC, Dim.DYNAMIC, 4),
        (added, Dim.STATIC, Dim.AUTO, 4),
        (lambda x, y: mq.cat([x, x]) + y, B, 2 * B, 8),
    ],
)
def test_promises_that_hold(f, x, y, others: int) -> None:
    run(f, {"x": {0: x}, "y": {0: y}}, others=others).check()


def test_sizes_of_one_dim_are_one_symbol() -> None:
    given = run(lambda x, y: mq.cat([x, x]) + y, {"x": {0: B}, "y": {0: 2 * B}}, others=8)
    given.check()
    assert str(given.fakes["y"].shape[0]) == f"2*{given.fakes['x'].shape[0]}"


@pytest.mark.parametrize(
    ("f", "x", "y", "lines"),
    [
        (added, B, None, ["(B)!", "marked B = L['x'].size()[0] as dynamic", "constant (4)",
                          "  B = 4"]),
        (added, B, S, ["(B, S)!", "S = L['y'].size()[0] and B = L['x'].size()[0] must always be "
                       "equal", "  S = B"]),
        (lambda x, y: x.shape[0] > 3 and x, B, None,
         ["range 2 <= B <= 16 satisfy the generated guard 4 <= L['x'].size()[0]",
          "It was made at (", "  B = Dim('B', min=4, max=16)"]),
        (lambda x, y: x.shape[0] % 2 == 0 and x, B, None,
         ["the generated guard (L['x'].size()[0] % 2) == 0", "  _B = Dim('_B', min=1, max=8)",
          "  B = 2*_B"]),
    ],
)  # fmt: skip
def test_a_broken_promise_names_the_dim_and_one_that_would_hold(f, x, y, lines) -> None:
    given = run(f, {"x": {0: x}, "y": {0: y}})
    with pytest.raises(ConstraintViolationError) as caught:
        given.check()
    assert [line for line in lines if line not in str(caught.value)] == []


def test_the_definition_that_is_suggested_holds() -> None:
    f = lambda x, y: x.shape[0] > 3 and x  # noqa: E731
    run(f, {"x": {0: Dim("B", min=4, max=16)}}).check()


@pytest.mark.parametrize(
    ("shapes", "kind", "words"),
    [
        ({"z": {0: B}}, RuntimeError, "top-level keys must be the arg names"),
        ({"x": (B,)}, RuntimeError, "expected 2, but got 1 instead"),
        ({"x": {7: B}}, RuntimeError, "dimension 7 .*out of range"),
        ({"x": {0: "b"}}, RuntimeError, "Unexpected dimension mapped to index 0"),
        ({"x": {0: 5}}, ConstraintViolationError, "constraint of 5 does not match input size of 4"),
        ({"x": {0: Dim("B", max=3)}}, ConstraintViolationError, "4 not in range"),
        ({"x": {0: B}, "y": {0: Dim("B")}}, RuntimeError, "Found different definitions"),
        ({"x": {0: 2 * B}}, RuntimeError, "which no size is declared to be"),
    ],
)
def test_specifications_that_do_not_fit_are_refused(shapes, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        run(added, shapes)


def test_a_derived_size_that_does_not_fit_its_root() -> None:
    given = run(lambda x, y: x, {"x": {0: B}, "y": {0: 2 * B}}, others=9)
    with pytest.raises(ConstraintViolationError, match=r"9 is not equal to what .* gives, 8"):
        given.check()
