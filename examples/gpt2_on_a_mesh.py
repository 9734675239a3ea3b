"""GPT-2's training step over a mesh of 8 devices: split by data, by tensors, and by both.

The devices are virtual ones that XLA makes of the CPU. Prints each way's losses beside those of one
device, and the collectives that XLA put into the program. Needs JAX: pip install 'maquette[jax]'.

    python examples/gpt2_on_a_mesh.py
"""

import importlib
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"  # before JAX is imported

import numpy as np

import maquette as mq
import maquette.torch

maquette.torch.install()
sys.path.insert(0, str(Path(__file__).parent))
gpt2 = importlib.import_module("gpt2")
jax = importlib.import_module("jax")
sharding = importlib.import_module("jax.sharding")
P = sharding.PartitionSpec

NAMES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
BATCH = {"[0]": P("data"), "[1]": P("data")}
# A layer that widens is split by its rows, the one after it by its columns: one sum a pair.
ROWS, COLUMNS = P("model"), P(None, "model")
TENSORS = {
    f"blocks.{i}.{name}": spec
    for i in range(gpt2.GPT2Config.tiny().layers)
    for half, wide in (("attention", "qkv"), ("mlp", "up"))
    for name, spec in (
        (f"{half}.{wide}.weight", ROWS),
        (f"{half}.{wide}.bias", ROWS),
        (f"{half}.out.weight", COLUMNS),
    )
}


def trained(shape: Any = None, axes: Any = (), shardings: Any = None) -> tuple[list[float], str]:
    """The losses of three steps, and the collectives of the compiled program."""
    mq.manual_seed(0)
    model = gpt2.GPT2(gpt2.GPT2Config.tiny())
    optimizer = mq.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens: mq.Tensor, targets: mq.Tensor) -> mq.Tensor:
        optimizer.zero_grad()
        loss = model(tokens, targets).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    options = {}
    if shape is not None:
        mesh = sharding.Mesh(np.array(jax.devices()).reshape(shape), axes)
        options = {"mesh": mesh, "shardings": shardings}
    compiled = mq.compile(step, backend="jax", **options)
    rng = np.random.default_rng(0)
    tokens, targets = [mq.from_numpy(rng.integers(101, size=(8, 16))) for _ in range(2)]
    losses = [compiled(tokens, targets).item() for _ in range(3)]
    text = compiled.lowered(tokens, targets).compile().as_text()
    found = Counter(re.findall(rf" ({NAMES})(?:-start)?\(", text))
    return losses, ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


def main() -> None:
    """Train in the four ways; raise where a mesh's losses are not one device's."""
    one, _ = trained()
    print("one device:", *[f"{loss:.6f}" for loss in one])
    for name, shape, axes, shardings in (
        ("data", (8,), ("data",), BATCH),
        ("tensors", (8,), ("model",), TENSORS),
        ("both", (4, 2), ("data", "model"), BATCH | TENSORS),
    ):
        losses, collectives = trained(shape, axes, shardings)
        print(f"{name}:", *[f"{loss:.6f}" for loss in losses], f"({collectives})")
        if not np.allclose(losses, one, atol=1e-5):
            raise SystemExit(f"{name}: the losses differ from those of one device")


if __name__ == "__main__":
    main()
