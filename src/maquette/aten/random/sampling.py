"""Samples whose parameters are tensors: ``normal``, ``bernoulli``, ``multinomial``.

As in `random_fills.py`, only kernels draw. What depends on the values of the parameters is checked
by the kernels.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import into_on_host, on_host
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import to_front
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.large_arrays import least_places, loops_of_floats
from maquette.aten.common.tensor_options import cast
from maquette.aten.factory.factories import OPTIONS, resized
from maquette.aten.random.distributions import (
    empty_alike,
    exponential,
    in_memory_order,
    normal,
    truths,
    truths_of,
)
from maquette.aten.random.random_factories import fill_factory, fill_factory_out
from maquette.aten.random.random_fills import (
    GENERATOR,
    check_normal,
    check_probability,
    check_real,
    normal_into,
    random_fill,
    write_drawn,
)
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import from_numpy_dtype, int64
from maquette.core.errors import check, check_data, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import define, describe
from maquette.library.variants import check_writable
from maquette.tensor.backend import backend_for
from maquette.tensor.streams.generator import stream_of
from maquette.tensor.streams.mersenne import MersenneStream
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo
from maquette.transforms.randomness import check_randomness, refuse_same
from maquette.transforms.rules import BROADCASTS

_SEEDED = Tag.nondeterministic_seeded

# --- parameters that are tensors -----------------------------------------------------


def _check_spread(std: Array) -> None:
    check_data(
        not std.dtype.kind == "f" or bool((std >= 0).all()),
        lambda: "normal expects all elements of std >= 0.0",
    )


def _normal(overload: str, mean: str, std: str, node: str) -> None:
    """``normal`` with a mean or standard deviation for each element, and its ``out=`` form."""
    arguments = f"{mean} mean, {std} std"
    text = arguments + ("=1." if overload == "Tensor_float" else "")
    plain = define(f"aten::normal.{overload}({text}, *, {GENERATOR}) -> Tensor", tags=[_SEEDED])
    into = define(
        f"aten::normal.{overload}_out({text}, *, {GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
        tags=[_SEEDED, Tag.out],
    )

    plain.batching(BROADCASTS)
    plain.node_name(node)

    @plain.shape
    def plain_shape(mean: object, std: object, generator: object) -> TensorMeta:
        metas = [p for p in (mean, std) if isinstance(p, TensorMeta)]
        check_normal(metas[0].dtype, 0.0, 1.0)
        check(
            not isinstance(std, TensorMeta) or not std.dtype.is_complex,
            lambda: "normal expects standard deviation to be non-complex",
        )
        if not isinstance(std, TensorMeta):
            assert isinstance(std, float)
            check_normal(metas[0].dtype, 0.0, std)
        return metas[0].fresh(broadcast_shapes(*[m.shape for m in metas]))

    @plain.kernel
    @on_host
    def plain_kernel(xp: ModuleType, mean: object, std: object, generator: object) -> Array:
        given = [np.asarray(p) for p in (mean, std)]
        _check_spread(given[1])
        kind = next(p.dtype for p in (mean, std) if isinstance(p, np.ndarray))
        shape = np.broadcast_shapes(*[g.shape for g in given])
        stream = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
        dtype = from_numpy_dtype(kind)
        spread = std if isinstance(std, float) else 1.0
        drawn = normal(stream, math.prod(shape), 0.0, spread, dtype).reshape(shape)
        drawn = cast(xp, drawn, dtype)
        if not isinstance(std, float):
            drawn = cast(xp, drawn * given[1], dtype)
        return cast(xp, np.asarray(drawn + given[0]), dtype)

    @into.shape
    def into_shape(mean: object, std: object, generator: object, out: TensorMeta) -> TensorMeta:
        check_normal(out.dtype, 0.0, std if isinstance(std, float) else 1.0)
        shape = plain_shape(mean, std, generator).shape
        if isinstance(std, float):
            # As in PyTorch the output's own shape counts: it is drawn from first, then shifted.
            check_writable("normal", out)
            shape = broadcast_shapes(shape, out.shape)
        return resized(out, shape)

    @into.kernel
    @into_on_host(-1)
    def into_kernel(
        xp: ModuleType, mean: object, std: object, generator: object, out: Array
    ) -> None:
        """Drawn in the output's own dtype and memory, then scaled and shifted there."""
        means, spread = np.asarray(mean), np.asarray(std)
        _check_spread(spread)
        means, spread = (np.array(p) if np.may_share_memory(p, out) else p for p in (means, spread))
        stream = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
        write_drawn(xp, out, normal_into(stream, out, 0.0, std if isinstance(std, float) else 1.0))
        kind = from_numpy_dtype(out.dtype)
        if not isinstance(std, float):
            out[...] = cast(xp, out * spread, kind)
        out[...] = cast(xp, np.asarray(out + means), kind)

    if mean == "Tensor":
        plain.flat(mean=lambda grad, mean_meta: zeros_beside(grad, mean_meta.shape))
    if std == "Tensor":
        plain.flat(std=lambda grad, std_meta: zeros_beside(grad, std_meta.shape))
    plain.real_derivative()


