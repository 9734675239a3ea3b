"""Whole training steps of the examples, compiled, agree with PyTorch to 1e-4.

Outputs and gradients of the first step, losses of three and what they leave: on NumPy and on XLA.
"""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from models import (
    CASES,
    STEPS,
    Arrays,
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
TRAINED = [*CASES, *[replace(c, optimizer="AdamW") for c in CASES if c.optimizer != "AdamW"]]
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
@pytest.mark.parametrize("case", TRAINED, ids=lambda case: f"{case.name}-{case.optimizer}")
def test_three_compiled_steps_agree_with_pytorchs(
    engine: str, case: Case, torch: ModuleType, peer_folder: Path
) -> None:
    with np.load(peer_folder / f"{case.name}.npz") as stored:
        arrays = dict(stored)
    prefix = f"{case.optimizer}/" if f"{case.optimizer}/losses" in arrays else ""
    expected = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
    model = build_model(case)
    weights = {k.removeprefix("weight/"): a for k, a in arrays.items() if k.startswith("weight/")}
    load_arrays(torch, model, weights)
    optimizer = make_optimizer(torch, case, model)

    def step(inputs: mq.Tensor, targets: mq.Tensor) -> tuple[mq.Tensor, mq.Tensor]:
        optimizer.zero_grad()
        output = model(inputs, targets)
        output.loss.backward()
        optimizer.step()
        return output.loss.detach(), output.logits.detach()

    compiled = mq.compile(step, backend=engine)
    given = [mq.from_numpy(a) for a in make_inputs(case)]
    losses: list[float] = []
    found: Arrays = {}
    for _ in range(STEPS):
        loss, logits = compiled(*given)
        if not losses:
            found = {f"grad/{n}": p.grad.numpy().copy() for n, p in model.named_parameters()}
            found["logits"] = logits.numpy().copy()
        losses.append(loss.item())
    found |= {f"after/{name}": a for name, a in state_arrays(model).items()}
    found["losses"] = np.array(losses)
    # A second program only where the first step makes state, as SGD's momentum.
    assert compiled.traces == (2 if case.optimizer == "SGD" else 1)
    for name, array in found.items():
        assert np.allclose(array, expected[name], rtol=TOLERANCE, atol=TOLERANCE), name
