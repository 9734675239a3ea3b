"""The example models at tiny sizes: forward and three AdamW steps on XLA equal NumPy's to 1e-5."""

import importlib.util
from dataclasses import replace

import models
import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed; pip install jax"
)


@pytest.fixture(autouse=True)
def torch_is_maquette():
    was = torch.face.installing.is_installed()
    torch.install()
    yield
    if not was:
        torch.uninstall()


def pair(case):
    mq.manual_seed(0)
    one, other = models.build_model(case), models.build_model(case)
    other.load_state_dict(one.state_dict())
    return one, other, [mq.from_numpy(a) for a in models.make_inputs(case)]


def stepper(case, model):
    # eps: the gradient of a weight before a batch norm is small, and rounding is not to be divided
    # by its own size.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3, weight_decay=0.1)

    def step(*inputs):
        optimizer.zero_grad()
        loss = model(*inputs).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("case", models.CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("numpy", marks=pytest.mark.verify),
        pytest.param("jax", marks=[needs_jax, pytest.mark.verify]),
    ],
)
def test_forward_and_three_steps_equal_eager_ones(engine, case):
    plain, model, inputs = pair(replace(case, optimizer="AdamW"))
    step = stepper(case, plain)
    compiled = mq.compile(stepper(case, model), backend=engine)
    for _ in range(3):
        assert compiled(*inputs).item() == pytest.approx(step(*inputs).item(), abs=1e-5)
    for a, b in zip(plain.state_dict().values(), model.state_dict().values()):
        assert np.allclose(a.numpy(), b.numpy(), atol=1e-5)
    for a, b in zip(plain.parameters(), model.parameters()):
        assert np.allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-5)
    with torch.no_grad():
        forward = mq.compile(lambda *given: model(*given).loss, backend=engine)
        assert forward(*inputs).item() == pytest.approx(model(*inputs).loss.item(), abs=1e-5)
