"""`PassManager`: passes in an order that their constraints allow, run one after another."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from maquette.fx.compatibility import compatibility
from maquette.fx.graph_module import GraphModule
from maquette.fx.passes.infra.pass_base import PassResult
from maquette.nn.base import Module

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


@compatibility(is_backward_compatible=False)
def pass_result_wrapper(fn: Pass) -> Pass:
    """A pass that gives a `PassResult`, of a function that may give None."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm: GraphModule) -> PassResult:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, Module):
            assert isinstance(result, GraphModule)
            return PassResult(result, True)
        raise TypeError(f"a pass must give None, a module or a PassResult; {fn} gave {result!r}")

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def _topological_sort_passes(
    passes: list[Pass], constraints: list[Constraint] | None
) -> list[Pass]:
    """The passes such that every constraint holds of every two in their order."""
    if not constraints:
        return passes
    after: dict[int, set[int]] = {i: set() for i in range(len(passes))}
    waiting = dict.fromkeys(range(len(passes)), 0)
    for i, a in enumerate(passes):
        for j, b in enumerate(passes):
            if i != j and any(not holds(a, b) for holds in constraints) and i not in after[j]:
                after[j].add(i)
                waiting[i] += 1
    ready = [i for i, count in waiting.items() if count == 0]
    ordered: list[int] = []
    while ready:
        at = ready.pop(0)
        ordered.append(at)
        for follower in sorted(after[at]):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    if len(ordered) != len(passes):
        circle = [passes[i] for i in waiting if i not in ordered]
        raise RuntimeError(f"Circular dependency detected within the following passes: {circle}")
    return [passes[i] for i in ordered]


@compatibility(is_backward_compatible=False)
def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """A constraint: ``this`` comes before ``that``."""
    return lambda a, b: not (a == that and b == this)


@compatibility(is_backward_compatible=False)
class PassManager:
    """Runs passes, ``steps`` times over or until none changes anything.

    constraints: say of two passes whether the first may come before the second.
    run_checks_after_each_pass: call the checks added by `add_checks` after each.
    """

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Pass] = passes or []
        self.constraints: list[Constraint] = constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False
        self.checks: Callable[[Module], None] = lambda module: None

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """RuntimeError where two passes are not in the order that a constraint wants."""
        if self._validated:
            return
        for i, first in enumerate(self.passes):
            for later in self.passes[i + 1 :]:
                if any(not holds(first, later) for holds in self.constraints):
                    raise RuntimeError(
                        f"pass schedule constraint violated. Expected {later} before {first} but "
                        f"found it after"
                    )
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes in an order that the constraints allow; RuntimeError for a circle."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[..., Any]) -> None:
        """Have ``check(module)`` called between passes; TypeError if it takes anything else."""
        signature = inspect.signature(check)
        if len(list(signature.parameters.values())) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.checks = check

    def check(self, module: Module) -> None:
        """The check that `add_checks` sets."""
        self.checks(module)

    def __call__(self, module: Module) -> PassResult:
        """Run all passes on a module; Exception names the pass that failed."""
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        overall = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                name = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
                try:
                    result = fn(module)
                    if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                        raise TypeError(
                            f"The result of the pass {name} should be type PassResult. Please wrap "
                            f"it with pass_result_wrapper()"
                        )
                    module = result.graph_module
                    modified = modified or result.modified
                    if isinstance(module, GraphModule):
                        module.recompile()
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as error:
                    earlier = [
                        p.__name__ if inspect.isfunction(p) else type(p).__name__
                        for p in self.passes[:i]
                    ]
                    raise Exception(  # what programs catch
                        f"An error occurred when running the '{name}' pass after the following "
                        f"passes: {earlier}"
                    ) from error
            overall = overall or modified
            if not modified:
                break
        assert isinstance(module, GraphModule)
        return PassResult(module, overall)
