"""Differences against gradients and tangents: of each element, or of random projections.

The slow mode compares Jacobians J, for which the function runs twice for each element of an input
and backward for each of an output. The fast mode compares v J u for random u and v, which takes two
runs of the function for an input and one of backward for an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor
from maquette.torch.autograd.gradcheck_conventions import GradcheckError
from maquette.torch.autograd.jacobians import (
    STARTS,
    Function,
    analytical,
    by_tangents,
    differences,
    gradients,
    numerical,
    parts_there,
    results_of,
    tangents,
)


@dataclass(frozen=True)
class Options:
    """What is checked, and how closely; see `gradcheck`."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_backward_ad: bool = True
    check_forward_ad: bool = False
    check_batched_grad: bool = False
    check_batched_forward_grad: bool = False
    check_grad_dtypes: bool = False
    fast_mode: bool = False


Checked = list[tuple[int, Tensor]]  # inputs that require grad, with their places


# --- an element at a time ------------------------------------------------------------------------


def check_elements(
    func: Function,
    inputs: tuple[Any, ...],
    checked: Checked,
    outputs: list[Tensor],
    options: Options,
) -> None:
    """The slow mode: whole Jacobians agree."""
    tensors = [value for _, value in checked]
    columns = [numerical(func, inputs, value, options.eps) for value in tensors]
    for number, out in enumerate(outputs):
        for part in parts_there(out) if options.check_backward_ad else ():
            found = analytical(out, tensors, part, options.check_grad_dtypes)
            again = analytical(out, tensors, part)
            for (place, _), column, first in zip(checked, columns, found, strict=True):
                _compare(out, number, place, column[number][part], first, part, options)
            _check_reentrant(found, again, options)
    if not options.check_forward_ad:
        return
    for (place, _), column in zip(checked, columns, strict=True):
        rows = by_tangents(func, inputs, place)
        for number, out in enumerate(outputs):
            for part, slope in column[number].items():
                along = rows[number][part]
                _compare(out, number, place, slope, along, part, options, "forward")


def check_flat(func: Function, inputs: tuple[Any, ...], checked: Checked, options: Options) -> None:
    """Where no result can be differentiated, none may depend on an input."""
    for _, value in checked:
        if options.fast_mode:
            move = _random_vector(value, np.random.default_rng(0))
            found = differences(func, inputs, value, move, options.eps, _floating)
        else:
            found = numerical(func, inputs, value, options.eps, _floating)
        if any(slopes.count_nonzero() for parts in found for slopes in parts.values()):
            raise GradcheckError("Numerical gradient for function expected to be zero")


def _floating(func: Function, inputs: Sequence[Any]) -> list[Tensor]:
    found = results_of(func, inputs)
    return [out for out in found if out.is_floating_point() or out.is_complex()]


def _compare(
    out: Tensor,
    number: int,
    place: int,
    slope: Tensor,
    found: Tensor,
    part: str,
    options: Options,
    mode: str = "",
) -> None:
    if not mq.allclose(found, slope.to(found.dtype), options.rtol, options.atol):
        raise GradcheckError(_mismatch(out, number, place, slope, found, part, mode))


def _check_reentrant(found: list[Tensor], again: list[Tensor], options: Options) -> None:
    for first, second in zip(found, again, strict=True):
        if not mq.allclose(first, second, 0.0, options.nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and "
                "grad_output multiple times gives different values, although analytical "
                f"gradient matches numerical gradient. The tolerance for nondeterminism "
                f"was {options.nondet_tol}."
            )


def _mismatch(
    out: Tensor,
    number: int,
    place: int,
    slope: object,
    found: object,
    part: str,
    mode: str,
) -> str:
    words = "imaginary" if part == "imag" else "real"
    start = f"While considering the {words} part of complex outputs only, " * out.is_complex()
    how = "computed with forward mode " if mode else ""
    return (
        f"{start}Jacobian {how}mismatch for output {number} with respect to input {place},\n"
        f"numerical:{slope}\nanalytical:{found}\n"
    )


