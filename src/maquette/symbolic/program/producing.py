"""Guards as conditions on a program's inputs, as Python text, and checking real inputs by them.

The numbers in the placeholders of a traced program say where each symbol is found; every guard is
then an expression over those places (spec F125-F128). Also here: conditions in canonical form, and
what follows from one.
"""

from __future__ import annotations

import linecache
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from maquette.symbolic import functions
from maquette.symbolic.errors import ConstraintViolationError, NotEqualError
from maquette.symbolic.expr import (
    FLIPPED,
    TRUE,
    Expr,
    Junction,
    Numeric,
    Poly,
    Relation,
    Symbol,
    all_of,
    any_of,
    number,
    relation,
)
from maquette.symbolic.facts import direction_of, symbol_alone
from maquette.symbolic.forms import sympy_forms, sympy_of
from maquette.symbolic.guards import ShapeGuard, _is_ours
from maquette.symbolic.numbers import SymNumber
from maquette.symbolic.program.contexts import RelaxedUnspecConstraint, StrictMinMaxConstraint
from maquette.symbolic.program.sources import (
    Source,
    TensorProperty,
    TensorPropertySource,
    source_of,
)

if TYPE_CHECKING:
    from maquette.symbolic.shape_env import ShapeEnv


@dataclass
class Guards:
    """The conditions in one language."""

    exprs: list[str] = field(default_factory=list)


# --- canonical forms --------------------------------------------------------------------------


