"""Run every recorded call's shape rule on symbols, and compare with what was recorded.

    python tools/symbolic_truth.py [--ops PATTERN ...] [--show N] [--every N [--first K]]

Each tensor of a recorded call becomes one with symbolic sizes; the rule's answer, with the hints
put in, must be the recorded metadata (*hinted*). Guards must hold at the recorded sizes. Then the
same with unbacked symbols of which nothing is known (*unbacked*): a rule may need a value and say
so, but no answer may differ. *program*: the whole operator, on fakes made by a mode with a shape
environment, also where it is defined by others. Differences make the exit status 1. The whole takes
long: ``--every 8 --first 0`` to ``--first 7`` are its eight parts.
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
import conformance
import maquette as mq
from maquette.core.meta import TensorMeta
from maquette.dispatch.schemas.matching import bind
from maquette.fake.tensor import fresh_fake
from maquette.library.infer import infer
from maquette.symbolic import GuardOnDataDependentSymNode, ShapeEnv, SymInt
from maquette.symbolic.expr import substituted
from maquette.symbolic.functions import apply
from maquette.symbolic.ranges import value_of

checker = conformance.load_checker()
KINDS = ("hinted", "unbacked", "program")
#: Guards by what became of them, and other sizes by what the guards said of them.
SIZES: Counter[str] = Counter()


class Difference(Exception):
    """The answer on symbols is not what was recorded."""


class OtherStrides(Exception):
    """Of unbacked strides nothing is known, so a result is laid out as a plain one."""


class SymbolicArguments(checker.Arguments):  # type: ignore[name-defined]  # loaded by path
    """The arguments of a recorded call, with fakes of symbolic sizes for tensors."""

    def __init__(self, case: dict[str, Any], env: ShapeEnv, unbacked: bool) -> None:
        self.mode = mq.FakeTensorMode()
        self.env = env
        self.unbacked = unbacked
        self.unbacked_of: dict[Any, Any] = {}
        #: What each unbacked symbol was when the call was recorded.
        self.recorded: dict[Any, Any] = {}
        super().__init__(checker.Backend(), case)

    def tensor(self, record: dict[str, Any]) -> Any:
        """A fake whose geometry is symbolic."""
        shape, strides, offset = self.env.symbolic_geometry(
            record["shape"], record["stride"], record["offset"]
        )
        numbers = [*shape, *strides, offset]
        if self.unbacked:
            numbers = list(map(self._unbacked, numbers))
        rank = len(shape)
        dtype = getattr(mq, record["dtype"])
        meta = TensorMeta.of(dtype, tuple(numbers[:rank]), tuple(numbers[rank:-1]), numbers[-1])
        fake = fresh_fake(self.mode, meta)
        self.tensors.append(fake)
        return fake

    def _unbacked(self, size: Any) -> Any:
        """The expression of a size with an unbacked symbol for each backed one."""
        if not isinstance(size, SymInt):
            return size
        for backed in sorted(size.node.current.symbols, key=lambda s: s.name):
            if backed not in self.unbacked_of:
                own = self.env.poly_of(self.env.new_size())
                self.unbacked_of[backed] = own
                (new,) = own.symbols
                self.recorded[new] = self.env.hints[backed]
        form = substituted(size.node.current, self.unbacked_of, apply)
        return self.env.symint(self.env.poly_of(form))


class SymbolicFakes(checker.Arguments):  # type: ignore[name-defined]  # loaded by path
    """The arguments of a recorded call, with fakes of symbolic sizes for tensors."""

    def __init__(self, case: dict[str, Any], env: ShapeEnv) -> None:
        self.mode = mq.FakeTensorMode(shape_env=env)
        super().__init__(checker.Backend(), case)

    def tensor(self, record: dict[str, Any]) -> Any:
        """A fake of the recorded tensor."""
        real = super().tensor(record)
        self.tensors[-1] = fake = self.mode.from_tensor(real)
        return fake


def check_program(case: dict[str, Any]) -> None:
    """Raise Difference unless the operator on symbolic fakes gives what was recorded."""
    env = ShapeEnv()
    arguments = SymbolicFakes(case, env)
    op = checker.Backend().operator(case["op"])
    with arguments.mode:
        result = op(*arguments.args, **arguments.kwargs)
    found = list(tensors_of(result))
    expected = list(checker.tensors_in(case["out"]))
    if len(found) != len(expected):
        raise Difference(f"{len(found)} results, recorded {len(expected)}")
    for tensor, record in zip(found, expected):
        compare(tensor.meta, record, env, dict(env.hints))


def tensors_of(value: Any) -> Iterator[Any]:
    """The tensors in a result, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, mq.Tensor):
        yield value


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
    values = {**env.hints, **arguments.recorded}
    expected = list(checker.tensors_in(case["out"]))
    found = list(metas_of(answer))
    if len(found) != len(expected):
        raise Difference(f"{len(found)} results, recorded {len(expected)}")
    for meta, record in zip(found, expected):
        compare(meta, record, env, values)
    for guard in env.guards:
        if evaluated(guard.form, values) is not True:
            raise Difference(f"the guard {guard.text} does not hold at the recorded sizes")
    SIZES["guards that hold at the recorded sizes"] += len(env.guards)
    if not unbacked:
        check_other_sizes(op, params, answer, env)


