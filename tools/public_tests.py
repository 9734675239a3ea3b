"""Run PyTorch's public tests on PyTorch and on maquette, and say where the two part.

    python tools/public_tests.py FOLDER [FILE ...] --torch PYTHON [-k TEXT] [--keep FOLDER]

FOLDER holds test files that you have (PyTorch's ``test/``, or an accelerator's adaptation of it);
they are never part of this repository. FILE names some of them, relative to FOLDER; all otherwise.

--torch PYTHON     a Python that has torch and expecttest (``pip install expecttest``).
                   Both sides run in it: maquette takes ``torch.testing._internal``, the tests' own
                   helpers, from that torch; everything else of torch is then maquette's.
--packages FOLDER  more packages for both sides, made by ``pip install --target FOLDER expecttest``.
-k TEXT            only tests whose ``Class.method`` holds the text; "A and B" asks for both.
--every N          every Nth of those not left out, for suites of tens of thousands of tests.
--from K           with --every: from the Kth test on, counted from 0, for other samples.
--without TEXT     leave out tests whose ``Class.method`` holds the text; may be given often.
--texts            a text that a test writes out inline, as a graph's code, is compared with what
                   PyTorch gives today: files of another version have that version's words.
--keep FOLDER      keep PyTorch's answers there, by the file's content, and read them next time.
--timeout S        longest time of one test (30 s).
--json FILE        all outcomes.

Tests written for an accelerator run on cpu: `npu` and `privateuse1` in the text become `cpu`.
Each file is run in subprocesses. A test that hangs or kills its process is noted, and the rest goes
on in a new one. On maquette only those tests run that pass on PyTorch. The table says, by file, how
many pass there and here; below it stand the failures, grouped by message, the most frequent first.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RUNNER = Path(__file__).with_name("public_tests_runner.py")
IMPORTS_TAKE = 300.0  # seconds until the first test must have begun
MEMORY_GIB = 12.0  # address space of a process: a test that wants more fails, on both sides

# What makes an accelerator's tests run on cpu, in this order. The last: operators that are to be
# skipped, and that PyTorch's table of samples has no longer.
REPLACEMENTS = (
    (r"onlyPRIVATEUSE1", "onlyCPU"),
    (r"dtypesIfPRIVATEUSE1", "dtypesIfHPU"),
    (r"only_for=(\(?)['\"]privateuse1['\"],?", r"only_for=\1'cpu'"),
    (r"(['\"])(?:npu|privateuse1)(?::\d+)?\1", r"\1cpu\1"),
    (r"(['\"])npu:\{\}\1", r"\1cpu\1"),
    (r"\.npu\((?:[^()]|\([^()]*\))*\)", ".cpu()"),
    (r"\btorch_npu\.npu\b|\btorch\.npu\b", "torch.cuda"),
    (r"torch\._C\._get_privateuse1_backend_name\(\)", "'cpu'"),
    (r"torch\.cuda\.get_device_name\([^)]*\)", "'cpu'"),
    (
        r"(?m)^( +)assert len\(matching_opinfos\) (?:> 0|== 1), f.*$",
        r"\1if not matching_opinfos: continue",
    ),
)


class Outcome(NamedTuple):
    """What became of a test: passed, skipped, failed, hung, died; its words; inline texts."""

    test: str
    result: str
    message: str = ""
    texts: tuple[str, ...] | list[str] = ()


class Side(NamedTuple):
    """How the tests are run: on ``torch`` or on ``maquette``, by which Python, with what else.

    texts: whether inline texts are gathered there and compared here; those expected, by test.
    every, start, without: the sample: one of so many tests, from the ``start``th on, of those whose
        names hold none of the texts.
    """

    name: str
    python: str
    packages: str
    timeout: float
    texts: dict[str, list[str]] | None = None
    every: int = 1
    without: tuple[str, ...] = ()
    start: int = 0


# --- one file ------------------------------------------------------------------------


def adapted(text: str) -> str:
    """The test file for cpu."""
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    return text


def run_file(side: Side, file: Path, only: str, names: list[str] | None = None) -> list[Outcome]:
    """The outcomes of a file's tests; of ``names`` alone, if they are given."""
    done: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        for text in (file, file.with_name("common_utils.py")):  # what a folder's tests share
            if text.exists():
                adapted_text = adapted(text.read_text(encoding="utf-8"))
                copy.with_name(text.name).write_text(adapted_text, encoding="utf-8")
        for beside in file.parent.glob("*.json"):  # what they read at their side
            (copy.parent / beside.name).symlink_to(beside.resolve())
        while True:
            ended = _run_process(side, copy, file, only, names, done)
            if ended:
                return done


def _run_process(
    side: Side, copy: Path, file: Path, only: str, names: list[str] | None, done: list[Outcome]
) -> bool:
    """Run tests that are not done in one process; whether all are done then."""
    request = {
        "side": side.name,
        "file": str(copy),
        "folders": [str(copy.parent), str(file.parent), side.packages],
        "only": only,
        "every": side.every,
        "start": side.start,
        "without": side.without,
        "names": names,
        "skip": [outcome.test for outcome in done],
        "timeout": side.timeout,
        "memory_gib": MEMORY_GIB,
        "texts": side.texts,
    }
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [side.python, str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=copy.parent,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request))
        process.stdin.close()
        begun, ended, why = _follow(process, process.stdout, side.timeout, done)
        process.kill()
        process.wait()
        if ended:
            return True
        errors.seek(0)
        words = errors.read().strip().splitlines()
    if begun is None:
        print("\n".join(words[-12:]), file=sys.stderr)
        done.append(Outcome("(import)", "failed", words[-1] if words else why))
        return True
    done.append(Outcome(begun, why, f"{why}: {words[-1] if words else ''}"))
    return False


