"""Which operators' functional forms run on an engine: recorded calls, compiled one by one.

    python tools/compiled_share.py --engine jax|dask|numpy [--ops PATTERN ...] [--each N]
        [--require SHARE] [--json OUT] [--show N]

Each call of `conformance/aten_public.jsonl.gz` is given to `maquette.compile`: it is traced,
functionalized and run by the engine, and its results and the arguments that it changes must be what
PyTorch's are. An overload runs if every recorded call of it does.

    python tools/compiled_share.py --document JSON ...

writes what such runs found, and the reason of each overload that does not run, to
`docs/compiled_operators.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance import CALLS, load_checker
from maquette.compile import CompileError
from maquette.compile.compiled import Compiled
from maquette.compile.engines import engine_of


@dataclass
class Overload:
    """What the recorded calls of an overload did."""

    name: str
    calls: int = 0
    ran: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def comparison_of(checker: ModuleType) -> type:
    """The checker's comparison, less who shares memory: results of a compiled call are its own."""

    class OwnResults(checker.Comparison):  # type: ignore[name-defined]  # a module read from a file
        def same_storage(self, tensor: Any, index: int, where: str) -> None:
            pass

        def result(self, actual: Any, expected: Any, where: str = "result") -> None:
            if checker.is_tensor(expected):
                expected = {k: v for k, v in expected.items() if k != "same"}
            super().result(actual, expected, where)

    return OwnResults


def outcome(checker: ModuleType, backend: Any, engine: Any, compare: type, case: Any) -> str:
    """Empty where a compiled call does what PyTorch did; else the reason why not."""
    operator = backend.operator(case["op"])
    given = checker.Arguments(backend, case)
    compared = compare(backend, case, given, given.tensors, case.get("values", True))

    def call(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    try:
        result = Compiled(call, engine)(*given.args, **given.kwargs)
        compared.result(result, case["out"])
        compared.after()
        given.untouched()
        compared.arrays()
    except checker.Mismatch as error:
        return f"wrong: {error}"
    except CompileError as error:
        return f"refused: {_first_reason(str(error))}"
    except Exception as error:  # noqa: BLE001  # whatever is raised is what is to be known
        return f"error: {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
    return ""


def _first_reason(text: str) -> str:
    lines = text.splitlines()
    return lines[1].strip() if len(lines) > 2 else lines[0]


def replay(engine_name: str, patterns: Sequence[str], each: int) -> Iterable[Overload]:
    """What each overload's calls did, in the order of the recordings."""
    checker = load_checker()
    backend, engine = checker.Backend(), engine_of(engine_name, {})
    compare = comparison_of(checker)
    found: dict[str, Overload] = {}
    for _, case in checker.read(CALLS):
        if not checker.wanted(case["op"], patterns):
            continue
        row = found.setdefault(case["op"], Overload(case["op"]))
        if row.calls >= each:
            continue
        row.calls += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reason = outcome(checker, backend, engine, compare, case)
        row.ran += not reason
        if reason:
            row.reasons[reason] += 1
        if sum(r.calls for r in found.values()) % 500 == 0:
            engine.forget()
    return found.values()


# --- the page -----------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compiled_operators.md"
KINDS = (
    ("computes on the host", "computed by LAPACK or SciPy on the host"),
    ("needs a whole array at once", "needs a whole array at once"),
    ("asks what its data is", "its result's size, or a number that it reads, is data"),
    ("draws random numbers", "draws from a distribution that a tensor gives"),
    ("reads memory as it is laid out", "reads memory that its operand does not show"),
    ("shares memory with another", "mutates an operand that shares memory with another"),
    ("on copies, which writes", "defined by a kernel that writes to its operands"),
    ("a form of itself that mutates", "defined by a kernel that writes to its operands"),
    ("immutable", "its kernel writes to its operands"),
    ("Concret", "its kernel asks for values"),
    ("Tracer", "its kernel asks for values"),
    ("does not sort", "Dask does not sort"),
    ("combine values at positions", "Dask does not combine values at positions"),
    ("has no running", "Dask has no such scan"),
    ("has no function", "Dask has no such function"),
    ("no kernel of arrays", "its kernel has results whose size is data"),
)
HEAD = """# Operators that run compiled

Recorded calls of PyTorch's operators, given to `maquette.compile` one by one. An overload runs if
every call that was tried does what PyTorch did. What does not run compiled is named before anything
runs, and runs as it stands.

```
python tools/compiled_share.py --engine jax --each 1 --json jax.json
python tools/compiled_share.py --engine dask --each 1 --json dask.json
python tools/compiled_share.py --document jax.json dask.json  # writes this page
```
"""


def kind_of(reason: str) -> str:
    """A reason in the words of the page."""
    if reason.startswith("wrong: "):
        return "differs: " + reason.removeprefix("wrong: ").partition(",")[0]
    for part, words in KINDS:
        if part in reason:
            return words
    return reason.partition(": ")[2].rpartition(": ")[2][:100].replace("|", "/")


def document(runs: dict[str, list[dict[str, Any]]]) -> str:
    """The page: the share of each engine, and by their reasons the overloads that do not run."""
    lines = [HEAD]
    for engine, rows in runs.items():
        whole = [r for r in rows if r["ran"] == r["calls"]]
        lines.append(f"## {engine}\n")
        lines.append(
            f"**{len(whole)} of {len(rows)} overloads ({len(whole) / len(rows):.1%})**, "
            f"{sum(r['calls'] for r in rows)} calls.\n"
        )
        by_reason: dict[str, list[str]] = {}
        for row in rows:
            if row["ran"] < row["calls"]:
                reason = kind_of(max(row["reasons"], key=row["reasons"].get))
                part = f" ({row['ran']}/{row['calls']})" if row["ran"] else ""
                by_reason.setdefault(reason, []).append(f"`{row['name'][5:]}`{part}")
        lines.append("| why not | overloads (calls that run) |\n| --- | --- |")
        for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
            lines.append(f"| {reason} | {', '.join(names)} |")
        lines.append("")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the share; the exit status is 1 if it is less than ``--require``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--engine", choices=("numpy", "jax", "dask"), default="jax")
    parser.add_argument("--ops", action="append", default=[])
    parser.add_argument("--each", type=int, default=sys.maxsize)
    parser.add_argument("--require", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=int, default=40)
    parser.add_argument("--document", nargs="+", type=Path, metavar="JSON")
    options = parser.parse_args(argv)
    if options.document:
        runs = {path.stem: json.loads(path.read_text()) for path in options.document}
        PAGE.write_text(document(runs))
        return 0
    rows = list(replay(options.engine, options.ops, options.each))
    whole = [r for r in rows if r.ran == r.calls]
    for row in [r for r in rows if r.ran < r.calls][: options.show]:
        print(f"{row.name} {row.ran}/{row.calls}: {row.reasons.most_common(1)[0][0]}")
    if options.json:
        options.json.write_text(json.dumps([vars(r) for r in rows], indent=1) + "\n")
    share = len(whole) / max(len(rows), 1)
    print(
        f"{options.engine}: {len(whole)} of {len(rows)} overloads ({share:.1%}) run in every call, "
        f"{sum(r.ran > 0 for r in rows)} in some; {sum(r.ran for r in rows)} of "
        f"{sum(r.calls for r in rows)} calls"
    )
    return int(not rows or share < options.require)


if __name__ == "__main__":
    sys.exit(main())
