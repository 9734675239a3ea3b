"""A line search for the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, 3.5).

First steps grow until a stretch must hold a good point; then the stretch shrinks by cubic
interpolation. `lbfgs.py` calls it; libraries do by the private names that PyTorch has for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from maquette.tensor import Tensor

DECREASE, CURVATURE = 1e-4, 0.9  # the two constants of the conditions, PyTorch's c1 and c2
MOST_TRIALS = 25


@dataclass(frozen=True)
class Point:
    """A step along the direction: the loss there, its gradient, and its slope along the line."""

    step: float
    loss: float
    gradient: Tensor
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(
    evaluate: Evaluate,
    start: Point,
    first_step: float,
    *,
    reach: float,
    tolerance: float,
    most_trials: int = MOST_TRIALS,
) -> tuple[Point, int]:
    """A point that meets the conditions, or the best found, and how often `evaluate` was called.

    start: the point at step 0. reach: the direction's largest element; a stretch shorter than
    tolerance / reach is not searched further. most_trials: steps that are tried after the first.
    """
    found, other, trials = _bracketed(evaluate, start, first_step, most_trials)
    evaluations = trials + 1
    if other is None:
        return found, evaluations
    low, high = (found, other) if found.loss <= other.loss else (other, found)
    # The two ends in the order they were met: interpolation is not symmetric in rounding.
    ends = [found, other]
    stuck = False
    while trials < most_trials and abs(ends[1].step - ends[0].step) * reach >= tolerance:
        step, stuck = _inner_step(ends, stuck)
        point = evaluate(step)
        evaluations += 1
        trials += 1
        if _too_high(point, start) or point.loss >= low.loss:
            ends[ends.index(high)] = point
            low, high = (ends[0], ends[1]) if ends[0].loss <= ends[1].loss else (ends[1], ends[0])
            continue
        if abs(point.slope) <= -CURVATURE * start.slope:
            return point, evaluations
        place_of_low = ends.index(low)
        if point.slope * (high.step - low.step) >= 0:
            ends[ends.index(high)] = low
            high = low
        ends[place_of_low] = point
        low = point
    return low, evaluations


def _bracketed(
    evaluate: Evaluate, start: Point, first_step: float, most_trials: int
) -> tuple[Point, Point | None, int]:
    """A good point and None, or two points with one between; and the trials after the first."""
    previous, point, trials = start, evaluate(first_step), 0
    while trials < most_trials:
        if _too_high(point, start) or (trials > 1 and point.loss >= previous.loss):
            return previous, point, trials
        if abs(point.slope) <= -CURVATURE * start.slope:
            return point, None, trials
        if point.slope >= 0:
            return previous, point, trials
        least = point.step + 0.01 * (point.step - previous.step)
        step = _cubic_minimum(previous, point, (least, point.step * 10))
        previous, point = point, evaluate(step)
        trials += 1
    return start, point, trials


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + DECREASE * point.step * start.slope


def _inner_step(ends: list[Point], stuck: bool) -> tuple[float, bool]:
    """A step within the stretch, away from an end that it comes close to twice."""
    step = _cubic_minimum(ends[0], ends[1], None)
    least, most = sorted(end.step for end in ends)
    margin = 0.1 * (most - least)
    if min(most - step, step - least) >= margin:
        return step, False
    if not stuck and least < step < most:
        return step, True
    closer_to_most = abs(step - most) < abs(step - least)
    return (most - margin if closer_to_most else least + margin), False


def _cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None) -> float:
    """The minimum of the cubic through two losses and slopes, within bounds (the two steps)."""
    least, most = bounds or (min(a.step, b.step), max(a.step, b.step))
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = bend**2 - a.slope * b.slope
    if square < 0:
        return (least + most) / 2.0
    first, last = (a, b) if a.step <= b.step else (b, a)
    root = square**0.5
    share = (last.slope + root - bend) / (last.slope - first.slope + 2 * root)
    return min(max(last.step - (last.step - first.step) * share, least), most)


def _cubic_interpolate(
    x1: float,
    f1: float,
    g1: float,
    x2: float,
    f2: float,
    g2: float,
    bounds: tuple[float, float] | None = None,
) -> float:
    """The minimum of the cubic through two losses and slopes, as libraries call it."""
    nothing = Tensor()
    return _cubic_minimum(Point(x1, f1, nothing, g1), Point(x2, f2, nothing, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[[Any, float, Tensor], tuple[float, Tensor]],
    x: Any,
    t: float,
    d: Tensor,
    f: float,
    g: Tensor,
    gtd: float,
    c1: float = DECREASE,
    c2: float = CURVATURE,
    tolerance_change: float = 1e-9,
    max_ls: int = MOST_TRIALS,
) -> tuple[float, Tensor, float, int]:
    """`strong_wolfe` as libraries call it: of ``obj_func(x, step, d)``, a loss and its gradient.

    f, g, gtd: loss, gradient and slope at ``x``. Gives loss, gradient and step of the point found,
    and how often the function was called. NotImplementedError for other conditions than PyTorch's.
    """
    if (c1, c2) != (DECREASE, CURVATURE):
        raise NotImplementedError(f"_strong_wolfe: c1 and c2 are 1e-4 and 0.9 here, not {c1}, {c2}")

    def evaluate(step: float) -> Point:
        loss, gradient = obj_func(x, step, d)
        return Point(step, float(loss), gradient.clone(), float(gradient.dot(d)))

    start = Point(0.0, float(f), g, float(gtd))
    reach = float(d.abs().max())
    found, calls = strong_wolfe(
        evaluate, start, float(t), reach=reach, tolerance=tolerance_change, most_trials=max_ls
    )
    return found.loss, found.gradient, found.step, calls
