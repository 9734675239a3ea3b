"""Whole training steps of the examples, compiled, agree with PyTorch to 1e-4 after three steps."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from models import (
    CASES,
    STEPS,
    Case,
    build_model,
    load_arrays,
    make_inputs,
    make_optimizer,
    state_arrays,
)

import maquette as mq
import maquette.torch

pytestmark = pytest.mark.peer
TOLERANCE = 1e-4
ENGINES = [
    "numpy",
    pytest.param(
        "jax",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("jax") is None, reason="JAX is not installed; pip install jax"
        ),
    ),
]


@pytest.fixture(scope="module")
def torch() -> Iterator[ModuleType]:
    """maquette under torch's name, for as long as this file's tests run."""
    finders = list(sys.meta_path)
    maquette.torch.install()
    yield maquette.torch
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_three_compiled_steps_agree_with_pytorchs(
    engine: str, case: Case, torch: ModuleType, peer_folder: Path
) -> None:
    with np.load(peer_folder / f"{case.name}.npz") as stored:
        arrays = dict(stored)
    model = build_model(case)
    weights = {k.removeprefix("weight/"): a for k, a in arrays.items() if k.startswith("weight/")}
    load_arrays(torch, model, weights)
    optimizer = make_optimizer(torch, case, model)

    def step(inputs: mq.Tensor, targets: mq.Tensor) -> mq.Tensor:
        optimizer.zero_grad()
        loss = model(inputs, targets).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = mq.compile(step, backend=engine)
    given = [mq.from_numpy(a) for a in make_inputs(case)]
    losses = []
    for _ in range(STEPS):
        losses.append(compiled(*given).item())
    # A second program only where the first step makes state, as SGD's momentum.
    assert compiled.traces == (2 if case.optimizer == "SGD" else 1)
    assert np.allclose(losses, arrays["losses"], atol=TOLERANCE)
    for name, array in state_arrays(model).items():
        assert np.allclose(array, arrays[f"after/{name}"], atol=TOLERANCE), name
