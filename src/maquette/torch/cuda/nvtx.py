"""`torch.cuda.nvtx`: marks for NVIDIA's profiler.

Where a plan or CuPy has a device, programs put their marks, and nobody reads them; where there is
none, putting one is the error that it is in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maquette.tensor.cuda_devices import devices


def _mark() -> None:
    if not devices():
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def range_push(msg: str) -> int:
    """Begin a range; 0, how many were open. RuntimeError without a device, as of all here."""
    _mark()
    return 0


def range_pop() -> int:
    """End the range that was begun last; 0, how many are open."""
    _mark()
    return 0


def range_start(msg: str) -> int:
    """Begin a range that need not end within the others; 0, its number."""
    _mark()
    return 0


def range_end(range_id: int) -> None:
    """End the range of this number."""
    _mark()


def mark(msg: str) -> None:
    """Mark a moment."""
    _mark()


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A marked range, of a block or of a function's calls; the rest formats ``msg``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
