"""`DimConstraints`: what sizes may be, as PyTorch 2.13 answers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import sympy

from maquette.symbolic.program.sources import ConstantSource
from maquette.torch.tracing import symbolic_shapes
from maquette.torch.utils._sympy.functions import FloorDiv, Mod

A, B = (sympy.Symbol(n, positive=True, integer=True) for n in ("s0", "s1"))


def solved(*conditions: Any) -> Any:
    made = symbolic_shapes.DimConstraints(
        {A: [ConstantSource("x")], B: [ConstantSource("y")]},
        {A: sympy.Integer(8), B: sympy.Integer(4)},
        {A, B},
        {"x": "dx", "y": "dy"},
    )
    for condition in conditions:
        made.add(condition)
    made.solve()
    return made


@pytest.mark.parametrize(
    ("conditions", "static", "dynamic"),
    [
        ([A >= 2, A <= 10], set(), {"2 <= x", "x <= 10"}),
        ([A > 3, sympy.Eq(Mod(A, 4), 0)], set(), {"3 < x", "x == (4*_dx)"}),
        ([sympy.Eq(A, 8)], {"x == 8"}, set()),
        ([sympy.Eq(FloorDiv(A, 2), 4)], {"x == 8"}, set()),
        ([sympy.Ne(A, 9), A <= 100], set(), {"x <= 100"}),
    ],
)
def test_conditions_on_one_size_are_solved(
    conditions: list[Any], static: set[str], dynamic: set[str]
) -> None:
    found = solved(*conditions)
    assert (found._static_results, found._dynamic_results) == (static, dynamic)


def test_what_should_stay_dynamic_and_does_not_is_told() -> None:
    found = solved(sympy.Eq(A, 8))
    forced = found.forced_specializations()
    told = found.prettify_results(inspect.signature(solved), {}, None, forced)
    assert forced == {"dx = x": 8}
    assert "Specializations unexpectedly required (dx)!" in told
    assert told.endswith("Suggested fixes:\n  dx = 8")


def test_other_bounds_are_suggested() -> None:
    told = solved(A <= 10).prettify_results(inspect.signature(solved), {}, None, {})
    assert "dx = Dim('dx', max=10)" in told


def test_hints_that_keep_no_condition_are_refused() -> None:
    with pytest.raises(ValueError, match="s0 < 4 is inconsistent"):
        solved(A < 4)
