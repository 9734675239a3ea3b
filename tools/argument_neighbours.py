"""Neighbours of recorded calls in how arguments are given: shared memory, numbers, dims, keywords.

As in `neighbour_calls.py`, a mutation takes a recorded case and gives another, or None where it
does not apply. Here arguments lie over one another, numbers are of another Python or NumPy type or
0-dim tensors, dims are negative, doubled or too many, and arguments are given by name.
"""

from __future__ import annotations

import base64
import math
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import maquette
from conformance import DATA
from neighbour_calls import KINDS, Mutation, elements, store

sys.path.insert(0, str(DATA.parent / "tests" / "fake"))
from mutations import call_tensors  # type: ignore[import-not-found]  # beside the tests

Case = dict[str, Any]
Place = tuple[Any, Any]


def schema_of(case: Case) -> Any:
    """The schema of a recorded call's operator."""
    _, name, overload = case["op"].split(".")
    return getattr(getattr(maquette.ops.aten, name), overload)._schema


def one_over_another(case: Case, rng: random.Random) -> Case | None:
    """Two arguments of a dtype share memory: the same place, the next element, or transposed."""
    found = call_tensors(case)
    pairs = [(a, b) for a in found for b in found if a is not b and a["dtype"] == b["dtype"]]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    size = max(math.prod(a["shape"]), math.prod(b["shape"])) + 2
    kind = elements(case, a).dtype
    flat = np.resize(elements(case, a).reshape(-1), size) if a["shape"] else np.zeros(size, kind)
    case["storages"].append(base64.b64encode(flat.astype(kind).tobytes()).decode())
    how = rng.randrange(3)
    for t, offset in ((a, 0), (b, 1 if how == 1 else 0)):
        steps = _row_major(t["shape"])
        if t is b and how == 2:
            steps = _row_major(t["shape"][::-1])[::-1]
        t.update(storage=len(case["storages"]) - 1, offset=offset, stride=steps)
        for mark in ("conj", "neg"):
            t.pop(mark, None)
    return case


def _row_major(shape: list[int]) -> list[int]:
    return [math.prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape))]


def number_of_another_type(case: Case, rng: random.Random) -> Case | None:
    """A number is a bool, an int, a float, complex, NumPy's, or a 0-dim tensor."""
    places = [p for p in _places(case) if isinstance(_at(p), int | float)]
    if not places:
        return None
    holder, key = rng.choice(places)
    value = float(holder[key])
    whole = int(value) if math.isfinite(value) else 1
    how = rng.randrange(6)
    if how == 0:
        holder[key] = bool(whole)
    elif how == 1:
        holder[key] = whole
    elif how == 2:
        holder[key] = value
    elif how == 3:
        holder[key] = {"$": "complex", "v": [str(value), rng.choice(["0.0", "1.0"])]}
    elif how == 4:
        holder[key] = {"$": "numpy", "v": [rng.choice(["int64", "float32", "bool_"]), value]}
    else:
        record: dict[str, Any] = {"$": "tensor", "device": "cpu", "dtype": rng.choice(KINDS)}
        store(case, record, np.asarray(value))
        holder[key] = record
    return case


def with_other_dims(case: Case, rng: random.Random) -> Case | None:
    """A list of whole numbers is doubled, negative, shorter, longer, one number, or empty."""
    places = [p for p in _places(case) if _is_dims(_at(p))]
    if not places:
        return None
    holder, key = rng.choice(places)
    dims = holder[key]
    changed: list[Any] = [
        [*dims, *dims[:1]],
        [d - 3 if d >= 0 else d + 3 for d in dims],
        dims[:-1],
        [*dims, 1],
        dims[0] if dims else 0,
        [],
        dims[::-1],
        [float(d) for d in dims],
        None,
    ]
    holder[key] = rng.choice(changed)
    return case


def with_another_dim(case: Case, rng: random.Random) -> Case | None:
    """A parameter named ``dim`` is another, in range or just out of it."""
    names = [a.name for a in schema_of(case).arguments]
    places: list[Place] = [
        (case["args"], i)
        for i, name in enumerate(names[: len(case["args"])])
        if "dim" in name and isinstance(case["args"][i], int)
    ]
    if not places:
        return None
    holder, key = rng.choice(places)
    ranks = [len(t["shape"]) for t in call_tensors(case)] or [1]
    n = ranks[0]
    holder[key] = rng.choice([holder[key] - n, n, -n - 1, -1, 0, n - 1, -n])
    return case


def by_name(case: Case, rng: random.Random) -> Case | None:
    """The last positional arguments are given by name; sometimes by a wrong one, or twice."""
    names = [a.name for a in schema_of(case).arguments]
    if not case["args"]:
        return None
    first = rng.randrange(len(case["args"]))
    for name, value in zip(names[first:], case["args"][first:]):
        case["kwargs"][name] = value
    how = rng.randrange(6)
    if how == 0:
        case["kwargs"]["no_such_argument"] = 1
    if how != 1:
        del case["args"][first:]
    return case


def left_to_default(case: Case, rng: random.Random) -> Case | None:
    """An argument with a default is None."""
    places: list[Place] = [
        (case["args"], i) for i, a in enumerate(schema_of(case).arguments) if i < len(case["args"])
    ]
    places += [(case["kwargs"], name) for name in case["kwargs"]]
    if not places:
        return None
    holder, key = rng.choice(places)
    holder[key] = None
    return case


def _at(place: Place) -> Any:
    holder, key = place
    return holder[key]


def _is_dims(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int for v in value)


def _places(case: Case) -> Iterator[Place]:
    """Where the plain arguments stand, those in lists too."""
    outer: list[Place] = [(case["args"], i) for i in range(len(case["args"]))]
    outer += [(case["kwargs"], name) for name in case["kwargs"]]
    for place in outer:
        yield place
        if isinstance(_at(place), list):
            yield from ((_at(place), i) for i in range(len(_at(place))))


ARGUMENTS: list[Mutation] = [
    one_over_another, one_over_another, one_over_another, number_of_another_type,
    number_of_another_type, number_of_another_type, with_other_dims, with_other_dims,
    with_another_dim, with_another_dim, by_name, left_to_default,
]  # fmt: skip
