"""A million calls with 100,000 distinct shapes: memory stays flat once the bound is reached.

    python tools/verify/memory.py [CALLS]

Runs fake, meta and eager calls of several operators, forward and backward, prints the resident
memory after each tenth, and fails if the last half grows by more than 3 %.
"""

import resource
import sys

import maquette as mq
from maquette.core import remembered

SHAPES = 100_000
PARTS = 10
PAGE = resource.getpagesize()


def resident_bytes() -> int:
    """The memory of this process that is in RAM now."""
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * PAGE


def calls(start: int, count: int) -> None:
    """``count`` calls, on shapes that come again after `SHAPES` of them."""
    for n in range(start, start + count, 5):
        size = (n % SHAPES) // 316 + 1, (n % SHAPES) % 316 + 1
        with mq.FakeTensorMode():
            x = mq.empty(size, requires_grad=True)
            (x.reshape(-1) * 2).sum().backward()
        mq.empty(size[::-1], device="meta").flatten()
        if n % 50 == 0:
            mq.ones(size[1]).add(mq.ones(size[1]))


def main(total: int) -> int:
    """Print the memory after each part; 1 where it grew after the first half."""
    seen: list[int] = []
    for part in range(PARTS):
        calls(part * total // PARTS, total // PARTS)
        seen.append(resident_bytes())
        print(f"{(part + 1) * total // PARTS:>9,} calls  {seen[-1] / 1e6:7.1f} MB")
    growth = seen[-1] / seen[PARTS // 2 - 1]
    print(f"bound {remembered.LIMIT:,}; evictions {remembered.evictions():,}; growth {growth:.3f}")
    return growth > 1.03


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
