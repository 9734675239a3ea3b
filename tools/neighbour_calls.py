"""Well-formed neighbours of recorded calls: other layouts, values, dtypes, outputs and numbers.

A mutation takes a recorded case and gives another, in the same JSON form, or None where it does not
apply; the ill-formed ones are in `tests/fake/mutations.py`. Elements are kept where a tensor only
lies otherwise. `tools/mutated_calls.py --well-formed` makes such calls on both libraries.
"""

from __future__ import annotations

import base64
import math
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance import DATA, load_checker

sys.path.insert(0, str(DATA.parent / "tests" / "fake"))
from mutations import call_tensors, contiguous  # type: ignore[import-not-found]  # beside the tests

Case = dict[str, Any]
Mutation = Callable[[Case, random.Random], "Case | None"]
_CHECKER = load_checker()
KINDS = (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"
).split()
EDGES = [
    math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-40, -1e-310, 3e38, -3e38, 1e300, 65504.0, 0.5, 2.5,
    -1.0, 1e-8, 20.0, -100.0,
]  # fmt: skip


def elements(case: Case, record: dict[str, Any]) -> Any:
    """The elements of a tensor record, before the call."""
    return _CHECKER.logical_array(case, record, after=False)


def store(
    case: Case,
    record: dict[str, Any],
    array: Any,
    *,
    dtype: str = "",
    stride: Sequence[int] = (),
    offset: int = 0,
) -> None:
    """Let a record have these elements, on a storage of its own; contiguous if not told."""
    dtype = dtype or record["dtype"]
    kind = _CHECKER.numpy_dtype(dtype)
    if array.dtype.kind == "c" and kind.kind != "c":
        array = array.real
    with np.errstate(all="ignore"):
        array = array.astype(kind)
    shape = list(array.shape)
    steps = list(stride) or contiguous(shape)
    span = 0 if 0 in shape else offset + 1 + sum((n - 1) * s for n, s in zip(shape, steps))
    memory = np.zeros(span, kind)
    if span:
        places = [s * memory.itemsize for s in steps]
        np.lib.stride_tricks.as_strided(memory[offset:], shape, places)[...] = array
    case["storages"].append(base64.b64encode(memory.tobytes()).decode())
    place = len(case["storages"]) - 1
    record.update(dtype=dtype, shape=shape, stride=steps, offset=offset, storage=place)
    for mark in ("conj", "neg"):
        record.pop(mark, None)


def in_order(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of dense memory whose dimensions lie in an order, the outermost first."""
    steps, step = [0] * len(shape), 1
    for dim in reversed(order):
        steps[dim], step = step, step * max(shape[dim], 1)
    return steps


def _some(case: Case, rng: random.Random) -> list[dict[str, Any]]:
    found = [t for t in call_tensors(case) if math.prod(t["shape"])]
    return found if not found or rng.random() < 0.5 else [rng.choice(found)]


def laid_otherwise(case: Case, rng: random.Random) -> Case | None:
    """Permuted, channels-last, with steps of 2, with gaps, or expanded; one tensor or all."""
    changed = [t for t in _some(case, rng) if t["shape"]]
    for t in changed:
        array, n = elements(case, t), len(t["shape"])
        how, order = rng.randrange(4), list(range(n))
        if how == 0:
            rng.shuffle(order)
            store(case, t, array, stride=in_order(array.shape, order), offset=3)
        elif how == 1:
            order = [0, *range(2, n), 1] if n in (4, 5) else order[::-1]
            store(case, t, array, stride=in_order(array.shape, order))
        elif how == 2:
            store(case, t, array, stride=[2 * s for s in contiguous(list(array.shape))], offset=1)
        else:
            dim = rng.randrange(n)
            array = np.broadcast_to(np.take(array, [0], dim), array.shape)
            shape = [1 if d == dim else k for d, k in enumerate(array.shape)]
            steps = [0 if d == dim else s for d, s in enumerate(contiguous(shape))]
            store(case, t, array, stride=steps)
    return case if changed else None


def emptied(case: Case, rng: random.Random) -> Case | None:
    """One size, wherever it stands, is 0 or 1."""
    sizes = sorted({n for t in call_tensors(case) for n in t["shape"] if n})
    if not sizes:
        return None
    size, new = rng.choice(sizes), rng.choice([0, 1])
    for t in call_tensors(case):
        array = elements(case, t)
        for dim in [d for d, n in enumerate(t["shape"]) if n == size]:
            array = np.take(array, range(new), dim)
        store(case, t, array)
    return case


def at_the_edges(case: Case, rng: random.Random) -> Case | None:
    """NaN, infinities, zeros with a sign, denormal and huge numbers among the elements."""
    changed = [t for t in _some(case, rng) if not t["dtype"].startswith(("int", "uint", "bool"))]
    for t in changed:
        array = np.array(elements(case, t))
        flat = array.reshape(-1)
        for i in rng.sample(range(flat.size), max(1, flat.size // 3)):
            with np.errstate(all="ignore"):
                flat[i] = np.asarray(rng.choice(EDGES)).astype(flat.dtype)
        store(case, t, array)
    return case if changed else None


def of_another_kind(case: Case, rng: random.Random) -> Case | None:
    """The same numbers in another dtype: all tensors of the first one's dtype."""
    found = call_tensors(case)
    kind = rng.choice(KINDS)
    for t in [t for t in found if t["dtype"] == found[0]["dtype"]]:
        store(case, t, elements(case, t), dtype=kind)
    return case if found else None


def without_dimensions(case: Case, rng: random.Random) -> Case | None:
    """One tensor is a single element, of some dtype."""
    found = [t for t in call_tensors(case) if math.prod(t["shape"])]
    if not found:
        return None
    t = rng.choice(found)
    store(case, t, elements(case, t).reshape(-1)[0], dtype=rng.choice([t["dtype"], *KINDS]))
    return case


def into_another_output(case: Case, rng: random.Random) -> Case | None:
    """The output has another dtype, no elements, or lies otherwise in memory."""
    out = case["kwargs"].get("out")
    if not isinstance(out, dict) or out.get("$") != "tensor":
        return None
    array, order = elements(case, out), list(range(len(out["shape"])))
    how = rng.randrange(4)
    if how == 0:
        store(case, out, array, dtype=rng.choice(KINDS))
    elif how == 1:
        store(case, out, array.reshape(-1)[:0], dtype=rng.choice(KINDS))
    elif how == 2:
        rng.shuffle(order)
        store(case, out, array, stride=in_order(array.shape, order), offset=2)
    else:
        store(case, out, array, stride=[2 * s for s in contiguous(list(array.shape))])
    return case


def conjugated(case: Case, rng: random.Random) -> Case | None:
    """Complex tensors with the conjugate bit."""
    changed = _some(case, rng)
    for t in changed:
        if not t["dtype"].startswith("complex"):
            store(case, t, elements(case, t), dtype="complex64")
        t["conj"] = True
    return case if changed else None


WELL_FORMED: list[Mutation] = [
    laid_otherwise, laid_otherwise, emptied, at_the_edges, at_the_edges, of_another_kind,
    without_dimensions, into_another_output, into_another_output, conjugated,
]  # fmt: skip
