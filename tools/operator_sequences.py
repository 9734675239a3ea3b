"""Hold the operators that a program shows, forward and backward, to those that PyTorch shows.

    python tools/operator_sequences.py [PATTERN ...] [--every N] [--show]

Needs PyTorch beside maquette: the environment of `make peer`. Each recorded call of a function with
gradients runs on both under a `TorchDispatchMode` that writes the operators down, and so does its
backward. Graphs of `make_fx`, counts of operators and planned peaks follow from them. What PyTorch
detaches when it saves and opens results is left out: here nothing needs to be detached.

A function that differs must stand in `KNOWN` with the reason, and one that stands there must
differ; else the exit status is 1.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from conformance import DATA, load_checker
from maquette.dispatch.modes import TorchDispatchMode as OurMode

UNSEEN = {"detach.default"}
PARTS = ("forward", "backward")

# Functions whose operators differ, and why: names as recorded, separated by blanks.
KNOWN = {
    "addcdiv atanh lerp nanquantile quantile": "`1 - x` and `1 / x` are one operator, not three",
    "linalg.det linalg.vander masked.cumprod masked.prod prod": "exact at zeros and singular ones",
    "index_reduce scatter_reduce": "exact at zeros; what is not included is not counted",
    "logaddexp masked.logaddexp logcumsumexp sinc": "exact where PyTorch's is NaN or 0",
    "special.log_ndtr special.ndtr": "exact in the tails",
    "linalg.householder_product ormqr": "formulas of products of matrices, without a loop",
    "masked_select take": "zeros by the shape alone: what was taken from is not kept",
    "combinations index_fill": "known positions, where PyTorch's size depends on data",
    "as_strided_scatter": "by positions, which every transform and array library has",
    "block_diag": "one view of a vector, not a squeeze and a sum",
    "corrcoef cov": "weights are checked once, not by operators",
    "linalg.slogdet logdet": "no view is made to ask whether memory is contiguous",
    "sgn": "zeros, not an efficient zero tensor",
    "linalg.lu_solve lu_solve": "another formula: two triangular solutions",
    "linalg.norm nn.functional.normalize norm": "of order 0 zeros; nuclear: dimensions one by one",
    "linalg.pinv pinverse": "tolerances are made beside the matrix",
    "masked.amax nn.functional.max_unpool2d": "a sum of one element or a copy less",
}


class Difference(NamedTuple):
    function: str
    part: str
    theirs: list[str]
    ours: list[str]


def recording(base: type) -> type:
    """A mode of one of the libraries that writes down which operators are called."""

    class Recording(base):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = str(func).removeprefix("aten.")
            if name not in UNSEEN:
                self.names.append(name)
            return func(*args, **(kwargs or {}))

    return Recording


def operators(checker: ModuleType, backend: Any, case: Any, mode: type) -> list[list[str]]:
    """The operators of a recorded call, and those of its backward."""
    function = backend.function(case["func"])
    arguments = checker.Arguments(backend, case)
    inputs = [arguments.tensors[i].requires_grad_() for i in case["grad_inputs"]]
    cotangents = [None if c is None else arguments.tensor(c) for c in case["cotangents"]]
    with mode() as forward:
        results = checker.quietly(function, *arguments.args, **arguments.kwargs)
    outputs = checker.flat_tensors(backend, results)
    chosen = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if c is not None]
    with mode() as backward:
        backend.gradients([o for o, _ in chosen], inputs, [c for _, c in chosen])
    return [forward.names, backward.names]


def compared(patterns: list[str], every: int) -> Iterator[tuple[str, list[Difference]]]:
    """Each recorded call's function, with what differs of it."""
    checker = load_checker()
    theirs, ours = checker.TorchBackend(), checker.Backend()  # PyTorch is told to use one thread
    their_modes = importlib.import_module("torch.utils._python_dispatch")
    their_mode, our_mode = recording(their_modes.TorchDispatchMode), recording(OurMode)
    seen: Counter[str] = Counter()
    for _, case in checker.read(DATA / "grad_public.jsonl.gz"):
        name = case.get("func")
        if name is None or not checker.wanted(name, patterns):
            continue
        seen[name] += 1
        if (seen[name] - 1) % every:
            continue
        there = operators(checker, theirs, case, their_mode)
        here = operators(checker, ours, case, our_mode)
        parts = zip(PARTS, there, here, strict=True)
        yield name, [Difference(name, part, t, o) for part, t, o in parts if t != o]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("patterns", nargs="*", help="functions, as in 'nn.functional.*'")
    parser.add_argument(
        "--every", type=int, default=1, help="each N-th recorded call of a function"
    )
    parser.add_argument("--show", action="store_true", help="print known differences, too")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    known = {name: reason for names, reason in KNOWN.items() for name in names.split()}
    calls: Counter[str] = Counter()
    alike: Counter[str] = Counter()
    failed = {}
    for name, differences in compared(options.patterns, options.every):
        calls[name] += 1
        alike[name] += not differences
        for difference in differences:
            if name not in known:
                failed[name] = "differs, and no reason is known"
            if options.show or name not in known:
                print(f"{name}, {difference.part}")
                print(f"    PyTorch   {' '.join(difference.theirs)}")
                print(f"    maquette  {' '.join(difference.ours)}")
    if options.every == 1:
        failed |= {n: "is the same now" for n in known if calls[n] and alike[n] == calls[n]}
    functions = sum(alike[name] == count for name, count in calls.items())
    print(
        f"calls alike: {alike.total()} of {calls.total()}; functions: {functions} of {len(calls)}"
    )
    for name, why in failed.items():
        print(f"FAILED {name}: {why}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
