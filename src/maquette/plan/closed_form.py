"""Peak bytes and FLOPs of a program as formulas in its sizes, such as batch B and sequence S.

Every size in a program is a polynomial of its symbols as long as the same operators run, so the
bytes alive at each moment are too. Plans at a grid of sizes give the coefficients exactly, one more
plan away from the grid proves them, for multiples of the sizes given. The peak is the largest of
the moments' polynomials: which one that is changes with the sizes, and the regions where each holds
are told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.plan.plan import Plan

Sizes = dict[str, int]
Powers = tuple[int, ...]  # of each symbol, in order


@dataclass(frozen=True)
class Formula:
    """A polynomial with exact coefficients: ``{(1, 0): 3}`` is 3 times the first symbol."""

    symbols: tuple[str, ...]
    terms: Mapping[Powers, Fraction]

    def __call__(self, **sizes: int) -> int:
        """The value at sizes; rounded where a coefficient is a fraction."""
        values = [sizes[name] for name in self.symbols]
        total = Fraction(0)
        for powers, factor in self.terms.items():
            for value, power in zip(values, powers, strict=True):
                factor = factor * value**power
            total += factor
        return round(total)

    def __str__(self) -> str:
        ordered = sorted(self.terms.items(), key=lambda term: term[0], reverse=True)
        return " + ".join(_term(self.symbols, *term) for term in ordered) or "0"


def _term(symbols: Sequence[str], powers: Powers, factor: Fraction) -> str:
    named = zip(symbols, powers, strict=True)
    parts = [name if power == 1 else f"{name}^{power}" for name, power in named if power]
    number = f"{int(factor):,}" if factor.denominator == 1 else str(factor)
    return "·".join([number, *parts] if number != "1" or not parts else parts)


@dataclass(frozen=True)
class Region:
    """Where one formula is the peak: its operator, and an example of the sizes where it holds."""

    formula: Formula
    operator: str
    line: str
    sizes: Sizes


@dataclass(frozen=True)
class ClosedForm:
    """A program's peak and FLOPs in its symbols. checked: sizes at which a plan agreed."""

    symbols: tuple[str, ...]
    flops: Formula
    regions: Sequence[Region]
    checked: Sequence[Sizes]

    def peak_bytes(self, **sizes: int) -> int:
        """The peak at sizes: the largest of the regions' formulas."""
        return max(region.formula(**sizes) for region in self.regions)

    def largest(self, name: str, budget: int, **others: int) -> int:
        """The largest value of a symbol for which the peak is within ``budget`` bytes; 0 if none.

        others: the other symbols' sizes.
        """
        low, high = 0, 1
        while self.peak_bytes(**{name: high}, **others) <= budget:
            low, high = high, 2 * high
            if high > 1 << 40:
                raise ValueError(f"the peak does not grow with {name}: every size fits")
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.peak_bytes(**{name: middle}, **others) <= budget
            low, high = (middle, high) if fits else (low, middle)
        return low

    def binding(self, **sizes: int) -> Region:
        """The region whose formula is the peak at sizes: what a larger size has to pay for."""
        return max(self.regions, key=lambda region: region.formula(**sizes))


class NotPolynomialError(ValueError):
    """The program runs other operators at other sizes, or its bytes are no polynomial of them."""


def closed_form(
    plan_at: Callable[[Sizes], Plan], sizes: Sizes, *, degree: int = 2, spread: int = 64
) -> ClosedForm:
    """The formulas of a program that ``plan_at`` plans at sizes, from those of ``sizes`` on.

    degree: the highest power of a symbol. spread: up to how many times ``sizes`` regions are looked
    for. Raises NotPolynomialError, saying where, when there is no one formula.
    """
    names = tuple(sizes)
    powers = list(itertools.product(range(degree + 1), repeat=len(names)))
    grid = [tuple(sizes[n] * (k + 1) for n, k in zip(names, p, strict=True)) for p in powers]
    plans = [plan_at(dict(zip(names, point, strict=True))) for point in grid]
    for point, made in zip(grid, plans, strict=True):
        _same_program(plans[0], made, dict(zip(names, point, strict=True)))
    solve = _solver(grid, powers)
    levels = np.array([[n for _, n in made.timeline] for made in plans], dtype=object)
    coefficients = solve(levels)
    flops = Formula(names, _kept(powers, solve(np.array([[p.flops] for p in plans], object))[:, 0]))
    # Kernels round sizes up, attention to 32: multiples of `sizes` are what the formulas are for.
    away = {name: (degree + 3 + 2 * i) * n for i, (name, n) in enumerate(sizes.items())}
    proof = plan_at(away)
    _same_program(plans[0], proof, away)
    factors = np.array([_monomial(names, p, away) for p in powers], dtype=object)
    proved = factors @ coefficients == np.array([n for _, n in proof.timeline], dtype=object)
    regions = _regions(names, powers, coefficients, proved, plans[0], sizes, spread)
    form = ClosedForm(names, flops, regions, [sizes, away])
    _check(form, proof, away)
    return form


