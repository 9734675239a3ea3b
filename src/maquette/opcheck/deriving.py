"""The inputs that are derived from a sample: one change each, then two (LX3).

What has one size in the sample is changed together, numbers that name the size included, then
apart. Whether an operator takes an input is for its kernel to say: what it refuses is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from maquette.dispatch.schemas.schema import Argument
from maquette.opcheck.recipes import LAYOUTS, Recipe, Sample, TensorRecipe

Where = Callable[[tuple[Any, ...], dict[str, Any]], bool]

_FLOATS = ("float64", "float32", "bfloat16", "float16")
_COMPLEX = ("complex128", "complex64")
_WHOLE = ("int64", "int32", "int16", "uint8", "int8")
MOST_ELEMENTS = 20_000


def derived(sample: Sample, seed: int = 0) -> Iterator[Recipe]:
    """The sample, every single change of it, then pairs of changes drawn by ``seed``."""
    seen: set[Recipe] = set()

    def fresh(recipe: Recipe) -> bool:
        if recipe in seen or sum(t.numel for t in recipe.tensors()) > MOST_ELEMENTS:
            return False
        seen.add(recipe)
        return True

    single = []
    for recipe in itertools.chain([sample.recipe], _alternating(_families(sample))):
        if fresh(recipe):
            single.append(recipe)
            yield recipe
    draw = np.random.default_rng(seed)
    for _ in range(4 * len(single)):
        base = single[int(draw.integers(len(single)))]
        if base.label == "the sample":
            continue
        families = _families(replace_recipe(sample, base))
        family = families[int(draw.integers(len(families)))]
        options = list(itertools.islice(family, 40))
        if options:
            recipe = options[int(draw.integers(len(options)))]
            recipe = Recipe(recipe.values, f"{base.label}; {recipe.label}")
            if fresh(recipe):
                yield recipe


def replace_recipe(sample: Sample, recipe: Recipe) -> Sample:
    """The sample with another recipe to start from."""
    return replace(sample, recipe=recipe)


def _families(sample: Sample) -> list[Iterator[Recipe]]:
    base = sample.recipe
    return [
        sizes(base),
        layouts(sample),
        dtypes(base),
        values(base),
        broadcasts(base),
        scalars(sample),
        laid_out_dtypes(base),
        optionals(sample),
        lists(base),
        twice(sample),
    ]


def _alternating(families: Iterable[Iterator[Recipe]]) -> Iterator[Recipe]:
    """One of each family in turn, so that a bound cuts none of them off."""
    running = list(families)
    while running:
        for family in list(running):
            recipe = next(family, None)
            if recipe is None:
                running.remove(family)
            else:
                yield recipe


# --- sizes ------------------------------------------------------------------------------------


def sizes(base: Recipe) -> Iterator[Recipe]:
    """Other sizes: equal ones together, then each dim apart; 0-d tensors."""
    known = sorted({n for t in base.tensors() for n in t.shape})
    for new in (lambda n: n + 2, lambda n: 0, lambda n: 1, lambda n: n + 7, lambda n: 2):
        for old in known:
            if new(old) != old:
                yield _resized(base, old, new(old), numbers=True)
                yield _resized(base, old, new(old), numbers=False)
    tensors = base.tensors()
    for number, t in enumerate(tensors):
        if t.shape:
            yield base.with_tensor(number, f"tensor {number} is 0-d", **_with_shape(t, ()))
    yield base.mapped(lambda t: replace(t, **_with_shape(t, ())), "all tensors are 0-d")
    for number, t in enumerate(tensors):
        for d, n in enumerate(t.shape):
            for size in dict.fromkeys((0, 1, n + 1, n + 3, max(n - 1, 0))):
                if size != n:
                    shape = (*t.shape[:d], size, *t.shape[d + 1 :])
                    label = f"tensor {number} has size {size} at {d}"
                    yield base.with_tensor(number, label, **_with_shape(t, shape))
    for size in (0, 1, 3):
        yield base.mapped(
            lambda t, s=size: replace(t, **_with_shape(t, (s,) * len(t.shape))),  # type: ignore[misc]
            f"all sizes are {size}",
        )


def _resized(base: Recipe, old: int, new: int, *, numbers: bool) -> Recipe:
    def resized(t: TensorRecipe) -> TensorRecipe:
        shape = tuple([new if n == old else n for n in t.shape])
        return replace(t, **_with_shape(t, shape))

    def number(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([number(v) for v in value])
        return new if type(value) is int and value == old and old > 1 else value

    label = f"size {old} is {new}"
    made = base.mapped(resized, label)
    if not numbers:
        return made
    return Recipe(tuple([(n, number(v)) for n, v in made.values]), label)


def _with_shape(t: TensorRecipe, shape: tuple[int, ...]) -> dict[str, Any]:
    changes: dict[str, Any] = {"shape": shape}
    if t.layout == "sample":
        changes["layout"] = "plain"
    return changes


# --- layouts, dtypes, values --------------------------------------------------------------------


def layouts(sample: Sample) -> Iterator[Recipe]:
    """Each layout on every tensor together, and on each alone."""
    base = sample.recipe
    tensors = base.tensors()
    written = {a.name for a in sample.op.written}
    names = [n for n, v in base.values for _ in _tensors_of(v)]
    for layout in LAYOUTS[1:]:
        kept = [
            number
            for number, t in enumerate(tensors)
            if len(t.shape) >= _LEAST_DIMS.get(layout, 1)
            and (layout != "expanded" or names[number] not in written)
        ]
        if not kept:
            continue
        together = base
        for number in kept:
            together = together.with_tensor(number, f"tensors are {layout}", layout=layout)
        yield together
        if len(tensors) > 1:
            for number in kept:
                yield base.with_tensor(number, f"tensor {number} is {layout}", layout=layout)
    for number, t in enumerate(tensors):
        if t.dtype.startswith("complex"):
            yield base.with_tensor(number, f"tensor {number} is a conjugate", layout="conjugate")


_LEAST_DIMS = {"transposed": 2, "rows apart": 2, "permuted": 3, "channels last": 4}


def _tensors_of(value: Any) -> Iterator[TensorRecipe]:
    if isinstance(value, TensorRecipe):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _tensors_of(v)


def dtypes(base: Recipe) -> Iterator[Recipe]:
    """Other dtypes of a tensor's class, together and apart; mixed ones, 0-d ones among them."""
    yield from _together(base, _FLOATS)
    yield from _mixed(base)
    yield from _together(base, _WHOLE)
    yield from _together(base, _COMPLEX)
    tensors = base.tensors()
    for names in (_FLOATS, _WHOLE, _COMPLEX):
        for i in _of_kinds(base, names) if len(tensors) > 1 else ():
            for dtype in names[:3]:
                if dtype != tensors[i].dtype:
                    yield base.with_tensor(i, f"tensor {i} is {dtype}", dtype=dtype)