# First, for a tensor of one element would do as a number, too.
_normal("Tensor_Tensor", "Tensor", "Tensor", "NormalBackward3")
_normal("Tensor_float", "Tensor", "float", "NormalBackward1")
describe(
    "normal",
    "Draws from normal distributions of means and deviations, numbers or tensors that broadcast.",
)
_normal("float_Tensor", "float", "Tensor", "NormalBackward2")
normal_float_float = define(
    f"aten::normal.float_float(float mean, float std, SymInt[] size, *, {GENERATOR}, {OPTIONS}) "
    "-> Tensor",
    tags=[_SEEDED],
)
fill_factory(
    normal_float_float,
    "normal",
    5,
    check_normal,
    lambda stream, made, mean, std: normal_into(stream, made, mean, std),
)
normal_float_float_out = define(
    f"aten::normal.float_float_out(float mean, float std, SymInt[] size, *, {GENERATOR}, "
    "Tensor(a!) out) -> Tensor(a!)",
    tags=[_SEEDED, Tag.out],
)
fill_factory_out(
    normal_float_float_out,
    2,
    check_normal,
    lambda stream, made, mean, std: normal_into(stream, made, mean, std),
)


def _stream_for(generator: object, p: Array) -> MersenneStream:
    """The stream to draw truths from; RuntimeError for a probability outside of [0, 1]."""
    check(
        bool(((p >= 0) & (p <= 1)).all()),
        lambda: "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
    )
    return stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema


bernoulli = define(f"aten::bernoulli(Tensor self, *, {GENERATOR}) -> Tensor", tags=[_SEEDED])
bernoulli.describe("Draws of 0 or 1, the elements (or `p`) being the probabilities of 1.")
bernoulli_out = define(
    f"aten::bernoulli.out(Tensor self, *, {GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
    tags=[_SEEDED, Tag.out],
)
bernoulli_p = define(
    f"aten::bernoulli.p(Tensor self, float p, *, {GENERATOR}) -> Tensor", tags=[_SEEDED]
)
bernoulli__tensor = define(
    f"aten::bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, {GENERATOR}) -> Tensor(a!)",
    tags=[Tag.inplace, _SEEDED],
)
bernoulli__tensor.node_name("BernoulliBackward1")


def _check_bernoulli(kind: DType, p: float) -> None:
    check_real("bernoulli", kind)
    check_probability("bernoulli_", p)


bernoulli__float = random_fill(
    "bernoulli_.float",
    "float p=0.5",
    _check_bernoulli,
    lambda stream, made, p: truths(stream, made.size, p),
)
bernoulli__float.node_name("BernoulliBackward2")


