"""Make neighbours of PyTorch's recorded calls on PyTorch and on maquette.

    python tools/mutated_calls.py [PATTERN ...] [--well-formed | --arguments] [--backward]
                                  [--calls N] [--seed N] [--show N] [--log FILE]

Needs PyTorch beside maquette: the environment of `make peer`. Each recorded call is changed in one
thing at a time (`tests/fake/mutations.py`: shapes, dtypes, overlaps, numbers, arguments left out;
with ``--well-formed`` `neighbour_calls.py`: layouts, values at the edges, dtypes, outputs; with
``--arguments`` `argument_neighbours.py`: shared memory, types of numbers, dims, keywords) and made
on both (`call_outcomes.py`). Both must refuse it, with exceptions of one class, or give results of
one dtype, shape, layout in memory and aliases, and equal values; with ``--backward``, gradients.
Maquette's fake mode must answer as its real one, and a refused call may not have written anything.
What differs is counted by kind, with the first few of each; `--log` keeps all. PyTorch's process
dies of some calls: a process of its own makes them, and the next goes on with the operator after.

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
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import Any

from argument_neighbours import ARGUMENTS
from call_outcomes import (
    HOW,
    TooLong,
    difference,
    fake_difference,
    fake_outcome,
    gradients,
    outcome,
    refused_for_its_values,
)
from conformance import DATA, load_checker

sys.path.insert(0, str(DATA.parent / "tests" / "fake"))
from mutations import MUTATIONS, tensors  # type: ignore[import-not-found]  # beside the tests

from neighbour_calls import WELL_FORMED, Mutation

Case = dict[str, Any]
PATIENCE_S = 20


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
    backends = checker.TorchBackend(), checker.Backend()
    mutations = MUTATIONS
    if options.well_formed or options.arguments:
        mutations = WELL_FORMED if options.well_formed else ARGUMENTS
    for case in neighbours(name, lines, mutations, options.calls, options.seed):
        signal.alarm(PATIENCE_S)
        try:
            compared = _backward if options.backward else _forward
            found = compared(checker, *backends, case)
        except TooLong:
            found = [("took too long", "")]
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
            continue  # the arguments cannot be made, or are no arrays
        finally:
            signal.alarm(0)
        tell("call", name)
        for each in found:
            args = json.dumps({k: case[k] for k in ("args", "kwargs")})
            tell("differs", name, *each, args[:600])


def _forward(checker: Any, theirs: Any, ours: Any, case: Case) -> list[tuple[str, str]]:
    real = outcome(checker, ours, copy.deepcopy(case))
    found = [difference(case["op"], outcome(checker, theirs, copy.deepcopy(case)), real)]
    fake = fake_outcome(checker, ours, copy.deepcopy(case))
    of_values = (
        real.error is not None
        and fake.error is None
        and refused_for_its_values(checker, ours, case, real.error)
    )
    if not of_values:
        found.append(fake_difference(real, fake))
    if real.spoiled:
        found.append(("refused, but wrote", f"{real.error!r:.180} | {real.spoiled:.180}"))
    return [each for each in found if each is not None]


def _backward(checker: Any, theirs: Any, ours: Any, case: Case) -> list[tuple[str, str]]:
    schema = ours.operator(case["op"])._schema
    writes = _places_written(schema, case)
    found = []
    for how in HOW if writes else [h for h in HOW if h not in ("leaf", "view")]:
        both = [gradients(checker, b, copy.deepcopy(case), writes, how) for b in (theirs, ours)]
        differing = difference(case["op"], *both)
        if differing is not None:
            kind, told = differing
            found.append((f"{kind}, {how}" if how != "plain" else kind, told))
            if how == "plain":
                break
    return found


def _places_written(schema: Any, case: Case) -> list[int]:
    """Where the tensors that a call writes to stand among its tensors."""
    named = [(a.name, v) for a, v in zip(schema.arguments, case["args"])]
    named += case["kwargs"].items()
    written = {a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write}
    marks = [name in written for name, value in named for _ in tensors(value)]
    return [i for i, mark in enumerate(marks) if mark]


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
    parser.add_argument("--arguments", action="store_true", help="other ways to give arguments")
    parser.add_argument("--backward", action="store_true", help="compare gradients")
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