def canonical_condition(condition: Expr) -> Expr:
    """A comparison with `<`, `<=`, `==` or `!=`, without common factor, each term on the side
    where it is added."""
    if isinstance(condition, Junction):
        join = all_of if condition.func == "And" else any_of
        return join(map(canonical_condition, condition.args)) if condition.args else condition
    assert isinstance(condition, Relation)
    op, difference = condition.op, condition.rhs - condition.lhs
    if op in (">", ">="):
        op, difference = FLIPPED[op], -difference
    _, factor, constant = direction_of(difference)
    divisor = math.gcd(int(factor), int(constant)) if difference.is_int else 1
    lhs = rhs = number(0)
    for monomial, coefficient in difference.terms.items():
        term = number(abs(coefficient) // divisor if divisor > 1 else abs(coefficient))
        for atom in monomial:
            term = term * atom.poly
        if coefficient > 0:
            rhs = rhs + term
        else:
            lhs = lhs + term
    return relation(op, lhs, rhs)


def implications(condition: Any) -> tuple[tuple[Any, Any], ...]:
    """SymPy conditions that follow from one, each with its truth."""
    sympy = sympy_forms().sympy
    found = {condition: sympy.true, sympy.Not(condition): sympy.false}
    if isinstance(condition, sympy.Rel):
        a, b = condition.lhs, condition.rhs
        if isinstance(condition, sympy.Eq):
            found |= {sympy.Eq(b, a, evaluate=False): sympy.true}
            found |= {sympy.Le(a, b, evaluate=False): sympy.true}
        elif isinstance(condition, sympy.Lt):
            for other in (sympy.Le, sympy.Ne):
                found[other(a, b, evaluate=False)] = sympy.true
        elif isinstance(condition, sympy.Le):
            found[sympy.Lt(a, b + 1, evaluate=False)] = sympy.true
    return tuple(found.items())


# --- where symbols are found ------------------------------------------------------------------


@dataclass
class _Places:
    """Each number among the inputs: where it is found, what it is, what was promised of it."""

    env: ShapeEnv
    source_ref: Callable[[Source], str]
    symbols: dict[Symbol, list[Source]] = field(default_factory=dict)
    constraints: dict[Symbol, list[Any]] = field(default_factory=dict)
    numbers: list[tuple[Source, Poly]] = field(default_factory=list)
    violations: list[tuple[bool, str, str]] = field(default_factory=list)
    _printer: Any = None

    def track(self, source: Source, value: Any, constraint: Any = None) -> None:
        """Note a number of an input."""
        form = self.env.poly_of(value)
        own = symbol_alone(form)
        if own is not None:
            self.symbols.setdefault(own, []).append(source)
            if constraint is not None:
                self.constraints.setdefault(own, []).append(constraint)
        elif constraint is not None:
            self._check_kept(source, form, constraint)
        self.numbers.append((source, form))

    def _check_kept(self, source: Source, form: Poly, constraint: Any) -> None:
        value = form.constant
        if value is None:
            if isinstance(constraint, StrictMinMaxConstraint):
                self.violate(
                    constraint,
                    source,
                    f"Not all values of {constraint.render(source)} are valid because "
                    f"{source.name} was inferred to be equal to {self.text(form)}.",
                )
            return
        if isinstance(constraint, StrictMinMaxConstraint):
            kept = constraint.vr.lower == constraint.vr.upper == value
        else:
            kept = value in (0, 1)
        if not kept:
            asked = self.env.specialization_lines.get(self._symbol_of(source), "")
            self.violate(
                constraint,
                source,
                f"You marked {source.name} as dynamic but your code specialized it to be a "
                f"constant ({value}) {asked}. Take the mark away, or mark it as perhaps dynamic "
                f"(maybe_mark_dynamic).",
            )

    def _symbol_of(self, source: Source) -> Any:
        return self.env.symbol_at.get(source.name)

    def violate(self, constraint: Any, source: Source, message: str) -> None:
        """Note a promise that is not kept."""
        self.violations.append((constraint.warn_only, source.name, message))

    def text(self, form: Expr) -> str:
        """The Python text of an expression over the inputs."""
        if self._printer is None:
            self._printer = sympy_forms().GuardPrinter(self._place)
        return str(self._printer.doprint(sympy_of(form)))

    def _place(self, symbol: Any) -> str:
        own = self.env.names.get(symbol.name)
        sources = self.symbols.get(own) or self.env.sources_of.get(own)  # type: ignore[arg-type]  # None finds none
        assert sources, f"{symbol} is found in no input; inputs have {self.symbols}"
        return self.source_ref(sources[0])


def _track_inputs(
    places: _Places, placeholders: Sequence[Any], sources: Sequence[Any], contexts: Sequence[Any]
) -> None:
    assert len(placeholders) == len(sources), (
        f"{len(placeholders)} placeholders and {len(sources)} sources were given"
    )
    for value, given, context in zip(placeholders, sources, contexts, strict=True):
        source = source_of(given)
        if value is None:
            continue
        if isinstance(value, (SymNumber, int, float)):
            places.track(source, value, getattr(context, "constraint", None))
            continue
        assert hasattr(value, "storage_offset"), (
            f"a placeholder is a fake tensor or a number, got {type(value).__name__}"
        )
        for prop, dim, number_ in _numbers_of(value):
            place = TensorPropertySource(source, prop, dim)
            places.track(place, number_, _constraint(context, prop, dim))


def _numbers_of(tensor: Any) -> Iterator[tuple[TensorProperty, int | None, Any]]:
    for dim, size in enumerate(tensor.shape):
        yield TensorProperty.SIZE, dim, size
    for dim, stride in enumerate(tensor.stride()):
        yield TensorProperty.STRIDE, dim, stride
    yield TensorProperty.STORAGE_OFFSET, None, tensor.storage_offset()


def _constraint(context: Any, prop: TensorProperty, dim: int | None) -> Any:
    if context is None or dim is None:
        return None
    of_sizes = prop is TensorProperty.SIZE
    return (context.constraint_sizes if of_sizes else context.constraint_strides)[dim]


# --- producing --------------------------------------------------------------------------------


def produce_guards_verbose(
    env: ShapeEnv,
    placeholders: Sequence[Any],
    sources: Sequence[Any],
    source_ref: Callable[[Source], str] = lambda source: source.name,
    *,
    guards: list[ShapeGuard] | None = None,
    input_contexts: Sequence[Any] | None = None,
    equalities_inputs: Any = None,
    _simplified: bool = False,
    ignore_static: bool = True,
    langs: Sequence[str] = ("python", "verbose_python"),
) -> list[Guards]:
    """The conditions on inputs for which a traced program is right, in each language.

    placeholders: fake tensors and numbers; sources: where each is found. Raises
    ConstraintViolationError, naming every dimension that breaks a promise.
    """
    for lang in langs:
        if lang not in ("python", "verbose_python"):
            raise NotImplementedError(f"guards in the language {lang!r}; there is python alone")
    places = _Places(env, source_ref)
    _check_equalities(env, placeholders, sources, equalities_inputs)
    _track_inputs(places, placeholders, sources, input_contexts or [None] * len(placeholders))
    lines: list[tuple[str, str]] = []
    if not _simplified:
        lines += _source_equalities(places, ignore_static, equalities_inputs)
    lines += _guard_lines(places, env.guards if guards is None else guards)
    lines += _range_lines(places, _simplified)
    _raise_violations(places.violations)
    plain = [line for line, _ in lines]
    verbose = [f"{line}  # {reason}" for line, reason in lines]
    return [Guards(plain if lang == "python" else verbose) for lang in langs]


def _source_equalities(
    places: _Places, ignore_static: bool, equalities: Any
) -> Iterator[tuple[str, str]]:
    """``place == expression`` for every number but the first place of a symbol."""
    for source, form in places.numbers:
        own = symbol_alone(form)
        if own is not None and source == places.symbols[own][0]:
            continue
        if ignore_static and form.constant is not None and isinstance(source, TensorPropertySource):
            continue
        line = f"{places.source_ref(source)} == {places.text(form)}"
        yield line, _equality_reason(places, source)
        if own is not None and own in places.constraints and equalities is not None:
            first = places.symbols[own][0]
            is_size = getattr(source, "prop", None) is TensorProperty.SIZE
            if is_size and not equalities.is_equal(source, first):
                places.violate(
                    equalities,
                    source,
                    f"The values of {source.name} and {first.name} must always be equal.",
                )


def _equality_reason(places: _Places, source: Source) -> str:
    own = places.env.symbol_at.get(source.name)
    if own is not None and source != places.env.sources_of[own][0]:
        return "equal sizes share a symbol (duck shaping), and these were equal"
    line = places.env.specialization_lines.get(own)  # type: ignore[arg-type]  # None finds none
    return str(line) if line is not None else "follows from the sizes"


def _guard_lines(places: _Places, guards: Sequence[ShapeGuard]) -> Iterator[tuple[str, str]]:
    env = places.env
    issued: set[Expr] = set()
    for guard in guards:
        if env.facts.decide_by_ranges(guard.form, oblivious=guard.size_oblivious) is not None:
            continue
        form = env.facts.simplify(guard.form)
        if form in issued:
            continue
        issued.add(form)
        text = places.text(form)
        if len(form.symbols) == 1:
            (own,) = form.symbols
            for constraint in places.constraints.get(own, ()):
                if isinstance(constraint, StrictMinMaxConstraint):
                    source = places.symbols[own][0]
                    places.violate(
                        constraint,
                        source,
                        f"Not all values of {constraint.render(source)} satisfy the generated "
                        f"guard {text}.",
                    )
        yield text, str(guard.sloc)


def _range_lines(places: _Places, simplified: bool) -> Iterator[tuple[str, str]]:
    env = places.env
    for own, sources in places.symbols.items():
        interval = env.facts.range_of(own)
        usual = 2 if env.settings.specialize_zero_one else 0
        place = places.source_ref(sources[0])
        bounds: list[str] = []
        if not math.isinf(interval.lower) and (not simplified or interval.lower != usual):
            bounds.append(f"{interval.lower} <= {place}")
        if not math.isinf(interval.upper):
            bounds.append(f"{place} <= {interval.upper}")
        if bounds:
            yield " and ".join(bounds), "the range of values that the program holds for"
        if not own.is_int:
            yield f"not math.isnan({place})", "a nan compares with nothing"
        for constraint in places.constraints.get(own, ()):
            _check_range(places, own, constraint, " and ".join(bounds))


def _check_range(places: _Places, own: Symbol, constraint: Any, text: str) -> None:
    if not isinstance(constraint, StrictMinMaxConstraint):
        assert isinstance(constraint, RelaxedUnspecConstraint), f"unknown constraint {constraint}"
        return
    env = places.env
    usual = type(constraint.vr)(2 if env.settings.specialize_zero_one else 0, math.inf)
    if (constraint.vr & usual) not in env.facts.range_of(own):
        source = places.symbols[own][0]
        lines = dict.fromkeys(str(g.sloc) for g in env.guards if own in g.form.symbols)
        made = f" It was made at {'; '.join(lines)}." if lines else ""
        places.violate(
            constraint,
            source,
            f"Not all values of {constraint.render(source)} satisfy the generated guard {text}."
            f"{made}",
        )


def _check_equalities(
    env: ShapeEnv, placeholders: Sequence[Any], sources: Sequence[Any], equalities: Any
) -> None:
    """Raise unless sizes that are declared equal are so now; hold them equal."""
    if equalities is None:
        return
    by_name = {source_of(s).name: p for s, p in zip(sources, placeholders, strict=True)}

    def form(source: Any) -> Poly:
        if not isinstance(source, TensorPropertySource):
            return env.poly_of(source)
        assert source.idx is not None, f"{source} names no dimension"
        return env.poly_of(by_name[source.base.name].shape[source.idx])

    pairs = [(a, form(a), form(b), b) for a, b in equalities.source_pairs]
    for source, root, fn in equalities.derived_equalities:
        derived = env.poly_of(fn(sympy_of(form(root))))
        pairs.append((source, form(source), derived, root))
    for source, first, second, other in pairs:
        condition = relation("==", first, second)
        if condition is not TRUE and not env.evaluate(env.node(condition, bool)):
            raise ConstraintViolationError(
                f"{source.name} = {env.hint_of(first)} is not equal to what "
                f"{getattr(other, 'name', other)} gives, {env.hint_of(second)}"
            )


def _raise_violations(violations: Sequence[tuple[bool, str, str]]) -> None:
    errors = [(name, message) for warn_only, name, message in violations if not warn_only]
    if errors:
        names = ", ".join(sorted({name for name, _ in errors}))
        listed = "\n".join(f"  - {message}" for _, message in errors)
        raise ConstraintViolationError(f"Constraints violated ({names})!\n{listed}")


# --- checking ---------------------------------------------------------------------------------


def functions_for_guards() -> dict[str, Any]:
    """The names that the text of a guard or an expression may use."""
    found: dict[str, Any] = {
        name: function.compute for name, function in functions.FUNCTIONS.items()
    }
    comparisons: dict[str, Any] = {"Eq": lambda a, b: a == b, "Ne": lambda a, b: a != b}
    return {**found, **comparisons, "math": math, "max": max, "min": min, "abs": abs,
            "float": float, "int": int, "round": round}  # fmt: skip


def evaluate_guards_expression(code: str, args: Sequence[Any]) -> bool:
    """Whether the text of guards holds for inputs that it names ``L['t0']``, ``L['t1']``…"""
    return bool(eval(code, functions_for_guards(), {"L": {f"t{i}": a for i, a in enumerate(args)}}))


def bind_symbols(
    env: ShapeEnv, placeholders: Sequence[Any], args: Sequence[Any]
) -> dict[Symbol, Numeric]:
    """The value of each symbol, read from real inputs; AssertionError if two places disagree."""
    found: dict[Symbol, Numeric] = {}

    def bind(of: Any, value: Any) -> None:
        if not isinstance(of, SymNumber):
            assert of == value, f"the traced program has {of} where this input has {value}"
            return
        form = of.node.current
        own = symbol_alone(form) if isinstance(form, Poly) else None
        if own is None and isinstance(form, Poly):
            own = symbol_alone(-form)
            value = -value
        if own is not None:
            assert found.setdefault(own, value) == value, (
                f"{own} is {found[own]} in one place and {value} in another"
            )

    for placeholder, arg in zip(placeholders, args, strict=True):
        if placeholder is None:
            continue
        if isinstance(placeholder, (SymNumber, int, float)):
            bind(placeholder, arg)
            continue
        for (_, _, of), (_, _, value) in zip(
            _numbers_of(placeholder), _numbers_of(arg), strict=True
        ):
            bind(of, value)
    return found


def check_equal(env: ShapeEnv, other: ShapeEnv) -> None:
    """Raise NotEqualError, listing what differs, unless two environments know the same."""
    differences: list[str] = []
    for name in ("settings", "guards", "hints", "ranges", "replacements", "divisible", "size_like"):
        mine, theirs = (_comparable(e, name) for e in (env, other))
        if mine != theirs:
            differences.append(f"{name}: {mine} != {theirs}")
    if differences:
        listed = "\n".join(differences)
        raise NotEqualError(f"ShapeEnv not equal: field values don't match:\n{listed}")


def _comparable(env: ShapeEnv, name: str) -> object:
    if name == "guards":
        return [g.text for g in env.guards]
    if name in ("settings", "hints"):
        return getattr(env, name)
    return getattr(env.facts, name)


# --- the program that asks --------------------------------------------------------------------


def in_python_assert() -> bool:
    """Whether the line of the program that asks is an ``assert``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return False
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("assert")


def warn_of_specialization(env: ShapeEnv, symbol: Symbol, value: Numeric) -> None:
    """Say that a symbol became a constant."""
    sources = env.sources_of.get(symbol)
    name = sources[0].name if sources else symbol.name
    warnings.warn(f"Specializing {name} to {value}", stacklevel=2)
