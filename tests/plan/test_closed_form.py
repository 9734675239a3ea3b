"""Peak and FLOPs as formulas: equal to plans at sizes that were not asked, and solved for a fit."""

from __future__ import annotations

import random

import pytest

import maquette as mq
from maquette import nn
from maquette.plan.closed_form import ClosedForm, NotPolynomialError, closed_form
from maquette.plan.plan import Plan, plan


class Net(nn.Module):
    """Attention over a sequence: linear in B, quadratic in S; a wide step for the optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(100, 16)
        self.out = nn.Linear(16, 400)

    def forward(self, tokens: mq.Tensor) -> mq.Tensor:
        x = self.tokens(tokens)
        weights = (x @ x.transpose(1, 2)).softmax(-1)
        return self.out(weights @ x).sum()


def planned(sizes: dict[str, int]) -> Plan:
    tokens = mq.zeros(sizes["B"], sizes["S"], dtype=mq.int64)
    return plan(Net(), (tokens,), train=True, optimizer="adam")


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    return closed_form(planned, {"B": 2, "S": 4})


def test_FX9_formulas_equal_plans_at_random_sizes(form: ClosedForm) -> None:
    draw = random.Random(0)
    for _ in range(8):
        sizes = {"B": 2 * draw.randint(1, 30), "S": 4 * draw.randint(1, 40)}
        made = planned(sizes)
        assert (form.peak_bytes(**sizes), form.flops(**sizes)) == (made.peak_bytes, made.flops)


def test_FX9_the_largest_that_fits_is_solved_and_proved_by_plans(form: ClosedForm) -> None:
    budget = 3_000_000
    batch = form.largest("B", budget, S=64)
    assert planned({"B": batch, "S": 64}).peak_bytes <= budget
    assert planned({"B": batch + 1, "S": 64}).peak_bytes > budget


def test_FX9_what_binds_is_named(form: ClosedForm) -> None:
    assert form.binding(B=64, S=128).operator.startswith("aten.")
    assert len(form.regions) >= 2  # the optimizer's step where batches are small


def test_formulas_read_as_people_write_them(form: ClosedForm) -> None:
    assert "·B·S^2 + " in str(form.flops)


def test_a_program_that_runs_other_operators_has_no_formula() -> None:
    class Other(nn.Module):
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return x.exp() if x.shape[0] > 4 else x.exp().neg()

    def at(sizes: dict[str, int]) -> Plan:
        return plan(Other(), (mq.empty(sizes["B"], 3),))

    with pytest.raises(NotPolynomialError, match="at B=6 the program runs other operators"):
        closed_form(at, {"B": 2})


def test_bytes_that_are_no_polynomial_are_refused() -> None:
    class Logarithmic(nn.Module):
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return x.new_empty(2 ** x.shape[0]).exp()

    def at(sizes: dict[str, int]) -> Plan:
        return plan(Logarithmic(), (mq.empty(sizes["B"]),))

    with pytest.raises(NotPolynomialError, match="it is no polynomial of B"):
        closed_form(at, {"B": 2})
