"""Factories of random values: rand, randn, randint, randperm and their ``_like`` forms.

Also the door to the generators for ``maquette.random``. Fills in place are in `random_fills.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import into_on_host, is_array, on_host
from maquette.aten.common.axes import Array
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import cast, new_meta
from maquette.aten.factory.factories import OPTIONS, like_meta, resized
from maquette.aten.random.distributions import empty_alike, permutation
from maquette.aten.random.random_fills import (
    PART,
    Check,
    check_bounds,
    check_normal,
    check_uniform,
    fill_drawn,
    normal_into,
    uniform_into,
    whole_digits,
    whole_numbers,
    write_drawn,
)
from maquette.core.device import device as Device
from maquette.core.dtype import bfloat16, bool_, from_numpy_dtype, get_default_dtype, int64
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import check_fits
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.library.variants import check_writable
from maquette.tensor.streams.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    stream_of,
)
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

_SEEDED = Tag.nondeterministic_seeded

# --- factories -----------------------------------------------------------------------

_INT_OPTIONS = OPTIONS.replace("ScalarType? dtype=None", "ScalarType? dtype=4")
Draw = Callable[..., Array]


def _factory(
    name: str, overload: str, arguments: str, checks: Check, draw: Draw, *, core: bool = False
) -> None:
    """A factory of random values in four forms: plain, with generator, and both into ``out``.

    ``arguments`` end with the size; checks get the dtype and what comes before it, ``draw`` a
    stream, the array to be filled and those.
    """
    options = _INT_OPTIONS if name == "randint" else OPTIONS
    plain = f".{overload}" if overload else ""
    prefix = f"{overload}_" if overload else ""
    tags = [Tag.core, _SEEDED] if core else [_SEEDED]
    forms = (
        (plain, f"{arguments}, *, {options}", 4, tags),
        (
            f".{prefix}generator",
            f"{arguments}, *, Generator? generator, {options}",
            5,
            [_SEEDED],
        ),
    )
    for form, signature, trailing, form_tags in forms:
        page = define(f"aten::{name}{form}({signature}) -> Tensor", tags=form_tags)
        fill_factory(page, name, trailing, checks, draw)
    written = "Tensor(a!) out) -> Tensor(a!)"
    for form, extra in (
        (f".{prefix}out", ""),
        (f".{prefix}generator_out", "Generator? generator, "),
    ):
        page = define(
            f"aten::{name}{form}({arguments}, *, {extra}{written}", tags=[_SEEDED, Tag.out]
        )
        fill_factory_out(page, 2 if extra else 1, checks, draw)


def fill_factory(page: OperatorPage, name: str, trailing: int, checks: Check, draw: Draw) -> None:
    """Fill a factory's page; ``trailing`` parameters follow the size, a generator first if 5."""

    @page.shape
    def shape(*params: object) -> TensorMeta:
        dtype, layout, device, _ = params[-4:]
        *before, size = params[:-trailing]
        made = new_meta(name, size, dtype, layout, device)  # type: ignore[arg-type]  # by the schema
        checks(made.dtype, *before)
        return made

    @page.kernel
    @on_host
    def kernel(xp: ModuleType, *params: object) -> Array:
        kind = params[-4] or get_default_dtype()
        assert isinstance(kind, DType)
        *before, size = params[:-trailing]
        assert isinstance(size, tuple)
        stream = stream_of(params[-5] if trailing == 5 else None)  # type: ignore[arg-type]  # by the schema
        made = np.empty(size, kind.numpy)
        if made.size >= PART:
            fill_drawn(xp, stream, made, draw, before)
            return made
        drawn = draw(stream, made, *before)
        if drawn.shape == size and drawn.dtype == made.dtype:
            return drawn
        write_drawn(xp, made, drawn)
        return made