@bernoulli.shape
def bernoulli_shape(self: TensorMeta, generator: object) -> TensorMeta:
    check_not_implemented(
        self.dtype.is_floating_point,
        lambda: f"\"bernoulli_tensor_cpu_p_\" not implemented for '{self.dtype.scalar_name}'",
    )
    return self.fresh(self.shape)


@bernoulli.kernel
@on_host
def bernoulli_kernel(xp: ModuleType, self: Array, generator: object) -> Array:
    drawn = truths_of(_stream_for(generator, self), self.reshape(-1))
    return drawn.astype(self.dtype).reshape(self.shape)


bernoulli.batching(BROADCASTS)


@bernoulli_out.shape
def bernoulli_out_shape(self: TensorMeta, generator: object, out: TensorMeta) -> TensorMeta:
    result = resized(out, bernoulli_shape(self, generator).shape)
    check_writable("bernoulli", result)
    return result


@bernoulli_out.kernel
@into_on_host(-1)
def bernoulli_out_kernel(xp: ModuleType, self: Array, generator: object, out: Array) -> None:
    flat = in_memory_order(self, like=out).reshape(-1)
    write_drawn(xp, out, truths_of(_stream_for(generator, self), flat))


@bernoulli_p.shape
def bernoulli_p_shape(self: TensorMeta, p: float, generator: object) -> TensorMeta:
    check_real("bernoulli_scalar_cpu_", self.dtype)
    check_probability("bernoulli", p)
    return self.fresh(self.shape)


@bernoulli_p.kernel
@on_host
def bernoulli_p_kernel(xp: ModuleType, self: Array, p: float, generator: object) -> Array:
    drawn = truths(_stream_for(generator, np.asarray(p)), self.size, p)
    return drawn.astype(self.dtype).reshape(self.shape)


bernoulli_p.batching(BROADCASTS)


@bernoulli__tensor.shape
def bernoulli__tensor_shape(self: TensorMeta, p: TensorMeta, generator: object) -> TensorMeta:
    check(
        p.dtype.is_floating_point,
        lambda: f"expected probabilities tensor to have floating type, got {p.dtype}",
    )
    check(
        broadcast_shapes(self.shape, p.shape) == self.shape,
        lambda: (
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(broadcast_shapes(self.shape, p.shape))}"
        ),
    )
    check_writable("bernoulli_", self)
    return self


@bernoulli__tensor.kernel
@into_on_host(0)
def bernoulli__tensor_kernel(xp: ModuleType, self: Array, p: Array, generator: object) -> None:
    given = np.broadcast_to(p, self.shape)
    flat = in_memory_order(given, like=self).reshape(-1)
    drawn = truths_of(_stream_for(generator, p), flat)
    write_drawn(xp, self, drawn)


for _page in (bernoulli, bernoulli_p):
    _page.flat("self")
bernoulli__tensor.flat("self", p=lambda grad, p_meta: grad.new_zeros(p_meta.shape))

# --- multinomial ---------------------------------------------------------------------

_SAMPLES = "Tensor self, SymInt num_samples, bool replacement=False"
multinomial = define(f"aten::multinomial({_SAMPLES}, *, {GENERATOR}) -> Tensor", tags=[_SEEDED])
multinomial.describe(
    "Draws of `num_samples` positions, in proportion to the weights in the last dimension: int64."
)
multinomial.nondifferentiable()
multinomial_out = define(
    f"aten::multinomial.out({_SAMPLES}, *, {GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
    tags=[_SEEDED, Tag.out],
)


