"""Samples whose parameters are tensors: ``normal``, ``bernoulli``, ``multinomial``.

As in `random_fills.py`, only kernels draw. What depends on the values of the parameters is checked
by the kernels.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.axes import Array
from maquette.aten.common.tensor_options import cast
from maquette.aten.factory.factories import OPTIONS, resized
from maquette.aten.random.random_factories import fill_factory, fill_factory_out
from maquette.aten.random.random_fills import (
    GENERATOR,
    Ints,
    check_normal,
    check_probability,
    normal_array,
    write_drawn,
)
from maquette.core.broadcast import broadcast_shapes
from maquette.core.dtype import from_numpy_dtype, int64
from maquette.core.errors import check, check_data, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.library.variants import check_writable
from maquette.tensor.generator import stream_of

_SEEDED = Tag.nondeterministic_seeded

# --- parameters that are tensors -----------------------------------------------------


def _normal(overload: str, mean: str, std: str) -> None:
    """``normal`` with a mean or standard deviation for each element, and its ``out=`` form."""
    arguments = f"{mean} mean, {std} std"
    text = arguments + ("=1." if overload == "Tensor_float" else "")
    plain = define(f"aten::normal.{overload}({text}, *, {GENERATOR}) -> Tensor", tags=[_SEEDED])
    into = define(
        f"aten::normal.{overload}_out({text}, *, {GENERATOR}, Tensor(a!) out) -> Tensor(a!)",
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
        check_data(
            not given[1].dtype.kind == "f" or bool((given[1] >= 0).all()),
            lambda: "normal expects all elements of std >= 0.0",
        )
        kind = next(p.dtype for p in (mean, std) if isinstance(p, np.ndarray))
        shape = np.broadcast_shapes(*[g.shape for g in given])
        rng = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
        drawn = normal_array(rng, shape, 0.0, 1.0, from_numpy_dtype(kind))
        return cast(xp, np.asarray(drawn * given[1] + given[0]), from_numpy_dtype(kind))

    @into.shape
    def into_shape(mean: object, std: object, generator: object, out: TensorMeta) -> TensorMeta:
        return resized(out, plain_shape(mean, std, generator).shape)

    @into.kernel
    def into_kernel(
        xp: ModuleType, mean: object, std: object, generator: object, out: Array
    ) -> None:
        write_drawn(xp, out, plain_kernel(xp, mean, std, generator))

    for name, written in (("mean", mean), ("std", std)):
        if written == "Tensor":
            plain.derivative(**{name: lambda grad: grad.new_zeros(grad.meta.shape)})


_normal("Tensor_float", "Tensor", "float")
_normal("float_Tensor", "float", "Tensor")
_normal("Tensor_Tensor", "Tensor", "Tensor")
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
    lambda rng, size, kind, mean, std: normal_array(rng, size, mean, std, kind),
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


bernoulli = define(f"aten::bernoulli(Tensor self, *, {GENERATOR}) -> Tensor", tags=[_SEEDED])
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
    return self.fresh(self.shape)


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
        lambda: (
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(broadcast_shapes(self.shape, p.shape))}"
        ),
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
multinomial = define(f"aten::multinomial({_SAMPLES}, *, {GENERATOR}) -> Tensor", tags=[_SEEDED])
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
def multinomial_kernel(
    xp: ModuleType, self: Array, num_samples: int, replacement: bool, generator: object
) -> Array:
    weights = self.astype(np.float64)
    check_data(
        bool((np.isfinite(weights) & (weights >= 0)).all()),
        lambda: "probability tensor contains either `inf`, `nan` or element < 0",
    )
    check_data(
        bool((weights.sum(-1) > 0).all()),
        lambda: "invalid multinomial distribution (sum of probabilities <= 0)",
    )
    rng = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    if replacement:
        bounds = np.cumsum(weights, -1) / weights.sum(-1, keepdims=True)
        drawn = rng.random((*self.shape[:-1], num_samples))
        return (bounds[..., None, :] <= drawn[..., None]).sum(-1)
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
