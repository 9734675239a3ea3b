"""Random values: fills in place, factories, samples of distributions.

Every operator here is tagged ``nondeterministic_seeded``. Shape rules check all that does not depend
on data; only kernels draw, so fake and meta tensors leave the generators where they are. Dropout,
which is defined by these, is in `dropout.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from maquette.aten.factories import OPTIONS, like_meta, resized
from maquette.aten.options import cast, check_fits, new_meta
from maquette.core.broadcast import broadcast_shapes
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import finfo, from_numpy_dtype, get_default_dtype, iinfo, int64
from maquette.core.errors import check, check_not_implemented
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.library.variants import check_writable
from maquette.tensor.generator import (
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
from maquette.tensor.tensor import Array

Ints = tuple[int, ...]
Rng = np.random.Generator
_SEEDED = Tag.nondeterministic_seeded
_GENERATOR = "Generator? generator=None"

# --- draws on arrays -----------------------------------------------------------------


def uniform_array(rng: Rng, shape: Ints, low: float, high: float, kind: DType) -> Array:
    """Values in [low, high)."""
    if kind.is_complex:
        real = kind.to_real()
        return uniform_array(rng, shape, low, high, real) + 1j * uniform_array(
            rng, shape, low, high, real
        )
    drawn: Array = rng.random(shape, np.float64 if kind.itemsize == 8 else np.float32)
    return low + drawn * np.asarray(high - low, drawn.dtype)


def normal_array(rng: Rng, shape: Ints, mean: float, std: float, kind: DType) -> Array:
    """Normal values; of a complex dtype each part has half the variance."""
    if kind.is_complex:
        part = std / np.sqrt(2)
        real = kind.to_real()
        drawn = normal_array(rng, shape, 0.0, part, real)
        return mean + drawn + 1j * normal_array(rng, shape, 0.0, part, real)
    values = rng.standard_normal(shape, np.float64 if kind.itemsize == 8 else np.float32)
    scaled: Array = mean + values * np.asarray(std, np.asarray(values).dtype)
    return scaled


def integer_array(rng: Rng, shape: Ints, low: int, high: int) -> Array:
    """Integers in [low, high)."""
    drawn: Array = rng.integers(low, high, shape, np.int64 if high <= 2**63 else np.uint64)
    return drawn


def _into(xp: ModuleType, target: Array, values: Array) -> None:
    kind = from_numpy_dtype(target.dtype)
    target[...] = values if values.dtype == target.dtype else cast(xp, np.asarray(values), kind)


def _g(value: float) -> str:
    return f"{value:g}"


# --- fills in place ------------------------------------------------------------------

Check = Callable[..., None]
Draw = Callable[..., Array]


def _fill(name: str, arguments: str, checks: Check, draw: Draw) -> OperatorPage:
    """``name_``: its checks get the dtype and the arguments, ``draw`` a stream, shape, dtype too."""
    comma = ", " if arguments else ""
    page = define(
        f"aten::{name}(Tensor(a!) self{comma}{arguments}, *, {_GENERATOR}) -> Tensor(a!)",
        tags=[Tag.inplace, _SEEDED],
    )

    @page.shape
    def shape(self: TensorMeta, *params: object) -> TensorMeta:
        checks(self.dtype, *params[:-1])
        check_writable(page.op._opname, self)
        return self

    @page.kernel
    def kernel(xp: ModuleType, self: Array, *params: object) -> None:
        rng = stream_of(params[-1])  # type: ignore[arg-type]  # a generator, by the schema
        kind = from_numpy_dtype(self.dtype)
        _into(xp, self, draw(rng, self.shape, kind, *params[:-1]))

    page.derivative(self=lambda grad: None)
    return page


def _check_continuous(name: str, kind: DType) -> None:
    check_not_implemented(
        kind.category >= 2, lambda: f"\"{name}\" not implemented for '{kind.scalar_name}'"
    )


def _check_distribution(name: str, kind: DType) -> None:
    check(
        kind.is_floating_point,
        lambda: f"{name} distribution is a continuous probability distribution. dtype must be a "
        f"floating point but you specified {kind.scalar_name}",
    )


def check_uniform(kind: DType, low: float, high: float) -> None:
    _check_continuous("check_uniform_bounds", kind)
    check(
        low <= high,
        lambda: f"uniform_ expects to return a [from, to) range, but found from={_g(low)} > "
        f"to={_g(high)}",
    )


uniform_ = _fill(
    "uniform_",
    "float from=0., float to=1.",
    check_uniform,
    lambda rng, shape, kind, low, high: uniform_array(rng, shape, low, high, kind),
)


def check_normal(kind: DType, mean: float, std: float) -> None:
    _check_continuous("normal_kernel_cpu", kind)
    check(std >= 0, lambda: f"normal expects std >= 0.0, but found std {_g(std)}")


normal_ = _fill(
    "normal_",
    "float mean=0., float std=1.",
    check_normal,
    lambda rng, shape, kind, mean, std: normal_array(rng, shape, mean, std, kind),
)


def _check_log_normal(kind: DType, mean: float, std: float) -> None:
    _check_continuous("log_normal", kind)
    check(std > 0, lambda: f"log_normal_ expects std > 0.0, but found std={_g(std)}")


log_normal_ = _fill(
    "log_normal_",
    "float mean=1., float std=2.",
    _check_log_normal,
    lambda rng, shape, kind, mean, std: rng.lognormal(mean, std, shape),
)


def _check_exponential(kind: DType, lambd: float) -> None:
    _check_distribution("Exponential", kind)
    check(
        lambd > 0, lambda: f"exponential_ expects lambda > 0.0, but found lambda={_g(lambd)}"
    )


exponential_ = _fill(
    "exponential_",
    "float lambd=1.",
    _check_exponential,
    lambda rng, shape, kind, lambd: rng.standard_exponential(shape) / lambd,
)


def _check_cauchy(kind: DType, median: float, sigma: float) -> None:
    _check_distribution("Cauchy", kind)
    check(sigma > 0, lambda: f"cauchy_ expects sigma > 0.0, but found sigma={_g(sigma)}")


cauchy_ = _fill(
    "cauchy_",
    "float median=0., float sigma=1.",
    _check_cauchy,
    lambda rng, shape, kind, median, sigma: median + sigma * rng.standard_cauchy(shape),
)


def _check_geometric(kind: DType, p: float) -> None:
    check_not_implemented(
        kind.category in (1, 2), lambda: f"\"geometric\" not implemented for '{kind.scalar_name}'"
    )
    check(0 < p < 1, lambda: f"geometric_ expects p to be in (0, 1), but got p={_g(p)}")


geometric_ = _fill(
    "geometric_",
    "float p",
    _check_geometric,
    lambda rng, shape, kind, p: rng.geometric(p, shape),
)


def check_probability(name: str, p: float) -> None:
    check(0 <= p <= 1, lambda: f"{name} expects p to be in [0, 1], but got p={_g(p)}")


bernoulli__float = _fill(
    "bernoulli_.float",
    "float p=0.5",
    lambda kind, p: check_probability("bernoulli_", p),
    lambda rng, shape, kind, p: rng.random(shape) < p,
)

# --- integers ------------------------------------------------------------------------


def check_bounds(kind: DType, low: int, high: int) -> None:
    """Refuse an empty range, or one beyond what the dtype holds."""
    check(
        low < high,
        lambda: f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
    )
    least, greatest = whole_range(kind)
    names = {"uint8": "unsigned char", "bool": "bool", "int8": "signed char", "int16": "short"}
    name = names.get(kind.name, kind.name)
    check(low >= least, lambda: f"from is out of bounds for {name}")
    check(high - 1 <= greatest, lambda: f"to - 1 is out of bounds for {name}")


def whole_range(kind: DType) -> tuple[int, int]:
    """The least and greatest integer that a dtype holds; of floats, only finite ones."""
    if kind.name == "bool":
        return 0, 1
    if kind.is_floating_point:
        greatest = min(int(finfo(kind).max), 2**63 - 1)
        return -greatest, greatest
    info = iinfo(kind)
    return info.min, info.max


random_ = _fill("random_", "", lambda kind: None, lambda rng, shape, kind: _any(rng, shape, kind))


def _any(rng: Rng, shape: Ints, kind: DType) -> Array:
    """Any integer from 0 that the dtype holds exactly."""
    if kind.is_floating_point:
        return integer_array(rng, shape, 0, int(2 / finfo(kind).eps) + 1)
    greatest = whole_range(kind)[1]
    return integer_array(rng, shape, 0, min(greatest, 2**63 - 2) + 1)


random__to = _fill(
    "random_.to",
    "int to",
    lambda kind, to: check_bounds(kind, 0, to),
    lambda rng, shape, kind, to: integer_array(rng, shape, 0, to),
)


def _top(kind: DType, to: int | None) -> int:
    return min(whole_range(kind)[1], 2**63 - 2) + 1 if to is None else to


random__from = _fill(
    "random_.from",
    "int from, int? to",
    lambda kind, low, to: check_bounds(kind, low, _top(kind, to)),
    lambda rng, shape, kind, low, to: integer_array(rng, shape, low, _top(kind, to)),
)

# --- factories -----------------------------------------------------------------------

_INT_OPTIONS = OPTIONS.replace("ScalarType? dtype=None", "ScalarType? dtype=4")
Drawn = Callable[..., Array]


def _factory(
    name: str, overload: str, arguments: str, checks: Check, draw: Draw, *, core: bool = False
) -> None:
    """A factory of random values in four forms: plain, with generator, and both into ``out``.

    ``arguments`` end with the size; checks get the dtype and what comes before it, ``draw`` a
    stream, the size and those.
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
        _fill_factory(page, name, trailing, checks, draw)
    written = "Tensor(a!) out) -> Tensor(a!)"
    for form, extra in ((f".{prefix}out", ""), (f".{prefix}generator_out", "Generator? generator, ")):
        page = define(
            f"aten::{name}{form}({arguments}, *, {extra}{written}", tags=[_SEEDED, Tag.out]
        )
        _fill_factory_out(page, 2 if extra else 1, checks, draw)


