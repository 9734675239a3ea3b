"""Making symbols: which sizes become symbols of their own, which share one, which stay constants.

The policy is `DimDynamic`'s; 0 and 1 are constants, equal hints share a symbol (duck shaping), and
the strides of a dense tensor are expressions of its sizes (spec F108-F114, F139).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from maquette.symbolic.config import config
from maquette.symbolic.errors import ConstraintViolationError
from maquette.symbolic.expr import MAX_INT, Expr, Numeric, Poly, Symbol, number, relation, symbol
from maquette.symbolic.forms import sympy_of, text_of
from maquette.symbolic.guards import SLoc, user_line
from maquette.symbolic.numbers import SymBool, SymFloat, SymInt
from maquette.symbolic.program.contexts import (
    DimDynamic,
    StatefulSymbolicContext,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
)
from maquette.symbolic.program.sources import (
    ConstantSource,
    Source,
    TensorProperty,
    TensorPropertySource,
    source_of,
)
from maquette.symbolic.ranges import INFINITY, UNKNOWN, ValueRange

if TYPE_CHECKING:
    from maquette.symbolic.shape_env import ShapeEnv

Size = Any  # an int or a SymInt


class SymbolMaker:
    """The part of a `ShapeEnv` that makes symbols."""

    def _init_symbols(self) -> None:
        self.names: dict[str, Symbol] = {}
        self.hints: dict[Symbol, Numeric] = {}
        self.sources_of: dict[Symbol, list[Source]] = {}
        self.symbol_at: dict[str, Any] = {}
        self.pending_fresh_unbacked_symbols: list[Any] = []
        self.unbacked_inputs: set[Symbol] = set()
        self.real_values: dict[Symbol, Numeric] = {}
        self.made_at: dict[Symbol, SLoc] = {}
        self._ducks: dict[Numeric, Symbol] = {}
        self._counts: dict[str, int] = {}
        self._unnamed_tensors = 0
        self._ignore_fresh = False
        self._same_shape_ids: dict[object, Symbol] = {}

    # --- symbols ----------------------------------------------------------------------------

    def _new_symbol(self, prefix: str, lower: Numeric | None, is_int: bool) -> Symbol:
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        made = symbol(f"{prefix}{count}", prefix, lower, is_int)
        self.names[made.name] = made
        return made

    def create_symbol(
        self,
        val: Numeric,
        source: Any,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: Any = None,
        positive: bool | None = True,
        do_not_specialize_zero_one: bool = False,
        symbolic_context: Any = None,
    ) -> Any:
        """The SymPy expression of a size that is ``val`` now: a symbol or a constant (F113)."""
        made = self._size(
            val, source_of(source), dynamic_dim, constraint_dim, positive,
            do_not_specialize_zero_one, symbolic_context,
        )  # fmt: skip
        return sympy_of(made)

    def create_unspecified_symbol(
        self,
        val: Any,
        source: Any,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: Any = None,
        symbolic_context: Any = None,
    ) -> Any:
        """The SymPy expression of a number of any sign; 0 and 1 are no constants here (F113)."""
        made = self._size(
            self._plain_hint(val), source_of(source), dynamic_dim, constraint_dim, None, True,
            symbolic_context,
        )  # fmt: skip
        return sympy_of(made)

    def _plain_hint(self, value: Any) -> Any:
        return value.node.require_hint() if hasattr(value, "node") else value

    def _size(
        self,
        val: Any,
        source: Source,
        policy: DimDynamic,
        constraint: Any = None,
        positive: bool | None = True,
        keep_zero_one: bool = False,
        context: Any = None,
    ) -> Poly:
        """The expression of a number of an input, by its policy."""
        env = cast("ShapeEnv", self)
        val = self._plain_hint(val)
        policy, constraint = _as_constrained(policy, constraint, val, source)
        remembered = self._remembered(context)
        if source.name in remembered:
            return cast(Poly, remembered[source.name])
        if policy is DimDynamic.UNBACKED:
            made = self._unbacked_input(source, context)
        else:
            assert not (positive and val < 0), f"a size is not negative, got {val} of {source.name}"
            specialize = env.settings.specialize_zero_one and not keep_zero_one
            if config.backed_size_oblivious and positive and isinstance(val, int):
                specialize = False
            if policy is DimDynamic.STATIC or (specialize and val in (0, 1)):
                made = number(val)
            else:
                found = self._backed(val, source, policy, positive, specialize)
                self._constrain(found, val, constraint)
                made = found.poly
        remembered[source.name] = made
        return made

    def _remembered(self, context: Any) -> dict[str, Any]:
        if not isinstance(context, StatefulSymbolicContext):
            return {}
        return context.shape_env_to_source_to_symbol_cache.setdefault(id(self), {})

    def _backed(
        self, val: Numeric, source: Source, policy: DimDynamic, positive: bool | None, strict: bool
    ) -> Symbol:
        env = cast("ShapeEnv", self)
        duck = policy is DimDynamic.DUCK and env.settings.duck_shape
        made = self._ducks.get(val) if duck else None
        if made is None:
            is_int = isinstance(val, int)
            lower = (1 if strict or not positive else 0) if positive else None
            if positive and not strict:
                lower = 0
            made = self._new_symbol("s" if is_int else "zf", lower, is_int)
            least: Numeric = (2 if strict else 0) if positive else -INFINITY
            env.facts.ranges[made] = ValueRange(least, INFINITY)
            self.hints[made] = val
            if config.backed_size_oblivious and positive and is_int:
                env.facts.size_like.add(made)
            env.guard_counts[made] = 0
            env.counter["create_symbol"] += 1
            if duck:
                self._ducks[val] = made
            self.sources_of[made] = []
        sources = self.sources_of[made]
        sources.append(source)
        if sources[0].is_ephemeral() and not source.is_ephemeral():
            sources[0], sources[-1] = source, sources[0]  # guards name the first
        self.symbol_at[source.name] = made
        return made

    def _constrain(self, made: Symbol, val: Numeric, constraint: Any) -> None:
        env = cast("ShapeEnv", self)
        if isinstance(constraint, StrictMinMaxConstraint):
            env.facts.ranges[made] = env.facts.range_of(made) & constraint.vr
        interval = env.facts.range_of(made)
        if val not in interval:
            source = self.sources_of[made][0].name
            raise ConstraintViolationError(
                f"{val} not in range [{interval.lower}, {interval.upper}] that was promised of "
                f"{source}; give an example within it, or promise a wider range"
            )

    def _unbacked_input(self, source: Source, context: Any) -> Poly:
        env = cast("ShapeEnv", self)
        made = self._new_unbacked("u", True, source)
        self.unbacked_inputs.add(made)
        env.facts.size_like.add(made)
        env.facts.ranges[made] = ValueRange(0, MAX_INT)
        dim = getattr(source, "idx", None)
        bounds = (getattr(context, "unbacked_bounds", None) or {}).get(dim)
        for op, bound in zip((">=", "<="), bounds or ()):
            if bound is not None:
                condition = relation(op, made.poly, number(bound))  # type: ignore[arg-type]  # an op
                env.guard_or_defer_runtime_assert(condition, f"bound of {source.name}")
        shape_id = (getattr(context, "shape_ids", None) or {}).get(dim)
        if shape_id is not None:
            first = self._same_shape_ids.setdefault(shape_id, made)
            if first is not made:
                equal = relation("==", made.poly, first.poly)
                env.guard_or_defer_runtime_assert(equal, f"dimensions of shape id {shape_id}")
        return made.poly

    # --- unbacked symbols -------------------------------------------------------------------

    def _new_unbacked(self, prefix: str, is_int: bool, source: Source | None = None) -> Symbol:
        env = cast("ShapeEnv", self)
        made = self._new_symbol(prefix, None, is_int)
        self.made_at[made] = user_line()
        env.facts.ranges[made] = UNKNOWN
        if source is not None:
            self.sources_of[made] = [source]
            self.symbol_at[source.name] = made
        elif not self._ignore_fresh:
            self.pending_fresh_unbacked_symbols.append(made)
        env.counter["create_unbacked_symbol"] += 1
        return made

    def create_unbacked_symint(self, source: Any = None) -> SymInt:
        """A fresh int that only data could tell."""
        made = self._new_unbacked("u", True, None if source is None else source_of(source))
        return cast(SymInt, cast("ShapeEnv", self).node(made.poly, int).number)

    def create_unbacked_symfloat(self) -> SymFloat:
        """A fresh float that only data could tell."""
        made = self._new_unbacked("zuf", False)
        return cast(SymFloat, cast("ShapeEnv", self).node(made.poly, float).number)

    def create_unbacked_symbool(self) -> SymBool:
        """A fresh condition that only data could tell: whether a fresh int in [0, 1] is 1."""
        env = cast("ShapeEnv", self)
        made = self._new_unbacked("u", True)
        env.facts.ranges[made] = ValueRange(0, 1)
        return cast(SymBool, env.node(relation("==", made.poly, number(1)), bool).number)

    def new_size(self, least: int = 0, largest: Numeric = MAX_INT) -> SymInt:
        """A fresh unbacked size in a range: for operators whose results depend on data."""
        env = cast("ShapeEnv", self)
        made = self.create_unbacked_symint()
        own = next(iter(made.node.form.symbols))
        env.facts.size_like.add(own)
        env.facts.ranges[own] = ValueRange(least, largest)
        return made

    @contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        """Do not expect the unbacked symbols that the block makes in any result (F105)."""
        before, self._ignore_fresh = self._ignore_fresh, True
        try:
            yield
        finally:
            self._ignore_fresh = before

    def is_unbacked_symint(self, symbol: Any) -> bool:
        """Whether a SymPy symbol is an unbacked int of this environment."""
        known = self.names.get(symbol.name)
        return known is not None and known.prefix == "u"

    def add_backed_var_to_val(self, expr: Any, val: int) -> None:
        """Give a SymPy symbol a hint; AssertionError if it has one."""
        env = cast("ShapeEnv", self)
        own = next(iter(env.form_of(expr).symbols))
        assert own not in self.hints, f"{expr} already has the hint {self.hints[own]}"
        self.names[own.name] = own
        self.hints[own] = val

    add_var_to_val = add_backed_var_to_val

    def set_real_tensor_prop_unbacked_vals(self, k: Any, v: Numeric) -> None:
        """Tell the value that an unbacked symbol has in a real run (F98)."""
        env = cast("ShapeEnv", self)
        self.real_values[next(iter(env.form_of(k).symbols))] = v

    def set_unbacked_var_to_val(self, symbol: Any, value: Numeric) -> None:
        """`set_real_tensor_prop_unbacked_vals` by its older name."""
        self.set_real_tensor_prop_unbacked_vals(symbol, value)

    # --- numbers ----------------------------------------------------------------------------

    def create_symintnode(self, sym: Any, *, hint: int | None = None, source: Any = None) -> Any:
        """The number of a SymPy expression: an int where it is constant (F113).

        hint: what it is now; AssertionError if that does not agree.
        """
        env = cast("ShapeEnv", self)
        form = env.poly_of(sym)
        value = form.constant
        if value is not None:
            assert hint is None or int(hint) == value, f"the hint {hint} of the constant {value}"
            return int(value)
        self._check_hint(form, hint)
        return env.node(form, int).number

    def create_symfloatnode(
        self, sym: Any, *, hint: float | None = None, source: Any = None
    ) -> Any:
        """The number of a SymPy expression: a float where it is constant."""
        env = cast("ShapeEnv", self)
        form = env.poly_of(sym)
        value = form.constant
        if value is not None:
            assert hint is None or float(hint) == value, f"the hint {hint} of the constant {value}"
            return float(value)
        self._check_hint(form, hint)
        return env.node(form, float).number

    def create_symboolnode(self, sym: Any) -> Any:
        """The condition of a SymPy expression."""
        env = cast("ShapeEnv", self)
        return env.node(env.form_of(sym), bool).number

    def create_unspecified_symint_and_symbol(
        self, value: int, source: Any, dynamic_dim: DimDynamic
    ) -> Any:
        """The number of an input that is a plain int."""
        made = self.create_unspecified_symbol(value, source, dynamic_dim)
        return self.create_symintnode(made, hint=value, source=source)

    def _check_hint(self, form: Poly, hint: Numeric | None) -> None:
        known = cast("ShapeEnv", self).hint_of(form)
        assert hint is None or known is None or known == hint, (
            f"the hint {hint} of {text_of(form)}, which is {known}"
        )

    # --- tensors ----------------------------------------------------------------------------

    def create_symbolic_sizes_strides_storage_offset(
        self, ex: Any, source: Any, *, symbolic_context: Any = None
    ) -> tuple[tuple[Size, ...], tuple[Size, ...], Size]:
        """Symbolic sizes, strides and offset of a tensor (F108-F114)."""
        return self.symbolic_geometry(
            tuple(ex.shape), tuple(ex.stride()), ex.storage_offset(), source,
            symbolic_context=symbolic_context, marks=marks_of(ex),
        )  # fmt: skip

    def symbolic_geometry(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        source: Any = None,
        *,
        symbolic_context: Any = None,
        marks: Mapping[int, DimDynamic] | None = None,
    ) -> tuple[tuple[Size, ...], tuple[Size, ...], Size]:
        """Symbolic sizes, strides and offset for a tensor of this geometry.

        source: where the tensor is found. marks: policies of dimensions where there is no context.
        """
        env = cast("ShapeEnv", self)
        if source is None:
            source = ConstantSource(f"__unnamed_tensor{self._unnamed_tensors}")
            self._unnamed_tensors += 1
        source = source_of(source)
        context = symbolic_context or self._default_context(len(shape), marks or {})
        assert isinstance(context, StatelessSymbolicContext), (
            f"expected a StatelessSymbolicContext, got {context!r}"
        )
        policies = context.dynamic_sizes
        assert len(policies) == len(shape), (
            f"the symbolic context of {source.name} is for {len(policies)} dimensions, the tensor "
            f"has {len(shape)}"
        )
        sizes = [
            self._size(
                size, TensorPropertySource(source, TensorProperty.SIZE, dim), policies[dim],
                context.constraint_sizes[dim], context=context,
            )
            for dim, size in enumerate(shape)
        ]  # fmt: skip
        static = all(policy is DimDynamic.STATIC for policy in policies)
        steps = self._strides(shape, strides, sizes, source, context, static)
        start = self._size(
            offset, TensorPropertySource(source, TensorProperty.STORAGE_OFFSET),
            DimDynamic.STATIC if static else DimDynamic.DUCK, context=context,
        )  # fmt: skip
        return tuple(map(env.symint, sizes)), tuple(map(env.symint, steps)), env.symint(start)

    def _default_context(
        self, dims: int, marks: Mapping[int, DimDynamic]
    ) -> StatelessSymbolicContext:
        static = cast("ShapeEnv", self).settings.assume_static_by_default
        usual = DimDynamic.STATIC if static else DimDynamic.DUCK
        policies = [marks.get(dim, usual) for dim in range(dims)]
        return StatelessSymbolicContext(policies)

    def _strides(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        sizes: Sequence[Poly],
        source: Source,
        context: StatelessSymbolicContext,
        static: bool,
    ) -> list[Poly]:
        """Strides from the smallest: an expression of the sizes where one has this value now."""
        made: list[Poly] = [number(0)] * len(shape)
        candidates: dict[int, Poly] = {}
        hints = [self._plain_hint(size) for size in shape]
        steps = [self._plain_hint(stride) for stride in strides]
        for dim in sorted(range(len(shape)), key=lambda d: (steps[d], -d)):
            stride, policy = steps[dim], context.dynamic_strides[dim]
            follows = dim + 1 < len(shape) and stride == hints[dim + 1] * steps[dim + 1]
            if stride in (0, 1) and not follows:
                found = number(stride)
            elif policy is DimDynamic.INFER_STRIDE and stride in candidates:
                found = candidates[stride]
            else:
                if policy is DimDynamic.INFER_STRIDE:
                    policy = DimDynamic.STATIC if static else DimDynamic.DUCK
                place = TensorPropertySource(source, TensorProperty.STRIDE, dim)
                found = self._size(
                    stride, place, policy, context.constraint_strides[dim], context=context
                )
            made[dim] = found
            candidates[hints[dim] * stride] = sizes[dim] * found
        return made

    # --- ranges -----------------------------------------------------------------------------

    def constrain_symbol_range(self, s: Any, compiler_min: Numeric, compiler_max: Numeric) -> None:
        """Narrow the range of a SymPy symbol, without an assertion."""
        env = cast("ShapeEnv", self)
        own = next(iter(env.form_of(s).symbols))
        env.facts.narrow(own.poly, ValueRange(compiler_min, compiler_max))

    def mark_size(self, form: Expr) -> None:
        """Take an unbacked symbol for a size, which `guard_size_oblivious` counts as 2 or more."""
        env = cast("ShapeEnv", self)
        for own in form.symbols:
            if own.is_unbacked and form is own.poly:
                env.facts.size_like.add(own)
                env.facts.changed()


_MARKS = {
    "_dynamo_dynamic_indices": DimDynamic.DYNAMIC,
    "_dynamo_unbacked_indices": DimDynamic.UNBACKED,
    "_dynamo_static_indices": DimDynamic.STATIC,
}


def marks_of(tensor: Any) -> dict[int, DimDynamic]:
    """What `mark_dynamic` and its like said of the dimensions of a tensor."""
    return {
        dim: policy
        for attribute, policy in _MARKS.items()
        for dim in getattr(tensor, attribute, ())
    }


def _as_constrained(
    policy: DimDynamic, constraint: Any, val: Numeric, source: Source
) -> tuple[DimDynamic, Any]:
    """A constraint makes a dimension dynamic; one of a single value makes it static (F112)."""
    if isinstance(constraint, StrictMinMaxConstraint) and constraint.vr.is_singleton():
        if constraint.vr.lower != val:
            raise ConstraintViolationError(
                f"Static shape constraint of {constraint.vr.lower} does not match input size of "
                f"{val}, for {source.name}"
            )
        return DimDynamic.STATIC, None
    if constraint is not None and policy is not DimDynamic.UNBACKED:
        return DimDynamic.DYNAMIC, constraint
    return policy, constraint