# --- random projections --------------------------------------------------------------------------


def check_projections(
    func: Function,
    inputs: tuple[Any, ...],
    checked: Checked,
    outputs: list[Tensor],
    options: Options,
) -> None:
    """The fast mode: the Jacobians agree between random vectors.

    One wrong element of many shows unless it is small against their sum, as in PyTorch.
    """
    tensors = [value for _, value in checked]
    # Of its own: the program's random numbers stay as they are.
    source = np.random.default_rng(0)
    moves = [_random_vector(value, source) for value in tensors]
    slopes = [
        differences(func, inputs, value, move, options.eps)
        for value, move in zip(tensors, moves, strict=True)
    ]

    for number, out in enumerate(outputs):
        weights = _random_vector(out.real if out.is_complex() else out, source)
        for part in parts_there(out) if options.check_backward_ad else ():
            start = (weights * STARTS[part]).to(out.dtype)
            found = gradients(out, tensors, start, options.check_grad_dtypes)
            again = gradients(out, tensors, start)
            for i, (place, value) in enumerate(checked):
                slope = (slopes[i][number][part] * weights.reshape(-1)).sum()
                along, size = _along(found[i], moves[i]), _size(moves[i]) * _size(weights)
                if not _agree(slope, along, size, options):
                    words = _mismatch(out, number, place, slope, along, part, "")
                    columns = numerical(func, inputs, value, options.eps)
                    whole = columns[number][part], analytical(out, [value], part)[0]
                    raise GradcheckError(words + _elements(*whole, options))
            _check_reentrant(found, again, options)
    if not options.check_forward_ad:
        return
    for i, (place, value) in enumerate(checked):
        for number, parts in enumerate(tangents(func, inputs, place, moves[i])):
            for part, along in parts.items():
                slope = slopes[i][number][part]
                if not _agree(slope, along, _size(moves[i]), options):
                    words = _mismatch(outputs[number], number, place, slope, along, part, "forward")
                    columns = numerical(func, inputs, value, options.eps)
                    rows = by_tangents(func, inputs, place)
                    whole = columns[number][part], rows[number][part]
                    raise GradcheckError(words + _elements(*whole, options))


def _random_vector(like: Tensor, source: np.random.Generator) -> Tensor:
    """Numbers above 0 of norm 1, so that what elements may differ by adds up to their sum."""
    drawn = source.random(tuple(like.shape))
    if like.is_complex():
        drawn = drawn + 1j * source.random(tuple(like.shape))
    return mq.tensor(drawn / (np.linalg.norm(drawn) or 1), dtype=like.dtype)


def _size(vector: Tensor) -> float:
    """How much wider the absolute tolerance is that many elements of 1 have together."""
    total = vector.real.sum() + vector.imag.sum() if vector.is_complex() else vector.sum()
    return float(total)


def _along(gradient: Tensor, move: Tensor) -> Tensor:
    """What a real function gains by a small move."""
    if not move.is_complex():
        return (gradient * move).sum()
    return (gradient.real * move.real + gradient.imag * move.imag).sum()


def _agree(slope: Tensor, found: Tensor, size: float, options: Options) -> bool:
    close: bool = mq.allclose(found, slope.to(found.dtype), options.rtol, options.atol * size)
    return close


def _elements(slope: Tensor, found: Tensor, options: Options) -> str:
    """What the slow mode says of a projection that differs."""
    words = (
        f"These are random projections (fast_mode=True). Element by element:\nnumerical:{slope}\n"
        f"analytical:{found}\nThe max per-element difference (slow mode) is: "
        f"{(slope - found).abs().max()}.\n"
    )
    if mq.allclose(found, slope.to(found.dtype), options.rtol, options.atol):
        words += (
            "Fast gradcheck failed but element-wise differences are small: fast_mode=False may "
            "pass.\n"
        )
    return words
