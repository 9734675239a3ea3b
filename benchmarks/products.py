"""The matrix products of the tiny GPT's step alone, on XLA or on PyTorch, on one core.

    python benchmarks/products.py jax|torch

What a step of `compiled.py` takes at least: products forward, for inputs' and for weights'
gradients, and attention's, each as its library would be asked for them; the least CPU time counts.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from compiled import BATCH, HEADS, LAYERS, LENGTH, ONE_CORE, VOCAB, WIDTH

ROWS = BATCH * LENGTH
LINEAR = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
SHAPES = [*LINEAR * LAYERS, (WIDTH, VOCAB)]
Products = Callable[[Any], list[Any]]

PRODUCTS: dict[str, Products] = {
    "forward": lambda given: [x @ w.T for x, w, _ in given],
    "gradients of inputs": lambda given: [g @ w for _, w, g in given],
    "gradients of weights": lambda given: [g.T @ x for x, _, g in given],
    "attention": lambda given: [
        made
        for q, k, p in given * LAYERS
        for made in (q @ k.mT, p @ q, p.mT @ q, q @ k.mT, p @ k, p.mT @ k)
    ],
}


def arrays() -> dict[str, list[tuple[Any, ...]]]:
    """Inputs, weights and gradients of each linear layer; queries, keys and scores."""
    rng = np.random.default_rng(0)

    def made(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    linear = [(made(ROWS, k), made(n, k), made(ROWS, n)) for k, n in SHAPES]
    heads, size = BATCH * HEADS, WIDTH // HEADS
    attention = (
        made(heads, LENGTH, size),
        made(heads, LENGTH, size),
        made(heads, LENGTH, LENGTH),
    )
    return {n: [attention] if n == "attention" else linear for n in PRODUCTS}


def flops(name: str) -> int:
    """Of all products of a kind."""
    if name == "attention":
        return LAYERS * 6 * 2 * BATCH * LENGTH * LENGTH * WIDTH
    return sum(2 * ROWS * k * n for k, n in SHAPES)


def on_jax(name: str) -> Callable[[], Any]:
    """The products of a kind, compiled."""
    jax = importlib.import_module("jax")
    given = [tuple(map(jax.numpy.asarray, group)) for group in arrays()[name]]
    compiled = jax.jit(PRODUCTS[name])
    return lambda: jax.block_until_ready(compiled(given))


def on_torch(name: str) -> Callable[[], Any]:
    """The products of a kind, on one thread."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    given = [tuple(map(torch.from_numpy, group)) for group in arrays()[name]]
    return lambda: PRODUCTS[name](given)


def least(run: Callable[[], Any], times: int = 150) -> float:
    """Seconds of CPU time."""
    run()
    found = float("inf")
    for _ in range(times):
        before = time.process_time()
        run()
        found = min(found, time.process_time() - before)
    return found


def main() -> int:
    """Time each kind; the sum is the least that a step can take."""
    side = sys.argv[1] if len(sys.argv) > 1 else "jax"
    os.environ.update(ONE_CORE)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    total = 0.0
    for name in PRODUCTS:
        seconds = least((on_jax if side == "jax" else on_torch)(name))
        total += seconds
        print(f"{name:<22} {1e3 * seconds:6.2f} ms {flops(name) / seconds / 1e9:6.1f} GFLOP/s")
    print(f"{side}: all products {1e3 * total:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
