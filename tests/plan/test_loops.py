"""Loops and branches in plans: one body is counted as all its steps."""

import pytest

import maquette as mq
from maquette import nn
from maquette.higher_order import associative_scan, cond, map, scan, while_loop
from maquette.plan.recipe import Recipe
from maquette.plan.recorder import Recorder
from maquette.plan.step import run_step
from maquette.torch.utils.checkpoint import checkpoint


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


class Program(nn.Module):
    """A loop over x [steps, 4, 8], with two layers to use."""

    def __init__(self, body):
        super().__init__()
        self.body = body
        self.cell, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.body(self, x)


def tanh_step(m):
    def step(carry, row):
        state = (m.cell(carry) + row).tanh()
        return state, state * 2

    return step


def outputs_alone(m, x):
    return scan(tanh_step(m), mq.zeros(4, 8), x)[1].sum()


def rows_with_gradients(m, x):
    return scan(tanh_step(m), mq.zeros(4, 8), m.other(x))[1].sum()


def last_carry_alone(m, x):
    return scan(tanh_step(m), mq.zeros(4, 8), x)[0].sum()


def two_carries(m, x):
    def step(carry, row):
        state = (m.cell(carry[0]) + m.other(row)).tanh()
        return (state, carry[1] + state), state.relu()

    (a, b), y = scan(step, (mq.zeros(4, 8), mq.zeros(4, 8)), x)
    return a.sum() + b.sum() + y.mean()


def reversed_with_a_captured_product(m, x):
    weight = m.cell.weight @ m.other.weight

    def step(carry, row):
        state = (carry @ weight + row).tanh()
        return state, state.clone()

    return scan(step, mq.zeros(4, 8), x, reverse=True)[1].sum()


def scan_in_a_scan(m, x):
    def step(carry, row):
        carry, y = scan(tanh_step(m), carry, m.other(row.unsqueeze(1)))
        return carry, y.sum(0)

    return scan(step, mq.zeros(1, 8), x)[1].sum()


def checkpointed_step(m, x):
    def step(carry, row):
        state = checkpoint(lambda c, r: m.cell(c * r).tanh(), carry, row, use_reentrant=False)
        return state, state * 1

    return scan(step, mq.ones(4, 8), x)[1].sum()


def checkpoint_around(m, x, *, reentrant=False):
    run = lambda x: scan(tanh_step(m), mq.zeros(4, 8), x)[1]  # noqa: E731
    return checkpoint(run, m.other(x), use_reentrant=reentrant).sum()


def reentrant_checkpoint_around(m, x):
    return checkpoint_around(m, x, reentrant=True)


def mapped(m, x):
    return map(lambda row: m.cell(row).tanh(), m.other(x)).sum()


def looped(m, x):
    steps, body = x.shape[0], lambda i, c: (i + 1, m.cell(c).tanh())
    return while_loop(lambda i, c: i < steps, body, (mq.tensor(0), x[0]))[1].sum()


def associative(m, x):
    combine = lambda a, b: a * b + b  # noqa: E731
    return associative_scan(combine, m.other(x), 0, combine_mode="generic").sum()


BODIES = [
    outputs_alone,
    rows_with_gradients,
    last_carry_alone,
    two_carries,
    reversed_with_a_captured_product,
    scan_in_a_scan,
    checkpointed_step,
    checkpoint_around,
    reentrant_checkpoint_around,
    mapped,
    looped,
    associative,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 9])
def test_a_loop_is_planned_as_it_runs(body, train, steps):
    x = mq.ones(steps, 4, 8)
    planned = mq.plan.plan(Program(body), (x,), train=train)
    real = real_run(Program(body), x, train=train)
    flops = dict.fromkeys(planned.flops_by_phase, 0)
    for operation in real.operations:
        flops[operation.phase] += operation.flops
    assert planned.peak_bytes == real.peak_bytes
    assert planned.flops_by_phase == flops


@pytest.mark.parametrize("train", [False, True])
def test_a_scan_of_100_000_steps_needs_what_its_formula_says(train):
    steps, row = 100_000, 4 * 8 * 4
    planned = mq.plan.plan(Recurrent(), (mq.empty(steps, 4, 8),), train=train)
    fixed = (8 * 8 + 8) * 4 + row  # parameters, the first carry
    if train:  # inputs, carries that backward wants, outputs, the stacked outputs
        assert planned.peak_bytes == 4 * steps * row + fixed
    else:  # and the last carry
        assert planned.peak_bytes == 3 * steps * row + fixed + row
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
