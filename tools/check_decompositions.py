"""Hold every decomposition to the kernel, over the recorded calls.

    python tools/check_decompositions.py [--ops PATTERN ...] [--every N] [--show N]

Each recorded call of an operator of the core table is run by its kernel and by its decomposition:
values, dtypes, shapes and strides must be equal, and what was mutated. Prints counts and every
failure's first line; the exit status says whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import maquette as mq
from check_batching import WITHOUT_VALUES, cases, difference, leaves_of, with_tensors
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.tags import Tag
from maquette.fx.decompositions import core_aten_decompositions, decomposition_table

# What is given is a recorded accident of the kernel: an unused result, ties.
APART = ("empty_like", "new_empty", "bernoulli", "resize", "_has_compatible", "rrelu")


def outcome(call: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[mq.Tensor]:
    """The tensors that a call gives, and its arguments afterwards, on clones."""
    names = list(kwargs)
    whole = [list(args), [kwargs[n] for n in names]]
    tensors = [_cloned(t) for t in leaves_of(whole)]
    new_args, new_kwargs = with_tensors(whole, iter(tensors))
    with mq.no_grad():
        result = call(*new_args, **dict(zip(names, new_kwargs)))
    return [*leaves_of(result), *tensors]


def _cloned(t: mq.Tensor) -> mq.Tensor:
    made = mq.empty_strided(t.shape, t.stride(), dtype=t.dtype)
    return made.copy_(t) if t.numel() else made


def compare(op: Any, rule: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """What is wrong with a decomposition, or nothing; "-" where the kernel refuses the call."""
    try:
        expected = outcome(op, args, kwargs)
    except Exception:  # noqa: BLE001  # what is refused is compared elsewhere
        return "-"
    try:
        found = outcome(rule, args, kwargs)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is told
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
    if len(found) != len(expected):
        return f"{len(found)} tensors, expected {len(expected)}"
    for n, (got, want) in enumerate(zip(found, expected)):
        problem = difference(op, got.unsqueeze(0), [want])
        if not problem and want.numel() and _strides(got) != _strides(want):
            problem = f"strides {got.stride()}, expected {want.stride()}"
        if problem:
            return f"tensor {n}: {problem}"
    return ""


def _strides(t: mq.Tensor) -> list[int]:
    return [s for s, n in zip(t.stride(), t.shape) if n > 1]


def run(patterns: Sequence[str], every: int) -> tuple[Counter[str], set[str], list[Any]]:
    """Counts, the operators compared, and failures as (operator, reason, arguments)."""
    tables = {**core_aten_decompositions(), **decomposition_table}
    total: Counter[str] = Counter()
    compared: set[str] = set()
    failures = []
    for name, op, args, kwargs in cases(patterns, every):
        rule = tables.get(op)
        random = Tag.nondeterministic_seeded in op.tags
        if rule is None or random or op._opname.startswith((*APART, *WITHOUT_VALUES)):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = compare(op, rule, args, kwargs)
        total["refused" if problem == "-" else "failed" if problem else "passed"] += 1
        compared.add(name)
        if problem not in ("", "-"):
            failures.append((name, problem, (args, kwargs)))
    return total, compared, failures


class TakenApart(TorchDispatchMode):
    """Runs the decompositions of what decompositions call, too; none may come back to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = {**core_aten_decompositions(), **decomposition_table}
        self.inside: list[Any] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = self.tables.get(op, op)
        if self.inside.count(op) > 2:
            raise RecursionError(" calls ".join(str(o) for o in self.inside[-3:]))
        self.inside.append(op)
        try:
            with nullcontext() if rule is op else self:
                return rule(*args, **(kwargs or {}))
        finally:
            self.inside.pop()


def recursions(patterns: Sequence[str], every: int) -> list[tuple[str, str]]:
    """Recorded calls whose decompositions, with all tables in force, never end."""
    found = []
    for name, op, args, kwargs in cases(patterns, every):
        try:
            with warnings.catch_warnings(), mq.no_grad(), TakenApart():
                warnings.simplefilter("ignore")
                op(*args, **kwargs)
        except RecursionError as error:
            found.append((name, str(error)))
        except Exception:  # noqa: BLE001  # what is refused is compared elsewhere
            continue
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", action="append", default=[])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--show", type=int, default=80)
    options = parser.parse_args(argv)
    total, compared, failures = run(options.ops, options.every)
    shown: Counter[str] = Counter()
    for name, reason, _ in failures:
        shown[name] += 1
        if shown[name] == 1 and len(shown) <= options.show:
            print(f"{name}: {reason}")
    for name, reason in (endless := recursions(options.ops, options.every)):
        print(f"{name}: {reason} without end")
    print(f"overloads: {len(compared)}, {len(shown)} with failures")
    print(", ".join(f"{kind}: {n}" for kind, n in total.most_common()))
    return 1 if failures or endless else 0


if __name__ == "__main__":
    sys.exit(main())
