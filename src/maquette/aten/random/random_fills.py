"""Tensors filled with random values in place: ``uniform_``, ``normal_``, ``random_`` and others.

Every operator here is tagged ``nondeterministic_seeded``. Shape rules check all that does not
depend on data; only kernels draw, so fake and meta tensors leave the generators where they are.
Factories are in `random_factories.py`, distributions with tensors as parameters in `sampling.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import into_on_host
from maquette.aten.common.axes import Array
from maquette.aten.common.tensor_options import cast
from maquette.aten.random.distributions import (
    any_integers,
    cauchy,
    exponential,
    geometric,
    in_memory_order,
    integers,
    log_normal,
    normal,
    uniform,
)
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import finfo, from_numpy_dtype, iinfo
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import c_name
from maquette.core.meta import TensorMeta
from maquette.core.warned import warn
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.library.variants import check_writable
from maquette.tensor.streams.generator import stream_of
from maquette.tensor.streams.mersenne import MersenneStream

GENERATOR = "Generator? generator=None"
PART = 1 << 15  # numbers that are drawn at once


def uniform_into(stream: MersenneStream, made: Array, low: float, high: float) -> Array:
    """Uniform values for an array's places."""
    return uniform(stream, made.size, low, high, from_numpy_dtype(made.dtype))


def normal_into(stream: MersenneStream, made: Array, mean: float, std: float) -> Array:
    """Normal values for an array's places; contiguous ones are made in blocks."""
    dense = made.flags.c_contiguous
    return normal(stream, made.size, mean, std, from_numpy_dtype(made.dtype), dense=dense)


def write_drawn(xp: ModuleType, target: Array, values: Array) -> None:
    """Put values, in one dimension, into an array in the order of its memory."""
    if values.dtype != target.dtype and not (values.dtype.char == "d" and target.dtype.char == "f"):
        values = cast(xp, np.asarray(values), from_numpy_dtype(target.dtype))
    if target.flags.c_contiguous:
        target.reshape(-1)[...] = values.reshape(-1)
        return
    laid = in_memory_order(target)
    laid[...] = values.reshape(laid.shape)


