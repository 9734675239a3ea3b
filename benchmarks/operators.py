"""Operators beside PyTorch's: ``python benchmarks/operators.py [--below 0.3] [--only REGEX]``.

`kernels.py` follows the operators that models spend their time in; this goes over nearly all of
them, in each dtype, and tells which are below a ratio. A row is a statement of
`operator_statements.py`, measured as there: on one thread, on equal data, the least CPU time of
several calls. What is below the bound is measured again before it is told. Needs PyTorch: run it
in the environment that ``make peer`` makes. Statements that one side refuses are told with why.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import kernels
from operator_statements import BY_DTYPE, SETUP

AGAIN = 3  # how often a row below the bound is measured


def statements(text: str) -> Iterator[str]:
    """The statements of a text, a line each, with ``{a b}`` standing for ``a`` and for ``b``."""
    for line in filter(None, re.sub(r"\n +", " ", text).splitlines()):
        parts = re.split(r"\{([^}]*)\}", line)
        choices = [part.split() if i % 2 else [part] for i, part in enumerate(parts)]
        yield from map("".join, itertools.product(*choices))


def chosen(only: str) -> dict[str, list[str]]:
    """The statements of each dtype whose names, ``float32 T.sin(x)``, a pattern is found in."""
    found = {}
    for dtype, texts in BY_DTYPE.items():
        every = dict.fromkeys(s for text in texts for s in statements(text))
        found[dtype] = [s for s in every if re.search(only, f"{dtype} {s}")]
    return found


def prepared(torch: Any, dtype: str) -> dict[str, Any]:
    """What statements name, on one side."""
    space: dict[str, Any] = {"T": torch, "D": getattr(torch, dtype)}
    exec(SETUP, space)
    return space


def seconds(run: Callable[[], object], budget: float) -> float | str:
    """The least CPU time of a call; what it raises in a line where it does."""
    try:
        return kernels.least_seconds(run, budget=budget)
    except Exception as error:  # noqa: BLE001  # told, in place of a time
        return f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"


def measured(
    name: str, sides: list[Callable[[], object]], below: float, budget: float
) -> kernels.Measured | str:
    """The row of a statement on maquette and on PyTorch, or which side refuses it and why."""
    least = [float("inf")] * 2
    for _ in range(AGAIN):
        for side, run in enumerate(sides):
            took = seconds(run, budget)
            if isinstance(took, str):
                return f"{('maquette', 'PyTorch')[side]} refuses it: {took}"
            least[side] = min(least[side], took)
        row = kernels.Measured(name, *least)
        if row.ratio >= below:
            break
    return row


def surveyed(options: argparse.Namespace) -> Iterator[tuple[str, kernels.Measured | str]]:
    """Each row's name and what was found."""
    import torch

    import maquette.torch

    torch.set_num_threads(1)
    for dtype, texts in chosen(options.only).items():
        spaces = [prepared(side, dtype) for side in (maquette.torch, torch)] if texts else []
        for text in texts:
            name = f"{dtype:9} {text}"
            sides = [eval(f"lambda: {text}", space) for space in spaces]
            yield name, measured(name, sides, options.below, options.budget)


def main() -> int:
    """Measure, and tell what is below the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a pattern of names, like '^float32 F.'")
    parser.add_argument("--below", type=float, default=kernels.GOAL, help="the bound (0.3)")
    parser.add_argument("--budget", type=float, default=0.03, help="seconds a row and side (0.03)")
    parser.add_argument("--json", type=pathlib.Path, help="write all rows to this file")
    options = parser.parse_args()
    if kernels.pytorch() is None:
        return 2
    warnings.simplefilter("ignore")  # of deprecated names, from either side
    rows, counts = [], Counter[str]()
    for name, row in surveyed(options):
        counts["statements"] += 1
        if isinstance(row, str):
            counts["refused"] += 1
            print(f"{name:80} {row}", flush=True)
            continue
        rows.append(row)
        if row.ratio < options.below:
            counts[f"below {options.below}"] += 1
            times = f"{row.maquette_s * 1e3:9.3f} ms{row.pytorch_s * 1e3:9.3f} ms"
            print(f"{name:80}{times}{row.ratio:6.2f}x", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if options.json:
        kernels.keep(rows, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
