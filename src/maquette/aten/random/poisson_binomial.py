"""Random counts: `poisson` and `binomial`, with tensors as parameters.

Normal, Bernoulli and multinomial draws are in `sampling.py`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.axes import Array
from maquette.aten.random.random_fills import GENERATOR
from maquette.aten.random.rejection import binomial_counts, poisson_counts
from maquette.core.dtype import float32, float64
from maquette.core.elementwise import elementwise
from maquette.core.errors import check, check_data, check_not_implemented, check_value
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Variant, define
from maquette.tensor.streams.generator import stream_of
from maquette.transforms.rules import BROADCASTS

_SEEDED = [Tag.nondeterministic_seeded]

poisson = define(
    f"aten::poisson(Tensor self, {GENERATOR}) -> Tensor", tags=_SEEDED, variants=[Variant.OUT]
)
poisson.describe("Draws from Poisson distributions whose rates the elements are.")


@poisson.shape
def poisson_shape(self: TensorMeta, generator: object) -> TensorMeta:
    check_not_implemented(
        self.dtype.is_floating_point,
        lambda: f"\"poisson_cpu\" not implemented for '{self.dtype.scalar_name}'",
    )
    return self.fresh(self.shape)


@poisson.kernel
@on_host
def poisson_kernel(xp: ModuleType, self: Array, generator: object) -> Array:
    rates = self.astype(np.float64)
    check_data(
        bool((rates >= 0).all()),
        lambda: "invalid Poisson rate, expected rate to be non-negative",
    )
    stream = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    return poisson_counts(stream, rates.reshape(-1)).reshape(self.shape)


poisson.flat("self")
poisson.batching(BROADCASTS)

binomial = define(
    f"aten::binomial(Tensor count, Tensor prob, {GENERATOR}) -> Tensor",
    tags=_SEEDED,
    variants=[Variant.OUT],
)
binomial.describe("Draws from binomial distributions of `count` trials with probability `prob`.")


@binomial.shape
def binomial_shape(count: TensorMeta, prob: TensorMeta, generator: object) -> TensorMeta:
    for name, given in (("count", count), ("prob", prob)):
        check_value(
            given.dtype.is_floating_point,
            lambda name=name, given=given: (
                f"binomial only supports floating-point dtypes for {name}, got: "
                f"{given.dtype.scalar_name}"
            ),
        )
    check_not_implemented(
        count.dtype is float32 or count.dtype is float64,
        lambda: f"\"binomial_cpu\" not implemented for '{count.dtype.scalar_name}'",
    )
    check(
        prob.dtype is count.dtype,
        lambda: f"Found dtype {prob.dtype.scalar_name} but expected {count.dtype.scalar_name}",
    )
    result = elementwise([count, prob], count.dtype, common_dtype=count.dtype)
    return count.fresh(count.shape) if result.shape == count.shape else result


@binomial.kernel
@on_host
def binomial_kernel(xp: ModuleType, count: Array, prob: Array, generator: object) -> Array:
    """Counts and probabilities out of range are taken for the nearest in it; NaN gives NaN."""
    n, p = np.broadcast_arrays(count.astype(np.float64), prob.astype(np.float64))
    stream = stream_of(generator)  # type: ignore[arg-type]  # a generator, by the schema
    return binomial_counts(stream, n.reshape(-1), p.reshape(-1)).reshape(n.shape)


binomial.batching(BROADCASTS)


# A count drawn has no derivative by what it was drawn with, as in PyTorch; nor is zero claimed.
