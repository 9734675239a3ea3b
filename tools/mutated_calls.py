"""Make ill-formed neighbours of PyTorch's recorded calls on PyTorch and on maquette.

    python tools/mutated_calls.py [PATTERN ...] [--well-formed] [--calls N] [--seed N] [--show N]
                                  [--log FILE]

Needs PyTorch beside maquette: the environment of `make peer`. Each recorded call is changed in one
thing at a time (`tests/fake/mutations.py`: shapes, dtypes, overlaps, numbers, arguments left out)
and made on both. Both must refuse it, with exceptions of one class, or give results of one dtype,
shape and layout in memory, and equal values. With ``--well-formed`` the changes are those of
`neighbour_calls.py`: layouts, values at the edges, dtypes, outputs. What differs is counted by
kind, with the first few of each; `--log` keeps all. PyTorch's process dies of some calls: a process
of its own makes them, and the next goes on with the operator after.

Some differences are meant (docs/differences.md): values of uninitialized memory, which of equal
elements is found, dtypes that one of the two computes and the other refuses. Of the well-formed
calls these are left as they are: PyTorch reads other memory than it was given (indices and
gradients of pools, group_norm_backward and flash attention that are not contiguous), rounds sums
to 16 bits, or overflows between the steps; where NaN or infinities meet padding, 0 times them is
NaN in one library or the other; factorizations of matrices that are not finite, or singular.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import multiprocessing
import random
import signal
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from conformance import DATA, load_checker

sys.path.insert(0, str(DATA.parent / "tests" / "fake"))
from mutations import MUTATIONS  # type: ignore[import-not-found]  # beside the tests

from neighbour_calls import WELL_FORMED, Mutation

Case = dict[str, Any]
PATIENCE_S = 20
# Their values are random, or whatever the memory held.
WITHOUT_VALUES = (
    "empty", "rand", "bernoulli", "multinomial", "dropout", "resize", "cauchy", "normal", "uniform",
    "exponential", "geometric", "poisson", "gamma", "dirichlet", "rrelu", "binomial",
)  # fmt: skip


class TooLong(Exception):
    """A call took longer than `PATIENCE_S`."""


class Outcome(NamedTuple):
    """What a call gave."""

    results: list[tuple[object, ...]]  # dtype, shape, strides and offset of results and arguments
    other: str  # a result that is no tensor
    values: list[Any]
    error: Exception | None


def outcome(checker: Any, backend: Any, case: Case) -> Outcome:
    """Make a call on one of the libraries, on memory of its own that may grow."""
    operator = backend.operator(case["op"])
    arguments = checker.Arguments(backend, {**case, "resizes": True})
    args, kwargs = arguments.args, arguments.kwargs
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = operator(*args, **kwargs)
    except TooLong:
        raise
    except Exception as error:  # noqa: BLE001  # what a call raises is its outcome
        return Outcome([], "", [], error)
    found = checker.flat_tensors(backend, result)
    written = checker.flat_tensors(backend, [args, list(kwargs.values())])
    tensors = [*found, *written]
    values = [backend.array(t) for t in tensors]
    return Outcome([_seen(t) for t in tensors], "" if found else repr(result), values, None)


def _seen(t: Any) -> tuple[object, ...]:
    name, shape = str(t.dtype).split(".")[-1], tuple(t.shape)
    if not str(t.layout).endswith("strided"):
        return name, shape
    strides = [s for n, s in zip(shape, t.stride()) if n > 1] if t.numel() else []
    return name, shape, tuple(strides), t.storage_offset()


def difference(name: str, theirs: Outcome, ours: Outcome) -> tuple[str, str] | None:
    """The kind of a difference and what both gave; None where there is none."""
    if theirs.error is not None and ours.error is not None:
        classes = [c.__name__ for c in type(ours.error).__mro__]
        absent = isinstance(theirs.error, NotImplementedError)
        absent = absent or isinstance(ours.error, NotImplementedError)
        if absent or type(theirs.error).__name__.lstrip("_") in classes:
            return None
        return "other class of error", f"{theirs.error!r:.180} | {ours.error!r:.180}"
    if theirs.error is not None:
        return "refused there alone", f"{theirs.error!r:.180} | {ours.results!r:.180}"
    if ours.error is not None:
        return "refused here alone", f"{theirs.results!r:.180} | {ours.error!r:.180}"
    if theirs.results != ours.results or theirs.other != ours.other:
        return "other results", f"{theirs[:2]!r:.180} | {ours[:2]!r:.180}"
    if any(word in name for word in WITHOUT_VALUES):
        return None
    for (kind, *_), a, b in zip(theirs.results, theirs.values, ours.values, strict=True):
        if not _alike(a, b, 2e-2 if "float16" in str(kind) else 1e-3):
            return "other values", f"{a.ravel()[:6].tolist()} | {b.ravel()[:6].tolist()}"
    return None


def _alike(a: Any, b: Any, tolerance: float) -> bool:
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return bool(np.allclose(a.astype(wide), b.astype(wide), tolerance, 1e-3, equal_nan=True))


def neighbours(
    name: str, lines: list[str], mutations: list[Mutation], calls: int, seed: int
) -> Iterator[Case]:
    """The changed calls of an operator, on cpu."""
    rng = random.Random(zlib.crc32(name.encode()) + seed)
    for line in rng.sample(lines, min(calls, len(lines))):
        for mutation in mutations:
            changed = mutation(json.loads(line), rng)
            if changed is None:
                continue
            text = json.dumps([changed["args"], changed["kwargs"]])
            if not any(word in text for word in ('"meta"', '"cuda', '"move"')):
                yield changed


def compare(name: str, lines: list[str], options: Any, tell: Callable[..., None]) -> None:
    """Make the neighbours of an operator's calls on both, telling what differs."""
    checker = load_checker()
    theirs, ours = checker.TorchBackend(), checker.Backend()
    mutations = WELL_FORMED if options.well_formed else MUTATIONS
    for case in neighbours(name, lines, mutations, options.calls, options.seed):
        signal.alarm(PATIENCE_S)
        try:
            found = difference(
                name,
                outcome(checker, theirs, copy.deepcopy(case)),
                outcome(checker, ours, copy.deepcopy(case)),
            )
        except TooLong:
            found = ("took too long", "")
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            continue  # the arguments cannot be made, or are no arrays
        finally:
            signal.alarm(0)
        tell("call", name)
        if found is not None:
            args = json.dumps({k: case[k] for k in ("args", "kwargs")})
            tell("differs", name, *found, args[:600])


