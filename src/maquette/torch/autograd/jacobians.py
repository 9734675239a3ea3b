"""Jacobians of a function, an element at a time: by differences, by backward, by tangents.

Each has the input's elements as rows and the output's as columns. A complex output is two real
functions, its parts; what belongs to a complex element x + iy is d/dx + i d/dy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import grad
from maquette.tensor.tensor import Tensor
from maquette.torch.autograd.gradcheck_conventions import GradcheckError, dense_of
from maquette.transforms.forward_ad import dual_level, make_dual, unpack_dual

Function = Callable[..., Any]
Parts = dict[str, Tensor]

# The parts of a complex output, and what backward starts from for each.
PARTS = ("imag", "real")
STARTS = {"real": 1, "imag": 1j}


def is_checked(value: object) -> bool:
    """Whether an input is a tensor that requires grad."""
    return isinstance(value, Tensor) and value.requires_grad


def results_of(func: Function, inputs: Sequence[Any]) -> list[Tensor]:
    """The tensors that a function gives."""
    result = func(*inputs)
    listed = (result,) if isinstance(result, Tensor) else tuple(result)
    return [out for out in listed if isinstance(out, Tensor)]


def outputs_of(func: Function, inputs: Sequence[Any]) -> list[Tensor]:
    """The results that can be differentiated."""
    return [out for out in results_of(func, inputs) if out.requires_grad]


def parts_there(out: Tensor) -> tuple[str, ...]:
    """The parts of an output: one of them for real numbers."""
    return PARTS if out.is_complex() else PARTS[1:]


def parts_of_value(value: Tensor) -> Parts:
    """A tensor's parts, flat, in memory of their own."""
    flat = value.detach().reshape(-1)
    if not value.is_complex():
        return {"real": flat.clone()}
    return {part: getattr(flat, part).clone() for part in PARTS}


def differences(
    func: Function,
    inputs: Sequence[Any],
    value: Tensor,
    move: Tensor,
    eps: float,
    outputs: Callable[..., list[Tensor]] = outputs_of,
    place: object = None,
) -> list[Parts]:
    """Of each output the parts' central differences, ``value`` being moved in place by eps * move.

    place: an index of ``value`` that alone moves, by a number; None for all of it.
    """
    memory = value.data if place is None else value.data[place]
    held = memory.clone()
    ends: list[list[Tensor]] = []
    for step in (-eps, eps):
        memory.copy_(held + step * move)
        try:
            ends.append([out.detach().clone() for out in outputs(func, inputs)])
        finally:
            memory.copy_(held)
    for first, second in zip(*ends, strict=True):
        for aspect in ("shape", "dtype"):
            if getattr(first, aspect) != getattr(second, aspect):
                raise AssertionError(
                    f"Expects `func` to return outputs with the same {aspect} when inputs are "
                    f"perturbed{'' if place is None else f' on index {place}'} by {eps}"
                )
    return [parts_of_value((b - a) / (2 * eps)) for a, b in zip(*ends, strict=True)]


def numerical(
    func: Function,
    inputs: Sequence[Any],
    value: Tensor,
    eps: float,
    outputs: Callable[..., list[Tensor]] = outputs_of,
) -> list[Parts]:
    """For each output its parts' Jacobians by central differences."""
    given = outputs(func, inputs)
    rows: list[dict[str, list[Tensor]]] = [{part: [] for part in parts_there(o)} for o in given]
    one = mq.ones((), dtype=value.dtype)
    for place in places(value):
        found = differences(func, inputs, value, one, eps, outputs, place)
        turned = None
        if value.is_complex():
            turned = differences(func, inputs, value, one * 1j, eps, outputs, place)
        _add_rows(rows, found, turned)
    return _matrices(rows, given)


def analytical(
    out: Tensor, inputs: list[Tensor], part: str, check_dtypes: bool = False
) -> list[Tensor]:
    """For each input the Jacobian of an output's part by backward."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for place in places(out):
        start = mq.zeros_like(out)
        start[place] = STARTS[part]
        for row, g in zip(rows, gradients(out, inputs, start, check_dtypes), strict=True):
            row.append(g.reshape(-1))
    return [stacked(row, 1, value.numel()) for row, value in zip(rows, inputs, strict=True)]


def gradients(
    out: Tensor, inputs: list[Tensor], start: Tensor, check_dtypes: bool = False
) -> list[Tensor]:
    """The dense gradients of the inputs; GradcheckError if ``check_dtypes`` and one is another."""
    found = grad(out, inputs, start, retain_graph=True, allow_unused=True)
    for value, g in zip(inputs, found, strict=True):
        if check_dtypes and g is not None and g.dtype != value.dtype:
            raise GradcheckError(
                f"Gradient has dtype mismatch: {g.dtype} for an input of {value.dtype}"
            )
    return [
        mq.zeros_like(value) if g is None else dense_of(g.detach())
        for value, g in zip(inputs, found, strict=True)
    ]


def by_tangents(func: Function, inputs: tuple[Any, ...], at: int) -> list[Parts]:
    """For each output its parts' Jacobians by forward mode, for input ``at``."""
    value: Tensor = inputs[at]
    outputs = outputs_of(func, inputs)
    rows: list[dict[str, list[Tensor]]] = [{part: [] for part in parts_there(o)} for o in outputs]
    for place in places(value):
        move = mq.zeros_like(value).detach()
        move[place] = 1
        found = tangents(func, inputs, at, move)
        turned = tangents(func, inputs, at, move * 1j) if value.is_complex() else None
        _add_rows(rows, found, turned)
    return _matrices(rows, outputs)


def tangents(func: Function, inputs: tuple[Any, ...], at: int, move: Tensor) -> list[Parts]:
    """The parts of the outputs' tangents where input ``at`` moves, flat."""
    chosen = [i for i, out in enumerate(results_of(func, inputs)) if out.requires_grad]
    with dual_level():
        args = []
        for i, value in enumerate(inputs):
            if is_checked(value):
                value = make_dual(value.detach(), move if i == at else mq.zeros_like(value))
            args.append(value)
        results = results_of(func, args)
        pairs = [unpack_dual(results[i]) for i in chosen]
        return [parts_of_value(mq.zeros_like(p) if t is None else t) for p, t in pairs]


def _add_rows(
    rows: list[dict[str, list[Tensor]]], found: list[Parts], turned: list[Parts] | None
) -> None:
    """A row for each output and part; ``turned``: what belongs to the imaginary direction."""
    for number, parts in enumerate(found):
        for part, row in parts.items():
            other = None if turned is None else turned[number][part]
            rows[number][part].append(row if other is None else mq.complex(row, other))


def _matrices(rows: list[dict[str, list[Tensor]]], outputs: list[Tensor]) -> list[Parts]:
    return [
        {part: stacked(row, 0, out.numel()) for part, row in parts.items()}
        for out, parts in zip(outputs, rows, strict=True)
    ]


def stacked(rows: list[Tensor], dim: int, size: int) -> Tensor:
    """Rows or columns of this size as a matrix, which may have none."""
    if rows:
        return mq.stack(rows, dim)
    return mq.zeros((0, size) if dim == 0 else (size, 0))


def places(t: Tensor) -> Iterator[tuple[int, ...]]:
    """The indices of a tensor's elements."""
    return itertools.product(*(range(n) for n in t.shape))
