"""What a `ShapeEnv` knows, as others read it: in SymPy's expressions, and as guards in Python.

Nothing here changes what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from maquette.symbolic.creating import SymbolMaker
from maquette.symbolic.expr import Expr, Poly, Symbol, number
from maquette.symbolic.forms import sympy_forms, sympy_of
from maquette.symbolic.guards import RuntimeAssert, ShapeGuard
from maquette.symbolic.numbers import SymNumber
from maquette.symbolic.program import producing
from maquette.symbolic.program.sources import Source
from maquette.symbolic.ranges import ValueRange, bounds_of

if TYPE_CHECKING:
    from maquette.symbolic.facts import Facts
    from maquette.symbolic.shape_env import ShapeEnv


class Reading(SymbolMaker):
    """The part of a `ShapeEnv` that is read: knowledge for SymPy, guards for a program's inputs."""

    facts: Facts
    guards: list[ShapeGuard]
    deferred: dict[Symbol | None, list[RuntimeAssert]]
    guard_counts: dict[Symbol, int]

    if TYPE_CHECKING:  # of ShapeEnv

        def form_of(self, value: Any) -> Expr: ...
        def symint(self, form: Poly) -> Any: ...
        def _known_value(self, form: Expr, oblivious: bool) -> Any: ...

    # --- for SymPy --------------------------------------------------------------------------

    @property
    def var_to_sources(self) -> dict[Any, list[Source]]:
        """Where each symbol is found in the program, for SymPy."""
        return {_sympy(s): found for s, found in self.sources_of.items()}

    @property
    def source_to_var(self) -> dict[str, Any]:
        """The symbol found at a place of the program, for SymPy."""
        return {name: _sympy(found) for name, found in self.symbol_at.items()}

    @property
    def replacements(self) -> dict[Any, Any]:
        """What symbols were replaced by, for SymPy."""
        return {_sympy(s): sympy_of(by) for s, by in self.facts.replacements.items()}

    @property
    def divisible(self) -> set[Any]:
        """Remainders that are known to be 0, for SymPy."""
        return {sympy_of(form) for form in self.facts.divisible}

    @property
    def size_like(self) -> set[Any]:
        """Symbols that are sizes, for SymPy."""
        return set(map(_sympy, self.facts.size_like))

    @property
    def var_to_range(self) -> dict[Any, ValueRange]:
        """The range of each symbol, for SymPy."""
        return {_sympy(s): self.facts.shown_range_of(s) for s in self.facts.ranges}

    @property
    def backed_var_to_val(self) -> dict[Any, Any]:
        """The hint of each symbol, for SymPy."""
        return {_sympy(s): sympy_of(number(v)) for s, v in self.hints.items()}

    var_to_val = backed_var_to_val

    @property
    def deferred_runtime_asserts(self) -> dict[Any, list[RuntimeAssert]]:
        """Assertions by the latest unbacked symbol in them, for SymPy; None for backed ones."""
        return {s if s is None else _sympy(s): found for s, found in self.deferred.items()}

    @property
    def symbol_guard_counter(self) -> dict[Any, int]:
        """How many guards name each symbol, for SymPy."""
        return {_sympy(s): count for s, count in self.guard_counts.items()}

    @property
    def axioms(self) -> set[Any]:
        """Conditions that hold, for SymPy."""
        return {sympy_of(condition) for condition in self.facts.held}

    def replace(self, expr: Any) -> Any:
        """A SymPy expression with replacements made."""
        return sympy_of(self.facts.replace(self.form_of(expr)))

    def simplify(self, expr: Any, size_oblivious: bool = False) -> Any:
        """A SymPy expression with replacements made and exact divisions carried out."""
        return sympy_of(self.facts.simplify(self.form_of(expr)))

    def bound_sympy(self, expr: Any, size_oblivious: bool = False) -> ValueRange:
        """The interval of a SymPy expression."""
        form = self.facts.simplify(self.form_of(expr))
        shown = self.facts.shown_range_of
        if isinstance(form, Poly) and all(shown(s) == self.facts.range_of(s) for s in form.symbols):
            return self.facts.bounds(form, oblivious=size_oblivious)
        return bounds_of(form, self.facts.oblivious_range_of if size_oblivious else shown)

    def get_axioms(
        self, symbols: Sequence[Any] | None = None, compute_hint: bool = False
    ) -> tuple[Any, ...]:
        """Conditions that hold, those that name ``symbols`` alone."""
        wanted = None if symbols is None else {s.name for s in symbols}
        found = [g.form for g in self.guards] + [a.form for d in self.deferred.values() for a in d]
        return tuple(
            sympy_of(f) for f in found if wanted is None or wanted & {s.name for s in f.symbols}
        )

    def get_implications(self, e: Any) -> tuple[tuple[Any, Any], ...]:
        """Conditions that follow from one, with their truth."""
        return producing.implications(e)

    def _maybe_evaluate_static(self, expr: Any, **options: Any) -> Any:
        form = self.form_of(expr)
        oblivious = bool(options.get("size_oblivious"))
        known = self._known_value(form, oblivious)
        if known is None or isinstance(known, bool):
            return None if known is None else sympy_of(self.form_of(known))
        return sympy_of(number(known))

    # --- guards -------------------------------------------------------------------------------

    def format_guards(self, verbose: bool = False) -> str:
        """The guards, one a line; verbose: with the lines that asked."""
        tail: Callable[[ShapeGuard], str] = (lambda g: f" {g.sloc}") if verbose else (lambda g: "")
        return "\n".join(f" - {g.text}{tail(g)}" for g in self.guards)

    def get_nontrivial_guards(self) -> list[Any]:
        """Guards that ranges do not imply."""
        return [
            self.simplify(g.form)
            for g in self.guards
            if self.facts.decide_by_ranges(g.form, oblivious=g.size_oblivious) is None
        ]

    def get_pruned_guards(self, symints: Sequence[Any]) -> list[ShapeGuard]:
        """Guards about the symbols of some numbers alone."""
        symbols = {s for i in symints if isinstance(i, SymNumber) for s in i.node.current.symbols}
        return [g for g in self.guards if g.form.symbols <= symbols]

    def produce_guards(self, *args: Any, **kwargs: Any) -> list[str]:
        """The conditions on a program's inputs, as Python (F125)."""
        return producing.produce_guards_verbose(cast("ShapeEnv", self), *args, **kwargs)[0].exprs

    def produce_guards_verbose(self, *args: Any, **kwargs: Any) -> list[producing.Guards]:
        """`produce_guards` in each of the languages that are asked for."""
        return producing.produce_guards_verbose(cast("ShapeEnv", self), *args, **kwargs)

    def produce_guards_expression(
        self,
        placeholders: Sequence[Any],
        *,
        guards: list[ShapeGuard] | None = None,
        ignore_static: bool = True,
    ) -> str | None:
        """All conditions as one expression over ``L['t0']`` and so on; None if there is none."""
        names = [f"t{i}" for i in range(len(placeholders))]
        found = self.produce_guards(placeholders, names, guards=guards, ignore_static=ignore_static)
        return " and ".join(found) if found else None

    def evaluate_guards_expression(self, code: str, args: Sequence[Any]) -> bool:
        """Whether what `produce_guards_expression` gave holds for these inputs."""
        return producing.evaluate_guards_expression(code, args)

    def evaluate_guards_for_args(
        self, placeholders: Sequence[Any], args: Sequence[Any], *, ignore_static: bool = True
    ) -> bool:
        """Whether the guards hold for other inputs (F127)."""
        code = self.produce_guards_expression(placeholders, ignore_static=ignore_static)
        return self.evaluate_guards_expression(code, args) if code else True

    def bind_symbols(self, placeholders: Sequence[Any], args: Sequence[Any]) -> dict[Any, Any]:
        """The value of each symbol in real inputs; AssertionError where they contradict (F127)."""
        found = producing.bind_symbols(cast("ShapeEnv", self), placeholders, args)
        return {_sympy(s): value for s, value in found.items()}

    def evaluate_symexpr(self, code: str) -> Any:
        """The value of an expression over symbols' names, at their hints."""
        values = {s.name: self.hints.get(s) for s in self.names.values()}
        return eval(code, producing.functions_for_guards(), values)

    def deserialize_symexpr(self, code: str) -> Any:
        """The number of an expression over symbols' names."""
        values = {name: self.symint(s.poly) for name, s in self.names.items()}
        return eval(code, producing.functions_for_guards(), values)

    def check_equal(self, other: ShapeEnv) -> None:
        """Raise NotEqualError, listing the differences, unless both know the same (F130)."""
        producing.check_equal(cast("ShapeEnv", self), other)


def _sympy(symbol: Symbol) -> Any:
    return sympy_forms().sympy_symbol(symbol)