def _fill_factory(
    page: OperatorPage, name: str, trailing: int, checks: Check, draw: Draw
) -> None:
    @page.shape
    def shape(*params: object) -> TensorMeta:
        dtype, layout, device, _ = params[-4:]
        *before, size = params[:-trailing]
        made = new_meta(name, size, dtype, layout, device)  # type: ignore[arg-type]  # by the schema
        checks(made.dtype, *before)
        return made

    @page.kernel
    def kernel(xp: ModuleType, *params: object) -> Array:
        kind = params[-4] or get_default_dtype()
        assert isinstance(kind, DType)
        *before, size = params[:-trailing]
        rng = stream_of(params[-5] if trailing == 5 else None)  # type: ignore[arg-type]  # by the schema
        return cast(xp, np.asarray(draw(rng, size, kind, *before)), kind)


def _fill_factory_out(page: OperatorPage, trailing: int, checks: Check, draw: Draw) -> None:
    @page.shape
    def shape(*params: object) -> TensorMeta:
        out = params[-1]
        assert isinstance(out, TensorMeta)
        *before, size = params[:-trailing]
        checks(out.dtype, *before)
        return resized(out, size)  # type: ignore[arg-type]  # sizes, by the schema

    @page.kernel
    def kernel(xp: ModuleType, *params: object) -> None:
        out = params[-1]
        assert isinstance(out, np.ndarray)
        before = params[:-trailing][:-1]
        rng = stream_of(params[-2] if trailing == 2 else None)  # type: ignore[arg-type]  # by the schema
        _into(xp, out, draw(rng, out.shape, from_numpy_dtype(out.dtype), *before))


