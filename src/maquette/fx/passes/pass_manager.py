"""`PassManager` over plain functions: each takes what the one before it gave."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]

logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that gives what it was given, of a function that changes it in place."""

    @wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """A pass that logs what it gave."""

    @wraps(fn)
    def wrapped(gm: Any) -> Any:
        made = fn(gm)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, made)
        return made

    return wrapped


def loop_pass(
    base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> Pass:
    """A pass that runs another ``n_iter`` times, or while ``predicate`` of its result is true.

    AssertionError unless exactly one of both is given.
    """
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def wrapped(source: Any) -> Any:
        if n_iter is not None and n_iter > 0:
            for _ in range(n_iter):
                source = base_pass(source)
        elif predicate is not None:
            while predicate(source):
                source = base_pass(source)
        else:
            raise RuntimeError(f"loop_pass: expected n_iter > 0 or a predicate, got {n_iter}")
        return source

    return wrapped


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for i, earlier in enumerate(passes):
        for j, later in enumerate(passes[i + 1 :], i + 1):
            if not constraint(earlier, later):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {earlier} before {later} but "
                    f"found {earlier} at index {i} and {later} at index{j} in pass list."
                )


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """A constraint: ``this`` comes before ``that``, where both are in the list."""

    def holds(a: Pass, b: Pass) -> bool:
        return not (a == that and b == this)

    return holds


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """As `this_before_that_pass_constraint`, of the functions within wrappers."""

    def holds(a: Pass, b: Pass) -> bool:
        return not (unwrap(a) == those and unwrap(b) == these)

    return holds


class PassManager:
    """Runs passes in their order, which its constraints must allow.

    passes: functions of one value; constraints: functions of an earlier and a later pass, false
    where they may not stand so.
    """

    passes: list[Pass]
    constraints: list[Constraint]
    _validated: bool = False

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None
    ) -> None:
        self.passes = passes or []
        self.constraints = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of passes without constraints."""
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Remove the passes of these names."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Put a pass in the place of another, which is known by its name."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Check the order; RuntimeError where a constraint is violated."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """What the last pass gives."""
        self.validate()
        for one in self.passes:
            source = one(source)
        return source


__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]
