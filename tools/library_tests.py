"""Run a library's own pytest tests on PyTorch and on maquette, and say where the two part.

    python tools/library_tests.py FOLDER [FILE ...] --torch PYTHON --here PYTHON [--keep FILE]

FOLDER is the root of a copy of the library's sources with its tests; it is never part of this
repository. FILE names files or folders of tests in it, relative to FOLDER; all of it otherwise.

--torch PYTHON   a Python that has torch, pytest, the library and what its tests import.
--here PYTHON    a Python that has the same packages, and no torch: there, torch is maquette.
--keep FILE      keep PyTorch's outcomes there, and read them next time.
--most N         of each test function at most N parametrizations, spread over all of them.
-k TEXT          only tests whose id holds the text; may be given often.
--without TEXT   leave out files and tests whose id holds the text; may be given often.
--timeout S      longest CPU time of one test (60 s).
--limit S        end PyTorch's side after S seconds of CPU time; files come in a random order then,
                 always the same, and what was not reached is not counted.
--json FILE      what became of each test here.
--show N         how many groups of failures are listed (60).

Options of pytest in the library's configuration (coverage, processes, strict warnings) are set
aside. Each test begins with the same random seeds. On maquette only those tests run that pass on
PyTorch. A test that hangs or kills its process is noted, and the rest goes on in a new one. The
last line says how many pass there and here; above it stand the failures, grouped by message.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RUNNER = Path(__file__).with_name("library_tests_runner.py")
IMPORTS_TAKE = 400.0  # seconds until the first test must have begun, collection included


class Outcome(NamedTuple):
    """What became of a test: passed, skipped, failed, hung, died; its words; the last frames."""

    result: str
    message: str = ""
    where: str = ""


class Wish(NamedTuple):
    """What is to be run: files of a folder, which tests of theirs, how long each may take."""

    folder: str
    files: list[str]
    only: list[str]
    without: list[str]
    most: int
    timeout: float
    limit: float


def outcomes(
    side: str, python: str, wish: Wish, names: list[str] | None = None
) -> dict[str, Outcome]:
    """The outcomes of the wished tests by id; of ``names`` alone, if they are given."""
    done: dict[str, Outcome] = {}
    while not _run_process(side, python, wish, names, done):
        pass
    return done


def _run_process(
    side: str, python: str, wish: Wish, names: list[str] | None, done: dict[str, Outcome]
) -> bool:
    """Run the tests that are not done in one process; whether all are done then."""
    request = wish._asdict() | {"side": side, "names": names, "skip": list(done)}
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    if side == "maquette":
        environment["PYTHONPATH"] = str(ROOT / "src")
    with (
        tempfile.NamedTemporaryFile("w+", suffix=".json") as asked,
        tempfile.TemporaryFile("w+") as words,
    ):
        json.dump(request, asked)
        asked.flush()
        come, go = os.pipe()
        with subprocess.Popen(
            [python, str(RUNNER), asked.name, str(go)],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            pass_fds=[go],
            env=environment,
            cwd=wish.folder,
        ) as process:
            os.close(go)
            begun, ended, why = _follow(come, wish.timeout, done)
            process.kill()
            process.wait()
        words.seek(0)
        last = words.read().strip().splitlines()[-15:]
    if not ended and begun is None:
        print("\n".join(last), file=sys.stderr)
    if not ended and begun is not None:
        done[begun] = Outcome(why, f"{why}: {last[-1] if last else ''}")
    return ended or begun is None


def _follow(pipe: int, timeout: float, done: dict[str, Outcome]) -> tuple[str | None, bool, str]:
    """Gather what a runner says: the test begun last, whether it came to its end, or why not."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with open(pipe, encoding="utf-8") as said:
            for line in said:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    begun, patience = None, IMPORTS_TAKE
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            return begun, False, "hung"
        if line is None:
            return begun, False, "died"
        match json.loads(line):
            case {"end": True}:
                return begun, True, ""
            case {"begin": begun}:
                # The runner stops a slow test itself; one that it cannot stop is ended here.
                patience = 5 * timeout + 60
            case {"test": test, "result": str(result), "message": str(words), "where": str(where)}:
                done[test] = Outcome(result, words, where)


def kept_outcomes(python: str, wish: Wish, keep: Path | None) -> dict[str, Outcome]:
    """PyTorch's outcomes, from the kept ones where they are there."""
    if keep is not None and keep.exists():
        return {test: Outcome(*found) for test, found in json.loads(keep.read_text()).items()}
    found = outcomes("torch", python, wish)
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_text(json.dumps(found))
    return found


def _family(outcome: Outcome) -> str:
    """A message without what differs from test to test: numbers, addresses."""
    first = (outcome.message.strip().splitlines() or [""])[0]
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e-?\d+)?", "#", first)[:110]


def report(here: dict[str, Outcome], show: int) -> None:
    """Print the failures by message, the most frequent first, each with its first tests."""
    families: dict[str, list[tuple[str, Outcome]]] = collections.defaultdict(list)
    for test, outcome in here.items():
        if outcome.result != "passed":
            families[_family(outcome)].append((test, outcome))
    for found in sorted(families.values(), key=len, reverse=True)[:show]:
        test, outcome = found[0]
        words = " | ".join(outcome.message.strip().splitlines()[:3])[:300]
        print(f"{len(found):5}  {outcome.result}: {words}")
        print(f"       at {outcome.where}")
        print("       " + "  ".join(each for each, _ in found[:3]))


def main() -> int:
    """Run the command; 1 if a test that passes on PyTorch does not pass here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--here", required=True)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("-k", dest="only", action="append", default=[])
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--limit", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=int, default=60)
    asked = parser.parse_args()
    wish = Wish(
        str(asked.folder.resolve()),
        asked.files or ["."],
        asked.only,
        asked.without,
        asked.most,
        asked.timeout,
        asked.limit,
    )
    there = kept_outcomes(asked.torch, wish, asked.keep)
    passing = [
        test
        for test, outcome in there.items()
        if outcome.result == "passed"
        and (not asked.only or any(text in test for text in asked.only))
        and not any(text in test for text in asked.without)
    ]
    here = outcomes("maquette", asked.here, wish._replace(limit=0), passing) if passing else {}
    # A module that cannot be imported here has no tests at all: they count as failed.
    lost = {test: Outcome("failed", "not collected") for test in passing if test not in here}
    modules = {test: found for test, found in here.items() if "::" not in test}
    here = {test: found for test, found in here.items() if "::" in test} | lost
    if asked.json:
        asked.json.write_text(json.dumps(here | modules, indent=0))
    report(here | modules, asked.show)
    passed = sum(outcome.result == "passed" for outcome in here.values())
    print(f"{len(passing)} pass on PyTorch, {passed} of them here")
    return int(passed < len(passing))


if __name__ == "__main__":
    sys.exit(main())