def work(todo: list[tuple[str, list[str]]], options: Any, log: Path) -> None:
    """Compare operators in turn; the log tells how far it came."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, too_long)
    with log.open("a") as file:

        def tell(*entry: str) -> None:
            file.write(json.dumps(entry) + "\n")
            file.flush()

        for name, lines in todo:
            tell("begins", name)
            compare(name, lines, options, tell)


def recorded(patterns: list[str]) -> list[tuple[str, list[str]]]:
    """The recorded calls of each overload whose name fits."""
    found: dict[str, list[str]] = {}
    with gzip.open(DATA / "aten_public.jsonl.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            if not line.startswith('{"overload"'):
                found.setdefault(line.split('"op":"', 1)[1].split('"', 1)[0], []).append(line)
    fits = [n for n in sorted(found) if not patterns or any(fnmatch(n, p) for p in patterns)]
    return [(n, found[n]) for n in fits]


def run(options: Any, log: Path) -> list[str]:
    """Compare all that is asked for; the operators of which PyTorch's process died."""
    todo, died = recorded(options.patterns), []
    while todo:
        child = multiprocessing.Process(target=work, args=(todo, options, log))
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        entries = [json.loads(line) for line in log.open()]
        last = next(e[1] for e in reversed(entries) if e[0] == "begins")
        died.append(last)
        names = [name for name, _ in todo]
        todo = todo[names.index(last) + 1 :]
    return died


def main() -> int:
    """Compare and print the counts; 0, for some differences are meant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="such as 'aten.conv*'")
    parser.add_argument("--well-formed", action="store_true", help="other layouts, values, outputs")
    parser.add_argument("--calls", type=int, default=1, help="recorded calls of each overload")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5, help="of each kind")
    parser.add_argument("--log", type=Path, help="keep what was done there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or Path(folder) / "log"
        log.unlink(missing_ok=True)
        died = run(options, log)
        entries = [json.loads(line) for line in log.open()]
    made = sum(e[0] == "call" for e in entries)
    differing = [e[1:] for e in entries if e[0] == "differs"]
    print(f"{made} calls, {len(differing)} differ; PyTorch's process died of {len(died)} operators")
    for kind, count in Counter(d[1] for d in differing).most_common():
        print(f"\n{kind}: {count}")
        for name, _, both, args in [d for d in differing if d[1] == kind][: options.show]:
            print(f"  {name}\n    {both}\n    {args[:300]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
