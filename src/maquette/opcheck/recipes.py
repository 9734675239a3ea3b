"""Recipes of inputs: small values that say how each argument is made, and make it.

A recipe can be compared, varied, shrunk and written as code, which a tensor cannot. Values come
from the sample that a check was given, or from a kind of values that has a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maquette.opcheck.framework import Array, dtype_name
from maquette.opcheck.operators import CheckedOperator, bound

LAYOUTS = (
    "plain",
    "transposed",
    "sliced",
    "offset",
    "rows apart",
    "permuted",
    "expanded",
    "channels last",
)
VALUES = ("sample", "mixed", "zeros", "ones", "eye", "normal", "negative", "special")


@dataclass(frozen=True, slots=True)
class TensorRecipe:
    """How a tensor is made. ``pool`` is the sample's tensor that values are like.

    ``share``: tensors with one number above 0 are one object.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: str = "plain"
    values: str = "sample"
    pool: int = 0
    seed: int = 0
    requires_grad: bool = False
    share: int = 0

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))


@dataclass(frozen=True, slots=True)
class Recipe:
    """A call's arguments by name, in schema order; lists are tuples, tensors are recipes."""

    values: tuple[tuple[str, Any], ...]
    label: str = field(default="the sample", compare=False)

    def tensors(self) -> list[TensorRecipe]:
        """The tensors, in order."""
        return [leaf for _, leaf in leaves(self) if isinstance(leaf, TensorRecipe)]

    def mapped(self, function: Callable[[TensorRecipe], TensorRecipe], label: str = "") -> Recipe:
        """The recipe with ``function`` of each tensor."""
        values = tuple([(n, _map(function, v)) for n, v in self.values])
        return Recipe(values, label or self.label)

    def with_tensor(self, number: int, label: str = "", **changes: Any) -> Recipe:
        """The recipe with a change of its tensor of this number."""
        count = iter(range(1_000_000))
        return self.mapped(lambda t: replace(t, **changes) if next(count) == number else t, label)

    def with_value(self, name: str, value: Any, label: str = "") -> Recipe:
        """The recipe with another value of an argument, which it need not have given before."""
        values = tuple([(n, value if n == name else v) for n, v in self.values])
        if all(n != name for n, _ in values):
            values = (*values, (name, value))
        return Recipe(values, label or self.label)

    def value(self, name: str) -> Any:
        """An argument's value; None where it is not given."""
        return dict(self.values).get(name)


def _map(function: Callable[[TensorRecipe], TensorRecipe], value: Any) -> Any:
    if isinstance(value, TensorRecipe):
        return function(value)
    if isinstance(value, tuple):
        return tuple([_map(function, v) for v in value])
    return value


