"""Hold every operator under vmap to a loop over the batch, over the recorded calls.

    python tools/check_batching.py [--ops PATTERN ...] [--every N] [--show N]

Each recorded call is made a batch of two: the call itself, and one with other values. What vmap
gives must be what the two calls give: values, dtypes, and what was written. The batch is tried on
all tensors and on each alone, first and last among the dimensions, and nested once. Prints counts
and every failure's first line; the exit status says whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import maquette as mq
from conformance import DATA, load_checker
from maquette.dispatch.tags import Tag
from maquette.transforms import loop, vmap

WITHOUT_VALUES = ("empty", "new_empty", "empty_like", "empty_permuted", "resize")
# Where an example's memory is looked at, or a factorization that nobody is promised is returned.
APART = ("as_strided", "_linalg_det", "_linalg_slogdet", "_assert_tensor_metadata", "set")
PIVOTED = ("linalg_ldl_solve",)  # other pivots than those of its matrix make it singular
EXPECTED = (
    "randomness error mode",
    "data-dependent",
    "dynamic shape",
    "calling .item()",
    "Batch norm got a batched tensor",
    "stride",
    "in_dim",
)


class Config(NamedTuple):
    """Which tensors are batched at which dimension, and whether another vmap is outside."""

    dims: tuple[int | None, ...]
    nested: bool = False


class Outcome(NamedTuple):
    kind: str  # "passed", "loop", "refused" or "failed"
    reason: str = ""


def leaves_of(value: Any) -> list[mq.Tensor]:
    """The tensors among results or arguments, in order."""
    if isinstance(value, mq.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in leaves_of(v)]
    return []


def with_tensors(value: Any, tensors: Iterator[mq.Tensor]) -> Any:
    """A structure with its tensors exchanged, in order."""
    if isinstance(value, mq.Tensor):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        return type(value)([with_tensors(v, tensors) for v in value])
    return value


def another(op: Any, t: mq.Tensor) -> mq.Tensor:
    """A tensor like ``t`` with other values that an operator takes as well."""
    if t.dtype.is_floating_point or t.dtype.is_complex:
        return t * 0.75
    if op._opname in PIVOTED:
        return t.clone()
    return t.flip(list(range(t.ndim))) if t.ndim else t.clone()


def configs(tensors: Sequence[mq.Tensor]) -> list[Config]:
    """All batched; each alone, last among its dimensions; all, each alone in a second vmap."""
    count = len(tensors)
    found = [Config((0,) * count)]
    for i in range(min(count, 4)):
        found.append(Config(tuple([tensors[i].ndim if i == j else None for j in range(count)])))
    return [*found, Config((0,) * count, nested=True)]


def check(op: Any, args: Sequence[Any], kwargs: dict[str, Any], config: Config) -> Outcome:
    names = list(kwargs)
    whole = [list(args), [kwargs[n] for n in names]]
    tensors = leaves_of(whole)
    written = [a.is_write for a in op._schema.arguments]

    def call(*given: mq.Tensor) -> Any:
        new_args, new_kwargs = with_tensors(whole, iter(given))
        result = op(*new_args, **dict(zip(names, new_kwargs)))
        return [*leaves_of(result), *(given if any(written) else ())]

    members = [[t.clone() for t in tensors], [another(op, t) for t in tensors]]
    stacked = [
        members[0][i].clone() if d is None else mq.stack([members[0][i], members[1][i]], d)
        for i, d in enumerate(config.dims)
    ]
    # Examples lie in memory as vmap shows them: some operators look at that.
    chosen = [
        [t if d is None else t.select(d, k) for t, d in zip(stacked, config.dims)] for k in range(2)
    ]
    try:
        expected = [call(*([t.clone() for t in row] if any(written) else row)) for row in chosen]
    except Exception as error:  # noqa: BLE001  # the values do not fit the operator
        return Outcome("skipped", str(error))
    if any([t.shape for t in row] != [t.shape for t in expected[0]] for row in expected):
        return Outcome("skipped", "the shape depends on values")
    function: Callable[..., Any] = vmap(call, config.dims)
    if config.nested:
        # Outside, a batch of one of everything.
        stacked = [t.unsqueeze(0) for t in stacked]
        function = vmap(function, (0,) * len(stacked))
    looped = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function(*stacked)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            return _refusal(op, config, written, error)
    looped = any("performance drop" in str(w.message) for w in caught)
    if config.nested:
        found = [t.squeeze(0) for t in found]
    if len(found) != len(expected[0]):
        return Outcome("failed", f"{len(found)} results, expected {len(expected[0])}")
    for n, got in enumerate(found):
        problem = difference(op, got, [row[n] for row in expected])
        if problem:
            return Outcome("failed", f"result {n}: {problem}")
    return Outcome("loop" if looped else "passed")


def _refusal(op: Any, config: Config, written: Sequence[bool], error: Exception) -> Outcome:
    text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
    expected = Tag.dynamic_output_shape in op.tags or Tag.data_dependent_output in op.tags
    if expected or any(words in text for words in EXPECTED):
        return Outcome("refused", text)
    if any(written) and config.dims[0] is None and "vmap" in text:
        return Outcome("refused", text)
    if any(written) and None in config.dims:
        return Outcome("refused", text)
    return Outcome("failed", text)


def difference(op: Any, got: mq.Tensor, rows: Sequence[mq.Tensor]) -> str:
    """What is wrong with a batched result, or nothing."""
    expected = mq.stack(list(rows))
    if got.dtype is not expected.dtype:
        return f"dtype {got.dtype}, expected {expected.dtype}"
    if got.shape != expected.shape:
        return f"shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
    if op._opname.rstrip("_") in WITHOUT_VALUES:
        return ""
    a, b = (
        x.resolve_conj().resolve_neg().detach().to(mq.complex128).numpy() for x in (got, expected)
    )
    narrow = got.dtype.is_floating_point and got.dtype.itemsize < 4
    tolerance = 3e-2 if narrow else 1e-6 if got.dtype in (mq.float64, mq.complex128) else 1e-4
    finite = np.abs(b[np.isfinite(b)])
    scale = max(1.0, finite.max()) if narrow and finite.size else 1.0
    if not np.allclose(a, b, tolerance, tolerance * scale, equal_nan=True):
        at = np.nanmax(np.abs(a - b)) if a.size else 0
        return f"values differ by up to {at:.3g}"
    return ""


def cases(patterns: Sequence[str], every: int) -> Iterator[tuple[str, Any, Sequence[Any], Any]]:
    """The recorded calls of operators with tensors: name, overload, arguments, keywords."""
    checker = load_checker()
    backend = checker.Backend()
    seen: Counter[str] = Counter()
    for _, case in checker.read(DATA / "aten_public.jsonl.gz"):
        if "op" not in case or not checker.wanted(case["op"], patterns):
            continue
        seen[case["op"]] += 1
        if (seen[case["op"]] - 1) % every or case.get("resizes"):
            continue
        try:
            op = backend.operator(case["op"])
            arguments = checker.Arguments(backend, case)
        except checker.Unsupported:
            continue
        if leaves_of([list(arguments.args), list(arguments.kwargs.values())]):
            yield case["op"], op, arguments.args, arguments.kwargs


def run(
    patterns: Sequence[str], every: int
) -> tuple[Counter[str], dict[str, Counter[str]], list[Any]]:
    """Counts, counts by operator, and failures as (operator, config, reason)."""
    total: Counter[str] = Counter()
    by_op: dict[str, Counter[str]] = {}
    failures = []
    for name, op, args, kwargs in cases(patterns, every):
        if Tag.nondeterministic_seeded in op.tags or op._opname.startswith(APART):
            continue
        for config in configs(leaves_of([list(args), list(kwargs.values())])):
            loop.fallback.warned.clear()
            outcome = check(op, args, kwargs, config)
            total[outcome.kind] += 1
            by_op.setdefault(name, Counter())[outcome.kind] += 1
            if outcome.kind == "failed":
                failures.append((name, config, outcome.reason))
    return total, by_op, failures


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", action="append", default=[])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--show", type=int, default=60)
    options = parser.parse_args(argv)
    total, by_op, failures = run(options.ops, options.every)
    shown: Counter[str] = Counter()
    for name, config, reason in failures:
        shown[name] += 1
        if shown[name] == 1 and len(shown) <= options.show:
            print(f"{name} {config.dims}{' nested' if config.nested else ''}: {reason}")
    looped = sorted(name for name, counts in by_op.items() if counts["loop"])
    print(f"by a loop: {len(looped)}: {' '.join(looped)}")
    failed = {name for name, *_ in failures}
    good = len(by_op) - len(failed | set(looped))
    print(f"overloads: {len(by_op)}; {good} batched without a loop, {len(failed)} with failures")
    print(", ".join(f"{kind}: {n}" for kind, n in total.most_common()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
