"""Plant defects in operators, check them, and count what is caught.

    python tools/planted_defects.py [--on torch] [--check ours|theirs] [--only NAME ...]
                                    [--every N --start K]

Every defect of `tests/opcheck/planted` is planted in an operator of its own and checked by our
properties; so is the same operator without it, of which nothing may be found. With ``--on torch``
the operators are PyTorch's and so is, beside ours, its own `opcheck`: how many each catches, and
the time that each takes. ``--every N --start K`` takes the defects K, K + N, K + 2 N ...: those of
all K from 0 to N - 1 are all. Progress goes to stderr. The exit status is 1 where a defect is
missed or a right operator flagged.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parent.parent / "tests" / "opcheck"
sys.path.insert(0, str(TESTS))


from maquette.opcheck import OpReport, opcheck  # noqa: E402
from maquette.opcheck.framework import maquette_framework, torch_framework  # noqa: E402
from maquette.opcheck.settings import restored, settings_of  # noqa: E402

planted: Any = importlib.import_module("planted.planting")
DEFECTS: Sequence[Any] = importlib.import_module("planted").DEFECTS


class Outcome(NamedTuple):
    """What one check said of one planted defect and of its right twin."""

    name: str
    caught: tuple[str, ...]
    flagged: tuple[str, ...]
    seconds: float


def ours(op: Any, args: Any, kwargs: Any) -> tuple[str, ...]:
    """The ids of our failing properties."""
    report = opcheck(op, args, kwargs, report=True)
    assert isinstance(report, OpReport)
    return tuple([f.property for f in report.findings])


def theirs(op: Any, args: Any, kwargs: Any) -> tuple[str, ...]:
    """The names of PyTorch's failing utilities."""
    library = importlib.import_module("torch.library")
    with contextlib.redirect_stderr(io.StringIO()):
        found = library.opcheck(op, args, kwargs, raise_exception=False)
    return tuple([name for name, outcome in found.items() if outcome != "SUCCESS"])


def examined(defect: Any, check: Any, planter: Any) -> Outcome:
    """One defect and its twin under a check."""
    found = []
    seconds = 0.0
    for wrong in (True, False):
        p = planter()
        on = maquette_framework() if p.maquette else torch_framework()
        settings = settings_of(on)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            op, args, kwargs = defect.plant(p, wrong)
            started = time.perf_counter()
            try:
                found.append(check(op, args, kwargs))
            except Exception as error:  # noqa: BLE001  # told as what was found
                found.append((f"{type(error).__name__}: {error}"[:90],))
            seconds += time.perf_counter() - started
            if settings_of(on) != settings:
                restored(on, settings)  # else the twin is checked on another device
        p.close()
    return Outcome(defect.name, found[0], found[1], seconds)


def apart(defect: Any, check: Any, planter: Any) -> Outcome:
    """`examined` in a process of its own: what PyTorch's modes are left in ends with it."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=lambda: its.send(examined(defect, check, planter)))
    process.start()
    its.close()
    try:
        return mine.recv()
    except EOFError:
        return Outcome(defect.name, ("the process ended",), (), 0.0)
    finally:
        process.join()


def chosen(names: Sequence[str], on: str, every: int = 1, start: int = 0) -> list[Any]:
    """The defects that are asked for and that the library has."""
    named = [d for d in DEFECTS if not names or any(n in d.name for n in names)]
    return [d for d in named if d.only in ("", on)][start::every]


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is caught; 1 where something is missed or a right operator flagged."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--on", choices=("maquette", "torch"), default="maquette")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth defect")
    parser.add_argument("--start", type=int, default=0, metavar="K", help="from the Kth, K < N")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", choices=("ours", "theirs", "both"), default="both")
    parser.add_argument("--show", action="store_true", help="print what caught each")
    options = parser.parse_args(argv)
    if not 0 <= options.start < options.every:
        parser.error(f"expected 0 <= start < every, got {options.start} and {options.every}")
    planter = planted.for_torch if options.on == "torch" else planted.for_maquette
    checks = {"maquette's properties": ours} if options.check != "theirs" else {}
    if options.on == "torch" and options.check != "ours":
        checks["PyTorch's opcheck"] = theirs
    defects = chosen(options.only, options.on, options.every, options.start)
    results: dict[str, list[Outcome]] = {}
    for title, check in checks.items():
        results[title] = []
        if options.on == "torch" and defects:
            examined(defects[0], check, planter)  # what the processes to come have in common
        for d in defects:
            outcome = (apart if options.on == "torch" else examined)(d, check, planter)
            results[title].append(outcome)
            if len(results[title]) % 25 == 0:
                seconds = sum(o.seconds for o in results[title])
                done = f"{len(results[title])} of {len(defects)} defects"
                print(f"{title}: {done} in {seconds:.0f} s", file=sys.stderr, flush=True)
            if options.show:
                print(f"{d.spec:5} {d.name}: {', '.join(outcome.caught) or 'MISSED'}", flush=True)
    code = 0
    for title, outcomes in results.items():
        code |= report(title, outcomes, defects) if title.startswith("maq") else 0
        if not title.startswith("maq"):
            report(title, outcomes, defects)
    if options.json:
        Path(options.json).write_text(
            json.dumps({t: [o._asdict() for o in os] for t, os in results.items()}, indent=1)
        )
    return code


def report(title: str, outcomes: Sequence[Outcome], defects: Sequence[Any]) -> int:
    """Print the counts of a check, and what it missed or flagged."""
    missed = [o for o in outcomes if not o.caught]
    flagged = [o for o in outcomes if o.flagged]
    mine = title.startswith("maq")
    if mine:
        for o, d in zip(outcomes, defects, strict=True):
            if o.caught and not set(o.caught) & set(d.caught_by):
                print(f"by another property: {o.name}: {', '.join(o.caught)}, not {d.caught_by}")
        for o in missed:
            print(f"missed: {o.name}")
        for o in flagged:
            print(f"flagged though right: {o.name}: {', '.join(o.flagged)}")
    families = Counter(d.family for d in defects)
    caught = Counter(d.family for d, o in zip(defects, outcomes, strict=True) if o.caught)
    shown = ", ".join(f"{name} {caught[name]}/{n}" for name, n in families.items())
    seconds = sum(o.seconds for o in outcomes)
    print(
        f"{title}: {len(outcomes) - len(missed)} of {len(outcomes)} defects caught ({shown}); "
        f"{len(flagged)} of {len(outcomes)} right twins flagged; {seconds:.0f} s"
    )
    return int(bool(missed or flagged))


if __name__ == "__main__":
    sys.exit(main())
