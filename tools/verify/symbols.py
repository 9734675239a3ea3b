"""A million operators with symbols: flat time an operator, bounded memory.

    python tools/verify/symbols.py [CALLS]

One mode and one environment run a program whose sizes are symbols again and again: what was seen
before, slices at ever other places (whose sizes are other expressions, up to `PLACES` of them), and
results whose sizes only data tells. After each tenth the processor's time an operator and the
resident memory are printed. Fails if the last tenth takes 10 % longer than the second, which is the
first where all has been seen before, best of three, or if memory grows by more than 3 % in the last
half.
"""

from __future__ import annotations

import resource
import sys
import time

import maquette as mq
from maquette.symbolic import DimDynamic, ShapeEnv, StatelessSymbolicContext

PARTS = 10
PLACES = 1_000
OPERATORS = 10  # of one round
PAGE = resource.getpagesize()


def resident_bytes() -> int:
    """The memory of this process that is in RAM now."""
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * PAGE


def symbolic_inputs(mode: mq.FakeTensorMode) -> tuple[mq.Tensor, mq.Tensor, mq.Tensor]:
    """An activation and a weight of symbolic sizes, and a plain vector."""
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    x = mode.from_tensor(mq.ones(4096, 64), symbolic_context=dynamic)
    w = mode.from_tensor(mq.ones(64, 32), symbolic_context=dynamic)
    return x, w, mode.from_tensor(mq.ones(9), static_shapes=True)


def one_round(x: mq.Tensor, w: mq.Tensor, v: mq.Tensor, place: int) -> None:
    """Ten operators."""
    part = x[place:]
    y = (part @ w).relu()
    y.reshape(-1).view(y.shape).sum(1)
    mq.cat([x, x]).t()
    v.nonzero() + 1


def main(total: int) -> int:
    """Print time and memory after each part; 1 where either is not flat."""
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    x, w, v = symbolic_inputs(mode)
    rounds = total // PARTS // OPERATORS
    times: list[float] = []
    memory: list[int] = []
    for part in range(PARTS):
        blocks = []
        for block in range(3):
            start = time.process_time()
            for n in range(part * rounds + block, (part + 1) * rounds, 3):
                one_round(x, w, v, n % PLACES)
            blocks.append((time.process_time() - start) / (rounds / 3) / OPERATORS)
        times.append(min(blocks))
        memory.append(resident_bytes())
        done = (part + 1) * rounds * OPERATORS
        print(f"{done:>9,} operators  {times[-1] * 1e6:6.2f} us each  {memory[-1] / 1e6:7.1f} MB")
    slower, growth = times[-1] / times[1], memory[-1] / memory[PARTS // 2 - 1]
    print(f"last tenth against the second {slower:.3f}; growth in the last half {growth:.3f}")
    return slower > 1.10 or growth > 1.03


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