def leaves(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Names and single values, those of lists one by one."""
    for name, value in recipe.values:
        if isinstance(value, tuple):
            for v in value:
                yield name, v
        else:
            yield name, value


# --- from the sample ------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """A call that works: its recipe, and the tensors that its values are like."""

    op: CheckedOperator
    recipe: Recipe
    pool: Sequence[Array]
    strides: Sequence[tuple[int, ...]]
    devices: Sequence[str]
    bases: dict[TensorRecipe, Any] = field(default_factory=dict, compare=False, repr=False)

    def build(self, recipe: Recipe, device: str = "") -> tuple[list[Any], dict[str, Any]]:
        """The arguments that a recipe makes: positional ones, and those by keyword."""
        maker = _Maker(self, device)
        positional, keyword = [], {}
        # What stands after an argument that is left out is given by keyword.
        schema = [a for a in self.op.schema.arguments if not a.kwarg_only]
        made = {name: maker.value(v) for name, v in recipe.values}
        for argument in schema:
            if argument.name not in made:
                break
            positional.append(made.pop(argument.name))
        keyword.update(made)
        return positional, keyword


def sample_of(op: CheckedOperator, args: Sequence[Any], kwargs: Any) -> Sample:
    """A call as a sample."""
    on = op.on
    pool: list[Array] = []
    strides: list[tuple[int, ...]] = []
    devices: list[str] = []
    shared: dict[int, int] = {}
    seen: list[Any] = []

    def of(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple([of(v) for v in value])
        if not on.is_tensor(value):
            return value
        pool.append(on.array(value))
        strides.append(tuple(value.stride()))
        devices.append(str(value.device))
        seen.append(value)
        twins = [i for i, t in enumerate(seen) if t is value]
        share = 0 if len(twins) == 1 else shared.setdefault(twins[0], twins[0] + 1)
        kept = not value.is_contiguous() and not _overlaps(value.shape, value.stride())
        layout = "sample" if kept else "plain"
        return TensorRecipe(
            tuple(value.shape), dtype_name(value), layout, pool=len(pool) - 1, share=share,
            requires_grad=value.requires_grad,
        )  # fmt: skip

    values = [(a.name, of(v)) for a, v in bound(op, args, kwargs)]
    for first, share in shared.items():
        values = _shared(values, first, share)
    return Sample(op, Recipe(tuple(values)), pool, strides, devices)


def _shared(values: Any, number: int, share: int) -> Any:
    return list(Recipe(tuple(values)).with_tensor(number, share=share).values)


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may share memory: then no element can be changed alone."""
    reached = 0
    for s, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if s <= reached:
            return True
        reached += s * (n - 1)
    return False


class _Maker:
    """Makes the tensors of one call."""

    def __init__(self, sample: Sample, device: str) -> None:
        self.sample = sample
        self.on = sample.op.on
        self.device = device
        self._shared: dict[int, Any] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self.value(v) for v in value]
        if not isinstance(value, TensorRecipe):
            return value
        if value.share in self._shared:
            return self._shared[value.share]
        made = self._tensor(value)
        if value.share:
            self._shared[value.share] = made
        return made

    def _tensor(self, t: TensorRecipe) -> Any:
        device = self.device or self.sample.devices[t.pool]
        with self.on.torch.no_grad():
            made = self._base(t).clone()
            if t.layout == "conjugate":
                made = self.on.torch._conj(made)
            elif t.layout != "plain":
                made = made.as_strided(t.shape, *strides_of(t, self.sample.strides[t.pool]))
            if device != "cpu":
                made = made.to(device)
        made = made.detach()
        return made.requires_grad_() if t.requires_grad and t.floating else made

    def _base(self, t: TensorRecipe) -> Any:
        """The memory that a recipe's tensor lies in, made once; callers are given copies."""
        known = replace(t, requires_grad=False, share=0) if t.requires_grad or t.share else t
        bases = self.sample.bases
        if known not in bases:
            values = self.on.from_array(values_of(t, self.sample.pool), t.dtype)
            bases[known] = _laid_out(self.on.torch, values, t, self.sample.strides[t.pool])
        return bases[known]


