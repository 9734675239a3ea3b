"""Hold the cuda backend to the conformance data on a machine with an NVIDIA device and CuPy.

    python tools/cuda_conformance.py [--ops PATTERN ...] [--each N] [--show N] [--require SHARE]

Needs NumPy, CuPy 14 or later and this checkout (with ``PYTHONPATH=src``), and no network. Says what
the machine has, checks memory, copies and a few products by themselves, then replays the calls of
single overloads with every tensor on cuda (`tools/conformance.py --backend cupy`). Where there is
no CuPy or no device it says so and exits with 2; 1 means that a check failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import conformance
import maquette as mq
from maquette.tensor.backend import backend_of


def memory_is_shared() -> bool:
    """A view writes to the memory of its base."""
    a = mq.zeros(2, 3, device="cuda")
    a.t()[1].add_(5)
    return bool(a.cpu().tolist() == [[0, 5, 0], [0, 5, 0]])


def copies_cross() -> bool:
    """To the device and back, transposed and strided."""
    a = mq.arange(24.0).reshape(2, 3, 4).transpose(0, 2)[::2]
    return mq.equal(a.cuda().cpu(), a)


def products_agree() -> bool:
    """A product of matrices as NumPy has it."""
    a, b = mq.randn(64, 48), mq.randn(48, 32)
    there = (a.cuda() @ b.cuda()).cpu().numpy()
    return bool(np.allclose(there, a.numpy() @ b.numpy(), atol=1e-4))


def a_step_trains() -> bool:
    """A few steps on the device lower a loss."""
    w = mq.zeros(8, 1, device="cuda", requires_grad=True)
    x, y = mq.randn(32, 8).cuda(), mq.randn(32, 1).cuda()
    losses = []
    for _ in range(5):
        loss = ((x @ w - y) ** 2).mean()
        (grad,) = mq.autograd.grad(loss, [w])
        assert grad is not None
        w = (w.detach() - 0.1 * grad).requires_grad_()
        losses.append(loss.item())
    return losses[-1] < losses[0]


def bfloat16_is_refused() -> bool:
    """What CuPy lacks is refused in words."""
    try:
        mq.ones(2, dtype=mq.bfloat16, device="cuda")
    except NotImplementedError as error:
        return "no bfloat16 arrays" in str(error)
    return False


CHECKS: Sequence[Callable[[], bool]] = (
    memory_is_shared,
    copies_cross,
    products_agree,
    a_step_trains,
    bfloat16_is_refused,
)


def main() -> int:
    """Run everything; the exit status as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ops", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--each", type=int, default=sys.maxsize, metavar="N")
    parser.add_argument("--show", type=int, default=60, metavar="N")
    parser.add_argument("--require", type=float, default=0.9, metavar="SHARE")
    options = parser.parse_args()
    try:
        cupy = backend_of("cuda").namespace
    except NotImplementedError as error:
        print(f"nothing was checked: {error}")
        return 2
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, CuPy {cupy.__version__}, NumPy {np.__version__}")
    failed = 0
    for check in CHECKS:
        passed = check()
        failed += not passed
        print(f"{'passed' if passed else 'FAILED'}  {check.__name__}")
    start = time.perf_counter()
    status = conformance.on_backend(
        "cupy", options.ops, options.show, options.require, options.each
    )
    print(f"{time.perf_counter() - start:.0f} s")
    return int(bool(failed or status))


if __name__ == "__main__":
    sys.exit(main())