def fill_factory_out(page: OperatorPage, trailing: int, checks: Check, draw: Draw) -> None:
    """Fill the page of a factory's ``out=`` form; a generator precedes ``out`` if trailing is 2."""

    @page.shape
    def shape(*params: object) -> TensorMeta:
        out = params[-1]
        assert isinstance(out, TensorMeta)
        *before, size = params[:-trailing]
        checks(out.dtype, *before)
        made = resized(out, size)  # type: ignore[arg-type]  # sizes, by the schema
        check_writable(page.op._opname, made)
        return made

    @page.kernel
    @into_on_host(-1)
    def kernel(xp: ModuleType, *params: object) -> None:
        out = params[-1]
        assert is_array(out)
        before = params[:-trailing][:-1]
        stream = stream_of(params[-2] if trailing == 2 else None)  # type: ignore[arg-type]  # by the schema
        fill_drawn(xp, stream, out, draw, before)


_factory(
    "rand",
    "",
    "SymInt[] size",
    lambda kind: check_uniform(kind, 0.0, 1.0),
    lambda stream, made: uniform_into(stream, made, 0.0, 1.0),
    core=True,
)
describe("rand", "Draws between 0 and 1, uniformly: a tensor of a size.")
_factory(
    "randn",
    "",
    "SymInt[] size",
    lambda kind: check_normal(kind, 0.0, 1.0),
    lambda stream, made: normal_into(stream, made, 0.0, 1.0),
    core=True,
)
describe("randn", "Draws from the standard normal distribution: a tensor of a size.")
_factory(
    "randint",
    "",
    "SymInt high, SymInt[] size",
    lambda kind, high: check_bounds(kind, 0, high),
    lambda stream, made, high: whole_numbers(stream, made, 0, high),
)
describe(
    "randint",
    "Draws of whole numbers from `low` up to, but without, `high`: a tensor of a size.",
)
_factory(
    "randint",
    "low",
    "SymInt low, SymInt high, SymInt[] size",
    check_bounds,
    lambda stream, made, low, high: whole_numbers(stream, made, low, high),
)


def _check_count(n: int, kind: DType) -> None:
    """Refuse to number more things than a dtype can."""
    check_not_implemented(kind is not bool_, lambda: "\"randperm\" not implemented for 'Bool'")
    check_fits(max(n - 1, 0), kind)
    limited = kind.is_floating_point and kind is not bfloat16  # which rounds, as in PyTorch
    most = 2 ** whole_digits(kind) + 1 if limited else n
    check(n <= most, lambda: f"n cannot be greater than {most} for {kind.scalar_name} type.")


def _randperm(overload: str, generator: str, trailing: int) -> None:
    page = define(
        f"aten::randperm{overload}(SymInt n, *, {generator}{_INT_OPTIONS}) -> Tensor",
        tags=[_SEEDED] if overload else [Tag.core, _SEEDED],
    )

    @page.shape
    def shape(n: int, *params: object) -> TensorMeta:
        dtype, layout, device, _ = params[-4:]
        made = new_meta("randperm", (n,), dtype or int64, layout, device)  # type: ignore[arg-type]  # by the schema
        _check_count(n, made.dtype)
        return made

    @page.kernel
    @on_host
    def kernel(xp: ModuleType, n: int, *params: object) -> Array:
        stream = stream_of(params[0] if trailing else None)  # type: ignore[arg-type]  # by the schema
        kind = params[-4] or int64
        assert isinstance(kind, DType)
        return cast(xp, permutation(stream, n), kind)


def _randperm_out(overload: str, generator: str) -> None:
    page = define(
        f"aten::randperm{overload}(SymInt n, *, {generator}Tensor(a!) out) -> Tensor(a!)",
        tags=[_SEEDED, Tag.out],
    )

    @page.shape
    def shape(n: int, *params: object) -> TensorMeta:
        out = params[-1]
        assert isinstance(out, TensorMeta)
        check(n >= 0, lambda: f"n must be non-negative, got{n}")
        _check_count(n, out.dtype)
        return resized(out, (n,))

    @page.kernel
    @into_on_host(-1)
    def kernel(xp: ModuleType, n: int, *params: object) -> None:
        stream = stream_of(params[0] if generator else None)  # type: ignore[arg-type]  # by the schema
        write_drawn(xp, params[-1], permutation(stream, n))  # type: ignore[arg-type]  # an array


_randperm("", "", 0)
_randperm_out(".out", "")
_randperm_out(".generator_out", "Generator? generator, ")
describe("randperm", "The numbers below `n` in random order: a vector.")
_randperm(".generator", "Generator? generator, ", 1)


