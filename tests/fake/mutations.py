"""Ill-formed neighbours of recorded calls: one thing changed at a time.

A mutation takes a recorded case and gives another, in the same JSON form, or None where it does not
apply. Together they change shapes, dtypes, devices, dims, overlaps and plain arguments.
"""

from __future__ import annotations

import base64
import copy
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

Case = dict[str, Any]
Mutation = Callable[[Case, random.Random], "Case | None"]
ITEMSIZE = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2,
    "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "uint16": 2, "uint32": 4, "uint64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
DTYPES = ["float32", "float64", "int64", "int32", "bool", "bfloat16", "complex64", "uint8"]


def tensors(value: Any) -> Iterator[dict[str, Any]]:
    """Tensor records in a value."""
    if isinstance(value, dict):
        if value.get("$") == "tensor":
            yield value
        elif value.get("$") in ("tuple", "dict"):
            yield from (t for item in value["v"] for t in tensors(item))
    elif isinstance(value, list):
        yield from (t for item in value for t in tensors(item))


def call_tensors(case: Case) -> list[dict[str, Any]]:
    """The tensor records of a call."""
    return [*tensors(case["args"]), *(t for v in case["kwargs"].values() for t in tensors(v))]


def give_storage(case: Case, record: dict[str, Any]) -> None:
    """Let a changed record have a storage of its own, of zeros and large enough."""
    size = ITEMSIZE[record["dtype"]]
    spans = [(n - 1) * s for n, s in zip(record["shape"], record["stride"], strict=True)]
    elements = 0 if 0 in record["shape"] else record["offset"] + 1 + sum(spans)
    case["storages"].append(base64.b64encode(bytes(elements * size)).decode())
    record["storage"] = len(case["storages"]) - 1


def give_dtype(case: Case, record: dict[str, Any], dtype: str) -> None:
    """Let a record have another dtype, on a storage of its own; a real tensor is not conjugated."""
    record["dtype"] = dtype
    for mark in ("conj", "neg"):
        record.pop(mark, None)
    give_storage(case, record)


def contiguous(shape: list[int]) -> list[int]:
    """Row-major strides."""
    return [math.prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape))]


def _pick(case: Case, rng: random.Random) -> tuple[Case, dict[str, Any]] | None:
    changed = copy.deepcopy(case)
    found = call_tensors(changed)
    return (changed, rng.choice(found)) if found else None


def reshape(case: Case, rng: random.Random) -> Case | None:
    """Another shape: a size changed, a dimension added or dropped, or none left."""
    picked = _pick(case, rng)
    if picked is None:
        return None
    changed, t = picked
    shape = list(t["shape"])
    how = rng.randrange(5)
    if how == 0 and shape:
        i = rng.randrange(len(shape))
        shape[i] = shape[i] + rng.choice([1, 2])
    elif how == 1:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice([1, 2, 3]))
    elif how == 2 and shape:
        del shape[rng.randrange(len(shape))]
    elif how == 3 and shape:
        shape[rng.randrange(len(shape))] = rng.choice([0, 1])
    else:
        shape = []
    if math.prod(shape) > 2000:
        return None
    t["shape"], t["stride"], t["offset"] = shape, contiguous(shape), 0
    give_storage(changed, t)
    return changed


def retype(case: Case, rng: random.Random) -> Case | None:
    """Another dtype for one tensor."""
    picked = _pick(case, rng)
    if picked is None:
        return None
    changed, t = picked
    give_dtype(changed, t, rng.choice([d for d in DTYPES if d != t["dtype"]]))
    return changed


def retype_all(case: Case, rng: random.Random) -> Case | None:
    """Another dtype for every tensor."""
    changed = copy.deepcopy(case)
    kind = rng.choice(DTYPES)
    for t in call_tensors(changed):
        give_dtype(changed, t, kind)
    return changed


def overlap(case: Case, rng: random.Random) -> Case | None:
    """One tensor with every element in one place."""
    picked = _pick(case, rng)
    if picked is None or not picked[1]["shape"]:
        return None
    changed, t = picked
    t["stride"], t["offset"] = [0] * len(t["shape"]), 0
    give_storage(changed, t)
    return changed


def move(case: Case, rng: random.Random) -> Case | None:
    """One tensor on another device (``meta`` needs no hardware)."""
    picked = _pick(case, rng)
    if picked is None:
        return None
    changed, t = picked
    t["move"] = "meta"
    return changed


def replace_number(case: Case, rng: random.Random) -> Case | None:
    """Another value for one plain argument: dims out of range, negative sizes, wrong types."""
    changed = copy.deepcopy(case)
    places: list[tuple[Any, Any]] = []
    _numbers(changed["args"], places)
    for key, value in changed["kwargs"].items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            places.append((changed["kwargs"], key))
        elif isinstance(value, list):
            _numbers(value, places)
    if not places:
        return None
    holder, key = rng.choice(places)
    if isinstance(holder[key], int):
        holder[key] = rng.choice([holder[key] + 1, holder[key] - 1, -7, 7, 0, 1, -1, 2.5])
    else:
        holder[key] = rng.choice([0.0, -1.0, 2.0, 1])
    return changed


def _numbers(items: list[Any], places: list[tuple[Any, Any]]) -> None:
    for i, value in enumerate(items):
        if isinstance(value, int | float) and not isinstance(value, bool):
            places.append((items, i))
        elif isinstance(value, list):
            _numbers(value, places)


def drop_argument(case: Case, rng: random.Random) -> Case | None:
    """One argument too few."""
    changed = copy.deepcopy(case)
    if not changed["args"]:
        return None
    changed["args"].pop()
    return changed


MUTATIONS: list[Mutation] = [
    reshape, reshape, reshape, retype, retype_all, overlap, move, replace_number, replace_number,
    drop_argument,
]  # fmt: skip
