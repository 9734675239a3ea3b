"""Hold the tangents of forward mode to finite differences and to PyTorch's recorded gradients.

    python tools/check_tangents.py [--ops PATTERN ...] [--every N] [--show N]

For each recorded call of a function with gradients, the tangent of its results along a random
direction must agree with central differences; multiplied with the recorded cotangents it must be
what the recorded gradients are, multiplied with the direction. Two directions at once, under
`vmap`, must give what each gives. Nested, the tangent of the gradient must be the gradient of the
tangent, and gradients of two rows at once those of each. Prints counts and every failure's first
line; the exit status says whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import maquette as mq
from conformance import DATA, load_checker
from maquette.transforms import grad, jvp, vjp, vmap

STEP = 1e-6


class Outcome(NamedTuple):
    kind: str
    reason: str = ""


class Call(NamedTuple):
    """One recorded call: a function of the inputs alone, them, and what PyTorch says of it."""

    name: str
    function: Any
    inputs: list[mq.Tensor]
    cotangents: list[mq.Tensor | None]
    gradients: list[np.ndarray | None]


def calls(patterns: Sequence[str], every: int) -> Iterator[Call]:
    checker = load_checker()
    backend = checker.Backend()
    seen: Counter[str] = Counter()
    for _, case in checker.read(DATA / "grad_public.jsonl.gz"):
        name = case.get("func")
        if name is None or not checker.wanted(name, patterns):
            continue
        seen[name] += 1
        if (seen[name] - 1) % every:
            continue
        function = backend.function(name)
        arguments = checker.Arguments(backend, case)
        chosen = [arguments.tensors[i] for i in case["grad_inputs"]]

        def call(*given: mq.Tensor, f: Any = function, a: Any = arguments, c: Any = chosen) -> Any:
            table = {id(t): t for t in a.tensors} | {id(t): g for t, g in zip(c, given)}
            args = checker.replace(a.args, table, backend.is_tensor)
            kwargs = {k: checker.replace(v, table, backend.is_tensor) for k, v in a.kwargs.items()}
            found = checker.flat_tensors(backend, f(*args, **kwargs))
            return tuple([t for t in found if t.is_floating_point() or t.is_complex()])

        cotangents = [None if c is None else arguments.tensor(c) for c in case["cotangents"]]
        kept = [
            c
            for c, r in zip(cotangents, checker.tensors_in(case["out"]))
            if r["dtype"].startswith(("float", "complex", "bfloat"))
        ]
        grads = [None if g is None else checker.logical_array(case, g) for g in case["grads"]]
        yield Call(name, call, chosen, kept, grads)


def direction(t: mq.Tensor, seed: int) -> mq.Tensor:
    """A random tangent of a tensor."""
    draw = np.random.default_rng(seed)
    values = draw.standard_normal(tuple(t.shape))
    if t.is_complex():
        values = values + 1j * draw.standard_normal(tuple(t.shape))
    return mq.tensor(values).to(t.dtype)


def check(call: Call) -> Outcome:
    inputs = [t.detach() for t in call.inputs]
    if any(t.dtype not in (mq.float64, mq.complex128) for t in inputs):
        return Outcome("skipped", "not in double precision")
    tangents = [direction(t, i) for i, t in enumerate(inputs)]
    if call.name == "cholesky_inverse":  # a function of one triangle, which has gradients of both
        lower = inputs[0].triu(1).count_nonzero() == 0
        tangents = [t.tril() if lower else t.triu() for t in tangents]
    try:
        value, moved = jvp(call.function, tuple(inputs), tuple(tangents))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is told
        return Outcome("failed", f"{type(error).__name__}: {str(error).splitlines()[:1]}")
    problem = against_gradients(call, tangents, value, moved) or against_differences(
        call, inputs, tangents, moved
    )
    if problem:
        return Outcome("failed", problem)
    return Outcome("passed")


def against_gradients(
    call: Call,
    tangents: Sequence[mq.Tensor],
    values: Sequence[mq.Tensor],
    moved: Sequence[mq.Tensor],
) -> str:
    """Cotangents times tangents of results = gradients times tangents of inputs.

    Where a result is not a number, as of a row that is masked as a whole, its tangent is none too.
    """
    if len(moved) != len(call.cotangents):
        return f"{len(moved)} results, {len(call.cotangents)} cotangents"
    pairs = [
        (c, mq.where(v.isnan(), mq.zeros((), dtype=t.dtype), t))
        for c, v, t in zip(call.cotangents, values, moved)
        if c is not None
    ]
    there = sum(_inner(c.resolve_conj().numpy(), t) for c, t in pairs)
    here = sum(_inner(g, t) for g, t in zip(call.gradients, tangents) if g is not None)
    close = 1e-5 if all(t.dtype.itemsize > 2 for t in moved) else 1e-2
    if not np.isnan(here) and not np.isclose(there, here, close, close / 10):
        return f"by the results {there:.8g}, by the inputs {here:.8g}"
    return ""


def _inner(a: np.ndarray, t: mq.Tensor) -> float:
    return float(np.sum(np.conj(a) * t.detach().resolve_conj().resolve_neg().numpy()).real)


def against_differences(
    call: Call,
    inputs: Sequence[mq.Tensor],
    tangents: Sequence[mq.Tensor],
    moved: Sequence[mq.Tensor],
) -> str:
    above = call.function(*[x + STEP * t for x, t in zip(inputs, tangents)])
    below = call.function(*[x - STEP * t for x, t in zip(inputs, tangents)])
    for n, (a, b, t, c) in enumerate(zip(above, below, moved, call.cotangents)):
        if c is None or a.dtype not in (mq.float64, mq.complex128):
            continue
        slope = ((a - b) / (2 * STEP)).resolve_conj().resolve_neg().numpy()
        found = t.resolve_conj().resolve_neg().numpy()
        finite = np.isfinite(slope) & np.isfinite(found)
        if found.shape != slope.shape:
            return f"result {n}: shape {found.shape}, expected {slope.shape}"
        if not np.allclose(found[finite], slope[finite], 1e-3, 1e-4):
            return f"result {n}: off by {np.abs(found - slope)[finite].max():.3g} of a difference"
    return ""


def batched(call: Call) -> Outcome:
    """Tangents along two directions at once."""
    inputs = [t.detach() for t in call.inputs]
    rows = [[direction(t, 10 * k + i) for i, t in enumerate(inputs)] for k in range(2)]
    try:
        one_by_one = [jvp(call.function, tuple(inputs), tuple(r))[1] for r in rows]
        stacked = [mq.stack([a, b]) for a, b in zip(*rows)]
        together = vmap(lambda *t: jvp(call.function, tuple(inputs), t)[1])(*stacked)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is told
        kind = "refused" if RANDOM in str(error) else "failed"
        return Outcome(kind, f"vmap: {type(error).__name__}: {str(error).splitlines()[:1]}")
    for n, (a, b, both) in enumerate(zip(*one_by_one, together)):
        expected = mq.stack([a, b]).resolve_conj().resolve_neg().numpy()
        found = both.resolve_conj().resolve_neg().numpy()
        if not np.allclose(found, expected, 1e-6, 1e-8, equal_nan=True):
            return Outcome("failed", f"vmap: result {n} differs from one direction after the other")
    return Outcome("passed")


def nested(call: Call) -> Outcome:
    """The gradient's tangent is the tangent's gradient; gradients of two rows at once are theirs.

    Of real functions, and of results that PyTorch differentiates: both are the second derivative
    along a direction.
    """
    inputs = tuple([t.detach() for t in call.inputs])
    moves = tuple([direction(t, i) for i, t in enumerate(inputs)])
    try:
        values = call.function(*inputs)
        if any(t.dtype is not mq.float64 for t in (*inputs, *values)):
            return Outcome("skipped", "not real and of double precision")
        rows = [
            tuple(
                [
                    direction(v, 7 * k + i) * (c is not None)
                    for i, (v, c) in enumerate(zip(values, call.cotangents, strict=True))
                ]
            )
            for k in range(2)
        ]

        def gradient(*x: mq.Tensor, row: Any = rows[0]) -> Any:
            return vjp(call.function, *x)[1](row)

        def along(*x: mq.Tensor) -> mq.Tensor:
            moved = jvp(call.function, x, moves)[1]
            return sum([(m * c).sum() for m, c in zip(moved, rows[0])], mq.zeros(()))

        forward = jvp(gradient, inputs, moves)[1]
        reverse = grad(along, tuple(range(len(inputs))))(*inputs)
        each = [gradient(*inputs, row=row) for row in rows]
        pull = vjp(call.function, *inputs)[1]
        together = vmap(lambda *row: pull(row))(*[mq.stack(pair) for pair in zip(*rows)])
    except Exception as error:  # noqa: BLE001  # whatever it is, it is told
        said = str(error)
        kind = "refused" if any(word in said for word in (RANDOM, ONCE, NO_SECOND)) else "failed"
        return Outcome(kind, f"nested: {type(error).__name__}: {str(error).splitlines()[:1]}")
    for i, (a, b) in enumerate(zip(forward, reverse)):
        if not np.allclose(a.numpy(), b.numpy(), 1e-6, 1e-8, equal_nan=True):
            return Outcome("failed", f"nested: input {i}: jvp of grad and grad of jvp differ")
    for i, (both, a, b) in enumerate(zip(together, *each)):
        if not np.allclose(both.numpy(), mq.stack([a, b]).numpy(), 1e-6, 1e-8, equal_nan=True):
            return Outcome("failed", f"vmap of gradients: input {i} differs from one by one")
    return Outcome("passed")


# Where PyTorch's own forward and backward disagree, or differences cannot say: the reason.
APART = {
    "as_strided": "it looks at memory, of which a tangent has its own",
    "as_strided_scatter": "it looks at memory, of which a tangent has its own",
    "cholesky_solve": "its argument must be triangular, which a random direction is not",
    "linalg.lstsq": "residuals of a full-rank problem are not differentiable in PyTorch",
    "linalg.pinv": "the recorded matrices have no full rank: differences jump",
    "nn.functional.cosine_embedding_loss": "the recorded inputs stand at kinks",
    "nn.functional.hinge_embedding_loss": "the recorded inputs stand at kinks",
    "nn.functional.max_unpool2d": "repeated indices: forward takes one, backward gives to all",
    "nn.functional.max_unpool3d": "repeated indices: forward takes one, backward gives to all",
    "_native_batch_norm_legit": "it writes statistics that were captured, which is refused",
}
RANDOM = "randomness error mode"
ONCE = "once_differentiable"
NO_SECOND = "is not implemented; register one with"
Counts = Counter[str]


def run(patterns: Sequence[str], every: int) -> tuple[Counts, list[tuple[str, str]]]:
    """Counts of outcomes, and failures as (function, reason)."""
    total: Counts = Counter()
    failures = []
    for call in calls(patterns, every):
        if call.name in APART:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind, outcome in (
                ("tangent", check(call)),
                ("batched tangent", batched(call)),
                ("second derivative", nested(call)),
            ):
                total[f"{kind} {outcome.kind}"] += 1
                if outcome.kind == "failed" and RANDOM not in outcome.reason:
                    failures.append((call.name, outcome.reason))
    return total, failures


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", action="append", default=[])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--show", type=int, default=60)
    options = parser.parse_args(argv)
    total, failures = run(options.ops, options.every)
    shown: Counter[str] = Counter()
    for name, reason in failures:
        shown[name] += 1
        if shown[name] == 1 and len(shown) <= options.show:
            print(f"{name}: {reason}")
    print(f"functions with failures: {len({name for name, _ in failures})}")
    print(", ".join(f"{kind}: {n}" for kind, n in total.most_common()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