_factory(
    "rand",
    "",
    "SymInt[] size",
    lambda kind: check_uniform(kind, 0.0, 1.0),
    lambda rng, size, kind: uniform_array(rng, size, 0.0, 1.0, kind),
    core=True,
)
_factory(
    "randn",
    "",
    "SymInt[] size",
    lambda kind: check_normal(kind, 0.0, 1.0),
    lambda rng, size, kind: normal_array(rng, size, 0.0, 1.0, kind),
    core=True,
)
_factory(
    "randint",
    "",
    "SymInt high, SymInt[] size",
    lambda kind, high: check_bounds(kind, 0, high),
    lambda rng, size, kind, high: integer_array(rng, size, 0, high),
)
_factory(
    "randint",
    "low",
    "SymInt low, SymInt high, SymInt[] size",
    check_bounds,
    lambda rng, size, kind, low, high: integer_array(rng, size, low, high),
)


def _randperm(overload: str, generator: str, trailing: int) -> None:
    page = define(
        f"aten::randperm{overload}(SymInt n, *, {generator}{_INT_OPTIONS}) -> Tensor",
        tags=[_SEEDED] if overload else [Tag.core, _SEEDED],
    )

    @page.shape
    def shape(n: int, *params: object) -> TensorMeta:
        dtype, layout, device, _ = params[-4:]
        made = new_meta("randperm", (n,), dtype or int64, layout, device)  # type: ignore[arg-type]  # by the schema
        check_fits(max(n - 1, 0), made.dtype)
        return made

    @page.kernel
    def kernel(xp: ModuleType, n: int, *params: object) -> Array:
        rng = stream_of(params[0] if trailing else None)  # type: ignore[arg-type]  # by the schema
        kind = params[-4] or int64
        assert isinstance(kind, DType)
        return cast(xp, rng.permutation(n), kind)


