"""JAX's `eval_shape` an operator: a second peer of fake tensors.

    python benchmarks/eval_shape.py                 # by a Python that has JAX: seconds as JSON

`bench.py` runs it by a Python that has JAX and prints its times beside maquette's. A program is 100
operators in a row. JAX traces it anew each time, as it does for every program that it has not seen:
a program is a new function, so that nothing is remembered of the one before.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPERATORS = 100
TURNS = 9
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mm": lambda x, y: x @ y,
    "reshape": lambda x, y: x.reshape(4, 4, 4) if x.ndim == 2 else x.reshape(8, 8),
}


def program(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`OPERATORS` steps in a row, as a new function."""

    def run(x: Any, y: Any) -> Any:
        for _ in range(OPERATORS):
            x = step(x, y)
        return x

    return run


def seconds(run: Callable[[Callable[[Any, Any], Any]], object]) -> dict[str, float]:
    """The median time an operator of each program; run: evaluates the shapes of one."""
    found = {}
    for name, step in PROGRAMS.items():
        times = []
        for _ in range(TURNS):
            made = program(step)
            start = time.perf_counter()
            run(made)
            times.append((time.perf_counter() - start) / OPERATORS)
        found[name] = statistics.median(times[2:])
    return found


def of_jax() -> dict[str, float]:
    """Times of `jax.eval_shape`."""
    jax = importlib.import_module("jax")
    numpy = importlib.import_module("jax.numpy")
    x = jax.ShapeDtypeStruct((8, 8), numpy.float32)
    return seconds(lambda made: jax.eval_shape(made, x, x))


def of_maquette() -> dict[str, float]:
    """Times of fake tensors."""
    mq = importlib.import_module("maquette")
    mode = mq.FakeTensorMode()
    x, y = mode.from_tensor(mq.ones(8, 8)), mode.from_tensor(mq.ones(8, 8))
    return seconds(lambda made: made(x, y))


def compared(python: str | None) -> dict[str, tuple[float, float]] | str:
    """maquette's and JAX's seconds an operator, by program; or why they cannot be compared.

    python: one that has JAX; None where this one may have it.
    """
    here = importlib.util.find_spec("jax") is not None
    if python is None and not here:
        return "JAX is not installed here, so its eval_shape is not measured (--jax PYTHON)"
    done = subprocess.run(
        [python or sys.executable, __file__], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"JAX's eval_shape could not be measured by {python or sys.executable}: {last}"
    theirs = json.loads(done.stdout)
    ours = of_maquette()
    return {name: (ours[name], theirs[name]) for name in PROGRAMS}


if __name__ == "__main__":
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path(__file__).resolve().parent]
    print(json.dumps(of_jax()))