def _follow(
    process: subprocess.Popen[str], output: IO[str], timeout: float, done: list[Outcome]
) -> tuple[str | None, bool, str]:
    """Gather what a runner says: the test begun last, whether it came to its end, or why not."""
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(output, lines), daemon=True).start()
    begun, patience = None, IMPORTS_TAKE
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            return begun, False, "hung"
        if line is None:
            return begun, False, "died"
        said = json.loads(line)
        if said.get("end"):
            return begun, True, ""
        if "begin" in said:
            # The runner stops a slow test itself; one that does not let it is killed here.
            begun, patience = said["begin"], timeout + 10
        else:
            texts = said.get("texts", ())
            done.append(Outcome(said["test"], said["result"], said["message"], texts))


def _read(output: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in output:
        if line.startswith('{"public_tests"'):
            lines.put(line)
    lines.put(None)


# --- both sides ----------------------------------------------------------------------


def answers_of_torch(side: Side, file: Path, only: str, keep: Path | None) -> list[Outcome]:
    """PyTorch's outcomes, from the kept ones where the file has not changed since."""
    if keep is None:
        return run_file(side, file, only)
    how = only if side.texts is None else f"{only}\ntexts"
    if side.every > 1:
        how += f"\nevery {side.every} without {side.without}"
        how += f" from {side.start}" if side.start else ""  # answers kept earlier keep their name
    digest = hashlib.sha256(f"{how}\n{adapted(file.read_text(encoding='utf-8'))}".encode())
    kept = keep / f"{file.stem}-{digest.hexdigest()[:16]}.json"
    if kept.exists():
        return [Outcome(*found) for found in json.loads(kept.read_text())]
    found = run_file(side, file, only)
    keep.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


def compare(
    there: Side, here: Side, file: Path, only: str, without: list[str], keep: Path | None
) -> dict[str, object]:
    """A file's outcomes on both sides, and how many pass."""
    torch_says = [
        outcome
        for outcome in answers_of_torch(there, file, only, keep)
        if not any(text in outcome.test for text in without)
    ]
    passed = [outcome for outcome in torch_says if outcome.result == "passed"]
    passing = [outcome.test for outcome in passed]
    if here.texts is not None:
        here = here._replace(texts={outcome.test: list(outcome.texts) for outcome in passed})
    ours = run_file(here, file, only, passing) if passing else []
    return {
        "there": torch_says,
        "here": ours,
        "passing": len(passing),
        "pass": sum(outcome.result == "passed" for outcome in ours),
    }


def alike(message: str) -> str:
    """A message without what differs from test to test: numbers, addresses, quoted values."""
    line = re.sub(r"0x[0-9a-f]+", "0x…", message.strip())
    line = re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", line)
    return line[:160]


def print_groups(failures: Iterable[tuple[str, Outcome]], most: int) -> None:
    """Failures by message, the most frequent first, each with some of its tests."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for file, outcome in failures:
        groups[alike(outcome.message)].append(f"{file}::{outcome.test}")
    for message, tests in sorted(groups.items(), key=lambda item: -len(item[1]))[:most]:
        print(f"{len(tests):5}  {message}\n         {', '.join(tests[:3])}")


# --- the command ---------------------------------------------------------------------


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; see the module's own words."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--torch", required=True, metavar="PYTHON")
    parser.add_argument("--packages", default="", metavar="FOLDER")
    parser.add_argument("-k", dest="only", default="", metavar="TEXT")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--from", dest="start", type=int, default=0, metavar="K")
    parser.add_argument("--without", action="append", default=[], metavar="TEXT")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S")
    parser.add_argument("--groups", type=int, default=40, help="how many messages are shown")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run, print the table and the groups; 0 unless there is nothing to run."""
    options = parse(arguments)
    there, here = (
        Side(
            name,
            os.path.abspath(options.torch),
            options.packages,
            options.timeout,
            {} if options.texts else None,
            options.every,
            tuple(options.without) if options.every > 1 else (),
            options.start,
        )
        for name in ("torch", "maquette")
    )
    names = options.files or sorted(
        str(path.relative_to(options.folder)) for path in options.folder.rglob("test_*.py")
    )
    if not names:
        print(f"there is no test_*.py in {options.folder}", file=sys.stderr)
        return 2
    report: dict[str, dict[str, object]] = {}
    failures: list[tuple[str, Outcome]] = []
    print(f"{'file':50}{'tests':>8}{'passes there':>14}{'passes here':>13}")
    for name in names:
        file = options.folder.resolve() / name
        found = compare(there, here, file, options.only, options.without, options.keep)
        report[name] = found
        ours: list[Outcome] = found["here"]  # type: ignore[assignment]  # as `compare` made it
        failures += [(name, outcome) for outcome in ours if outcome.result != "passed"]
        tests = len(found["there"])  # type: ignore[arg-type]  # a list
        print(f"{name:50}{tests:8}{found['passing']:14}{found['pass']:13}", flush=True)
    print_groups(failures, options.groups)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