_randperm("", "", 0)
_randperm(".generator", "Generator? generator, ", 1)


def _like(name: str, overload: str, arguments: str, checks: Check, draw: Draw) -> None:
    """``rand_like`` and its kin."""
    page = define(
        f"aten::{name}{overload}(Tensor self, {arguments}*, {OPTIONS}, "
        "MemoryFormat? memory_format=None) -> Tensor",
        tags=[_SEEDED],
    ).any_device()
    page.nondifferentiable()

    @page.shape
    def shape(self: TensorMeta, *params: object) -> TensorMeta:
        made = _made_like(name, self, params[-5:])
        checks(made.dtype, *params[:-5])
        return made

    @page.kernel
    def kernel(xp: ModuleType, self: Array, *params: object) -> Array:
        kind = params[-5] or from_numpy_dtype(self.dtype)
        assert isinstance(kind, DType)
        drawn = draw(stream_of(None), self.shape, kind, *params[:-5])
        return cast(xp, np.asarray(drawn), kind)


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
    lambda rng, size, kind: uniform_array(rng, size, 0.0, 1.0, kind),
)
_like(
    "randn_like",
    "",
    "",
    lambda kind: check_normal(kind, 0.0, 1.0),
    lambda rng, size, kind: normal_array(rng, size, 0.0, 1.0, kind),
)
_like(
    "randint_like",
    "",
    "SymInt high, ",
    lambda kind, high: check_bounds(kind, 0, high),
    lambda rng, size, kind, high: integer_array(rng, size, 0, high),
)
_like(
    "randint_like",
    ".low_dtype",
    "SymInt low, SymInt high, ",
    check_bounds,
    lambda rng, size, kind, low, high: integer_array(rng, size, low, high),
)

# --- parameters that are tensors -----------------------------------------------------


def _normal(overload: str, mean: str, std: str) -> None:
    """``normal`` with a mean or standard deviation for each element, and its ``out=`` form."""
    arguments = f"{mean} mean, {std} std"
    text = arguments + ("=1." if overload == "Tensor_float" else "")
    plain = define(
        f"aten::normal.{overload}({text}, *, {_GENERATOR}) -> Tensor", tags=[_SEEDED]
    )
    into = define(
        f"aten::normal.{overload}_out({text}, *, {_GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
        tags=[_SEEDED, Tag.out],
    )

    @plain.shape
    def plain_shape(mean: object, std: object, generator: object) -> TensorMeta:
        metas = [p for p in (mean, std) if isinstance(p, TensorMeta)]
        if not isinstance(std, TensorMeta):
            assert isinstance(std, float)
            check_normal(metas[0].dtype, 0.0, std)
        return metas[0].fresh(broadcast_shapes(*[m.shape for m in metas]))

    @plain.kernel
    def plain_kernel(xp: ModuleType, mean: object, std: object, generator: object) -> Array:
        given = [np.asarray(p) for p in (mean, std)]
        check(
            not given[1].dtype.kind == "f" or bool((given[1] >= 0).all()),
            lambda: "normal expects all elements of std >= 0.0",
        )
        kind = next(p.dtype for p in (mean, std) if isinstance(p, np.ndarray))
        shape = np.broadcast_shapes(*[g.shape for g in given])
        rng = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
        drawn = normal_array(rng, shape, 0.0, 1.0, from_numpy_dtype(kind))
        return cast(xp, np.asarray(drawn * given[1] + given[0]), from_numpy_dtype(kind))

    @into.shape
    def into_shape(
        mean: object, std: object, generator: object, out: TensorMeta
    ) -> TensorMeta:
        return resized(out, plain_shape(mean, std, generator).shape)

    @into.kernel
    def into_kernel(
        xp: ModuleType, mean: object, std: object, generator: object, out: Array
    ) -> None:
        _into(xp, out, plain_kernel(xp, mean, std, generator))

    for name, written in (("mean", mean), ("std", std)):
        if written == "Tensor":
            plain.derivative(**{name: lambda grad: grad.new_zeros(grad.meta.shape)})