@multinomial.shape
def multinomial_shape(
    self: TensorMeta, num_samples: int, replacement: bool, generator: object
) -> TensorMeta:
    check(0 < self.ndim <= 2, lambda: "prob_dist must be 1 or 2 dim")
    check(
        self.dtype.is_floating_point,
        lambda: (
            f"multinomial only supports floating-point dtypes for input, got: "
            f"{self.dtype.scalar_name}"
        ),
    )
    check(num_samples > 0, lambda: "cannot sample n_sample <= 0 samples")
    check(
        replacement or num_samples <= self.shape[-1],
        lambda: "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    )
    return self.fresh((*self.shape[:-1], num_samples), int64)


@multinomial.kernel
@on_host
def multinomial_kernel(
    xp: ModuleType, self: Array, num_samples: int, replacement: bool, generator: object
) -> Array:
    largest = self.max(-1, initial=0)  # NaN goes through
    check_data(
        math.isfinite(largest.max(initial=0)) and bool(self.min(initial=0) >= 0),
        lambda: "probability tensor contains either `inf`, `nan` or element < 0",
    )
    check_data(
        bool(largest.min(initial=1) > 0),
        lambda: "invalid multinomial distribution (sum of probabilities <= 0)",
    )
    stream = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    if replacement and num_samples > 1:
        if self.ndim == 1:
            return _with_replacement(stream, self[None], num_samples)[0].copy()
        return _with_replacement(stream, self, num_samples)
    return _raced(stream, self, num_samples)


@multinomial.batching
def multinomial_batching(
    info: VmapInfo,
    in_dims: Any,
    self: Tensor,
    num_samples: int,
    replacement: bool,
    *,
    generator: object = None,
) -> tuple[Tensor, int | None]:
    """One draw of all rows of all members, in their order."""
    check_randomness(info.randomness)
    if info.randomness == "same":
        if in_dims[0] is not None:
            refuse_same(multinomial.op)
        return multinomial(self, num_samples, replacement, generator=generator), None
    rows = to_front(self, in_dims[0], size=info.batch_size)
    *outer, categories = rows.shape
    flat = rows if len(outer) == 1 else rows.reshape((-1, categories))
    drawn = multinomial(flat, num_samples, replacement, generator=generator)
    return drawn.reshape((*outer, num_samples)), 0


def _raced(stream: MersenneStream, weights: Array, count: int) -> Array:
    """A sample without replacement: every category draws a time, the first ones are taken."""
    times = empty_alike(weights)  # it is filled in memory's order
    write_drawn(np, times, exponential(stream, weights.size, 1.0).astype(weights.dtype))
    speed = np.divide(weights, times)
    if count == 1:
        first: Array = np.argmax(speed, -1)[..., None]
        return first
    few = least_places(np, speed, count, -1, largest=True)
    if few is None:
        return np.argsort(-speed, -1, kind="stable")[..., :count]
    few.sort(-1)
    order = np.argsort(-np.take_along_axis(speed, few, -1), -1, kind="stable")
    return np.take_along_axis(few, order, -1)


def _with_replacement(stream: MersenneStream, weights: Array, count: int) -> Array:
    """Categories of uniform numbers by their cumulated weights, row by row."""
    wide = weights.astype(np.float64 if weights.dtype == np.float64 else np.float32, copy=False)
    drawn = stream.doubles(len(weights) * count).reshape(len(weights), count)
    loops = loops_of_floats(np, wide) or backend_for(np).loops_if_worth(15)
    if loops is not None:
        found: Array = loops.drawn_positions(np.ascontiguousarray(wide), drawn)
        return found
    bounds = np.cumsum(wide, -1, dtype=wide.dtype)
    bounds /= bounds[:, -1:]
    exact = bounds.astype(np.float64)  # compared with numbers of double precision, a row at a time
    rows = [row.searchsorted(u) for row, u in zip(exact, drawn, strict=True)]
    return np.stack(rows).astype(np.int64) if rows else np.empty((0, count), np.int64)


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
@into_on_host(-1)
def multinomial_out_kernel(
    xp: ModuleType,
    self: Array,
    num_samples: int,
    replacement: bool,
    generator: object,
    out: Array,
) -> None:
    out[...] = multinomial_kernel(xp, self, num_samples, replacement, generator)
