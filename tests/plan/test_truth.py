"""The truth of a plan: its peak is, to the byte, what the same program holds in a real run.

Both run `run_step`; the plan on fakes, the other on NumPy. They differ in nothing but data, so they
must not differ in a byte: this is what holds fake execution, storages' lives and the cache to
account.
"""

from __future__ import annotations

import numpy as np
import pytest
from models import CASES, Case, build_model, make_inputs

import maquette as mq
import maquette.torch as torch
from maquette.plan.plan import plan
from maquette.plan.recipe import Recipe, optimizer_factory
from maquette.plan.recorder import Recorder
from maquette.plan.step import run_step


@pytest.fixture(autouse=True, scope="module")
def torch_is_maquette():
    torch.install()
    yield
    torch.uninstall()


def real_step(case: Case, *, train: bool, optimizer: str | None) -> Recorder:
    torch.manual_seed(0)
    recorder = Recorder()
    inputs = [torch.from_numpy(a) for a in make_inputs(case)]
    model = build_model(case)
    model.train(train)
    run_step(recorder, model, inputs, {}, Recipe(train, optimizer_factory(optimizer)))
    return recorder


def planned_step(case: Case, *, train: bool, optimizer: str | None) -> mq.plan.Plan:
    inputs = [torch.from_numpy(a) for a in make_inputs(case)]
    return plan(build_model(case), inputs, train=train, optimizer=optimizer)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd-momentum", None])
def test_FX7_planned_peak_of_training_is_the_real_peak(case: Case, optimizer: str | None) -> None:
    real = real_step(case, train=True, optimizer=optimizer)
    assert planned_step(case, train=True, optimizer=optimizer).peak_bytes == real.peak_bytes


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_FX7_planned_peak_of_inference_is_the_real_peak(case: Case) -> None:
    real = real_step(case, train=False, optimizer=None)
    assert planned_step(case, train=False, optimizer=None).peak_bytes == real.peak_bytes


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_FX7_bytes_in_use_are_equal_at_every_operation(case: Case) -> None:
    real = real_step(case, train=True, optimizer="adamw")
    made = planned_step(case, train=True, optimizer="adamw")
    assert [o.name for o in made.operators] == [o.name for o in real.operations]
    assert made.timeline == real.in_use


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_plan_finds_the_parameters(case: Case) -> None:
    model = build_model(case)
    expected = sum(p.numel() for p in model.parameters())
    assert planned_step(case, train=False, optimizer=None).parameters == expected


def test_plan_leaves_the_model_as_it_was() -> None:
    case = CASES[0]
    model = build_model(case)
    before = {n: (id(p), p.detach().numpy().copy()) for n, p in model.named_parameters()}
    plan(model, [torch.from_numpy(a) for a in make_inputs(case)], train=True, optimizer="adamw")
    for name, p in model.named_parameters():
        assert id(p) == before[name][0]
        assert p.grad is None
        np.testing.assert_array_equal(p.detach().numpy(), before[name][1])
