"""Derivative formulas as a page states them, and which values each must save.

A formula is a function whose parameter names say what it needs: ``grad`` (or ``grads``, one for
each output, None where undefined), arguments of the operator, ``result`` / ``result0``, ``result1``
..., and ``needs`` (per differentiated argument, whether its gradient is wanted). What it names is
saved, nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

Formula = Callable[..., object]


class Rule(NamedTuple):
    """One formula: the arguments it differentiates, the function, the names it needs.

    ``joint`` formulas give a tuple, one gradient for each of ``wrt``.
    """

    wrt: tuple[str, ...]
    function: Formula
    needs: tuple[str, ...]
    joint: bool


class Derivatives:
    """The formulas of one operator; ``nondifferentiable`` outputs never require grad."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.nondifferentiable: tuple[int, ...] = ()

    def add(
        self,
        wrt: tuple[str, ...],
        function: Formula,
        *,
        joint: bool,
        needs: tuple[str, ...] | None = None,
    ) -> None:
        """Add a formula. What it needs are its parameters' names, unless ``needs`` says."""
        self.rules.append(Rule(wrt, function, needs or parameter_names(function), joint))


def parameter_names(function: Formula) -> tuple[str, ...]:
    """The names of a function's parameters, in order."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(inspect.signature(function).parameters)
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
