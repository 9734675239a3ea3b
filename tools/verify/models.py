"""Planning a hundred models in one process: memory returns to its start.

    python tools/verify/models.py [MODELS]

Each model has sizes of its own and is planned for a training step; every fourth is made in a mode
with an environment. Prints the resident memory after each tenth: as it is, which grows until the
bound on remembered answers is reached, and with those forgotten. Fails if anything of a model
outlives its plan, or if memory grows by more than 2 % from the first tenth, when all code has run
and been loaded, to the last.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from typing import Any

import maquette as mq
from maquette import nn
from maquette.fake import track_fakes
from maquette.plan import plan
from maquette.symbolic import ShapeEnv

PAGE = resource.getpagesize()


def resident_bytes() -> int:
    """The memory of this process that is in RAM now, after freed memory went back."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except OSError:
        pass  # another C library keeps what it keeps
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * PAGE


def model(n: int) -> nn.Module:
    """A small transformer or a small convolutional network, of no model's size before."""
    width = 8 * (n % 40 + 4)
    if n % 2:
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        return nn.TransformerEncoder(layer, n % 5 + 1, enable_nested_tensor=False)
    blocks = [
        m for _ in range(n % 5 + 1) for m in (nn.Conv2d(width, width, 3), nn.BatchNorm2d(width))
    ]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 7))
    return nn.Sequential(nn.Conv2d(3, width, 3), *blocks, *head)


def planned(n: int) -> int:
    """The peak of a training step of model ``n``."""
    with mq.FakeTensorMode(shape_env=ShapeEnv() if n % 4 == 0 else None):
        made = model(n)
        x = mq.empty(2, 6 + n % 7, 8 * (n % 40 + 4)) if n % 2 else mq.empty(2, 3, 24, 24)
    return plan(made, (x,), train=True, loss=_loss, optimizer="adamw").peak_bytes


def _loss(y: Any) -> Any:
    return y.sum()


def main(total: int) -> int:
    """Print memory after each part; 1 where it does not return."""
    memory: list[int] = []
    for part in range(10):
        with track_fakes() as fakes:
            peaks = [planned(n) for n in range(part * total // 10, (part + 1) * total // 10)]
        gc.collect()
        left = len(fakes)
        full = resident_bytes()
        mq.FakeTensorMode.cache_clear()
        memory.append(resident_bytes())
        done = (part + 1) * total // 10
        both = f"{full / 1e6:7.1f} MB, without answers {memory[-1] / 1e6:7.1f} MB"
        print(f"{done:>5} models  {both}  {left} fakes left")
        assert all(peaks)
        if left:
            return 1
    growth = memory[-1] / memory[0]
    print(f"memory after all models against after the first tenth: {growth:.3f}")
    return growth > 1.02


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
