"""What the sizes of an input are to become, and what is promised of them.

A *context* says of each dimension of a tensor which kind of symbol it gets (`DimDynamic`) and which
constraint it must keep. Making the symbols is `creating.py`; holding the constraints `guards.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from maquette.symbolic.ranges import ValueRange


class DimDynamic(enum.Enum):
    """What a size becomes: a fresh symbol, one shared by equal hints, a constant, an unbacked one.

    INFER_STRIDE is for strides: an expression of the sizes where they are one.
    """

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    UNBACKED = 3
    INFER_STRIDE = 4
    SIZE_LIKE_UNBACKED = 3  # noqa: PIE796 — an older name of UNBACKED


@dataclass(frozen=True)
class Constraint:
    """A promise about a size. warn_only: breaking it is no error."""

    warn_only: bool = False


@dataclass(frozen=True)
class StrictMinMaxConstraint(Constraint):
    """The size takes every value of a range, and no guard may exclude one."""

    vr: ValueRange = field(default_factory=ValueRange.unknown)

    def render(self, source: Any) -> str:
        """The constraint on a source, as text."""
        return f"{self.vr.lower} <= {source.name} <= {self.vr.upper}"


@dataclass(frozen=True)
class RelaxedUnspecConstraint(Constraint):
    """The size may not become a constant, other than 0 or 1."""

    def render(self, source: Any) -> str:
        """The constraint on a source, as text."""
        return f"RelaxedUnspecConstraint({source.name})"


DimConstraint = StrictMinMaxConstraint | RelaxedUnspecConstraint | None


@dataclass(frozen=True)
class EqualityConstraint(Constraint):
    """Sizes that are declared equal, or one a function of another.

    source_pairs: equal ones. derived_equalities: (source, root, function of the root).
    """

    source_pairs: list[tuple[Any, Any]] = field(default_factory=list)
    derived_equalities: list[tuple[Any, Any, Callable[[Any], Any]]] = field(default_factory=list)
    phantom_symbols: list[Any] = field(default_factory=list)
    relaxed_sources: set[Any] = field(default_factory=set)

    def _root(self, source: Any) -> Any:
        parents = {second: first for first, second in self.source_pairs}
        while source in parents:
            source = parents[source]
        return source

    def is_equal(self, source1: Any, source2: Any) -> bool:
        """Whether two sources are declared equal, or the same, or may turn out to be."""
        if source1 in self.relaxed_sources or source2 in self.relaxed_sources:
            return True
        return bool(source1 == source2 or self._root(source1) == self._root(source2))

    def is_derived(self, src: Any, symbol_src: Any, fn: Callable[[Any], Any]) -> bool:
        """Whether a source is declared to be a function of another."""
        return any(s == src and r == symbol_src for s, r, _ in self.derived_equalities)


class SymbolicContext:
    """How an input becomes symbolic."""


@dataclass
class StatelessSymbolicContext(SymbolicContext):
    """The kind of symbol, and the constraint, of each size and stride of a tensor.

    Lists that are left out are filled: strides are inferred, nothing is constrained. shape_ids:
    dimensions that are equal at run time; unbacked_bounds: (least, largest) by dimension.
    """

    dynamic_sizes: list[DimDynamic]
    dynamic_strides: list[DimDynamic] = None  # type: ignore[assignment]  # filled below
    constraint_sizes: list[DimConstraint] = None  # type: ignore[assignment]  # filled below
    constraint_strides: list[DimConstraint] = None  # type: ignore[assignment]  # filled below
    specialize_on: list[list[Callable[..., Any]]] | None = None
    view_base_context: SymbolicContext | None = None
    shape_ids: Mapping[int, object] | None = None
    unbacked_bounds: Mapping[int, tuple[int | None, int | None]] | None = None

    def __post_init__(self) -> None:
        dims = len(self.dynamic_sizes)
        self.dynamic_sizes = list(self.dynamic_sizes)
        self.dynamic_strides = self._filled("dynamic_strides", DimDynamic.INFER_STRIDE, dims)
        self.constraint_sizes = self._filled("constraint_sizes", None, dims)
        self.constraint_strides = self._filled("constraint_strides", None, dims)
        if self.specialize_on is None:
            self.specialize_on = [[] for _ in range(dims)]
        allowed = (DimDynamic.INFER_STRIDE, DimDynamic.DYNAMIC, DimDynamic.DUCK)
        for stride in self.dynamic_strides:
            assert stride in allowed, f"a stride can be one of {allowed}, got {stride}"
        base = self.view_base_context
        assert base is None or type(base) is not SymbolicContext, (
            "view_base_context is an abstract SymbolicContext; give a StatelessSymbolicContext"
        )

    def _filled(self, name: str, value: Any, dims: int) -> list[Any]:
        given = getattr(self, name)
        if given is None:
            return [value] * dims
        assert len(given) == dims, f"{name} has {len(given)} entries for {dims} dimensions"
        return list(given)


@dataclass
class StatefulSymbolicContext(StatelessSymbolicContext):
    """A context that gives the same source the same symbol again, environment by environment."""

    tensor_source: Any = None
    shape_env_to_source_to_symbol_cache: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.tensor_source is not None, "a StatefulSymbolicContext needs its tensor_source"


@dataclass
class SubclassSymbolicContext(StatefulSymbolicContext):
    """A context of a wrapper subclass: those of its inner tensors, by attribute."""

    inner_contexts: dict[str, SymbolicContext] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner_contexts is None:
            self.inner_contexts = {}


@dataclass
class SymIntSymbolicContext(SymbolicContext):
    """The constraint of an input that is a number."""

    constraint: DimConstraint = None
