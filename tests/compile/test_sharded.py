"""A training step over a mesh of 8 virtual devices equals one device's."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed; pip install jax"
)
PROGRAM = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import maquette as mq
from maquette import nn
from maquette.optim import AdamW

def trained(shape, axes, shardings):
    mq.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
    optimizer = AdamW(model.parameters(), lr=1e-2)
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    options = {}
    if shape:
        mesh = Mesh(np.array(jax.devices()).reshape(shape), axes)
        options = {"mesh": mesh, "shardings": shardings}
    compiled = mq.compile(step, backend="jax", **options)
    x, y = mq.linspace(-1, 1, 64 * 16).reshape(64, 16), mq.ones(64, 8)
    losses = [compiled(x, y).item() for _ in range(3)]
    text = compiled.lowered(x, y).compile().as_text()
    return losses, [p.detach().numpy() for p in model.parameters()], text

BATCH = {"[0]": P("data"), "[1]": P("data")}
SPLIT = {"0.weight": P("model"), "0.bias": P("model"), "2.weight": P(None, "model")}
one, weights, _ = trained(None, None, None)
for shape, axes, shardings in (
    ((8,), ("data",), BATCH),
    ((8,), ("model",), SPLIT),
    ((4, 2), ("data", "model"), BATCH | SPLIT),
):
    losses, others, text = trained(shape, axes, shardings)
    assert np.allclose(one, losses, atol=1e-5), (one, losses)
    for a, b in zip(weights, others):
        assert np.allclose(a, b, atol=1e-5)
    print(axes, "all-reduce" in text)
"""


@needs_jax
def test_data_tensor_and_both_equal_one_device():
    source = Path(__file__).parents[2] / "src"
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(source)},
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [
        "('data',) True",
        "('model',) True",
        "('data', 'model') True",
    ]


@needs_jax
def test_shardings_need_a_mesh():
    import maquette as mq

    with pytest.raises(ValueError, match="shardings need a mesh"):
        mq.compile(lambda x: x, backend="jax", shardings={"[0]": None})