def fill_drawn(
    xp: ModuleType, stream: MersenneStream, target: Array, draw: Draw, params: Sequence[object]
) -> None:
    """Fill an array with what ``draw`` makes of a stream, an array and parameters.

    A large one part by part: each part's steps stay in the cache, and no step takes the memory of
    all numbers (20 million uniforms between two bounds: 6.8 to 4.4 ns each, 20 to 4.3 without
    loops; normals of double precision 27 to 24, log-normal ones 30 to 25, 84 to 40).
    """
    if target.size < 2 * PART or not target.flags.c_contiguous:
        write_drawn(xp, target, draw(stream, target, *params))
        return
    flat = target.reshape(-1)
    # The last part has what remains, too: normals take a broken block's numbers from before it.
    last = (flat.size // PART - 1) * PART
    for start in range(0, last + 1, PART):
        part = flat[start:] if start == last else flat[start : start + PART]
        write_drawn(xp, part, draw(stream, part, *params))


def _g(value: float) -> str:
    return f"{value:g}"


# --- fills in place ------------------------------------------------------------------

Check = Callable[..., None]
Draw = Callable[..., Array]


def random_fill(name: str, arguments: str, checks: Check, draw: Draw) -> OperatorPage:
    """``name_``: checks get dtype and arguments, ``draw`` a stream, array and arguments."""
    comma = ", " if arguments else ""
    page = define(
        f"aten::{name}(Tensor(a!) self{comma}{arguments}, *, {GENERATOR}) -> Tensor(a!)",
        tags=[Tag.inplace, Tag.nondeterministic_seeded],
    )

    @page.shape
    def shape(self: TensorMeta, *params: object) -> TensorMeta:
        checks(self.dtype, *params[:-1])
        check_writable(page.op._opname, self)
        return self

    @page.kernel
    @into_on_host(0)
    def kernel(xp: ModuleType, self: Array, *params: object) -> None:
        stream = stream_of(params[-1])  # type: ignore[arg-type]  # a generator, by the schema
        fill_drawn(xp, stream, self, draw, params[:-1])

    page.flat("self")
    return page


def check_real(name: str, kind: DType) -> None:
    check_not_implemented(
        not kind.is_complex, lambda: f"\"{name}\" not implemented for '{kind.scalar_name}'"
    )


def _check_continuous(name: str, kind: DType) -> None:
    check_not_implemented(
        kind.category >= 2, lambda: f"\"{name}\" not implemented for '{kind.scalar_name}'"
    )


def _check_distribution(name: str, kind: DType) -> None:
    check(
        kind.is_floating_point,
        lambda: (
            f"{name} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {kind.scalar_name}"
        ),
    )


def check_uniform(kind: DType, low: float, high: float) -> None:
    _check_continuous("check_uniform_bounds", kind)
    greatest = finfo(kind).max
    name = c_name(kind)
    check(-greatest <= low <= greatest, lambda: f"from is out of bounds for {name}")
    check(-greatest <= high <= greatest, lambda: f"to is out of bounds for {name}")
    check(
        low <= high,
        lambda: (
            f"uniform_ expects to return a [from, to) range, but found from={_g(low)} > "
            f"to={_g(high)}"
        ),
    )
    check(
        high - low <= greatest,
        lambda: (
            f"uniform_ expects to-from <= std::numeric_limits<{kind.scalar_name}>::max(), but "
            f"found to={_g(high)} and from={_g(low)} which result in to-from to exceed the limit"
        ),
    )


uniform_ = random_fill(
    "uniform_",
    "float from=0., float to=1.",
    check_uniform,
    lambda stream, made, low, high: uniform_into(stream, made, low, high),
)
uniform_.describe("Fill with draws between `from` and `to`, uniformly.")


def check_normal(kind: DType, mean: float, std: float) -> None:
    _check_continuous("normal_kernel_cpu", kind)
    check(std >= 0, lambda: f"normal expects std >= 0.0, but found std {_g(std)}")


normal_ = random_fill(
    "normal_",
    "float mean=0., float std=1.",
    check_normal,
    lambda stream, made, mean, std: normal_into(stream, made, mean, std),
)


def _check_log_normal(kind: DType, mean: float, std: float) -> None:
    check_real("log_normal_cpu", kind)
    _check_continuous("log_normal", kind)
    check(std > 0, lambda: f"log_normal_ expects std > 0.0, but found std={_g(std)}")


log_normal_ = random_fill(
    "log_normal_",
    "float mean=1., float std=2.",
    _check_log_normal,
    lambda stream, made, mean, std: log_normal(stream, made.size, mean, std),
)
log_normal_.describe("Fill with draws whose logarithm is normal.")


def _check_exponential(kind: DType, lambd: float) -> None:
    _check_distribution("Exponential", kind)
    check(lambd > 0, lambda: f"exponential_ expects lambda > 0.0, but found lambda={_g(lambd)}")


exponential_ = random_fill(
    "exponential_",
    "float lambd=1.",
    _check_exponential,
    lambda stream, made, lambd: exponential(stream, made.size, lambd),
)
exponential_.describe("Fill with draws from an exponential distribution of rate `lambd`.")


def _check_cauchy(kind: DType, median: float, sigma: float) -> None:
    _check_distribution("Cauchy", kind)
    check(sigma > 0, lambda: f"cauchy_ expects sigma > 0.0, but found sigma={_g(sigma)}")


cauchy_ = random_fill(
    "cauchy_",
    "float median=0., float sigma=1.",
    _check_cauchy,
    lambda stream, made, median, sigma: cauchy(stream, made.size, median, sigma),
)
cauchy_.describe("Fill with draws from a Cauchy distribution.")


def _check_geometric(kind: DType, p: float) -> None:
    check_not_implemented(
        kind.category in (1, 2), lambda: f"\"geometric\" not implemented for '{kind.scalar_name}'"
    )
    check(0 < p < 1, lambda: f"geometric_ expects p to be in (0, 1), but got p={_g(p)}")


geometric_ = random_fill(
    "geometric_",
    "float p",
    _check_geometric,
    lambda stream, made, p: geometric(stream, made.size, p),
)
geometric_.describe(
    "Fill with draws from a geometric distribution: trials up to the first success."
)


def check_probability(name: str, p: float) -> None:
    check(0 <= p <= 1, lambda: f"{name} expects p to be in [0, 1], but got p={_g(p)}")


# --- integers ------------------------------------------------------------------------


def check_bounds(kind: DType, low: int, high: int) -> None:
    """Refuse an empty range, or one beyond what the dtype holds."""
    check(
        low < high,
        lambda: f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
    )
    least, greatest = whole_range(kind)
    bounds = {"from": low, "to - 1": high - 1}
    for what, bound in bounds.items():
        outside = f"{what} is out of bounds for {c_name(kind)}"
        check(least <= bound <= greatest, lambda outside=outside: outside)


def whole_numbers(stream: MersenneStream, made: Array, low: int, high: int) -> Array:
    """Whole numbers; warns of bounds beyond which the dtype does not hold all of them."""
    kind = from_numpy_dtype(made.dtype)
    if kind.is_floating_point:
        _warn_of_gaps(kind, low, high)
        low, high = _within(kind, low, high)
    return integers(stream, made.size, low, high)


def _within(kind: DType, low: int, high: int) -> tuple[int, int]:
    """The bounds moved inwards to where a float's nearest numbers to all draws are within them.

    What is next to a bound may round to a number beyond it. PyTorch then begins or ends a step of
    the float further in, though it adds one to the first.
    """
    digits, to_float = whole_digits(kind), kind.numpy.type
    after, before = int(to_float(low + 1)), int(to_float(high - 1))
    if after < low:
        low = after + (1 << max(abs(low + 1).bit_length() - digits, 0))
    if high <= before < 2**63:  # what int64 does not hold PyTorch leaves alone
        high = before - (1 << max(abs(high - 1).bit_length() - digits, 0))
    return low, high


def whole_digits(kind: DType) -> int:
    """How many binary digits of a whole number a float holds."""
    return 1 - round(math.log2(finfo(kind).eps))


def _warn_of_gaps(kind: DType, low: int, high: int) -> None:
    digits = whole_digits(kind)
    for what, bound in (("from", low), ("to - 1", high - 1)):
        if abs(bound) > 2**digits:
            warn(
                f"{what} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                f"limitations {c_name(kind)} can support discrete uniform distribution only "
                f"within this range; draw in a wider dtype."
            )


def whole_range(kind: DType) -> tuple[int, int]:
    """The least and greatest integer that a dtype holds; of floats, only finite ones."""
    if kind.name == "bool":
        return 0, 1
    check_real("random_kernel_cpu", kind)
    if kind.is_floating_point:
        greatest = int(finfo(kind).max)
        return max(-greatest, -(2**63)), min(greatest, 2**63 - 1)
    info = iinfo(kind)
    return info.min, info.max


random_ = random_fill(
    "random_",
    "",
    lambda kind: check_real("random_kernel_cpu", kind),
    lambda stream, made: any_integers(stream, made.size, from_numpy_dtype(made.dtype)),
)
random_.node_name("RandomBackward2")
random_.describe("Fill with draws of whole numbers, from `from` up to, but without, `to`.")

random__to = random_fill(
    "random_.to",
    "int to",
    lambda kind, to: check_bounds(kind, 0, to),
    lambda stream, made, to: whole_numbers(stream, made, 0, to),
)
random__to.node_name("RandomBackward1")


def _top(kind: DType, to: int | None) -> int:
    if to is not None:
        return to
    if kind.is_floating_point:
        return int(2 / finfo(kind).eps) + 1
    return whole_range(kind)[1] + 1


random__from = random_fill(
    "random_.from",
    "int from, int? to",
    lambda kind, low, to: check_bounds(kind, low, _top(kind, to)),
    lambda stream, made, low, to: whole_numbers(
        stream, made, low, _top(from_numpy_dtype(made.dtype), to)
    ),
)
