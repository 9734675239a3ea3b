"""`DimConstraints`: guards on sizes, gathered and solved for what each size may be.

Conditions on one symbol are solved; what fixes it makes it *static*, the rest are its *dynamic*
bounds. Whole-number division and remainders are first made linear by what they leave at the hints.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import sympy  # noqa: TID253 — this module is imported when it is first asked for
from sympy.solvers.inequalities import reduce_inequalities  # noqa: TID253


class DimConstraints:
    """Conditions on the sizes of a program's inputs.

    symbol_to_source: where each symbol is found. var_to_val: their hints. marked_dynamic: symbols
    that should stay symbols. source_name_to_debug_name: the names that users gave them.
    """

    def __init__(
        self,
        symbol_to_source: Mapping[Any, list[Any]],
        var_to_val: Mapping[Any, Any],
        marked_dynamic: set[Any],
        source_name_to_debug_name: Mapping[str, str],
    ) -> None:
        self._symbol_to_source = symbol_to_source
        self._var_to_val = var_to_val
        self._marked_dynamic = marked_dynamic
        self._names = source_name_to_debug_name
        self._univariate_inequalities: dict[Any, set[Any]] = defaultdict(set)
        self._symbols_with_equalities: set[Any] = set()
        self._multivariate_inequalities: set[Any] = set()
        self._congruences: dict[Any, set[Any]] = defaultdict(set)
        self._symbolic_equivalences: list[tuple[Any, Any]] = []
        self._substitutions: dict[Any, Any] = {}
        self._static_results: set[str] = set()
        self._dynamic_results: set[str] = set()
        self._inconsistencies: list[str] = []

    # --- gathering ------------------------------------------------------------------------

    def rewrite_with_congruences(self, s: Any, expr: Any) -> Any:
        """The expression with divisions and remainders of ``s`` made linear, as at its hint.

        What is left over at the hint is noted as a congruence, which has to hold elsewhere, too.
        """

        def linear(found: Any) -> Any:
            base, divisor = found.args
            rest = base.subs(self._var_to_val) % divisor
            congruence = sympy.Mod(base - rest, divisor)
            if congruence != 0:
                self._congruences[s].add(congruence)
            return rest if type(found).__name__ in _REMAINDERS else (base - rest) / divisor

        return expr.replace(lambda e: type(e).__name__ in _REMAINDERS | _QUOTIENTS, linear)

    def add(self, expr: Any) -> bool:
        """Take a condition; whether it holds anyway. One that the hints do not keep is noted."""
        if expr == sympy.true:
            return True
        if expr.subs(self._var_to_val) == sympy.false:
            self._inconsistencies.append(f"{expr} is inconsistent!")
        if isinstance(expr, sympy.Ne):
            return False  # a size that is left out is no bound
        symbols = expr.free_symbols
        if len(symbols) != 1:
            self._multivariate_inequalities.add(expr)
            return False
        (s,) = symbols
        rewritten = self.rewrite_with_congruences(s, expr)
        if rewritten == sympy.true:
            return False  # a congruence says it
        self._univariate_inequalities[s].add(rewritten)
        if isinstance(expr, sympy.Eq):
            self._symbols_with_equalities.add(s)
        return False

    def add_equality(self, source: Any, expr: Any) -> None:
        """Note that what is found at ``source`` is a number, or an expression of other sizes."""
        if expr.is_number:
            self._static_results.add(f"{_name(source)} == {expr}")
        else:
            self._symbolic_equivalences.append((source, expr))

    # --- solving --------------------------------------------------------------------------

    def solve(self) -> None:
        """Find what each size may be; ValueError where no size would do."""
        if self._inconsistencies:
            listed = "\n".join(self._inconsistencies)
            raise ValueError(f"The following inconsistencies were found:\n{listed}")
        while self._symbols_with_equalities:
            self._fix(min(self._symbols_with_equalities, key=str))
        for s, conditions in self._univariate_inequalities.items():
            self._bound(s, conditions)
        for s, congruences in self._congruences.items():
            for congruence in congruences:
                if s not in self._substitutions and congruence.args[0] == s:
                    step = f"({congruence.args[1]}*_{self._names.get(self._place(s), s)})"
                    self._dynamic_results.add(f"{self._place(s)} == {step}")
        for source, expr in self._symbolic_equivalences:
            self._dynamic_results.add(f"{_name(source)} == {self._shown(expr)}")

    def _fix(self, s: Any) -> None:
        """A symbol that equals a number is that number everywhere."""
        self._symbols_with_equalities.discard(s)
        conditions = self._univariate_inequalities.pop(s)
        equation = next(c for c in sorted(conditions, key=str) if isinstance(c, sympy.Eq))
        values = sympy.solve(equation, s)
        hint = self._var_to_val.get(s)
        value = hint if hint in values else values[0]
        self._substitutions[s] = value
        self._static_results.add(f"{self._place(s)} == {value}")
        standing, self._multivariate_inequalities = self._multivariate_inequalities, set()
        for expr in standing:
            self.add(expr.subs(s, value))

    def _bound(self, s: Any, conditions: set[Any]) -> None:
        solved = reduce_inequalities(list(conditions), s)
        for part in solved.args if isinstance(solved, sympy.And) else (solved,):
            if isinstance(part, sympy.core.relational.Relational) and part.free_symbols == {s}:
                if not any(side in (sympy.oo, -sympy.oo) for side in part.args):
                    self._dynamic_results.add(self._shown(part))

    def _place(self, s: Any) -> str:
        sources = self._symbol_to_source.get(s)
        return _name(sources[0]) if sources else str(s)

    def _shown(self, expr: Any) -> str:
        named = {s: sympy.Symbol(self._place(s)) for s in expr.free_symbols}
        return str(expr.subs(named, simultaneous=True))

    # --- telling --------------------------------------------------------------------------

    def forced_specializations(self) -> dict[str, Any]:
        """The numbers that sizes marked dynamic turned out to be, by ``name = place``."""
        return {
            f"{self._names[self._place(s)]} = {self._place(s)}": value
            for s, value in self._substitutions.items()
            if s in self._marked_dynamic and self._place(s) in self._names
        }

    def prettify_results(
        self,
        original_signature: inspect.Signature,
        dynamic_shapes: Any,
        constraint_violation_error: object,
        forced_specializations: Mapping[str, Any],
    ) -> str:
        """What to tell a user whose promises about sizes do not hold: why, and what to promise."""
        lines = []
        if forced_specializations:
            names = ", ".join(sorted(key.split(" = ")[0] for key in forced_specializations))
            lines.append(f"Specializations unexpectedly required ({names})!")
            lines += [
                f"  - solving the guards generated for {key} resulted in a specialized value of "
                f"{value}."
                for key, value in forced_specializations.items()
            ]
        fixes = self._fixes()
        if fixes:
            lines += ["", "Suggested fixes:", *(f"  {fix}" for fix in fixes)]
        return "\n".join(lines)

    def _fixes(self) -> list[str]:
        """Definitions of the named sizes that would hold."""
        bounds: dict[str, dict[str, str]] = defaultdict(dict)
        found = []
        for place, name in self._names.items():
            for result in sorted(self._static_results | self._dynamic_results):
                left, _, right = result.partition(" == ")
                if right and left == place:
                    if f"_{name}" in right:
                        found.append(f"_{name} = Dim('_{name}', min=1, max=oo)")
                    found.append(f"{name} = {self._renamed(right)}")
                left, _, right = result.partition(" <= ")
                if right and left == place:
                    bounds[name]["max"] = right
                elif right == place and left != "2":
                    bounds[name]["min"] = left
        for name, ends in bounds.items():
            shown = ", ".join(f"{end}={ends[end]}" for end in ("min", "max") if end in ends)
            found.append(f"{name} = Dim('{name}', {shown})")
        return found

    def _renamed(self, text: str) -> str:
        expr = sympy.sympify(text)
        return str(expr.subs({sympy.Symbol(p): sympy.Symbol(n) for p, n in self._names.items()}))


_QUOTIENTS = {"FloorDiv", "CleanDiv"}
_REMAINDERS = {"Mod", "PythonMod"}


def _name(source: Any) -> str:
    found = source.name
    return str(found() if callable(found) else found)
