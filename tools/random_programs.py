"""Random programs on tensors, run on PyTorch and on maquette: their outcomes must be equal.

    python tools/random_programs.py [--count N] [--seed S] [--shrink] [--show SEED] [--names]

Needs a Python that has both. Programs run in worker processes, for PyTorch itself crashes on a few:
a crash there is no reference. A program that differs is told by its seed; ``--shrink`` makes it
minimal. What a program is: `tests/peer/programs.py`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "peer"))

import programs  # type: ignore[import-not-found]  # noqa: E402  # found by the line above
from programs import ACTIONS, INPLACE, KINDS, METADATA, OUT_OF_PLACE, VIEWS, Program  # noqa: E402

SHAPES: tuple[list[int], ...] = ([2, 2], [4], [3, 2], [2, 3, 2], [2], [], [1, 2], [2, 1, 2])
DTYPES = ("float64",) * 8 + ("complex128",) * 4 + ("float32", "complex64", "int64")
FAMILIES = (
    (list(OUT_OF_PLACE), 5),
    (list(VIEWS), 6),
    (list(KINDS), 3),
    (list(INPLACE), 6),
    (list(METADATA), 1.5),
    (list(ACTIONS), 2.5),
)
MODES = ("",) * 9 + ("no_grad",) * 2 + ("inference", "enable_grad")
BATCH = 500


# --- making --------------------------------------------------------------------------


def make(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    inputs = [
        {
            "shape": shape if rng.random() < 0.7 else rng.choice(SHAPES),
            "dtype": rng.choice(DTYPES),
            "flip": rng.random() < 0.2,
        }
        for _ in range(rng.randint(1, 3))
    ]
    for given in inputs:
        given["requires_grad"] = given["dtype"] != "int64" and rng.random() < 0.6
    names = [f"i{k}" for k in range(len(inputs))]
    steps = []
    for k in range(rng.randint(3, 12)):
        steps.append(_step(rng, names))
        names += [f"s{k}"] * 2 + [f"s{k}.0", f"s{k}.1"]
    return {
        "seed": seed,
        "inputs": inputs,
        "steps": steps,
        "watch": rng.random() < 0.3,
        "create_graph": rng.random() < 0.1,
    }


def _step(rng: random.Random, names: list[str]) -> dict[str, Any]:
    family = rng.choices([f for f, _ in FAMILIES], [w for _, w in FAMILIES])[0]
    # The younger, the likelier; outputs of a list are named by few steps.
    simple = [n for n in names if "." not in n] if rng.random() < 0.8 else names
    on = simple[-1 - int(len(simple) * rng.random() ** 1.5)]
    step = {
        "op": rng.choice(family),
        "on": on,
        "with": rng.choice(simple),
        "p": [rng.randrange(12), rng.randrange(12)],
    }
    mode = rng.choice(MODES)
    return step | {"mode": mode} if mode else step


# --- comparing -----------------------------------------------------------------------


def differences(theirs: Any, ours: Any, at: str = "") -> Iterator[str]:
    """Where two outcomes differ, each as a line."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in {**theirs, **ours}:
            if key == "words":
                continue
            missing = {"refused": "nothing"} if not at else None
            yield from differences(theirs.get(key, missing), ours.get(key, missing), f"{at}/{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for k, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(a, b, f"{at}[{k}]")
    elif not same(theirs, ours):
        yield f"{at}: PyTorch {theirs}, maquette {ours}"


def same(a: Any, b: Any) -> bool:
    """Equal, numbers but for rounding; ``a`` is PyTorch's."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isclose(abs(a), math.pi) and math.isclose(a, -b, rel_tol=1e-6):
            return True  # an angle: the sign of a negated complex zero is the vector unit's there
        return math.isclose(a, b, rel_tol=2e-4, abs_tol=1e-5)
    # PyTorch refuses to name the node of some views whose base was detached.
    return a == "refused" or (bool(a == b) and type(a) is type(b))


def compare(program: Program) -> list[str]:
    """Run on both, PyTorch first; the differences."""
    # By name: importing PyTorch is for workers only.
    theirs, ours = (
        programs.Run(importlib.import_module(name), program).whole()
        for name in ("torch", "maquette.torch")
    )
    return list(differences(theirs, ours))


# --- shrinking -----------------------------------------------------------------------


def shrink(program: Program, kind: str) -> Program:
    """A smallest program that still differs, in a difference of the same kind."""

    def differs(candidate: Program) -> bool:
        return any(kind_of(line) == kind for line in compare(candidate))

    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(program):
            if differs(candidate):
                program, smaller = candidate, True
                break
    return program


def kind_of(line: str) -> str:
    """What sort of difference a line tells."""
    path = line.split(":")[0]
    if "refused" in path:
        return "refused"
    parts = path.split("/")
    return (
        parts[1].split("[")[0]
        if parts[1] in ("grads", "hooks", "loss", "backward")
        else parts[-1].split("[")[0]
    )


def _smaller(program: Program) -> Iterator[Program]:
    named = [
        step if "name" in step else {"name": f"s{k}", **step}
        for k, step in enumerate(program["steps"])
    ]
    for k in range(len(named)):
        yield program | {"steps": named[:k] + named[k + 1 :]}
    for k, step in enumerate(named):
        if step.get("mode"):
            yield program | {"steps": [*named[:k], step | {"mode": ""}, *named[k + 1 :]]}
        for simpler in _operands(named, k):
            yield program | {"steps": [*named[:k], step | simpler, *named[k + 1 :]]}
    for k, given in enumerate(program["inputs"]):
        for change in ({"shape": [2]}, {"shape": [2, 2]}, {"dtype": "float64"}, {"flip": False}):
            if any(given.get(key) != value for key, value in change.items()):
                inputs = [*program["inputs"]]
                inputs[k] = given | change
                if change.get("shape") != [2, 2] or given["shape"] != [2]:
                    yield program | {"inputs": inputs}
    for flag in ("watch", "create_graph"):
        if program.get(flag):
            yield program | {flag: False}


def _operands(steps: list[dict[str, Any]], k: int) -> Iterator[dict[str, Any]]:
    step = steps[k]
    if step["with"] != step["on"]:
        yield {"with": step["on"]}
    if step["p"] != [0, 0]:
        yield {"p": [0, 0]}
    for before in reversed(steps[:k]):
        if before["name"] == step["on"] == step["with"]:
            yield {"on": before["on"], "with": before["on"]}
        elif before["name"] == step["on"]:
            yield {"on": before["on"]}


def told(program: Program) -> str:
    """A program as lines."""
    lines = [
        f"  i{k} = {'x'.join(map(str, g['shape'])) or 'scalar'} {g['dtype']}"
        f"{' requires_grad' if g.get('requires_grad') else ''}{' flipped' if g.get('flip') else ''}"
        for k, g in enumerate(program["inputs"])
    ]
    for k, s in enumerate(program["steps"]):
        mode = f" [{s['mode']}]" if s.get("mode") else ""
        lines.append(
            f"  {s.get('name', f's{k}')} = {s['op']}({s['on']}, {s['with']}, {s['p']}){mode}"
        )
    flags = [flag for flag in ("watch", "create_graph") if program.get(flag)]
    return "\n".join([*lines, f"  end {flags}"])


# --- workers -------------------------------------------------------------------------


def work(first: int, count: int, skip: set[str], do_shrink: bool) -> None:
    """Run programs, telling before each its seed and after it the outcome, as JSON lines."""
    for seed in range(first, first + count):
        print(json.dumps({"began": seed}), flush=True)
        program = make(seed)
        lines = [line for line in compare(program) if kind_of(line) not in skip]
        answer: dict[str, Any] = {"ended": seed, "lines": lines[:12]}
        if lines and do_shrink:
            small = shrink(program, kind_of(lines[0]))
            answer["small"] = small
            answer["lines"] = [line for line in compare(small) if kind_of(line) not in skip][:12]
        print(json.dumps(answer), flush=True)


def run_batch(first: int, count: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The outcomes of programs, crashes among them."""
    end = first + count
    while first < end:
        command = [sys.executable, __file__, "--work", "--seed", str(first), "--count"]
        command += [str(end - first), "--skip", options.skip]
        command += ["--shrink"] if options.shrink else []
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        began = None
        for line in done.stdout.splitlines():
            told_by_worker = json.loads(line)
            began = told_by_worker.get("began", began)
            if "ended" in told_by_worker:
                yield told_by_worker
        if done.returncode == 0:
            return
        if began is None:
            raise SystemExit(f"a worker failed at once: {' '.join(command)}")
        yield {"ended": began, "crashed": done.returncode}
        first = began + 1


def report(options: argparse.Namespace) -> int:
    """Run all and tell of each difference; the number of programs that differ."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    starts = range(options.seed, options.seed + options.count, BATCH)
    stop = options.seed + options.count
    kinds: Counter[str] = Counter()
    differing, crashed = 0, 0
    with ThreadPoolExecutor(options.jobs) as pool:
        batches = pool.map(lambda s: list(run_batch(s, min(BATCH, stop - s), options)), starts)
        for outcome in (o for batch in batches for o in batch):
            crashed += "crashed" in outcome
            if not outcome.get("lines"):
                continue
            differing += 1
            kinds[kind_of(outcome["lines"][0])] += 1
            if differing <= options.most:
                print(f"seed {outcome['ended']}:")
                if "small" in outcome:
                    print(told(outcome["small"]))
                print("\n".join(f"    {line[:200]}" for line in outcome["lines"][:6]), flush=True)
    print(f"{options.count} programs, {differing} differ, {crashed} crashed; {dict(kinds)}")
    return differing


def main() -> int:
    """Run as told; 1 if a program differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=20, help="tell of so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", action="store_true", help="make what differs minimal")
    parser.add_argument("--show", type=int, help="tell of one program")
    parser.add_argument("--skip", default="", help="kinds of difference to leave out, by commas")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.seed, options.count, set(options.skip.split(",")), options.shrink)
        return 0
    if options.show is not None:
        print(told(make(options.show)), *compare(make(options.show)), sep="\n")
        return 0
    return int(report(options) > 0)


if __name__ == "__main__":
    sys.exit(main())