_normal("Tensor_float", "Tensor", "float")
_normal("float_Tensor", "float", "Tensor")
_normal("Tensor_Tensor", "Tensor", "Tensor")
normal_float_float = define(
    f"aten::normal.float_float(float mean, float std, SymInt[] size, *, {_GENERATOR}, {OPTIONS}) "
    "-> Tensor",
    tags=[_SEEDED],
)
_fill_factory(
    normal_float_float,
    "normal",
    5,
    check_normal,
    lambda rng, size, kind, mean, std: normal_array(rng, size, mean, std, kind),
)
normal_float_float_out = define(
    f"aten::normal.float_float_out(float mean, float std, SymInt[] size, *, {_GENERATOR}, "
    "Tensor(a!) out) -> Tensor(a!)",
    tags=[_SEEDED, Tag.out],
)
_fill_factory_out(
    normal_float_float_out,
    2,
    check_normal,
    lambda rng, size, kind, mean, std: normal_array(rng, size, mean, std, kind),
)


def draw_truths(generator: object, p: Array, shape: Ints) -> Array:
    """True with the given probabilities; RuntimeError for one outside of [0, 1]."""
    probabilities = p.astype(np.float64)
    check(
        bool(((probabilities >= 0) & (probabilities <= 1)).all()),
        lambda: "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
    )
    rng = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    truths: Array = rng.random(shape) < probabilities
    return truths


bernoulli = define(
    f"aten::bernoulli(Tensor self, *, {_GENERATOR}) -> Tensor", tags=[_SEEDED]
)
bernoulli_out = define(
    f"aten::bernoulli.out(Tensor self, *, {_GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
    tags=[_SEEDED, Tag.out],
)
bernoulli_p = define(
    f"aten::bernoulli.p(Tensor self, float p, *, {_GENERATOR}) -> Tensor", tags=[_SEEDED]
)
bernoulli__tensor = define(
    f"aten::bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, {_GENERATOR}) -> Tensor(a!)",
    tags=[Tag.inplace, _SEEDED],
)


@bernoulli.shape
def bernoulli_shape(self: TensorMeta, generator: object) -> TensorMeta:
    check_not_implemented(
        self.dtype.is_floating_point,
        lambda: f"\"bernoulli_tensor_cpu_p_\" not implemented for '{self.dtype.scalar_name}'",
    )
    return self.fresh(self.shape)


@bernoulli.kernel
def bernoulli_kernel(xp: ModuleType, self: Array, generator: object) -> Array:
    return draw_truths(generator, self, self.shape).astype(self.dtype)


@bernoulli_out.shape
def bernoulli_out_shape(self: TensorMeta, generator: object, out: TensorMeta) -> TensorMeta:
    result = resized(out, bernoulli_shape(self, generator).shape)
    check_writable("bernoulli", result)
    return result


@bernoulli_out.kernel
def bernoulli_out_kernel(xp: ModuleType, self: Array, generator: object, out: Array) -> None:
    out[...] = draw_truths(generator, self, self.shape)


@bernoulli_p.shape
def bernoulli_p_shape(self: TensorMeta, p: float, generator: object) -> TensorMeta:
    check_probability("bernoulli", p)
    return self.like()


