"""Derivative formulas as a page states them, and which values each must save.

A formula is a function whose parameter names say what it needs: ``grad`` (or ``grads``, one for
each output, None where undefined), arguments of the operator, ``result`` / ``result0``, ``result1``
..., and ``needs`` (per differentiated argument, whether its gradient is wanted). What it names is
saved, nothing else. Where a page says more than a reverse formula (that the operator is linear in
an argument, or what its slope is), the rule keeps that as data, which forward mode reads too.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import NamedTuple

Formula = Callable[..., object]


class Kind(enum.Enum):
    """What is known of an argument beside the formula for its gradient.

    FORMULA: nothing. SLOPE: the operator is elementwise, ``slope`` is d result / d argument.
    HOLOMORPHIC: it is elementwise and has a complex derivative by the argument where numbers are
    complex, so that the formula, on conjugates, is the tangent too.
    LINEAR: it is linear in all such arguments together, the others held fixed. BILINEAR: it is
    linear in this argument alone. An operator with both is the sum of a linear and a bilinear part.
    FLAT: the result does not change with it, or by jumps only: the gradient is zero.
    """

    FORMULA = "formula"
    SLOPE = "slope"
    HOLOMORPHIC = "holomorphic"
    LINEAR = "linear"
    BILINEAR = "bilinear"
    FLAT = "flat"


class Rule(NamedTuple):
    """One formula: the arguments it differentiates, the function, the names it needs.

    ``joint`` formulas give a tuple, one gradient for each of ``wrt``. ``slope`` is a function of
    what its parameters name: arguments of the operator, or results.
    """

    wrt: tuple[str, ...]
    function: Formula
    needs: tuple[str, ...]
    joint: bool
    kind: Kind = Kind.FORMULA
    slope: Formula | None = None


class Derivatives:
    """The formulas of one operator; ``nondifferentiable`` outputs never require grad.

    ``constants`` are arguments that a linear operator adds to its result, such as the number that
    `constant_pad_nd` pads with: they are zero where the operator is applied to tangents.
    ``of_reals``: the formulas hold for real numbers alone; complex results may not require grad.
    ``plans`` are kept by `tangents.py`: what it has read off, by overload and moving arguments.
    """

    plans: dict[tuple[object, tuple[int, ...]], object] | None = None

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.constants: tuple[str, ...] = ()
        self.nondifferentiable: tuple[int, ...] = ()
        self.of_reals = False

    def add(self, rule: Rule) -> Callable[[], None]:
        """Add a rule; it takes the place of an earlier one for the same arguments.

        The returned call takes it away again and puts what it replaced back.
        """
        replaced = [r for r in self.rules if r.wrt == rule.wrt]
        self.rules = _in_order([*(r for r in self.rules if r.wrt != rule.wrt), rule])

        def undo() -> None:
            if any(r is rule for r in self.rules):
                self.rules = _in_order([*(r for r in self.rules if r is not rule), *replaced])

        return undo

    def rule_of(self, name: str) -> Rule | None:
        """The rule that differentiates the argument called ``name``, if there is one."""
        return next((r for r in self.rules if name in r.wrt), None)

    def arguments(self, kind: Kind) -> list[str]:
        """The names of the arguments of which this is known."""
        return [name for r in self.rules if r.kind is kind for name in r.wrt]


def _in_order(rules: list[Rule]) -> list[Rule]:
    """By the names of the arguments: so PyTorch runs them, and modes and graphs see it."""
    return sorted(rules, key=lambda rule: ", ".join(rule.wrt))


def formula_rule(
    wrt: tuple[str, ...], function: Formula, *, joint: bool = False, kind: Kind = Kind.FORMULA
) -> Rule:
    """The rule of a reverse formula; what it needs are its parameters' names."""
    return Rule(wrt, function, parameter_names(function), joint, kind)


def naming(*names: str) -> Callable[[Formula], Formula]:
    """Say what a formula ``function(*values)`` needs, where families of operators share it."""

    def name(function: Formula) -> Formula:
        function.formula_names = names  # type: ignore[attr-defined]  # functions take any
        return function

    return name


def parameter_names(function: Formula) -> tuple[str, ...]:
    """The names of a function's parameters, in order; or those that `naming` gave it."""
    named: tuple[str, ...] | None = getattr(function, "formula_names", None)
    if named is not None:
        return named
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(inspect.signature(function).parameters)
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