def _laid_out(torch: Any, values: Any, t: TensorRecipe, sample_strides: tuple[int, ...]) -> Any:
    """The memory that holds values in a layout, as a tensor of one dim; plain values themselves."""
    if t.layout == "plain":
        return values
    if t.layout == "conjugate":
        return torch._conj_physical(values)
    strides, offset = strides_of(t, sample_strides)
    extent = sum((n - 1) * s for n, s in zip(t.shape, strides)) + 1 if t.numel else 0
    base = torch.full((offset + extent + 2,), 7, dtype=values.dtype)
    made = base.as_strided(t.shape, strides, offset)
    if t.layout == "expanded" or 0 in strides:
        part = tuple([slice(0, 1) if s == 0 else slice(None) for s in strides])
        made[part].copy_(values[part])
    else:
        made.copy_(values)
    return base


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def strides_of(t: TensorRecipe, sample: tuple[int, ...] = ()) -> tuple[tuple[int, ...], int]:
    """Strides and storage offset of a recipe's layout."""
    shape = t.shape
    n = len(shape)
    plain = contiguous(shape)
    if t.layout == "sample" and len(sample) == n:
        return sample, 0
    if t.layout == "transposed" and n >= 2:
        return _in_order(shape, [*range(n - 2), n - 1, n - 2]), 0
    if t.layout == "permuted" and n >= 2:
        return _in_order(shape, list(range(n))[::-1]), 0
    if t.layout == "channels last" and n >= 3:
        return _in_order(shape, [0, *range(2, n), 1]), 0
    if t.layout == "sliced" and n:
        return tuple([2 * s for s in plain]), 1
    if t.layout == "rows apart" and n >= 2:
        inner = max(shape[-1], 1) + 3
        return tuple([s // max(shape[-1], 1) * inner for s in plain[:-1]]) + (1,), 2
    if t.layout == "expanded" and n:
        first = next((i for i, size in enumerate(shape) if size > 1), 0)
        rest = contiguous(shape[:first] + (1,) + shape[first + 1 :])
        return tuple([0 if i == first else s for i, s in enumerate(rest)]), 0
    return plain, 3 if t.layout == "offset" else 0


def _in_order(shape: Sequence[int], outer_first: Sequence[int]) -> tuple[int, ...]:
    strides = [0] * len(shape)
    step = 1
    for d in reversed(outer_first):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


# --- values -----------------------------------------------------------------------------------


def values_of(t: TensorRecipe, pool: Sequence[Array]) -> Array:
    """The values of a tensor, as its recipe says, in a wide dtype."""
    kind, known = t.values, pool[t.pool]
    if kind == "sample" and known.shape == t.shape:
        return known.astype(_wide(t.dtype), copy=True)
    draw = np.random.default_rng((t.seed, t.pool, t.numel))
    made = _drawn(kind, t, known, draw)
    return np.asarray(made).astype(_wide(t.dtype))


def _wide(dtype: str) -> str:
    if dtype == "bool":
        return "bool"
    if dtype.startswith("complex"):
        return "complex128"
    return "float64" if dtype.startswith(("float", "bfloat")) else "int64"


def _drawn(kind: str, t: TensorRecipe, known: Array, draw: np.random.Generator) -> Any:
    shape = t.shape
    if kind in ("zeros", "ones"):
        return np.full(shape, int(kind == "ones"))
    if kind == "eye":
        n = shape[-2:] if len(shape) >= 2 else ()
        return np.broadcast_to(np.eye(n[0], n[1]) if n else 1.0, shape)
    if kind in ("columns", "rows") and shape:  # positions: each once, unlike zeros and ones
        return np.indices(shape)[-1 if kind == "columns" else 0]
    if kind == "counted":
        return np.arange(1, t.numel + 1).reshape(shape)
    if t.dtype == "bool":
        return draw.integers(0, 2, shape).astype(bool)
    if not t.floating:
        return _whole_numbers(kind, shape, known, draw)
    if kind in ("sample", "mixed") and known.size:
        return _between(known, shape, draw)
    made = draw.standard_normal(shape)
    if t.dtype.startswith("complex"):
        made = made + 1j * draw.standard_normal(shape)
    if kind == "negative":
        made = -np.abs(made) - 0.5
    if kind == "special":
        made = _with_special(made, t.dtype, draw)
    return made


def _whole_numbers(kind: str, shape: Any, known: Array, draw: np.random.Generator) -> Any:
    if kind in ("sample", "mixed") and known.size and known.dtype.kind in "iub":
        return draw.choice(known.reshape(-1).astype("int64"), shape)
    if kind in ("negative",):
        return draw.integers(-3, 0, shape)
    return draw.integers(0 if kind == "mixed" else -3, 4, shape)


def _between(known: Array, shape: Any, draw: np.random.Generator) -> Any:
    """Values between those of the sample, so that what it has in common is kept."""
    flat = known.reshape(-1)
    flat = flat[np.isfinite(flat)] if flat.dtype.kind in "fc" else flat.astype("float64")
    if not flat.size:
        return draw.standard_normal(shape)
    a, b = draw.choice(flat, shape), draw.choice(flat, shape)
    share = draw.uniform(0.0, 1.0, shape)
    return a * share + b * (1 - share)


_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e30, 1e-30, 65504.0, 1.0)


def _with_special(made: Any, dtype: str, draw: np.random.Generator) -> Any:
    made = np.array(made)
    flat = made.reshape(-1)
    for i in range(0, flat.size, 2):
        flat[i] = _SPECIAL[(i // 2) % len(_SPECIAL)]
    return made


# --- as code ----------------------------------------------------------------------------------


def code_of(sample: Sample, recipe: Recipe) -> str:
    """The call that a recipe makes, as a line of Python with PyTorch's names."""
    shown = []
    required = {a.name: a for a in sample.op.schema.arguments}
    positional = True
    names = [a.name for a in sample.op.schema.arguments if not a.kwarg_only]
    for i, (name, value) in enumerate(recipe.values):
        text = _code(sample, value)
        positional = positional and i < len(names) and names[i] == name
        shown.append(text if positional and not required[name].kwarg_only else f"{name}={text}")
    namespace, _, rest = sample.op.name.partition("::")
    overload = "" if "." in rest else ".default"
    return f"torch.ops.{namespace}.{rest}{overload}({', '.join(shown)})"


def _code(sample: Sample, value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_code(sample, v) for v in value) + "]"
    if not isinstance(value, TensorRecipe):
        text = repr(value)
        return f'float("{value}")' if isinstance(value, float) and text in _WORDS else text
    text = _tensor_code(sample, value)
    if value.layout not in ("plain", "conjugate"):
        text = _layout_code(text, value, sample.strides[value.pool])
    return text + (".requires_grad_()" if value.requires_grad and value.floating else "")


_WORDS = ("nan", "inf", "-inf")


def _tensor_code(sample: Sample, t: TensorRecipe) -> str:
    dtype = "" if t.dtype == "float32" else f", dtype=torch.{t.dtype}"
    shape = ", ".join(map(str, t.shape))
    if t.values in ("zeros", "ones") or not t.numel:
        name = "ones" if t.values == "ones" else "zeros"
        return f"torch.{name}({shape or '()'}{dtype})"
    if t.numel > 24:
        maker = "randn" if t.floating else "randint"
        head = "" if t.floating else "4, "
        return f"torch.{maker}({head}({shape},){dtype})"
    values = values_of(t, sample.pool)
    if t.layout == "expanded":
        first = next((i for i, n in enumerate(t.shape) if n > 1), None)
        values = values if first is None else values.take([0] * t.shape[first], first)
    numbers = _rounded(values.tolist())
    text = repr(numbers).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
    return f"torch.tensor({text}{dtype or _needs_dtype(t)})"


def _needs_dtype(t: TensorRecipe) -> str:
    return "" if t.numel else f", dtype=torch.{t.dtype}"


def _rounded(values: Any) -> Any:
    if isinstance(values, list):
        return [_rounded(v) for v in values]
    if isinstance(values, float):
        return float(f"{values:.4g}")
    return values


def _layout_code(text: str, t: TensorRecipe, sample: tuple[int, ...]) -> str:
    if t.layout == "transposed" and len(t.shape) >= 2 and len(t.shape) == 2:
        return f"{text}.t().contiguous().t()"
    strides, offset = strides_of(t, sample)
    if t.layout == "expanded":
        part = ", ".join([":1" if s == 0 else ":" for s in strides])
        return f"{text}[{part}].expand({', '.join(map(str, t.shape))})"
    extent = sum((n - 1) * s for n, s in zip(t.shape, strides)) + 1 + offset
    return (
        f"torch.zeros({extent}, dtype=torch.{t.dtype})"
        f".as_strided({list(t.shape)}, {list(strides)}, {offset}).copy_({text})"
    )
