"""The smallest input that still shows a failure: fewer dims, lesser sizes, plainer everything."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from maquette.opcheck.recipes import Recipe, Sample, TensorRecipe

MOST_ATTEMPTS = 150


def shrunk(
    sample: Sample, recipe: Recipe, fails: Callable[[Recipe], bool], seconds: float = 1.0
) -> Recipe:
    """A recipe for which ``fails`` still holds, and for none of those that are plainer."""
    end = time.perf_counter() + seconds
    attempts = 0
    improved = True
    while improved:
        improved = False
        for candidate in plainer(sample, recipe):
            attempts += 1
            if attempts > MOST_ATTEMPTS or time.perf_counter() > end:
                return recipe
            if fails(candidate):
                recipe, improved = candidate, True
                break
    return recipe


def plainer(sample: Sample, recipe: Recipe) -> Iterator[Recipe]:
    """Recipes plainer in one respect, the boldest first."""
    seen = {recipe}
    for candidate in itertools.chain(
        _fewer_dims(recipe),
        _lesser_sizes(recipe),
        _each(recipe, _plain_layout),
        _each(recipe, _plain_values),
        _plainer_dtypes(sample, recipe),
        _each(recipe, lambda t: [replace(t, requires_grad=False)]),
        _shorter_lists(recipe),
        _lesser_numbers(sample, recipe),
    ):
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


def _fewer_dims(recipe: Recipe) -> Iterator[Recipe]:
    most = max([len(t.shape) for t in recipe.tensors()], default=0)
    if most:
        yield recipe.mapped(lambda t: _resized(t, t.shape[1:]))
    for i, t in enumerate(recipe.tensors()):
        for d in range(len(t.shape)):
            yield recipe.with_tensor(i, **_shape(t, (*t.shape[:d], *t.shape[d + 1 :])))


def _lesser_sizes(recipe: Recipe) -> Iterator[Recipe]:
    known = sorted({n for t in recipe.tensors() for n in t.shape}, reverse=True)
    for old in known:
        for new in _lesser(old):
            yield recipe.mapped(
                lambda t, o=old, n=new: _resized(t, tuple([n if m == o else m for m in t.shape]))  # type: ignore[misc]
            )
    for i, t in enumerate(recipe.tensors()):
        for d, n in enumerate(t.shape):
            for new in _lesser(n):
                yield recipe.with_tensor(i, **_shape(t, (*t.shape[:d], new, *t.shape[d + 1 :])))


def _lesser(n: int) -> list[int]:
    return [m for m in (1, 2, 3, n // 2, n - 1) if 0 < m < n]


def _resized(t: TensorRecipe, shape: tuple[int, ...]) -> TensorRecipe:
    return replace(t, **_shape(t, shape))


def _shape(t: TensorRecipe, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"shape": shape, **({"layout": "plain"} if t.layout == "sample" else {})}


def _each(recipe: Recipe, of: Callable[[TensorRecipe], list[TensorRecipe]]) -> Iterator[Recipe]:
    tensors = recipe.tensors()
    if tensors:
        changed = [of(t) for t in tensors]
        for choice in range(max(map(len, changed))):
            number = iter(range(len(tensors)))

            def chosen(t: TensorRecipe, c: int = choice, k: Any = number) -> TensorRecipe:
                options = changed[next(k)]
                return options[min(c, len(options) - 1)] if options else t

            yield recipe.mapped(chosen)
    for i, t in enumerate(tensors):
        for other in of(t):
            count = iter(range(len(tensors)))
            yield recipe.mapped(lambda u, o=other, n=i, k=count: o if next(k) == n else u)  # type: ignore[misc]


def _plain_layout(t: TensorRecipe) -> list[TensorRecipe]:
    options = ["plain", "transposed"]
    if t.layout in options:
        options = options[: options.index(t.layout)]
    return [replace(t, layout=layout) for layout in options]


def _plain_values(t: TensorRecipe) -> list[TensorRecipe]:
    order = ["ones", "zeros", "counted"]
    if t.values in order:
        order = order[: order.index(t.values)]
    return [replace(t, values=v, seed=0) for v in order]


def _plainer_dtypes(sample: Sample, recipe: Recipe) -> Iterator[Recipe]:
    yield from _each(recipe, _plain_dtype)


def _plain_dtype(t: TensorRecipe) -> list[TensorRecipe]:
    plain = {"float64": "float32", "float16": "float32", "bfloat16": "float32"}
    whole = {"int32": "int64", "int16": "int64", "int8": "int64", "uint8": "int64"}
    kind = (plain | whole).get(t.dtype)
    return [] if kind is None else [replace(t, dtype=kind)]


def _shorter_lists(recipe: Recipe) -> Iterator[Recipe]:
    for name, value in recipe.values:
        if isinstance(value, tuple):
            for i in range(len(value)):
                yield recipe.with_value(name, (*value[:i], *value[i + 1 :]))


def _lesser_numbers(sample: Sample, recipe: Recipe) -> Iterator[Recipe]:
    defaults = {
        a.name: a.default_value for a in sample.op.schema.arguments if a.has_default_value()
    }
    for name, value in recipe.values:
        if name in defaults and value != defaults[name] and not isinstance(value, TensorRecipe):
            rest = tuple([(n, v) for n, v in recipe.values if n != name])
            yield Recipe(rest, recipe.label)
        if type(value) is int:
            for less in (0, 1, 2):
                if abs(less) < abs(value):
                    yield recipe.with_value(name, less)