def laid_out_dtypes(base: Recipe) -> Iterator[Recipe]:
    """Other dtypes that are not contiguous either: kernels take other paths for both.

    Integers in place of floats are for properties of ``any_class``.
    """
    for dtype, kinds in (("int64", _FLOATS), ("bfloat16", _FLOATS), ("float32", _WHOLE)):
        members = _of_kinds(base, kinds)
        changed = base
        for i in members:
            shape = base.tensors()[i].shape
            layout = "transposed" if len(shape) > 1 else "sliced" if shape else "plain"
            changed = changed.with_tensor(i, dtype=dtype, layout=layout)
        if members:
            yield Recipe(changed.values, f"tensors are {dtype}; tensors are not contiguous")


def _of_kinds(base: Recipe, kinds: tuple[str, ...]) -> list[int]:
    return [i for i, t in enumerate(base.tensors()) if t.dtype in kinds]


def _together(base: Recipe, kinds: tuple[str, ...]) -> Iterator[Recipe]:
    members = _of_kinds(base, kinds)
    for dtype in kinds:
        together = base
        for i in members:
            together = together.with_tensor(i, f"tensors are {dtype}", dtype=dtype)
        if members and together != base:
            yield together


def _mixed(base: Recipe) -> Iterator[Recipe]:
    """One of several floating tensors whole, or 0-d and in double precision."""
    floating = _of_kinds(base, _FLOATS)
    for i in floating if len(floating) > 1 else ():
        yield base.with_tensor(i, f"tensor {i} is int64", dtype="int64", values="mixed")
        yield base.with_tensor(
            i, f"tensor {i} is 0-d and float64", dtype="float64", shape=(), layout="plain"
        )


def values(base: Recipe) -> Iterator[Recipe]:
    """Other values: zeros, ones, normal ones, negative ones, NaN and infinities."""
    for kind in ("mixed", "normal", "zeros", "special", "ones", "negative"):
        yield base.mapped(
            lambda t, k=kind: replace(t, values=k, seed=t.seed + 1),  # type: ignore[misc]
            f"values are {kind}",
        )


# --- broadcasting, one tensor twice -------------------------------------------------------------