def check_other_sizes(op: Any, params: Sequence[Any], answer: Any, env: ShapeEnv) -> None:
    """Raise Difference if guards allow sizes at which the answer is another one."""
    guards = [g.form for g in env.guards]
    guards += [a.form for asserts in env.deferred.values() for a in asserts]
    failing: set[Any] = set()
    changed: set[Any] = set()
    for values in other_sizes(env):
        failed = [g for g in guards if evaluated(g, values) is not True]
        failing.update(failed)
        real = plain_answer(op, params, values)
        same = real is not None and real == told_answer(answer, values)
        if not failed and not same:
            sizes = {s.name: values[s] for s in env.hints}
            raise Difference(f"the guards allow {sizes}, where the answer is {real}")
        if failed and not same:
            changed.update(failed)
        SIZES["allowed" if not failed else "ruled out" if same else "ruled out rightly"] += 1
    SIZES["guards that fail where the result changes"] += len(changed)
    SIZES["guards that fail at some other size"] += len(failing)


def told_answer(answer: Any, values: dict[Any, int]) -> list[TensorMeta] | None:
    """What the symbolic answer says of plain sizes; None if those make no tensors."""
    try:
        return [plain_meta(m, values) for m in metas_of(answer)]
    except RuntimeError:  # a negative size or offset
        return None


def other_sizes(env: ShapeEnv) -> Iterator[dict[Any, int]]:
    """The hints with one size changed, and with all."""
    hints: dict[Any, Any] = dict(env.hints)
    for symbol, hint in hints.items():
        for size in dict.fromkeys((hint + 1, hint - 1, 2 * hint, 2, 7)):
            if size >= 2 and size != hint:
                yield {**hints, symbol: size}
    yield {s: 2 * hint for s, hint in hints.items()}
    yield {s: hint + 1 for s, hint in hints.items()}


def plain_meta(meta: TensorMeta, values: dict[Any, int]) -> TensorMeta:
    """A meta with the sizes that symbols have."""

    def plain(size: Any) -> int:
        return evaluated(size.node.current, values) if isinstance(size, SymInt) else int(size)

    shape, strides = tuple(map(plain, meta.shape)), tuple(map(plain, meta.strides))
    return TensorMeta.of(meta.dtype, shape, strides, plain(meta.offset), meta.device, meta.layout)


