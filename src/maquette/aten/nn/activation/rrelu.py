"""Leaky ReLU with random slopes: ``rrelu`` and the operators that write their slopes down.

The noise tensor gets the slope each element was multiplied by; the gradient multiplies by it again.
"""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import from_host
from maquette.aten.common.axes import Array
from maquette.aten.common.backward_checks import check_sizes
from maquette.aten.common.operators import aten
from maquette.aten.nn.activation.activations import leaky_relu_backward, leaky_relu_kernel
from maquette.aten.random.random_fills import GENERATOR
from maquette.core.dtype import float16
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import define
from maquette.tensor.streams.generator import Generator, stream_of
from maquette.tensor.tensor import Tensor

SEEDED = Tag.nondeterministic_seeded
_BOUNDS = "Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False"


def _check(self: TensorMeta, noise: TensorMeta, lower: Number, upper: Number) -> None:
    check_sizes("rrelu_with_noise", "noise", noise, self.shape)
    check_advised(
        check,
        lower.real <= upper.real,
        lambda: "Lower bound should be less than or equal to the upper bound",
        lambda: f"They are {lower} and {upper}.",
    )
    check_not_implemented(
        self.dtype.is_floating_point and not (self.dtype is float16 and self.device.type == "cpu"),
        lambda: f"\"rrelu_with_noise_out_cpu\" not implemented for '{self.dtype.scalar_name}'",
    )


rrelu_with_noise = define(
    f"aten::rrelu_with_noise(Tensor self, Tensor(b!) noise, {_BOUNDS}, {GENERATOR}) -> Tensor",
    tags=[SEEDED],
)
rrelu_with_noise.describe("`rrelu`, which keeps the slopes in `noise`.")
rrelu_with_noise_ = define(
    f"aten::rrelu_with_noise_(Tensor(a!) self, Tensor(b!) noise, {_BOUNDS}, {GENERATOR}) "
    "-> Tensor(a!)",
    tags=[SEEDED, Tag.inplace],
)
rrelu_with_noise_.node_name("RreluWithNoiseBackward1")
rrelu_with_noise_backward = define(
    "aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, "
    "Scalar lower, Scalar upper, bool training, bool self_is_result) -> Tensor"
)


@rrelu_with_noise.shape
def rrelu_shape(
    self: TensorMeta, noise: TensorMeta, lower: Number, upper: Number, training: bool, rng: object
) -> TensorMeta:
    _check(self, noise, lower, upper)
    return self.fresh(self.shape)


@rrelu_with_noise_.shape
def rrelu_in_place_shape(
    self: TensorMeta, noise: TensorMeta, lower: Number, upper: Number, training: bool, rng: object
) -> TensorMeta:
    _check(self, noise, lower, upper)
    return self


def _rectified(
    xp: ModuleType,
    self: Array,
    noise: Array,
    lower: Number,
    upper: Number,
    training: bool,
    rng: Generator | None,
) -> Array:
    x = wide(self)
    if not training:
        return leaky_relu_kernel(xp, x, (lower.real + upper.real) / 2)
    falling = x <= 0
    slopes: Array = xp.ones(x.shape, x.dtype)
    # A number is drawn for those that fall only.
    drawn = stream_of(rng).doubles(int(falling.sum()))
    least, most = (float(x.dtype.type(bound.real)) for bound in (lower, upper))
    slopes[falling] = from_host(xp, drawn * (most - least) + least).astype(x.dtype)
    noise[...] = slopes.astype(noise.dtype)
    return (x * slopes).astype(x.dtype)


@rrelu_with_noise.kernel
def rrelu_kernel(xp: ModuleType, *args: object) -> Array:
    return _rectified(xp, *args)  # type: ignore[arg-type]  # as the schema says


@rrelu_with_noise_.kernel
def rrelu_in_place_kernel(xp: ModuleType, self: Array, *args: object) -> None:
    self[...] = _rectified(xp, self, *args).astype(self.dtype)  # type: ignore[arg-type]  # as above


@rrelu_with_noise.derivative("self")
def rrelu_grad(
    grad: Tensor, self: Tensor, noise: Tensor, lower: Number, upper: Number, training: bool
) -> tuple[Tensor]:
    return (rrelu_with_noise_backward(grad, self, noise, lower, upper, training, False),)


@rrelu_with_noise.tangent
def rrelu_tangent(
    self_t: Tensor, self: Tensor, noise: Tensor, lower: Number, upper: Number, training: bool
) -> object:
    return rrelu_with_noise_backward(self_t, self, noise, lower, upper, training, False)


@rrelu_with_noise_.derivative("self")
def rrelu_in_place_grad(
    grad: Tensor, result: Tensor, noise: Tensor, lower: Number, upper: Number, training: bool
) -> tuple[Tensor]:
    return (rrelu_with_noise_backward(grad, result, noise, lower, upper, training, True),)


@rrelu_with_noise_backward.explicit
def rrelu_backward_explicit(
    grad_output: Tensor,
    self: Tensor,
    noise: Tensor,
    lower: Number,
    upper: Number,
    training: bool,
    self_is_result: bool,
) -> Tensor:
    if training and upper.real - lower.real > 1e-6:
        return grad_output * noise
    slope = (lower.real + upper.real) / 2
    found: Tensor = leaky_relu_backward(grad_output, self, slope, self_is_result)
    return found


rrelu_with_noise_backward.derivative(
    grad_output=lambda grad, self, noise, lower, upper, training: rrelu_with_noise_backward(
        grad, self, noise, lower, upper, training, False
    ),
    self=lambda grad: None,
)

rrelu = define(
    f"aten::rrelu(Tensor self, {_BOUNDS}, {GENERATOR}) -> Tensor", tags=[SEEDED, Tag.pointwise]
)
rrelu.describe(
    "Each element, where negative times a slope: drawn between the bounds in training, else "
    "their mean."
)
rrelu.composite(
    lambda self, lower, upper, training, generator: rrelu_with_noise(
        self, aten.empty_like(self), lower, upper, training, generator
    )
)
rrelu_ = define(
    f"aten::rrelu_(Tensor(a!) self, {_BOUNDS}, {GENERATOR}) -> Tensor(a!)",
    tags=[SEEDED, Tag.inplace],
)
rrelu_.composite(
    lambda self, lower, upper, training, generator: rrelu_with_noise_(
        self, aten.empty_like(self), lower, upper, training, generator
    )
)
