"""`torch.export.Dim`: sizes of inputs, declared by name, and what a program makes of them.

A `Dim` has a range; ``2 * B + 1`` is derived from one. `declare` makes fakes of tensors whose sizes
are declared so, and `Declared.check` tells, by the Dims' names, which promises the guards of a
program break, and which ones would hold. Solving is `dim_constraints.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from maquette.fake.mode import FakeTensorMode
from maquette.symbolic import (
    ConstraintViolationError,
    DimDynamic,
    EqualityConstraint,
    RelaxedUnspecConstraint,
    ShapeEnv,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    ValueRange,
)
from maquette.symbolic.expr import number
from maquette.symbolic.program.sources import LocalSource, TensorProperty, TensorPropertySource
from maquette.symbolic.ranges import INFINITY
from maquette.tensor.tensor import Tensor

_LINEAR = "(Only increasing linear operations with integer coefficients are supported.)"


@dataclass(frozen=True)
class DimHint:
    """How a size without a name is treated: AUTO, DYNAMIC or STATIC; min and max: its range."""

    kind: str
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        """The same treatment within a range."""
        assert min is None or min >= 0, f"min must be non-negative, got {min}"
        assert max is None or max >= 0, f"max must be non-negative, got {max}"
        assert min is None or max is None or min <= max, f"min {min} is above max {max}"
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        bounds = [f"{n}={v}" for n, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join([self.kind, *bounds])})"


class Dim:
    """A name for a size, the same wherever it is used, from ``min`` to ``max``.

    >>> Dim("B", max=16) * 2 + 1
    2*B + 1
    """

    AUTO: ClassVar[DimHint] = DimHint("AUTO")
    DYNAMIC: ClassVar[DimHint] = DimHint("DYNAMIC")
    STATIC: ClassVar[DimHint] = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, INFINITY if max is None else max
        assert low <= high, f"Cannot create Dim with inconsistent min={min}, max={max}"
        assert name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        self.__name__ = name
        self.min, self.max = low, high

    def __add__(self, other: object) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other!r} to {self.__name__}, where an integer was expected. "
                f"{_LINEAR}"
            )
        return self._derived(lambda x: x + other)

    __radd__ = __add__

    def __sub__(self, other: object) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to subtract {other!r} from {self.__name__}, where an integer was "
                f"expected. {_LINEAR}"
            )
        return self._derived(lambda x: x - other)

    def __rsub__(self, other: object) -> NoReturn:
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_LINEAR}")

    def __mul__(self, other: object) -> Dim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other!r} with {self.__name__}, where a positive integer "
                f"was expected. {_LINEAR}"
            )
        return self._derived(lambda x: x * other)

    __rmul__ = __mul__

    def _derived(self, function: Callable[[Any], Any]) -> Dim:
        return DerivedDim(self, function)

    def __repr__(self) -> str:
        bounds = [] if self.min == 2 else [f"min={self.min}"]
        bounds += [] if self.max == INFINITY else [f"max={self.max}"]
        return f"Dim({', '.join([repr(self.__name__), *bounds])})"


class DerivedDim(Dim):
    """A linear function of a `Dim`: root, and ``fn`` from its size to this one."""

    root: Dim
    fn: Callable[[Any], Any]

    def __init__(self, root: Dim, fn: Callable[[Any], Any]) -> None:
        if isinstance(root, DerivedDim):
            inner, outer = root.fn, fn
            root, fn = root.root, lambda x: outer(inner(x))
        self.root, self.fn = root, fn
        step, start = fn(1) - fn(0), fn(0)
        shown = root.__name__ if step == 1 else f"{step}*{root.__name__}"
        sign = "" if start == 0 else f" {'+' if start > 0 else '-'} {abs(start)}"
        self.__name__ = f"{shown}{sign}"
        self.min = fn(root.min)
        self.max = INFINITY if root.max == INFINITY else fn(root.max)

    def _derived(self, function: Callable[[Any], Any]) -> Dim:
        return DerivedDim(self, function)

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A `Dim` for each name, all of one range."""
    return tuple([Dim(name, min=min, max=max) for name in names])


# --- fakes of declared sizes ---------------------------------------------------------------------

Spec = Dim | DimHint | int | None