def plain_answer(op: Any, params: Sequence[Any], values: dict[Any, int]) -> list[TensorMeta] | None:
    """What the rule gives at plain sizes; None if it refuses them."""
    mode = mq.FakeTensorMode()

    def at(value: Any) -> Any:
        if isinstance(value, mq.Tensor):
            return fresh_fake(mode, plain_meta(value.meta, values))
        return tuple(map(at, value)) if isinstance(value, tuple) else value

    try:
        return list(metas_of(infer(op, list(map(at, params))).value))
    except Exception:  # noqa: BLE001 — any refusal counts
        return None


def evaluated(form: Any, values: dict[Any, Any]) -> Any:
    """An expression at the recorded sizes."""
    return value_of(form, values.__getitem__)


def compare(
    meta: TensorMeta, record: dict[str, Any], env: ShapeEnv, values: dict[Any, Any]
) -> None:
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
    if difference and difference.startswith("stride") and any(s.is_unbacked for s in values):
        raise OtherStrides(difference)
    if difference:
        raise Difference(difference)


def cases(patterns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Recorded calls that need no data."""
    for _, case in checker.read(conformance.DATA / "aten_public.jsonl.gz"):
        name = case["op"]
        if patterns and not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        if case.get("fake"):
            continue
        if not any(is_complex_view(r) for r in checker.tensors_in([*case["args"], case["out"]])):
            yield case


def asking_line(error: Exception) -> str:
    """The line of a shape rule that needed a value."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [
        f
        for f in frames
        if "maquette/symbolic/" not in f.filename and "core/symbols" not in f.filename
    ]
    last = inner[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.name}: {last.line}"


def outcome_of(case: dict[str, Any], kind: str) -> tuple[str, Exception | None]:
    """How a call came out: right, wrong, assumes strides, asks (for a value), refuses."""
    try:
        if kind == "program":
            check_program(case)
        else:
            check(case, kind == "unbacked")
    except Difference as error:
        return "wrong", error
    except OtherStrides as error:
        return "assumes strides", error
    except GuardOnDataDependentSymNode as error:
        return "asks", error
    except Exception as error:  # noqa: BLE001 — any refusal is counted
        return "refuses", error
    return "right", None


def has_rule(case: dict[str, Any]) -> bool:
    """Whether the operator has a shape rule of its own."""
    return checker.Backend().operator(case["op"]).shape_rule is not None


def is_complex_view(record: dict[str, Any]) -> bool:
    """Whether a recorded tensor has a conjugate or negative bit, which metas do not show."""
    return bool(record.get("conj") or record.get("neg"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run all records; the exit status is 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ops", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("--lines", action="store_true", help="count by the line that needs a value")
    parser.add_argument("--every", type=int, default=1, help="take one record of so many")
    parser.add_argument("--first", type=int, default=0, help="begin with the record of this number")
    options = parser.parse_args(argv)
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[tuple[str, str, str]] = Counter()
    for number, case in enumerate(cases(options.ops)):
        if (number - options.first) % options.every:
            continue
        for kind in KINDS:
            if kind != "program" and not has_rule(case):
                continue  # defined by others: there is no rule of its own
            outcome, error = outcome_of(case, kind)
            if error is not None:
                where = asking_line(error) if options.lines else f"{case['op']} {case['id']}"
                text = outcome if options.lines else f"{outcome}: {error}".split("(unhinted")[0]
                reasons[kind, where, text[:160]] += 1
            counts[kind, outcome] += 1
    for (kind, name, reason), count in reasons.most_common(options.show):
        print(f"{kind} {name} ({count}): {reason}")
    for kind in KINDS:
        total = sum(n for (k, _), n in counts.items() if k == kind)
        right = counts[kind, "right"]
        rest = ", ".join(
            f"{o} {counts[kind, o]}" for o in ("wrong", "assumes strides", "asks", "refuses")
        )
        print(f"{kind}: {right}/{total} right ({right / max(total, 1):.1%}); {rest}")
    for what, count in sorted(SIZES.items()):
        print(f"{what}: {count}")
    return int(any(counts[kind, "wrong"] for kind in KINDS))


if __name__ == "__main__":
    sys.exit(main())