def broadcasts(base: Recipe) -> Iterator[Recipe]:
    """Replace one of several tensors of equal shape by a smaller one that broadcasts."""
    tensors = base.tensors()
    for i, t in enumerate(tensors):
        if not t.shape or not any(u.shape == t.shape for k, u in enumerate(tensors) if k != i):
            continue
        ones = (1,) * len(t.shape)
        for shape in dict.fromkeys(
            [(1, *t.shape[1:]), t.shape[1:], (*t.shape[:-1], 1), ones, t.shape[-1:], (2, *t.shape)]
        ):
            if shape != t.shape:
                yield base.with_tensor(
                    i, f"tensor {i} broadcasts from {list(shape)}", **_with_shape(t, shape)
                )


def twice(sample: Sample) -> Iterator[Recipe]:
    """One tensor in two places, neither of which is written."""
    base = sample.recipe
    tensors = base.tensors()
    written = {a.name for a in sample.op.written}
    names = [n for n, v in base.values for _ in _tensors_of(v)]
    for i, k in itertools.combinations(range(len(tensors)), 2):
        a, b = tensors[i], tensors[k]
        if written & {names[i], names[k]}:
            continue
        if (a.shape, a.dtype) == (b.shape, b.dtype) and not a.share and not b.share:
            one = base.with_tensor(i, share=100)
            changes = {"share": 100, "pool": a.pool, "layout": a.layout, "values": a.values}
            yield one.with_tensor(k, f"tensors {i} and {k} are one", **changes)


# --- numbers, optionals, lists --------------------------------------------------------------------


def scalars(sample: Sample) -> Iterator[Recipe]:
    """Other numbers, flags and dtypes."""
    base = sample.recipe
    given = dict(base.values)
    for argument in sample.op.schema.arguments:
        value = given.get(argument.name, argument.default_value)
        if isinstance(value, tuple) and value and all(type(v) is int for v in value):
            yield from _numbers_in_list(base, argument.name, value)
            continue
        left_out = argument.name not in given and argument.kwarg_only
        if left_out and argument.type.base.kind not in ("bool", "float", "memory_format"):
            continue
        for other in _other_numbers(sample, argument, value):
            if repr(other) != repr(value):
                yield base.with_value(argument.name, other, f"{argument.name} is {other!r}")


def _other_numbers(sample: Sample, argument: Argument, value: Any) -> Iterable[Any]:
    kind = argument.type.base.kind
    if argument.type.kind == "list":
        return ()
    if kind == "bool" or isinstance(value, bool):
        return (True, False)
    if argument.name == "reduction" and kind == "int":
        return (0, 1, 2)  # none, mean, sum: others are refused by the functions that call it
    if kind in ("int", "symint"):
        return (0, 1, -1, 2, 3, -2, 7, 70_000)
    if kind == "float":
        return (0.0, -1.0, 0.5, 1e30, 2.0)
    if kind == "scalar":
        return (0, 2, 0.5, -1.0, 3, 2.5, 2**31, 1e30)
    if kind == "memory_format":
        torch = sample.op.on.torch
        return (torch.channels_last, torch.contiguous_format, torch.preserve_format)
    if kind == "dtype" and value is not None:
        return [sample.op.on.dtype(d) for d in ("float64", "float32", "int64")]
    return ()


def _numbers_in_list(base: Recipe, name: str, value: tuple[int, ...]) -> Iterator[Recipe]:
    for i, n in enumerate(value):
        for other in (0, 1, -1, n + 1, 2):
            if other != n:
                new = (*value[:i], other, *value[i + 1 :])
                yield base.with_value(name, new, f"{name} is {list(new)}")


def optionals(sample: Sample) -> Iterator[Recipe]:
    """Optional arguments as None."""
    base = sample.recipe
    for argument in sample.op.schema.arguments:
        value = base.value(argument.name)
        if argument.type.kind == "optional" and value is not None:
            yield base.with_value(argument.name, None, f"{argument.name} is None")
        if isinstance(value, tuple) and any(isinstance(v, TensorRecipe) for v in value):
            if "?" in argument.type.written.partition("[")[0]:
                for i in range(len(value)):
                    new = (*value[:i], None, *value[i + 1 :])
                    yield base.with_value(argument.name, new, f"{argument.name}[{i}] is None")


def lists(base: Recipe) -> Iterator[Recipe]:
    """Lists that are empty, shorter and longer."""
    for name, value in base.values:
        if isinstance(value, tuple):
            for new in ((), value[:1], (*value, *value[-1:])):
                if new != value:
                    label = f"{name} has {len(new)} elements"
                    yield base.with_value(name, new, label)