@dataclass(frozen=True)
class Declared:
    """Fake inputs by name, and what was promised of their sizes."""

    env: ShapeEnv
    fakes: Mapping[str, Tensor]
    contexts: Mapping[str, StatelessSymbolicContext]
    equalities: EqualityConstraint
    dims: Mapping[str, Dim]  # by the place that has one: L['x'].size()[0]
    places: Mapping[str, tuple[str, int]]  # the input and dimension of each place

    def check(self) -> list[str]:
        """The guards that inputs must keep; ConstraintViolationError where they break a promise.

        The error names each `Dim`, and suggests definitions that would hold.
        """
        try:
            return self.env.produce_guards(
                list(self.fakes.values()),
                [LocalSource(name) for name in self.fakes],
                input_contexts=list(self.contexts.values()),
                equalities_inputs=self.equalities,
            )
        except ConstraintViolationError as error:
            raise ConstraintViolationError(self._told(str(error))) from None

    def _told(self, text: str) -> str:
        head, _, listed = text.partition("\n")
        for place, dim in self.dims.items():
            name = dim.__name__
            head = head.replace(place, name)
            listed = listed.replace(f"marked {place} as", f"marked {name} = {place} as")
            here = re.escape(place)
            listed = re.sub(
                rf"(The values of .*?)(?<!= )({here})(.* must)",
                rf"\g<1>{name} = \g<2>\g<3>",
                listed,
            )
            listed = re.sub(
                rf"values of (\S+) <= ({here}) <= (\S+)",
                rf"values of {name} = \g<2> in the specified range \g<1> <= {name} <= \g<3>",
                listed,
            )
        fixes = list(self._fixes())
        return "\n".join([head, listed, *(["Suggested fixes:", *fixes] if fixes else ())])

    def _fixes(self) -> Iterator[str]:
        """Definitions of the Dims that would hold, where the ones given do not."""
        first: dict[object, str] = {}
        for place, dim in self.dims.items():
            name = dim.__name__
            size = self._size_at(place)
            if isinstance(dim, DerivedDim):
                continue
            if isinstance(size, int):
                yield f"  {name} = {size}"
                continue
            form = self.env.poly_of(size)
            known = first.setdefault(form, name)
            if known != name:
                yield f"  {name} = {known}"
                continue
            interval = self.env.facts.bounds(form)
            step = self._step(form)
            low, high = int(max(interval.lower, 2)), interval.upper
            if low == high:
                yield f"  {name} = {low}"
            elif step > 1:
                inner = Dim(f"_{name}", min=-(-low // step), max=_whole(high, step))
                yield f"  _{name} = {inner!r}"
                yield f"  {name} = {step}*_{name}"
            elif (low, high) != (max(dim.min, 2), dim.max):
                yield f"  {name} = {Dim(name, min=low, max=_whole(high, 1))!r}"

    def _size_at(self, place: str) -> Any:
        name, dim = self.places[place]
        return self.fakes[name].shape[dim]

    def _step(self, form: Any) -> int:
        """The largest number up to 64 that is known to divide a size."""
        hint = self.env.hint_of(form)
        for step in range(min(hint, 64), 1, -1):
            if hint % step == 0 and self.env.facts.divides(form, number(step)):
                return step
        return 1


def _whole(high: Any, step: int) -> int | None:
    return None if high == INFINITY else int(high // step)


def declare(
    tensors: Mapping[str, Tensor],
    dynamic_shapes: Mapping[str, Mapping[int, Spec] | Sequence[Spec] | None],
    mode: FakeTensorMode | None = None,
) -> Declared:
    """Fakes of tensors, by name, whose sizes are declared by Dims, hints, numbers or None (static).

    mode: one with a `ShapeEnv`; a new one otherwise. Raises RuntimeError for specifications that
    do not fit, ConstraintViolationError for sizes that their Dims or numbers do not allow.

    >>> import maquette as mq
    >>> rows = Dim("rows", min=2)
    >>> given = declare({"x": mq.ones(4, 3), "y": mq.ones(4)}, {"x": {0: rows}, "y": {0: rows}})
    >>> given.fakes["x"].shape, given.fakes["y"].shape
    (torch.Size([s0, 3]), torch.Size([s1]))
    """
    mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False)) if mode is None else mode
    env: Any = mode.shape_env
    assert env is not None, "declare: the mode has no shape_env"
    if set(dynamic_shapes) - set(tensors):
        raise RuntimeError(
            f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
            f"names {list(tensors)} of `inputs`, but here they are {list(dynamic_shapes)}"
        )
    fakes: dict[str, Tensor] = {}
    contexts: dict[str, StatelessSymbolicContext] = {}
    found: dict[str, tuple[str, int, Dim]] = {}
    relaxed: set[TensorPropertySource] = set()
    for name, t in tensors.items():
        specs = _specs(name, t, dynamic_shapes.get(name))
        contexts[name] = _context(name, t, specs)
        for d, spec in enumerate(specs):
            if isinstance(spec, Dim):
                found[_place(name, d).name] = (name, d, spec)
            elif isinstance(spec, DimHint):
                relaxed.add(_place(name, d))
        fakes[name] = mode.from_tensor(t, source=LocalSource(name), symbolic_context=contexts[name])
    return Declared(
        env,
        fakes,
        contexts,
        _equalities(found, relaxed),
        {place: dim for place, (_, _, dim) in found.items()},
        {place: (name, d) for place, (name, d, _) in found.items()},
    )


def _place(name: str, dim: int) -> TensorPropertySource:
    return TensorPropertySource(LocalSource(name), TensorProperty.SIZE, dim)


def _specs(name: str, t: Tensor, given: Mapping[int, Spec] | Sequence[Spec] | None) -> list[Spec]:
    """A specification for each dimension of a tensor."""
    if given is None:
        return [None] * t.ndim
    if not isinstance(given, Mapping):
        if len(given) != t.ndim:
            raise RuntimeError(
                f"Expected dynamic shape spec {given} specified at `dynamic_shapes['{name}']` to "
                f"have the same length as the actual tensor shape {t.shape} (expected {t.ndim}, "
                f"but got {len(given)} instead)"
            )
        given = dict(enumerate(given))
    for d, spec in given.items():
        if not -t.ndim <= d < t.ndim:
            raise RuntimeError(
                f"dimension {d} specified at `dynamic_shapes['{name}']` is out of range for the "
                f"tensor shape {t.shape}"
            )
        if spec is not None and not isinstance(spec, (Dim, DimHint, int)):
            raise RuntimeError(
                f"Unexpected dimension mapped to index {d} in input tensor shape {given} "
                f"specified at `dynamic_shapes['{name}']` (expected None, an int, a Dim, Dim.AUTO, "
                f"Dim.STATIC, or Dim.DYNAMIC, but got {spec!r} instead)"
            )
    specs: list[Spec] = [None] * t.ndim
    for d, spec in given.items():
        specs[d] = spec
    return specs


def _context(name: str, t: Tensor, specs: Sequence[Spec]) -> StatelessSymbolicContext:
    kinds, constraints = [], []
    for d, (spec, size) in enumerate(zip(specs, t.shape, strict=True)):
        place = _place(name, d).name
        if type(spec) is int and spec != size:
            raise ConstraintViolationError(
                f"Static shape constraint of {spec} does not match input size of {size}, for "
                f"{place}"
            )
        constraint: Any = None
        kind = DimDynamic.STATIC
        if isinstance(spec, Dim) or (isinstance(spec, DimHint) and spec.kind != "STATIC"):
            kind = DimDynamic.DYNAMIC
            low, high = spec.min, spec.max
            vr = ValueRange(0 if low is None else low, INFINITY if high is None else high)
            if isinstance(spec, DerivedDim):
                pass  # its range follows from its root's
            elif isinstance(spec, Dim):
                constraint = StrictMinMaxConstraint(False, vr)
            elif low is not None or high is not None:
                constraint = StrictMinMaxConstraint(spec.kind == "AUTO", vr)
            elif spec.kind == "DYNAMIC":
                constraint = RelaxedUnspecConstraint()
        kinds.append(kind)
        constraints.append(constraint)
    return StatelessSymbolicContext(kinds, constraint_sizes=constraints)


def _equalities(
    found: Mapping[str, tuple[str, int, Dim]], relaxed: set[TensorPropertySource]
) -> EqualityConstraint:
    """What Dims that occur more than once, or are derived from another, promise."""
    roots: dict[str, tuple[TensorPropertySource, Dim]] = {}
    pairs, derived = [], []
    for name, d, dim in found.values():
        if isinstance(dim, DerivedDim):
            continue
        place = _place(name, d)
        first, other = roots.setdefault(dim.__name__, (place, dim))
        if (other.min, other.max) != (dim.min, dim.max):
            raise RuntimeError(
                f"Found different definitions {other!r} and {dim!r} for the same symbolic "
                f"dimension {dim!r}!"
            )
        if first is not place:
            pairs.append((first, place))
    for name, d, dim in found.values():
        if isinstance(dim, DerivedDim):
            root = roots.get(dim.root.__name__)
            if root is None:
                raise RuntimeError(
                    f"{dim!r} is derived from {dim.root!r}, which no size is declared to be"
                )
            derived.append((_place(name, d), root[0], dim.fn))
    return EqualityConstraint(
        source_pairs=pairs, derived_equalities=derived, relaxed_sources=set(relaxed)
    )


__all__ = ["Declared", "DerivedDim", "Dim", "DimHint", "declare", "dims"]
