"""Loops and branches in plans: one body is counted as all its steps."""

import pytest

import maquette as mq
from maquette import nn
from maquette.higher_order import cond, map, scan, while_loop
from maquette.plan.recipe import Recipe
from maquette.plan.recorder import Recorder
from maquette.plan.step import run_step


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 8)

    def step(self, carry, x):
        state = (self.cell(carry) + x).tanh()
        return state, state.clone()

    def forward(self, x):
        return scan(self.step, mq.zeros(4, 8), x)[1].sum()


def real_run(model, x, *, train):
    recorder = Recorder()
    run_step(recorder, model, [x], {}, Recipe(train))
    return recorder


@pytest.mark.parametrize("train", [False, True])
def test_a_scan_is_planned_as_it_runs(train):
    x = mq.ones(20, 4, 8)
    planned = mq.plan.plan(Recurrent(), (x,), train=train)
    real = real_run(Recurrent(), x, train=train)
    assert planned.peak_bytes == real.peak_bytes
    forward = sum(o.flops for o in real.operations if o.phase == "forward")
    assert planned.flops_by_phase["forward"] == forward


@pytest.mark.parametrize("train", [False, True])
def test_a_scan_of_100_000_steps_needs_what_its_formula_says(train):
    steps, row = 100_000, 4 * 8 * 4
    planned = mq.plan.plan(Recurrent(), (mq.empty(steps, 4, 8),), train=train)
    fixed = (8 * 8 + 8) * 4 + 2 * row  # parameters, the first carry, the last one
    if train:  # inputs, carries that backward wants, outputs, the stacked outputs
        assert planned.peak_bytes == pytest.approx(4 * steps * row + fixed, abs=3 * row)
    else:
        assert planned.peak_bytes == 3 * steps * row + fixed
    assert len(planned.operators) < 200


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.small, self.large = nn.Linear(8, 8), nn.Linear(8, 64)

    def forward(self, x):
        pred = x.sum() > 0
        return cond(pred, lambda x: self.small(x).sum(), lambda x: self.large(x).sum(), (x,))


@pytest.mark.parametrize("train", [False, True])
def test_the_costlier_branch_is_counted_and_named(train):
    planned = mq.plan.plan(Chosen(), (mq.ones(4, 8),), train=train)
    assert planned.flops_by_phase["forward"] >= 2 * 4 * 8 * 64
    assert "cond: false_fn is counted, the costlier branch (true_fn: 544 FLOPs" in planned.notes[0]
    assert planned.to_dict()["notes"] == planned.notes


class Looped(nn.Module):
    def __init__(self, by_data):
        super().__init__()
        self.by_data = by_data

    def forward(self, x):
        def going_on(i, x):
            return x.sum() < 7 if self.by_data else i < 7

        return while_loop(going_on, lambda i, x: (i + 1, x @ x), (mq.tensor(0), x))[1]


def test_a_while_loop_counts_the_steps_that_numbers_decide():
    planned = mq.plan.plan(Looped(False), (mq.ones(8, 8),))
    assert {n: c for n, c, _ in planned.operator_counts()}["aten.mm.default"] == 7
    assert planned.flops > 7 * 2 * 8**3
    assert planned.notes == []


def test_a_while_loop_that_data_ends_is_one_step_and_says_so():
    planned = mq.plan.plan(Looped(True), (mq.ones(8, 8),))
    assert "depends on data; one step is counted" in planned.notes[0]


def test_a_map_counts_each_row():
    class Mapped(nn.Module):
        def forward(self, x):
            return map(lambda row: row @ row, x)

    planned = mq.plan.plan(Mapped(), (mq.ones(50, 4, 4),))
    assert planned.flops == 50 * 2 * 4**3