def _like(name: str, overload: str, arguments: str, checks: Check, draw: Draw) -> None:
    """``rand_like`` and the like, from the default generator and from one that is given."""
    _like_from(name, overload, arguments, checks, draw, generator=False)
    given = ".low_generator_dtype" if overload == ".low_dtype" else ".generator"
    _like_from(name, given, arguments, checks, draw, generator=True)


def _like_from(
    name: str, overload: str, arguments: str, checks: Check, draw: Draw, *, generator: bool
) -> None:
    given = "Generator? generator, " if generator else ""
    page = define(
        f"aten::{name}{overload}(Tensor self, {arguments}*, {given}{OPTIONS}, "
        "MemoryFormat? memory_format=None) -> Tensor",
        tags=[_SEEDED],
    ).any_device()
    last = -6 if generator else -5  # what comes after the bounds
    page.nondifferentiable()

    page.batching(BROADCASTS)

    @page.shape
    def shape(self: TensorMeta, *params: object) -> TensorMeta:
        made = _made_like(name, self, params[-5:])
        checks(made.dtype, *params[:last])
        return made

    @page.kernel
    @on_host
    def kernel(xp: ModuleType, self: Array, *params: object) -> Array:
        kind = params[-5] or from_numpy_dtype(self.dtype)
        assert isinstance(kind, DType)
        made = empty_alike(self, kind.numpy, params[-1])
        stream = stream_of(params[-6] if generator else None)  # type: ignore[arg-type]  # by the schema
        fill_drawn(xp, stream, made, draw, params[:last])
        return made


def _made_like(name: str, self: TensorMeta, options: tuple[object, ...]) -> TensorMeta:
    dtype, layout, device, _, memory_format = options
    assert dtype is None or isinstance(dtype, DType)
    assert layout is None or isinstance(layout, Layout)
    assert device is None or isinstance(device, Device)
    assert memory_format is None or isinstance(memory_format, MemoryFormat)
    return like_meta(name, self, dtype, layout, device, memory_format)


_like(
    "rand_like",
    "",
    "",
    lambda kind: check_uniform(kind, 0.0, 1.0),
    lambda stream, made: uniform_into(stream, made, 0.0, 1.0),
)
describe("rand_like", "Draws between 0 and 1, uniformly: a tensor like `self`.")
_like(
    "randn_like",
    "",
    "",
    lambda kind: check_normal(kind, 0.0, 1.0),
    lambda stream, made: normal_into(stream, made, 0.0, 1.0),
)
describe("randn_like", "Draws from the standard normal distribution: a tensor like `self`.")
_like(
    "randint_like",
    "",
    "SymInt high, ",
    lambda kind, high: check_bounds(kind, 0, high),
    lambda stream, made, high: whole_numbers(stream, made, 0, high),
)
describe(
    "randint_like",
    "Draws of whole numbers from `low` up to, but without, `high`: a tensor like `self`.",
)
_like(
    "randint_like",
    ".low_dtype",
    "SymInt low, SymInt high, ",
    check_bounds,
    lambda stream, made, low, high: whole_numbers(stream, made, low, high),
)


def _below(overload: str, given: str) -> None:
    """``randint_like`` below what a tensor says."""
    define(
        f"aten::randint_like.{overload}(Tensor self, Tensor high, *, {given}{OPTIONS}, "
        "MemoryFormat? memory_format=None) -> Tensor",
        tags=[_SEEDED],
    ).composite(_draw_below)


def _draw_below(self: Tensor, high: Tensor, *params: object) -> Tensor:
    check(
        high.meta.numel == 1 and high.device.type == "cpu",
        lambda: "high must be a scalar tensor and on CPU",
    )
    *generator, dtype, layout, device, pin_memory, memory_format = params
    options = {"dtype": dtype, "layout": layout, "device": device, "pin_memory": pin_memory}
    if generator:
        options["generator"] = generator[0]
    drawn: Tensor = aten.randint_like(
        self, int(high.item()), **options, memory_format=memory_format
    )
    return drawn


_below("Tensor", "")
_below("Tensor_generator", "Generator? generator, ")

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