@bernoulli_p.kernel
def bernoulli_p_kernel(xp: ModuleType, self: Array, p: float, generator: object) -> Array:
    return draw_truths(generator, np.asarray(p), self.shape).astype(self.dtype)


@bernoulli__tensor.shape
def bernoulli__tensor_shape(self: TensorMeta, p: TensorMeta, generator: object) -> TensorMeta:
    check(
        p.dtype.is_floating_point,
        lambda: f"expected probabilities tensor to have floating type, got {p.dtype}",
    )
    check(
        broadcast_shapes(self.shape, p.shape) == self.shape,
        lambda: f"output with shape {list(self.shape)} doesn't match the broadcast shape "
        f"{list(broadcast_shapes(self.shape, p.shape))}",
    )
    return self


@bernoulli__tensor.kernel
def bernoulli__tensor_kernel(xp: ModuleType, self: Array, p: Array, generator: object) -> None:
    self[...] = draw_truths(generator, p, self.shape)


for _page in (bernoulli, bernoulli_p):
    _page.derivative(self=lambda grad: grad.new_zeros(grad.meta.shape))
bernoulli__tensor.derivative(
    self=lambda grad: None, p=lambda grad, p_meta: grad.new_zeros(p_meta.shape)
)

# --- multinomial ---------------------------------------------------------------------

_SAMPLES = "Tensor self, SymInt num_samples, bool replacement=False"
multinomial = define(
    f"aten::multinomial({_SAMPLES}, *, {_GENERATOR}) -> Tensor", tags=[_SEEDED]
)
multinomial.nondifferentiable()
multinomial_out = define(
    f"aten::multinomial.out({_SAMPLES}, *, {_GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
    tags=[_SEEDED, Tag.out],
)


@multinomial.shape
def multinomial_shape(
    self: TensorMeta, num_samples: int, replacement: bool, generator: object
) -> TensorMeta:
    check(0 < self.ndim <= 2, lambda: "prob_dist must be 1 or 2 dim")
    check(
        self.dtype.is_floating_point,
        lambda: f"multinomial only supports floating-point dtypes for input, got: "
        f"{self.dtype.scalar_name}",
    )
    check(num_samples > 0, lambda: "cannot sample n_sample <= 0 samples")
    check(
        replacement or num_samples <= self.shape[-1],
        lambda: "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    )
    return self.fresh((*self.shape[:-1], num_samples), int64)


@multinomial.kernel
def multinomial_kernel(
    xp: ModuleType, self: Array, num_samples: int, replacement: bool, generator: object
) -> Array:
    weights = self.astype(np.float64)
    check(
        bool((np.isfinite(weights) & (weights >= 0)).all()),
        lambda: "probability tensor contains either `inf`, `nan` or element < 0",
    )
    check(
        bool((weights.sum(-1) > 0).all()),
        lambda: "invalid multinomial distribution (sum of probabilities <= 0)",
    )
    rng = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    if replacement:
        bounds = np.cumsum(weights, -1) / weights.sum(-1, keepdims=True)
        drawn = rng.random((*self.shape[:-1], num_samples))
        return (bounds[..., None, :] <= drawn[..., None]).sum(-1)  # type: ignore[no-any-return]  # an array
    # Exponential races: the first to arrive are a sample without replacement.
    with np.errstate(divide="ignore"):
        arrival = rng.standard_exponential(weights.shape) / weights
    first: Array = np.argsort(arrival, -1)[..., :num_samples]
    return first


@multinomial_out.shape
def multinomial_out_shape(
    self: TensorMeta, num_samples: int, replacement: bool, generator: object, out: TensorMeta
) -> TensorMeta:
    result = multinomial_shape(self, num_samples, replacement, generator)
    check(
        out.dtype is int64,
        lambda: f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}",
    )
    return resized(out, result.shape)


@multinomial_out.kernel
def multinomial_out_kernel(
    xp: ModuleType,
    self: Array,
    num_samples: int,
    replacement: bool,
    generator: object,
    out: Array,
) -> None:
    out[...] = multinomial_kernel(xp, self, num_samples, replacement, generator)


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