def _monomial(names: Sequence[str], powers: Powers, sizes: Sizes) -> int:
    return int(np.prod([sizes[n] ** e for n, e in zip(names, powers, strict=True)], dtype=object))


def _same_program(first: Plan, other: Plan, sizes: Sizes) -> None:
    same = [o.name for o in first.operators] == [o.name for o in other.operators]
    if not same or [at for at, _ in first.timeline] != [at for at, _ in other.timeline]:
        at = next(
            (a for a, b in zip(first.operators, other.operators, strict=False) if a.name != b.name),
            None,
        )
        where = "" if at is None else f", first at {at.name} {at.place.line}"
        told = ", ".join(f"{k}={v}" for k, v in sizes.items())
        raise NotPolynomialError(f"at {told} the program runs other operators{where}")


def _solver(grid: Sequence[tuple[int, ...]], powers: Sequence[Powers]) -> Callable[[Any], Any]:
    """Exact coefficients from values at the grid: Gauss's elimination with fractions."""
    size = len(grid)
    rows = [[Fraction(1)] * size for _ in grid]
    for r, point in enumerate(grid):
        for c, power in enumerate(powers):
            for value, exponent in zip(point, power, strict=True):
                rows[r][c] *= value**exponent
    matrix = np.array(
        [[*row, *(Fraction(int(i == r)) for i in range(size))] for r, row in enumerate(rows)],
        dtype=object,
    )
    for c in range(size):
        pivot = next(r for r in range(c, size) if matrix[r, c] != 0)
        matrix[[c, pivot]] = matrix[[pivot, c]]
        matrix[c] = matrix[c] / matrix[c, c]
        for r in range(size):
            if r != c and matrix[r, c] != 0:
                matrix[r] = matrix[r] - matrix[r, c] * matrix[c]
    inverse = matrix[:, size:]
    return lambda values: inverse @ values


def _kept(powers: Sequence[Powers], coefficients: Any) -> dict[Powers, Fraction]:
    return {p: Fraction(c) for p, c in zip(powers, coefficients, strict=True) if c != 0}


def _regions(
    names: tuple[str, ...],
    powers: Sequence[Powers],
    coefficients: Any,
    proved: Any,
    first: Plan,
    sizes: Sizes,
    spread: int,
) -> list[Region]:
    """The moments that are the peak somewhere among sizes from ``sizes`` to ``spread`` times it.

    A moment whose polynomial the proof does not meet is none: two storages changed places there.
    """
    steps = [1]
    while steps[-1] < spread:
        steps.append(steps[-1] * 2)
    found: dict[tuple[object, ...], Region] = {}
    moments = np.array([[float(c) for c in row] for row in coefficients])
    for point in itertools.product(steps, repeat=len(names)):
        at = {n: sizes[n] * k for n, k in zip(names, point, strict=True)}
        factors = np.array([float(_monomial(names, p, at)) for p in powers])
        moment = int(np.argmax(np.where(proved, factors @ moments, -1.0)))
        key = tuple(coefficients[:, moment])
        if key not in found:
            number = min(first.timeline[moment][0], len(first.operators) - 1)
            made = first.operators[number]
            formula = Formula(names, _kept(powers, coefficients[:, moment]))
            found[key] = Region(formula, made.name, made.place.line or made.place.module, at)
    return list(found.values())


def _check(form: ClosedForm, made: Plan, sizes: Sizes) -> None:
    told = ", ".join(f"{k}={v}" for k, v in sizes.items())
    pairs = (
        ("peak", form.peak_bytes(**sizes), made.peak_bytes),
        ("FLOPs", form.flops(**sizes), made.flops),
    )
    for what, formula, planned in pairs:
        if formula != planned:
            raise NotPolynomialError(
                f"the {what} at {told} is {planned:,}, where a polynomial would give {formula:,}: "
                f"it is no polynomial of {', '.join(form.symbols)}"
            )
