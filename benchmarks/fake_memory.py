"""Resident bytes of a live fake tensor: maquette's beside PyTorch's.

    PYTHONPATH=src python benchmarks/fake_memory.py     # by a Python that has torch

Each kind of fake is made many times in a process of its own, and kept; a figure is what the memory
of the process grew by, divided by their number. Without torch maquette's alone are printed.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

COUNT = 20_000
PAGE = resource.getpagesize()


def resident_bytes() -> int:
    """The memory of this process that is in RAM now."""
    gc.collect()
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * PAGE


def kinds(torch: Any, mode: Any) -> dict[str, Callable[[], Any]]:
    """How to make one fake of each kind."""
    x = mode.from_tensor(torch.ones(16, 16))
    w = mode.from_tensor(torch.ones(16, 16, requires_grad=True))
    return {
        "a result": lambda: x + x,
        "a view": lambda: x.view(256),
        "a result with history": lambda: x @ w,
        "converted from a tensor": lambda: mode.from_tensor(torch.empty(16, 16, device="meta")),
    }


def measured(side: str, kind: str) -> float:
    """Bytes a fake of a kind, in this process."""
    if side == "maquette":
        import maquette.torch as ours  # this process is one side's

        ours.install()
    import torch
    from torch._subclasses import FakeTensorMode

    mode = FakeTensorMode()
    make = kinds(torch, mode)[kind]
    kept = [make() for _ in range(1_000)]  # code, caches
    before = resident_bytes()
    kept += [make() for _ in range(COUNT)]
    return (resident_bytes() - before) / COUNT


def asked(side: str, kind: str) -> float | None:
    """`measured` in a process of its own; None where that failed."""
    command = [sys.executable, __file__, side, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(json.loads(done.stdout)) if done.returncode == 0 else None


def main() -> int:
    """Print the table."""
    there = importlib.util.find_spec("torch") is not None
    if not there:
        print("PyTorch is not installed here: maquette's figures alone")
    print(f"{'bytes a live fake tensor':<28} {'maquette':>10} {'PyTorch':>10} {'ratio':>7}")
    for kind in ("a result", "a view", "a result with history", "converted from a tensor"):
        ours, theirs = asked("maquette", kind), asked("pytorch", kind) if there else None
        shown = [f"{n:>10,.0f}" if n is not None else f"{'-':>10}" for n in (ours, theirs)]
        ratio = f"{theirs / ours:>6.1f}x" if ours and theirs else f"{'-':>7}"
        print(f"{kind:<28} {shown[0]} {shown[1]} {ratio}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measured(*sys.argv[1:])))
        sys.exit(0)
    sys.exit(main())
