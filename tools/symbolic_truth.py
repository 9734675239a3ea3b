"""Run every recorded call's shape rule on symbols, and compare with what was recorded.

    python tools/symbolic_truth.py [--ops PATTERN ...] [--show N]

Each tensor of a recorded call becomes one with symbolic sizes; the rule's answer, with the hints
put in, must be the recorded metadata (*hinted*). Guards must hold at the recorded sizes. Then the
same with unbacked symbols of which nothing is known (*unbacked*): a rule may need a value and say
so, but no answer may differ. Differences make the exit status 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import conformance  # noqa: E402 — tools are scripts beside each other

import maquette as mq  # noqa: E402
from maquette.core.meta import TensorMeta  # noqa: E402
from maquette.dispatch.matching import bind  # noqa: E402
from maquette.fake.tensor import fresh_fake  # noqa: E402
from maquette.library.infer import infer  # noqa: E402
from maquette.symbolic import GuardOnDataDependentSymNode, ShapeEnv, SymInt  # noqa: E402

checker = conformance.load_checker()
KINDS = ("hinted", "unbacked")


class Difference(Exception):
    """The answer on symbols is not what was recorded."""


class SymbolicArguments(checker.Arguments):  # type: ignore[misc,name-defined]  # loaded by path
    """The arguments of a recorded call, with fakes of symbolic sizes for tensors."""

    def __init__(self, case: dict[str, Any], env: ShapeEnv, unbacked: bool) -> None:
        self.mode = mq.FakeTensorMode()
        self.env = env
        self.unbacked = unbacked
        self.values: dict[str, int] = {}
        super().__init__(checker.Backend(), case)

    def tensor(self, record: dict[str, Any]) -> Any:
        """A fake whose geometry is symbolic."""
        shape, strides, offset = self.env.symbolic_geometry(
            record["shape"], record["stride"], record["offset"]
        )
        if self.unbacked:
            numbers = [*record["shape"], *record["stride"], record["offset"]]
            found = [self._unbacked(s, n) for s, n in zip((*shape, *strides, offset), numbers)]
            shape, strides = found[: len(shape)], found[len(shape) : -1]
            offset = found[-1]
        dtype = getattr(mq, record["dtype"])
        meta = TensorMeta.of(dtype, tuple(shape), tuple(strides), offset)
        fake = fresh_fake(self.mode, meta)
        self.tensors.append(fake)
        return fake

    def _unbacked(self, size: Any, value: int) -> Any:
        """The expression of a size with an unbacked symbol for each backed one."""
        if not isinstance(size, SymInt):
            return size
        names = sorted(s.name for s in size.node.current.symbols)
        for name in names:
            if name not in self.values:
                made = self.env.new_size()
                self.values[name] = 0
                own = made.node.current
                backed = self.env.names[name]
                self._unbacked_of[backed] = own
                (new,) = own.symbols
                self.value_of[new] = self.env.hints[backed]
        from maquette.symbolic.expr import substituted
        from maquette.symbolic.functions import apply

        return self.env.symint(substituted(size.node.current, self._unbacked_of, apply))

    @property
    def _unbacked_of(self) -> dict[Any, Any]:
        return self.__dict__.setdefault("by", {})

    @property
    def value_of(self) -> dict[Any, int]:
        """What each unbacked symbol was when the call was recorded."""
        return self.__dict__.setdefault("known", {})


def metas_of(value: Any) -> Iterator[Any]:
    """The metas in a rule's answer, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from metas_of(item)
    elif isinstance(value, TensorMeta):
        yield value


def check(case: dict[str, Any], unbacked: bool) -> None:
    """Raise Difference unless the rule's answer on symbols is what was recorded."""
    env = ShapeEnv()
    arguments = SymbolicArguments(case, env, unbacked)
    op = checker.Backend().operator(case["op"])
    params = bind(op._schema, arguments.args, arguments.kwargs, takes_numbers=op.takes_numbers)
    answer = infer(op, params).value
    values = {**env.hints, **arguments.value_of}
    expected = list(checker.tensors_in(case["out"]))
    found = list(metas_of(answer))
    if len(found) != len(expected):
        raise Difference(f"{len(found)} results, recorded {len(expected)}")
    for meta, record in zip(found, expected):
        compare(meta, record, env, values)
    for guard in env.guards:
        if evaluated(guard.form, values) is not True:
            raise Difference(f"the guard {guard.text} does not hold at the recorded sizes")


def evaluated(form: Any, values: dict[Any, Any]) -> Any:
    """An expression at the recorded sizes."""
    from maquette.symbolic.ranges import value_of

    return value_of(form, values.__getitem__)


def compare(meta: TensorMeta, record: dict[str, Any], env: ShapeEnv, values: dict[Any, Any]) -> None:
    """Raise Difference unless a meta is what was recorded."""

    def plain(size: Any) -> int:
        return evaluated(size.node.current, values) if isinstance(size, SymInt) else int(size)

    actual = {
        "dtype": meta.dtype.name,
        "shape": list(map(plain, meta.shape)),
        "stride": list(map(plain, meta.strides)),
        "offset": plain(meta.offset),
        "device": "cpu",
        "conj": bool(record.get("conj")),
        "neg": bool(record.get("neg")),
    }
    difference = checker.metadata_difference(actual, record)
    if difference:
        raise Difference(difference)


def cases(patterns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Recorded calls of overloads that have a shape rule and need no data."""
    for _, case in checker.read(conformance.DATA / "aten_public.jsonl.gz"):
        name = case["op"]
        if patterns and not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        if case.get("fake"):
            continue
        op = checker.Backend().operator(name)
        if op.shape_rule is not None:
            yield case


def asking_line(error: Exception) -> str:
    """The line of a shape rule that needed a value."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f for f in frames if "maquette/symbolic/" not in f.filename and "core/symbols" not in f.filename]
    last = inner[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.name}: {last.line}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run all records; the exit status is 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ops", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("--lines", action="store_true", help="count by the line that needs a value")
    parser.add_argument("--every", type=int, default=1, help="take one record of so many")
    options = parser.parse_args(argv)
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[tuple[str, str, str]] = Counter()
    for number, case in enumerate(cases(options.ops)):
        if number % options.every:
            continue
        for kind in KINDS:
            try:
                check(case, kind == "unbacked")
                outcome = "right"
            except Difference as error:
                outcome = "wrong"
                reasons[kind, f"{case['op']} {case['id']}", str(error)] += 1
            except GuardOnDataDependentSymNode as error:
                outcome = "asks"
                reasons[kind, case["op"] if not options.lines else asking_line(error), "asks"] += 1
            except Exception as error:  # noqa: BLE001 — any refusal is counted
                outcome = "refuses"
                reasons[kind, case["op"], f"{type(error).__name__}: {error}"[:150]] += 1
            counts[kind, outcome] += 1
    for (kind, name, reason), count in reasons.most_common(options.show):
        print(f"{kind} {name} ({count}): {reason}")
    for kind in KINDS:
        total = sum(n for (k, _), n in counts.items() if k == kind)
        right = counts[kind, "right"]
        rest = ", ".join(f"{o} {counts[kind, o]}" for o in ("wrong", "asks", "refuses"))
        print(f"{kind}: {right}/{total} right ({right / max(total, 1):.1%}); {rest}")
    return int(counts["hinted", "wrong"] > 0 or counts["unbacked", "wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
