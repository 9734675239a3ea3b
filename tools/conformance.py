"""Hold maquette to the conformance data: an operator that is here may not fail a record.

    python tools/conformance.py [--ops PATTERN ...] [--show N]
    python tools/conformance.py --backend strict|cupy [--require SHARE]

Runs `conformance/check.py` (its docstring and README.md describe the data) and prints its summary.
An operator or function that maquette does not have yet counts as unsupported and is excused, and so
is a call that it answers with NotImplementedError; every other failure makes the exit status 1. To
see what is unsupported, run `conformance/check.py --verbose` itself.

With ``--backend``, tensors live on cuda, whose data that array library holds: calls of single
overloads, no excuses, and the exit status is 1 if a smaller share than ``--require`` passes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import maquette
import on_device
import strict_arrays
from maquette.backends.cupy import CupyBackend
from maquette.backends.jax import JaxBackend
from maquette.library import register_backend

DATA = Path(__file__).resolve().parent.parent / "conformance"

CALLS = DATA / "aten_public.jsonl.gz"
SUMMARY_LINES = ("grad: ", "errors: ", "real: ", "fake: ")


# Where we know of a difference and say so: (kind, name) and why. An entry that no longer fails is
# an error too, so that the table cannot outlive its reasons.
KNOWN: dict[tuple[str, str], str] = {}


class Failure(NamedTuple):
    """One record that was not passed, as `check.py --fail-list` writes it."""

    kind: str
    outcome: str
    name: str
    record: str
    reason: str


def load_checker(folder: Path = DATA) -> ModuleType:
    """The module `check.py` of a conformance folder."""
    spec = importlib.util.spec_from_file_location("conformance_check", folder / "check.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file {folder / 'check.py'}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replay(
    checker: ModuleType, patterns: Iterable[str], more: Iterable[str] = ()
) -> tuple[list[str], list[Failure]]:
    """Run the checker on maquette; its summary lines and every failure."""
    with tempfile.TemporaryDirectory() as folder:
        fail_list = Path(folder) / "failures.tsv"
        arguments = [*[f"--ops={pattern}" for pattern in patterns], *more]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            checker.main([*arguments, "--fail-list", str(fail_list)])
        rows = fail_list.read_text().splitlines()
    summary = [line for line in printed.getvalue().splitlines() if line.startswith(SUMMARY_LINES)]
    return summary, [Failure(*row.split("\t")) for row in rows]


def present_overloads(checker: ModuleType, names: Iterable[str]) -> list[str]:
    """Those of the overloads that maquette has."""
    backend = checker.Backend()
    present = []
    for name in names:
        with contextlib.suppress(checker.Unsupported):
            backend.operator(name)
            present.append(name)
    return present


def report(failures: Sequence[Failure], shown: int) -> Iterable[str]:
    """Lines that tell of the failures: the first ones in full, all by operator."""
    for failure in failures[:shown]:
        yield f"{failure.kind:5} {failure.name} {failure.record}: {failure.reason}"
    if len(failures) > shown:
        yield f"... and {len(failures) - shown} more (--show {len(failures)} shows all)"
    by_name = Counter(failure.name for failure in failures).most_common()
    yield "failing: " + ", ".join(f"{name} ({count})" for name, count in by_name)


def mutates(name: str) -> bool:
    """Whether an overload changes an argument."""
    found = maquette.ops
    for part in name.split("."):
        found = getattr(found, part)
    return bool(found._schema.is_mutable)


def chosen(
    wanted: Callable[[str, Sequence[str]], bool], functional: bool, each: int
) -> Callable[[str, Sequence[str]], bool]:
    """The checker's choice of calls, less those of operators that mutate, ``each`` an overload."""
    seen: Counter[str] = Counter()

    def choice(name: str, patterns: Sequence[str]) -> bool:
        seen[name] += 1
        if seen[name] > each or (functional and mutates(name)):
            return False
        return wanted(name, patterns)

    return choice


def on_backend(name: str, patterns: Sequence[str], shown: int, required: float, each: int) -> int:
    """Replay the calls of single overloads on another array library, and say which share passes."""
    checker = load_checker()
    if name == "strict":
        strict_arrays.register()
    else:
        register_backend("cuda", {"cupy": CupyBackend, "jax": JaxBackend}[name])
    backend = on_device.on_device(checker, "cuda")
    checker.__dict__["Backend"] = lambda: backend
    on_device.rename_devices(checker, "cuda")
    wanted = chosen(checker.wanted, name == "jax", sys.maxsize)
    checker.__dict__["wanted"] = chosen(checker.wanted, name == "jax", each)
    summary, failures = replay(checker, patterns, ["--mode=real", f"--file={CALLS}"])
    if failures:
        print("\n".join(report(failures, shown)))
    print("\n".join(summary))
    found = re.search(r"real: (\d+)/(\d+)", " ".join(summary))
    if found is None:
        print("nothing was checked", file=sys.stderr)
        return 1
    passed, count = map(int, found.groups())
    failed = {failure.name for failure in failures}
    refused = sum(failure.outcome == "unsupported" for failure in failures)
    names = {case["op"] for _, case in checker.read(CALLS) if wanted(case["op"], patterns)}
    print(
        f"on {name}: {passed / count:.1%} of {count} calls ({refused} refused as unsupported), "
        f"{1 - len(failed) / len(names):.1%} of {len(names)} overloads without a failure"
    )
    return int(passed / count < required)


def main(argv: Sequence[str] | None = None, checker: ModuleType | None = None) -> int:
    """Replay the records; the exit status is 1 if an operator that is here fails one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--ops",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only operators like PATTERN, as in check.py (may be repeated)",
    )
    parser.add_argument("--show", type=int, default=40, metavar="N", help="failures to print")
    parser.add_argument(
        "--backend", choices=("strict", "cupy", "jax"), help="the array library of cuda"
    )
    parser.add_argument(
        "--each", type=int, default=sys.maxsize, metavar="N", help="calls an overload"
    )
    parser.add_argument(
        "--require", type=float, default=0.9, metavar="SHARE", help="of calls, with --backend"
    )
    options = parser.parse_args(argv)
    if options.backend:
        return on_backend(options.backend, options.ops, options.show, options.require, options.each)
    known_table = KNOWN if checker is None else {}
    checker = checker or load_checker()

    overloads = [row["name"] for row in json.loads((DATA / "overloads.json").read_text())]
    present = present_overloads(checker, overloads)
    summary, failures = replay(checker, options.ops)
    failures = [failure for failure in failures if failure.outcome != "unsupported"]
    known = {(f.kind, f.name) for f in failures} & known_table.keys()
    failures = [f for f in failures if (f.kind, f.name) not in known]
    outlived = set() if options.ops else known_table.keys() - known

    for kind, name in sorted(known):
        print(f"known: {kind} {name}: {KNOWN[kind, name]}")
    for kind, name in sorted(outlived):
        print(f"no longer fails, take it out of KNOWN: {kind} {name}")
    if failures:
        print("\n".join(report(failures, options.show)))
    print("\n".join(summary))
    print(f"overloads present: {len(present)}/{len(overloads)}")
    if not present or not summary:
        print("nothing was checked: maquette has no such operator", file=sys.stderr)
        return 1
    return int(bool(failures or outlived))


if __name__ == "__main__":
    sys.exit(main())
