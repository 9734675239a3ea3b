"""Random programs with views and mutation, for comparing them with themselves functionalized.

Operations are those of `tests/peer/programs.py`, without autograd: here values, sizes, strides and
refusals count. A step that is refused is noted and the program goes on.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

from programs import (
    INPLACE,
    KINDS,
    METADATA,
    OPERATIONS,
    OUT_OF_PLACE,
    VIEWS,
    LeftOut,
    values,
)

import maquette as mq
import maquette.torch as torch

SHAPES = ([2, 2], [4], [3, 2], [2, 3, 2], [], [1, 2], [2, 1, 2], [6])
DTYPES = ("float64",) * 8 + ("complex128",) * 3 + ("float32", "int64")
# What is of autograd, or asks whose memory it is.
LEFT_OUT = {
    "data", "ones_grad", "detach_", "requires_grad_", "requires_no_grad_", "set_data",
    "set_grad_none", "unfold_", "random_", "bernoulli_", "uniform_", "normal_",
}  # fmt: skip
FAMILIES = [
    (sorted(set(family) - LEFT_OUT), weight)
    for family, weight in (
        (OUT_OF_PLACE, 3), (VIEWS, 7), (KINDS, 3), (INPLACE, 8), (METADATA, 1.5),
    )
]  # fmt: skip
Program = dict[str, Any]


def make(seed: int) -> Program:
    """The program of a seed: one to three inputs, three to ten steps."""
    rng = random.Random(seed)
    inputs = [(rng.choice(SHAPES), rng.choice(DTYPES)) for _ in range(rng.randint(1, 3))]
    names = [f"i{n}" for n in range(len(inputs))]
    steps = []
    for n in range(rng.randint(3, 10)):
        family = rng.choices([f for f, _ in FAMILIES], [w for _, w in FAMILIES])[0]
        on = names[-1 - int(len(names) * rng.random() ** 1.5)]
        p = [rng.randrange(12), rng.randrange(12)]
        steps.append((f"s{n}", rng.choice(family), on, rng.choice(names), p))
        names.append(f"s{n}")
    return {"inputs": inputs, "steps": steps}


def inputs_of(program: Program) -> list[Any]:
    """New input tensors, always of the same values."""
    return [
        torch.tensor(values(shape, n + 1, dtype), dtype=getattr(torch, dtype))
        for n, (shape, dtype) in enumerate(program["inputs"])
    ]


def function_of(program: Program, seen: dict[str, Any]) -> Callable[..., list[Any]]:
    """The program as a function that returns all its tensors; notes refusals and geometry."""

    def run(*inputs: Any) -> list[Any]:
        tensors = {f"i{n}": x for n, x in enumerate(inputs)}
        for name, op, on, other, p in program["steps"]:
            x, y = tensors.get(on), tensors.get(other)
            if x is None or y is None or (_overlaps_itself(x) and op in (INPLACE | METADATA)):
                continue
            if op in INPLACE and x._storage is y._storage:
                if op in _BY_INDEX or _lie_apart(x, y):
                    continue  # eager refuses to read what it mutates; values can be read
            try:
                made = OPERATIONS[op](torch, x, y, p)
            except LeftOut:
                continue
            except Exception as error:
                seen[name] = f"refused: {type(error).__name__}"
                continue
            parts = made if isinstance(made, (tuple, list)) else [made]
            for k, part in enumerate(parts):
                if isinstance(part, mq.Tensor):
                    tensors[name if len(parts) == 1 else f"{name}.{k}"] = part
            if isinstance(made, (tuple, list)) and parts:
                tensors[name] = parts[-1]
        seen["geometry"] = {name: geometry(t) for name, t in tensors.items()}
        return list(tensors.values())

    return run


_BY_INDEX = {name for name in INPLACE if "index" in name or "set_" in name or "masked" in name}


def geometry(t: Any) -> Any:
    """What a program may ask of a tensor without its data."""
    strides = [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]
    return list(t.shape), strides, str(t.dtype), t.is_conj(), t.is_neg(), t.storage_offset()


def _overlaps_itself(x: Any) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)) or not (
        x.meta.is_dense or x.numel() == 0
    )


def _lie_apart(x: Any, y: Any) -> bool:
    """Whether two tensors share memory otherwise than element for element."""
    return (
        x is not y
        and x._storage is y._storage
        and (x.meta is not y.meta or x.is_conj() != y.is_conj() or x.is_neg() != y.is_neg())
    )


def numbers(t: Any) -> Any:
    """The values, with lazy bits resolved."""
    return t.detach().resolve_conj().resolve_neg().tolist()


def same(a: Any, b: Any) -> bool:
    """Equality of nested lists in which NaN equals NaN, to 1e-9 of the larger."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if a == b or (a != a and b != b):
        return True
    return abs(a - b) <= 1e-5 * max(1.0, abs(a), abs(b))


def differences(
    program: Program,
    transform: Callable[..., Any],
    *,
    fake: bool = False,
    strides: bool = True,
) -> list[str]:
    """In what the program and its transformed form differ; empty where they do not.

    fake: run the transformed form on fake tensors, so values do not count. strides: whether strides
    and offsets count.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fake:
            program = without_data_dependence(program)
        return _differences(program, transform, fake=fake, strides=strides)


def without_data_dependence(program: Program) -> Program:
    """The program without the steps that ask fakes for their data, run plainly."""
    steps = [step for step in program["steps"] if step[1] != "take_mask"]  # sized by data
    program = {**program, "steps": steps}
    seen: dict[str, Any] = {}
    with mq.FakeTensorMode() as mode:
        function_of(program, seen)(*[mode.from_tensor(x) for x in inputs_of(program)])
    asked = [name for name, what in seen.items() if what in _DATA_DEPENDENT]
    if not asked:
        return program
    return without_data_dependence({**program, "steps": [s for s in steps if s[0] != asked[0]]})


_DATA_DEPENDENT = ("refused: DataDependentOutputException", "refused: DynamicOutputShapeException")


def _differences(
    program: Program, transform: Callable[..., Any], *, fake: bool, strides: bool
) -> list[str]:
    plain_seen: dict[str, Any] = {}
    other_seen: dict[str, Any] = {}
    plain_in, other_in = inputs_of(program), inputs_of(program)
    plain = function_of(program, plain_seen)(*plain_in)
    if fake:
        mode = mq.FakeTensorMode()
        with mode:
            other_in = [mode.from_tensor(x) for x in other_in]
            transform(function_of(program, other_seen))(*other_in)
        return _seen_differences(plain_seen, other_seen, strides)
    other = transform(function_of(program, other_seen))(*other_in)
    found = _seen_differences(plain_seen, other_seen, strides)
    if found:
        return found
    found += [
        f"result {n}"
        for n, (a, b) in enumerate(zip(plain, other, strict=True))
        if not same(numbers(a), numbers(b))
    ]
    # What an input's own sizes and strides have become stays inside of functionalize.
    return found + [
        f"input {n}"
        for n, (a, b) in enumerate(zip(plain_in, other_in, strict=True))
        if a.meta is b.meta and not same(numbers(a), numbers(b))
    ]


def _seen_differences(a: dict[str, Any], b: dict[str, Any], strides: bool) -> list[str]:
    left, right = a.pop("geometry"), b.pop("geometry")
    if not strides:
        left, right = ({k: g[0::2][:2] for k, g in x.items()} for x in (left, right))
    pairs = [(k, a.get(k), b.get(k)) for k in {*a, *b}]
    pairs += [(k, left.get(k), right.get(k)) for k in {*left, *right}]
    return [f"{k}: {x} / {y}" for k, x, y in pairs if x != y]
