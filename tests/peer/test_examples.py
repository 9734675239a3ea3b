"""The examples agree with PyTorch: values, gradients, training, FLOPs and planned peak.

PyTorch's answers are files that `reference.py` wrote (see `conftest.py`); the programs are those
of `models.py`, run here with maquette installed as torch.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypedDict

import numpy as np
import pytest
from models import (
    CASES,
    FLOP_GROUPS,
    Arrays,
    Case,
    build_model,
    load_arrays,
    make_inputs,
    traced_operators,
    train,
)

import maquette as mq
import maquette.torch

pytestmark = pytest.mark.peer

TOLERANCE = 1e-5  # float32; PyTorch itself is within 3e-6 of its own answers in float64
PEAK_TOLERANCE = 0.02


class Facts(TypedDict):
    """What `reference.py` writes as JSON."""

    parameters: int
    flops: dict[str, dict[str, int]]
    operators: dict[str, list[str]]
    bytes: dict[str, int]


@dataclass(frozen=True)
class Comparison:
    """One case: what PyTorch answered, and what maquette did."""

    case: Case
    arrays: Arrays
    facts: Facts
    ours: Arrays

    def expected(self, prefix: str) -> Arrays:
        """PyTorch's arrays whose name starts so, without the prefix."""
        return {k.removeprefix(prefix): a for k, a in self.arrays.items() if k.startswith(prefix)}

    def given(self, prefix: str) -> Arrays:
        """Ours, likewise."""
        return {k.removeprefix(prefix): a for k, a in self.ours.items() if k.startswith(prefix)}


def assert_close(given: np.ndarray, expected: np.ndarray, name: str, unit: float) -> None:
    """Same dtype and shape, and no element off by more than the tolerance.

    The tolerance is relative to the array's largest element, or to `unit` if that is larger.
    """
    assert (given.dtype, given.shape) == (expected.dtype, expected.shape), name
    allowed = TOLERANCE * max(unit, float(np.abs(expected).max()))
    error = float(np.abs(given - expected).max())
    assert error <= allowed, f"{name}: off by {error:.2e}, allowed {allowed:.2e}"


def assert_all_close(given: Arrays, expected: Arrays, unit: float) -> None:
    """The same names, and each pair close."""
    assert expected
    assert given.keys() == expected.keys()
    for name, array in expected.items():
        assert_close(given[name], array, name, unit)


@pytest.fixture(scope="module")
def torch() -> Iterator[ModuleType]:
    """maquette under torch's name, for as long as this file's tests run."""
    finders = list(sys.meta_path)
    maquette.torch.install()
    yield maquette.torch
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def compared(request: pytest.FixtureRequest, torch: ModuleType, peer_folder: Path) -> Comparison:
    """A case trained on both sides from the same weights."""
    case: Case = request.param
    with np.load(peer_folder / f"{case.name}.npz") as stored:
        arrays = dict(stored)
    facts = json.loads((peer_folder / f"{case.name}.json").read_text())
    model = build_model(case)
    weights = {k.removeprefix("weight/"): a for k, a in arrays.items() if k.startswith("weight/")}
    load_arrays(torch, model, weights)
    return Comparison(case, arrays, facts, train(torch, case, model))


def test_example_has_as_many_parameters(compared: Comparison) -> None:
    assert (
        sum(p.numel() for p in build_model(compared.case).parameters())
        == (compared.facts["parameters"])
    )


def test_example_outputs_agree(compared: Comparison) -> None:
    assert_close(compared.ours["logits"], compared.arrays["logits"], "logits", unit=0.1)


def test_example_losses_agree(compared: Comparison) -> None:
    assert_close(compared.ours["loss"], compared.arrays["loss"], "loss", unit=1)
    assert_close(compared.ours["losses"], compared.arrays["losses"], "losses", unit=1)


def test_example_gradients_agree(compared: Comparison) -> None:
    # The smallest that is not zero but for rounding is about 1e-3 at its largest.
    assert_all_close(compared.given("grad/"), compared.expected("grad/"), unit=1e-3)


def test_example_parameters_agree_after_three_steps(compared: Comparison) -> None:
    # A step moves a weight by 1e-3 whatever its gradient, so small gradients' rounding shows.
    assert_all_close(compared.given("after/"), compared.expected("after/"), unit=1)


def plan_training(compared: Comparison, torch: ModuleType) -> mq.plan.Plan:
    """The plan of the case's first training step, with AdamW."""
    args = tuple(torch.from_numpy(a) for a in make_inputs(compared.case))
    return mq.plan.plan(build_model(compared.case), args, train=True, optimizer="adamw")


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_example_flops_are_the_flop_counters(
    compared: Comparison, torch: ModuleType, phase: str
) -> None:
    counts = dict.fromkeys(FLOP_GROUPS, 0)
    for use in plan_training(compared, torch).operators:
        for group, names in FLOP_GROUPS.items():
            if use.phase == phase and use.name.split(".")[1] in names:
                counts[group] += use.flops
    assert counts == compared.facts["flops"][phase]


def test_example_planned_peak_is_the_storage_trackers(
    compared: Comparison, torch: ModuleType
) -> None:
    planned = plan_training(compared, torch).peak_bytes
    tracked = compared.facts["bytes"]["peak"]
    assert abs(planned - tracked) <= PEAK_TOLERANCE * tracked, (planned, tracked)


# PyTorch's autograd detaches the outputs that it saves, and shows it; ours does not.
UNSEEN = {"aten.detach.default"}
# Where PyTorch multiplies by a number as a number, in the derivative of a power.
SPELLINGS = {"aten.mul.Scalar": "aten.mul.Tensor"}


def counted(operators: list[str]) -> Counter[str]:
    """How often each operator occurs, but for what may differ."""
    return Counter(SPELLINGS.get(o, o) for o in operators if o not in UNSEEN)


@pytest.mark.parametrize("part", ["forward", "joint"])
def test_example_traces_to_the_same_operators(
    compared: Comparison, torch: ModuleType, part: str
) -> None:
    ours = traced_operators(torch, compared.case, build_model(compared.case))[part]
    theirs = compared.facts["operators"][part]
    assert counted(ours) == counted(theirs)
    if part == "forward":
        seen = [o for o in theirs if o not in UNSEEN]
        assert ours == seen
