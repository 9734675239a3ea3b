"""The tool that compares torch's surface with PyTorch's tells what differs, and only that."""

from __future__ import annotations

import enum
import inspect
from typing import Any

import pytest

from public_surface import described, differences, surface, value_text


def function(a: int, *, b: float = 1.0) -> None:
    """One side."""


def with_other_default(a: int, *, b: float = 2.0) -> None:
    """The other."""


def with_other_names(first: int, *, b: float = 1.0) -> None:
    """Another."""


def with_more(a: int, *, b: float = 1.0, c: float = 1.0) -> None:
    """One more, by keyword and with a default."""


def stand_in(*args: Any, **kwargs: Any) -> None:
    """Not there yet: raises NotImplementedError."""


def side(**values: Any) -> dict[str, Any]:
    names = {name: described(value) | {"home": "m"} for name, value in values.items()}
    return {"m": {"told": [*names], "listed": [*names], "names": names}}


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        (function, []),
        (with_other_default, ["default"]),
        (with_other_names, ["parameters"]),
        (with_more, ["more"]),
        (stand_in, ["refused"]),
    ],
)
def test_parameters_are_compared(other: Any, kinds: list[str]) -> None:
    found = differences(side(f=function), side(f=other))
    assert [kind for kind, _, _ in found] == kinds


def test_names_that_are_not_there_or_not_told_are_found() -> None:
    ours = side(g=function)
    ours["m"]["told"] = []
    found = list(differences(side(f=function, g=function), ours))
    assert found == [("absent", "m.f", ""), ("untold", "m.g", "")]
    assert [d[0] for d in differences(side(f=function), {"m": {"error": "none"}})] == ["module"]


def test_a_signature_that_says_nothing_is_not_to_be_had_here() -> None:
    assert list(differences(side(f=lambda *args, **kwargs: None), side(f=function))) == []


def test_members_are_compared_where_they_are_defined() -> None:
    class Base:
        def inherited(self, x: int) -> None: ...

    class Derived(Base):
        def own(self, x: int) -> None: ...

    class Other:
        def inherited(self) -> None: ...

    found = list(differences(side(N=Derived), side(N=Other)))
    assert ("member", "m.N.own", "") in found
    assert not any(name.startswith("m.N.inherited") for _, name, _ in found)


def test_bases_are_compared_by_name() -> None:
    facts = {"parameters": None, "members": {}, "home": "m", "refused": False, "own": []}
    theirs = {"m": {"told": [], "listed": [], "names": {"N": {**facts, "bases": ["N", "Base"]}}}}
    ours = {"m": {"told": [], "listed": [], "names": {"N": {**facts, "bases": ["N"]}}}}
    assert list(differences(theirs, ours)) == [("base", "m.N", "Base")]


def test_a_module_is_described_by_what_it_tells() -> None:
    found = surface({"inspect": ["no_such_name"]})["inspect"]
    assert "signature" in found["told"]
    assert found["names"]["signature"]["parameters"][0][0] == "obj"
    assert inspect.__name__ not in found["names"]


def test_values_are_told_alike_on_both_sides() -> None:
    color = enum.Enum("color", "red")
    assert value_text(color.red) == "color.red"
    assert value_text((1, "a", None)) == "(1, 'a', None)"
    assert value_text(function) == "function"
