"""Which operators' functional forms run on an engine: recorded calls, compiled one by one.

    python tools/compiled_share.py --engine jax|dask|numpy [--ops PATTERN ...] [--each N]
        [--require SHARE] [--json OUT] [--show N]

Each call of `conformance/aten_public.jsonl.gz` is given to `maquette.compile`: it is traced,
functionalized and run by the engine, and its results and the arguments that it changes must be what
PyTorch's are. An overload runs if every recorded call of it does.
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


def main(argv: Sequence[str] | None = None) -> int:
    """Print the share; the exit status is 1 if it is less than ``--require``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--engine", choices=("numpy", "jax", "dask"), default="jax")
    parser.add_argument("--ops", action="append", default=[])
    parser.add_argument("--each", type=int, default=sys.maxsize)
    parser.add_argument("--require", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=int, default=40)
    options = parser.parse_args(argv)
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
