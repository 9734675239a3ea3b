"""`ShapeEnv`: the symbols of one program, what is known of them, and what was decided by hints.

Every question about a symbolic number ends in `evaluate` or `guard_or_defer_runtime_assert`: what
is known decides it; else the hint does, leaving a guard; else only data could. Symbols are made in
`creating.py`, knowledge is in `facts.py`, what is read of it in `reading.py`, guards over a
program's inputs are in `program/producing.py`.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from maquette.symbolic import functions
from maquette.symbolic.config import config
from maquette.symbolic.errors import GuardOnDataDependentSymNode, ShapeEnvGuardError
from maquette.symbolic.expr import (
    Expr,
    Junction,
    Numeric,
    Poly,
    Relation,
    Symbol,
    negation,
    number,
    relation,
    substituted,
)
from maquette.symbolic.facts import Facts, solutions, symbol_alone
from maquette.symbolic.forms import expr_of, sympy_of, text_of
from maquette.symbolic.guards import RuntimeAssert, ShapeGuard, user_line
from maquette.symbolic.node import InternKey, SymNode
from maquette.symbolic.numbers import KINDS, SymInt, SymNumber
from maquette.symbolic.program import producing
from maquette.symbolic.ranges import value_of
from maquette.symbolic.reading import Reading

_tls = threading.local()
_ids = itertools.count()


@dataclass(frozen=True)
class ShapeEnvSettings:
    """How an environment makes symbols and answers questions (spec F107)."""

    allow_scalar_outputs: bool = True
    allow_dynamic_output_shape_ops: bool = True
    assume_static_by_default: bool = False
    specialize_zero_one: bool = True
    duck_shape: bool = True
    prefer_deferred_runtime_asserts_over_guards: bool = False
    trace_asserts: bool = False


class ShapeEnv(Reading):
    """The symbols of a program.

    allow_scalar_outputs, allow_dynamic_output_shape_ops: whether operators may give unbacked
    numbers. assume_static_by_default: sizes of inputs are constants unless marked. duck_shape:
    equal sizes share a symbol; None takes the process's setting. specialize_zero_one: sizes 0 and 1
    are constants. prefer_deferred_runtime_asserts_over_guards: checks on sizes of inputs are
    asserted at run time. trace_asserts: so is a Python ``assert`` on unbacked numbers.
    """

    def __init__(
        self,
        *,
        allow_scalar_outputs: bool = True,
        allow_dynamic_output_shape_ops: bool = True,
        assume_static_by_default: bool = False,
        specialize_zero_one: bool = True,
        duck_shape: bool | None = None,
        prefer_deferred_runtime_asserts_over_guards: bool = False,
        trace_asserts: bool = False,
        co_fields: Mapping[str, str] | None = None,
        should_record_events: bool | None = None,
        tracked_fakes: list[Any] | None = None,
    ) -> None:
        self.settings = ShapeEnvSettings(
            allow_scalar_outputs,
            allow_dynamic_output_shape_ops,
            assume_static_by_default,
            specialize_zero_one,
            config.use_duck_shape if duck_shape is None else duck_shape,
            prefer_deferred_runtime_asserts_over_guards,
            trace_asserts,
        )
        self.co_fields = dict(co_fields or {})
        self.tracked_fakes = tracked_fakes
        self.facts = Facts()
        self.guards: list[ShapeGuard] = []
        self.deferred: dict[Symbol | None, list[RuntimeAssert]] = {}
        self.num_deferred_runtime_asserts = 0
        self.frozen = False
        self.runtime_asserts_frozen = False
        self.counter: Counter[str] = Counter()
        self.guard_counts: dict[Symbol, int] = {}
        self.specialization_lines: dict[Symbol, Any] = {}
        self.fake_tensor_cache: dict[object, Any] = {}
        self.id = next(_ids)
        self._error_on_new_guards = False
        self._nodes: dict[type, dict[Expr, SymNode]] = {int: {}, float: {}, bool: {}}
        self._results: dict[object, Any] = {}
        self._hints: dict[Expr, Any] = {}
        self._init_symbols()

    def __repr__(self) -> str:
        return f"<ShapeEnv {self.id}>"

    def __getattr__(self, name: str) -> Any:
        # The settings by their names: `env.duck_shape`.
        if name.startswith("_") or name == "settings":
            raise AttributeError(f"'ShapeEnv' object has no attribute {name!r}")
        return getattr(self.settings, name)

    # --- nodes ----------------------------------------------------------------------------

    def node(self, form: Expr, pytype: type) -> SymNode:
        """The node of an expression: one for each, so that nodes compare by identity."""
        table = self._nodes[pytype]
        found = table.get(form)
        if found is None:
            node = object.__new__(SymNode)
            node.form, node.shape_env, node.pytype = form, self, pytype
            node.key, node.results = InternKey(), self._results
            node.answer, node.unknown_at = None, -1
            node.fx_node = None
            node.number = KINDS[pytype](node)
            found = table.setdefault(form, node)
        return found

    @property
    def symbols_made(self) -> int:
        """How many unbacked symbols were made so far."""
        return self.counter["create_unbacked_symbol"]

    def remember_outcome(self, key: object, outcome: object) -> None:
        """Remember what an operator gave; the oldest answers give way where there are too many."""
        table = self.fake_tensor_cache
        if len(table) >= OUTCOMES:
            for old in list(itertools.islice(table, OUTCOMES // 4)):
                table.pop(old, None)
        table[key] = outcome

    def symint(self, form: Poly) -> SymInt | int:
        """A size as users see it: a plain int where it is constant."""
        value = form.constant
        return int(value) if value is not None else cast(SymInt, self.node(form, int).number)

    def form_of(self, value: Any) -> Expr:
        """The expression of a symbolic number, a plain one, or a SymPy expression."""
        if isinstance(value, SymNumber):
            return value.node.current
        return expr_of(value, self.names.get)

    def poly_of(self, value: Any) -> Poly:
        """`form_of` of a number."""
        form = self.form_of(value)
        assert isinstance(form, Poly), f"expected a number, got the condition {text_of(form)}"
        return form

    # --- hints ----------------------------------------------------------------------------

    def hint_of(self, form: Expr) -> Any:
        """The value at the sizes that the program was given; None if only data could tell."""
        found = self._hints.get(form, self)
        if found is self:
            try:
                found = value_of(form, self.hints.__getitem__)
            except KeyError:
                current = self.facts.simplify(form)
                found = None if current is form else self.hint_of(current)
                if found is None:
                    return None
            except (ZeroDivisionError, OverflowError, ValueError):
                return None
            self._hints[form] = found
        return found

    def size_hint(self, expr: Any, *, allow_none: bool = False) -> Any:
        """The hint of an expression; without one None if that is allowed, else an error."""
        hint = self.hint_of(self.form_of(expr))
        if hint is None and not allow_none:
            self.refuse(self.form_of(expr))
        return hint if hint is None or isinstance(hint, bool) else sympy_of(number(hint))

    def has_guarding_hint(self, expr: Any) -> bool:
        """Whether the expression has a hint."""
        return self.hint_of(self.form_of(expr)) is not None

    def guarding_hint_or_throw(self, expr: Any) -> Any:
        """The hint of an expression; GuardOnDataDependentSymNode without one."""
        form = self.form_of(expr)
        hint = self.hint_of(form)
        return self.refuse(form) if hint is None else hint

    def optimization_hint(self, expr: Any, fallback: int | None = None) -> int:
        """A value to optimise for: the hint, with ``fallback`` for every unbacked symbol.

        Of what a symbol is known to be between, the nearest to ``fallback`` is taken.
        """
        value = int(config_fallback if fallback is None else fallback)

        def value_for(symbol: Symbol) -> Numeric:
            hint = self.hints.get(symbol)
            if hint is not None:
                return hint
            known = self.facts.range_of(symbol)
            return min(max(value, known.lower), known.upper)

        return int(value_of(self.form_of(expr), value_for))

    # --- deciding -------------------------------------------------------------------------

    def decide(self, form: Expr, *, oblivious: bool = False) -> bool | None:
        """The truth of a condition where it is known without a hint."""
        return self.facts.decide(form, oblivious=oblivious)

    def evaluate(
        self, node: SymNode, *, oblivious: bool = False, fallback: bool | None = None
    ) -> Any:
        """The value of a node: known, or by its hint, with a guard.

        fallback: the answer where only data could tell; without one that is an error. oblivious:
        take unbacked sizes for neither 0 nor 1.
        """
        if fallback is not None and node.unknown_at == self.facts.version:
            return fallback
        if fallback is not None and config.backed_size_oblivious and self._is_oblivious(node.form):
            known = self.facts.decide(node.form, oblivious=oblivious)
            return fallback if known is None else known
        before = self.facts.version
        answer = self._evaluate(node.form, oblivious, fallback)
        if answer is None:
            node.unknown_at = before
            return fallback
        if node.pytype is bool:
            answer = bool(answer)
            if not self.suppressed and not self.frozen and not oblivious:
                node.answer = answer
        return answer

    def _is_oblivious(self, form: Expr) -> bool:
        return not self.facts.size_like.isdisjoint(self.facts.replace(form).symbols)

    def _evaluate(
        self, form: Expr, oblivious: bool, fallback: bool | None, forced: bool = False
    ) -> Any:
        """The value; None stands for the fallback."""
        known = self._known_value(form, oblivious)
        if known is not None:
            return known
        hint = self.hint_of(form)
        if hint is None:
            if fallback is not None:
                return None
            return self._without_hint(form)
        condition = form if hint is True else negation(form) if hint is False else None
        if condition is None:
            assert isinstance(form, Poly)
            condition = relation("==", form, number(hint))
        self._check_frozen(form, hint)
        if self.suppressed or self.frozen:
            return hint
        self._record(condition, oblivious, forced)
        return hint

    def _known_value(self, form: Expr, oblivious: bool) -> Any:
        if isinstance(form, Poly):
            current = self.facts.simplify(form)
            assert isinstance(current, Poly)
            if current.constant is not None:
                return current.constant
            interval = self.facts.bounds(current)
            return interval.lower if interval.is_singleton() else None
        return self.facts.decide(form, oblivious=oblivious)

    def _without_hint(self, form: Expr) -> Any:
        """An answer where there is no hint: the real value, an assertion, or an error."""
        real = self._real_value(form)
        if real is not None:
            condition = form if real is True else negation(form) if real is False else None
            if condition is None:
                condition = relation("==", cast(Poly, form), number(real))
            why = f"propagate_real_tensors: {text_of(form)}"
            self.guard_or_defer_runtime_assert(condition, why)
            return real
        if self.settings.trace_asserts and producing.in_python_assert():
            self.guard_or_defer_runtime_assert(form, "Python assert")
            return True
        return self.refuse(form)

    def _real_value(self, form: Expr) -> Any:
        return self.value_in_real_run(form) if self.real_values else None

    def value_in_real_run(self, form: Expr) -> Any:
        """The value with hints, and with real data's where only data could tell; None without."""
        values = self.hints | self.real_values
        try:
            return value_of(form, values.__getitem__)
        except (KeyError, ZeroDivisionError, OverflowError, ValueError):
            current = self.facts.simplify(form)
            return None if current is form else self.value_in_real_run(current)

    def refuse(self, form: Expr) -> NoReturn:
        """Raise the error of a question that only data could answer (F134)."""
        known = {s: number(self.hints[s]) for s in form.symbols if s in self.hints}
        hinted = substituted(form, known, functions.apply)
        extract = isinstance(form, Poly) and form.is_int
        action = "extract specialized integer from" if extract else "guard on"
        sizes = ", ".join(sorted(s.name for s in form.symbols if s in self.facts.size_like))
        advice = (
            "the program needs the value itself here"
            if extract
            else "consider guard_or_false, guard_or_true or statically_known_true, or tell what "
            "holds with torch._check(...)"
        )
        made = "; ".join(
            f"{s.name} was made at {self.made_at.get(s, '')}"
            for s in sorted(form.symbols, key=lambda s: s.name)
            if s in self.made_at
        )
        raise GuardOnDataDependentSymNode(
            sympy_of(hinted),
            f"Could not {action} data-dependent expression {text_of(hinted)} (unhinted: "
            f"{text_of(form)}).  (Size-like symbols: {sizes or 'none'})\n\n{advice}\n"
            f"Caused by: {user_line()}\n{made}",
        )

    def evaluate_expr(
        self,
        orig_expr: Any,
        hint: Any = None,
        fx_node: object = None,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
        *,
        forcing_spec: bool = False,
    ) -> Any:
        """The value of a SymPy expression, guarded like that of a node."""
        form = self.form_of(orig_expr)
        answer = self._evaluate(form, size_oblivious, fallback_value, forced=forcing_spec)
        if answer is None:
            return fallback_value
        if isinstance(answer, bool):
            return answer
        return sympy_of(number(answer))

    def evaluate_sym_node(
        self, sym_node: SymNode, size_oblivious: bool = False, fallback_value: bool | None = None
    ) -> Any:
        """`evaluate` by PyTorch's name."""
        return self.evaluate(sym_node, oblivious=size_oblivious, fallback=fallback_value)

    # --- learning -------------------------------------------------------------------------

    def _record(self, condition: Expr, oblivious: bool, forced: bool) -> None:
        self.guards.append(ShapeGuard(condition, user_line(), oblivious))
        self.learn(condition)
        limit = config.symbol_guard_limit_before_specialize
        for symbol in sorted(condition.symbols, key=lambda s: s.name):
            count = self.guard_counts[symbol] = self.guard_counts.get(symbol, 0) + 1
            if limit is not None and count > limit and not forced:
                self._evaluate(symbol.poly, False, None, forced=True)

    def learn(self, condition: Expr) -> None:
        """Take a condition for true: narrow ranges, replace what is equal."""
        current = self.facts.simplify(condition)
        self.facts.learn(current)
        if condition is not current:
            self.facts.held.add(condition)
        for part in _parts(current):
            if isinstance(part, Relation) and part.op == "==":
                self._replace_by(part)
        for symbol in sorted(current.symbols, key=lambda s: s.name):
            self._settle(symbol)

    def _settle(self, symbol: Symbol) -> None:
        """A symbol of which one value is left is that value."""
        interval = self.facts.range_of(symbol)
        if interval.is_singleton() and symbol not in self.facts.replacements:
            self._set_replacement(symbol, number(interval.lower))

    def _replace_by(self, equation: Relation) -> None:
        found = list(solutions(equation))
        for symbol, solution in sorted(found, key=lambda pair: self._preference(pair[0])):
            if self._may_replace(symbol, solution):
                self._set_replacement(symbol, solution)
                return

    def _preference(self, symbol: Symbol) -> tuple[bool, bool, Numeric, str]:
        """Symbols that should go come first.

        Unbacked ones, those that guards cannot name, then those of the largest hint.
        """
        hint = self.hints.get(symbol, 0)
        nameless = any(source.is_ephemeral() for source in self.sources_of.get(symbol, ()))
        newest = "".join(chr(255 - ord(c)) for c in symbol.name)
        return not symbol.is_unbacked, not nameless, -hint, newest

    def _may_replace(self, symbol: Symbol, solution: Poly) -> bool:
        """Whether nothing is lost: the range allows it, and no data decides (spec F137)."""
        free = {s for s in solution.symbols if s.is_unbacked and s not in self.unbacked_inputs}
        if free:
            return False
        mine = self.facts.range_of(symbol)
        theirs = self.facts.bounds(solution)
        if theirs not in mine:
            # The symbols of the solution must keep the range, too, or it would be forgotten.
            self.facts.narrow_by(solution, mine)
            theirs = self.facts.bounds(solution)
        if symbol in self.facts.size_like and symbol.is_unbacked:
            oblivious = self.facts.bounds(solution, oblivious=True)
            if oblivious not in self.facts.oblivious_range_of(symbol):
                return False
        return theirs in mine

    def _set_replacement(self, symbol: Symbol, by: Poly) -> None:
        other = symbol_alone(by)
        if other is not None and self.facts.size_like & {symbol, other}:
            self.facts.size_like |= {symbol, other}
        constant = by.constant
        if constant is not None:
            self.specialization_lines.setdefault(symbol, user_line())
            if symbol in self.facts.size_like and symbol.is_unbacked and constant < 2:
                return  # it would not be size-like any more (F132)
            if config.print_specializations:
                producing.warn_of_specialization(self, symbol, constant)
        self.facts.set_replacement(symbol, by)
        for child in sorted(by.symbols, key=lambda s: s.name):
            self._settle(child)

    def rename_unbacked(self, fresh: Symbol, old: Symbol) -> None:
        """Let a fresh unbacked symbol be an older one, which keeps what is known of both."""
        self.facts.ranges[old] = self.facts.range_of(old) & self.facts.range_of(fresh)
        if fresh in self.pending_fresh_unbacked_symbols:
            self.pending_fresh_unbacked_symbols.remove(fresh)
        self.facts.set_replacement(fresh, old.poly)

    def _check_frozen(self, form: Expr, hint: Any) -> None:
        if self._error_on_new_guards:
            raise ShapeEnvGuardError(
                f"Guard attempted while ShapeEnv guards are frozen: {text_of(form)} == {hint}"
            )
        if self.frozen:
            self.counter["ignored_backward_guard"] += 1

    def guard_or_defer_runtime_assert(
        self, orig_expr: Any, msg: str, fx_node: object = None
    ) -> bool:
        """Hold a condition true: known, guarded by its hint, or asserted when the program runs.

        False if it is known to be false, or its hint says so.
        """
        form = self.form_of(orig_expr)
        known = self.facts.decide(form)
        if known is not None:
            return known
        current = self.facts.simplify(form)
        deferring = self.settings.prefer_deferred_runtime_asserts_over_guards
        if not deferring and self.hint_of(current) is not None:
            return bool(self._evaluate(current, False, None))
        if self.suppressed:
            return True
        if self.hint_of(current) is False:
            return False
        self._check_frozen(form, True)
        canonical = producing.canonical_condition(form)
        latest = max(
            (s for s in canonical.symbols if s.is_unbacked), key=_creation_order, default=None
        )
        assertion = RuntimeAssert(canonical, msg, user_line())
        self.deferred.setdefault(latest, []).append(assertion)
        self.num_deferred_runtime_asserts += 1
        self.facts.held.add(canonical)
        self.learn(form)
        return True

    # --- states ---------------------------------------------------------------------------

    @property
    def suppressed(self) -> bool:
        """Whether this thread answers by hints and learns nothing."""
        return bool(getattr(_tls, "suppressed", 0))

    @contextmanager
    def suppress_guards(self) -> Iterator[None]:
        """Answer by hints in the block, and learn nothing; in this thread alone (F129)."""
        _tls.suppressed = getattr(_tls, "suppressed", 0) + 1
        try:
            yield
        finally:
            _tls.suppressed -= 1

    @contextmanager
    def error_on_new_guards(self) -> Iterator[None]:
        """Raise in the block where a new guard would be needed (F129)."""
        before, self._error_on_new_guards = self._error_on_new_guards, True
        try:
            yield
        finally:
            self._error_on_new_guards = before

    def freeze(self) -> None:
        """Add no guards from here on: hints answer (F129)."""
        self.frozen = True

    def freeze_runtime_asserts(self) -> None:
        """Note that runtime assertions are complete (F138)."""
        self.runtime_asserts_frozen = True

    def cleanup(self) -> None:
        """Nothing to do: no stacks are kept."""


config_fallback = 8192
OUTCOMES = 32_768


def _parts(condition: Expr) -> tuple[Expr, ...]:
    if isinstance(condition, Junction):
        return condition.args if condition.func == "And" else ()
    return (condition,)


def _creation_order(symbol: Symbol) -> int:
    return int(symbol.name[len(symbol.prefix) :])
