"""Smooth activations: GELU, SiLU, Mish, softplus, log-sigmoid; and GLU, which gates.

Those made of straight pieces are in `activations.py`. Backwards are operators with PyTorch's names
whose own derivatives are written out, so gradients of gradients work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

from maquette.aten.common.backward_checks import check_floats_only
from maquette.aten.common.batching_forms import along
from maquette.aten.common.formula_helpers import conj
from maquette.aten.common.large_arrays import (
    erf,
    loops_for,
    loops_for_alike,
    loops_of_floats,
)
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import (
    BOTH,
    CORE_POINTWISE,
    FLOATING,
    REAL_FLOATS,
    Array,
    backward,
    check_category,
    computed,
    elementwise_cost,
    promoted,
    same,
    unary,
)
from maquette.aten.elementwise.transcendental import logistic
from maquette.core.broadcast import wrap_dim
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

# --- gelu -----------------------------------------------------------------------------

_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def check_approximate(approximate: str) -> None:
    """Refuse a form of GELU that is not known."""
    check(
        approximate in ("none", "tanh"),
        lambda: "approximate argument must be either none or tanh.",
    )


gelu = define(
    'aten::gelu(Tensor self, *, str approximate="none") -> Tensor',
    tags=CORE_POINTWISE,
    variants=BOTH,
)
gelu.describe(
    '``x`` times the area under the normal curve to its left; approximate "tanh" computes it '
    "faster."
)


@gelu.shape
def gelu_shape(self: TensorMeta, approximate: str) -> TensorMeta:
    check_approximate(approximate)
    check_category("gelu", self.dtype, REAL_FLOATS)
    return elementwise([self], self.dtype)


@gelu.kernel
def gelu_kernel(xp: ModuleType, self: Array, approximate: str) -> Array:
    x = computed(self)
    if approximate == "none":
        loops = loops_for(xp, x)
        if loops is not None:
            found: Array = loops.gelu(x)
            return found
        return 0.5 * x * (1 + erf(xp, x * _ROOT_HALF))
    return 0.5 * x * (1 + xp.tanh(_ROOT_2_OVER_PI * (x + _CUBIC * x * x * x)))


gelu.exact_out()
gelu.cost(elementwise_cost(5))
gelu.derivative(
    self=lambda grad, self, approximate: gelu_backward(grad, self, approximate=approximate)
)


def gelu_backward_kernel(xp: ModuleType, grad: Array, x: Array, approximate: str) -> Array:
    if approximate == "none":
        loops = loops_for_alike(xp, x, grad)
        if loops is not None:
            found: Array = loops.gelu_backward(grad, x)
            return found
        density = xp.exp(-0.5 * x * x) * (_ROOT_2_OVER_PI / 2)
        return grad * (0.5 * (1 + erf(xp, x * _ROOT_HALF)) + x * density)
    t = xp.tanh(_ROOT_2_OVER_PI * (x + _CUBIC * x * x * x))
    inner = _ROOT_2_OVER_PI * (1 + 3 * _CUBIC * x * x)
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


def gelu_curvature(x: Tensor, approximate: str) -> Tensor:
    """The second derivative of GELU."""
    if approximate == "none":
        return (-0.5 * x * x).exp() * (_ROOT_2_OVER_PI / 2) * (2 - x * x)
    t = (_ROOT_2_OVER_PI * (x + _CUBIC * x * x * x)).tanh()
    inner = _ROOT_2_OVER_PI * (1 + 3 * _CUBIC * x * x)
    bend = _ROOT_2_OVER_PI * 6 * _CUBIC * x
    return (1 - t * t) * (inner + 0.5 * x * (bend - 2 * t * inner * inner))


gelu_backward: OperatorPage = backward(
    "gelu_backward", gelu_backward_kernel, more=', *, str approximate="none"'
)
gelu_backward.derivative(
    grad_output=lambda grad, self, approximate: gelu_backward(grad, self, approximate=approximate),
    self=lambda grad, grad_output, self, approximate: (
        grad * grad_output * gelu_curvature(self, approximate)
    ),
)


# --- silu, mish -----------------------------------------------------------------------


def silu_kernel(xp: ModuleType, x: Array) -> Array:
    loops = loops_of_floats(xp, x)
    found: Array = x * logistic(xp, x) if loops is None else loops.silu(x)
    return found


silu = unary("silu", silu_kernel, result=same, takes=FLOATING, flops=4)
silu.describe("``x * sigmoid(x)``.")
silu.holomorphic(self=lambda grad, self: silu_backward(grad, self))
silu.real_derivative()


def silu_backward_kernel(xp: ModuleType, grad: Array, x: Array) -> Array:
    loops = loops_for_alike(xp, x, grad)
    if loops is not None:
        found: Array = loops.silu_backward(grad, x)
        return found
    s = logistic(xp, x)
    slope: Array = xp.conj(s * (1 + x * (1 - s)))
    return grad * slope


def silu_curvature(x: Tensor) -> Tensor:
    """The second derivative of SiLU."""
    s = x.sigmoid()
    return s * (1 - s) * (2 + x * (1 - 2 * s))


silu_backward: OperatorPage = backward("silu_backward", silu_backward_kernel, takes=FLOATING)
silu_backward.derivative(
    grad_output=lambda grad, self: silu_backward(grad, conj(self)),
    self=lambda grad, grad_output, self: conj(grad) * grad_output * conj(silu_curvature(self)),
)


def softplus_of(xp: ModuleType, x: Array) -> Array:
    """log(1 + exp(x)) on arrays, without overflow."""
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def mish_kernel(xp: ModuleType, x: Array) -> Array:
    loops = loops_of_floats(xp, x)
    found: Array = x * xp.tanh(softplus_of(xp, x)) if loops is None else loops.mish(x)
    return found


mish = unary("mish", mish_kernel, result=same, takes=REAL_FLOATS, flops=6)
mish.describe("``x * tanh(softplus(x))``.")
mish.derivative(self=lambda grad, self: mish_backward(grad, self))


def mish_backward_kernel(xp: ModuleType, grad: Array, x: Array) -> Array:
    t = xp.tanh(softplus_of(xp, x))
    return grad * (t + x * logistic(xp, x) * (1 - t * t))


def mish_curvature(x: Tensor) -> Tensor:
    """The second derivative of Mish."""
    s = x.sigmoid()
    t = aten.softplus(x).tanh()
    rise = (1 - t * t) * s
    return 2 * rise + x * rise * (1 - s - 2 * t * s)


mish_backward: OperatorPage = backward("mish_backward", mish_backward_kernel, tags=())
mish_backward.derivative(
    grad_output=lambda grad, self: mish_backward(grad, self),
    self=lambda grad, grad_output, self: grad * grad_output * mish_curvature(self),
)
mish_backward.batching(BROADCASTS)


# --- softplus -------------------------------------------------------------------------


def softplus_kernel(xp: ModuleType, x: Array, beta: float, threshold: float) -> Array:
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: Array = loops.softplus(x, beta, threshold)
        return found
    scaled = x * beta
    return xp.where(scaled > threshold, x, xp.log1p(xp.exp(scaled)) / beta)


softplus = unary(
    "softplus",
    softplus_kernel,
    more="Scalar beta=1, Scalar threshold=20",
    result=same,
    takes=REAL_FLOATS,
    variants=[Variant.OUT],
    flops=4,
)
softplus.describe(
    "``log(1 + exp(beta * x)) / beta``; x itself where ``beta * x`` exceeds `threshold`."
)
softplus.autocast(cuda="float32")
softplus.exact_out()
softplus.derivative(
    self=lambda grad, self, beta, threshold: softplus_backward(grad, self, beta, threshold)
)


def softplus_backward_kernel(
    xp: ModuleType, grad: Array, x: Array, beta: float, threshold: float
) -> Array:
    scaled = x * beta
    return xp.where(scaled > threshold, grad, grad * logistic(xp, scaled))


def softplus_backward_by_self(
    grad: Tensor, grad_output: Tensor, self: Tensor, beta: float, threshold: float
) -> Tensor:
    """The gradient of ``softplus_backward`` by its input: none where it is linear."""
    s = (self * beta).sigmoid()
    return (grad * grad_output * s * (1 - s) * beta).masked_fill(self * beta > threshold, 0)


softplus_backward: OperatorPage = backward(
    "softplus_backward", softplus_backward_kernel, more=", Scalar beta, Scalar threshold", tags=()
)
softplus_backward.derivative(
    grad_output=lambda grad, self, beta, threshold: softplus_backward(grad, self, beta, threshold),
    self=softplus_backward_by_self,
)
softplus_backward.batching(BROADCASTS)


# --- log_sigmoid ----------------------------------------------------------------------

log_sigmoid_forward = define(
    "aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
    variants=[
        "aten::log_sigmoid_forward.output(Tensor self, *, Tensor(a!) output, Tensor(b!) buffer) "
        "-> (Tensor(a!), Tensor(b!))"
    ],
)
log_sigmoid_forward.node_name("LogSigmoidBackward0")
log_sigmoid_forward.describe("The logarithm of the sigmoid, and what its backward needs.")


@log_sigmoid_forward.shape
def log_sigmoid_forward_shape(self: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    check_category("log_sigmoid", self.dtype, REAL_FLOATS)
    return self.fresh(self.shape), self.fresh(self.shape)


@log_sigmoid_forward.kernel
def log_sigmoid_forward_kernel(xp: ModuleType, self: Array) -> tuple[Array, Array]:
    x = computed(self)
    loops = loops_of_floats(xp, x)
    if loops is not None:
        found: tuple[Array, Array] = loops.log_sigmoid(x)
        return found
    buffer = xp.exp(-xp.abs(x))
    return xp.minimum(x, 0) - xp.log1p(buffer), buffer


log_sigmoid_forward.exact_out()
log_sigmoid_forward.cost(elementwise_cost(4))
log_sigmoid_forward.nondifferentiable(1)


@log_sigmoid_forward.derivative("self")
def log_sigmoid_grad(grad: Tensor, self: Tensor, result1: Tensor) -> tuple[Tensor]:
    return (log_sigmoid_backward(grad, self, result1),)


log_sigmoid_forward.batching(BROADCASTS)


log_sigmoid = define("aten::log_sigmoid(Tensor self) -> Tensor")
log_sigmoid.describe("The logarithm of the sigmoid, without overflow.")
log_sigmoid.composite(lambda self: log_sigmoid_forward(self)[0])


@define(
    "aten::log_sigmoid.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
).composite
def log_sigmoid_out(self: Tensor, out: Tensor) -> Tensor:
    return aten.log_sigmoid_forward(self, output=out, buffer=self.new_empty((0,)))[0]


log_sigmoid_backward = define(
    "aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor"
)


@log_sigmoid_backward.shape
def log_sigmoid_backward_shape(
    grad_output: TensorMeta, self: TensorMeta, buffer: TensorMeta
) -> TensorMeta:
    result = elementwise((grad_output, self, buffer), grad_output.dtype, op_name="log_sigmoid")
    if not (self.dtype.is_floating_point or buffer.dtype.is_floating_point):
        check_floats_only("log_sigmoid_backward_cpu", grad_output)
    return result


@log_sigmoid_backward.kernel
def log_sigmoid_backward_kernel(
    xp: ModuleType, grad_output: Array, self: Array, buffer: Array
) -> Array:
    grad, x, z = promoted(xp, grad_output, self, buffer)
    loops = loops_for_alike(xp, x, grad, z)
    if loops is not None:
        found: Array = loops.log_sigmoid_backward(grad, x, z)
        return found
    ratio = z / (1 + z)
    return grad * xp.where(x < 0, 1 - ratio, ratio)


log_sigmoid_backward.cost(elementwise_cost(3))
log_sigmoid_backward.derivative(
    grad_output=lambda grad, self, buffer: log_sigmoid_backward(grad, self, buffer),
    self=lambda grad, grad_output, self: (
        -grad * grad_output * self.sigmoid() * (1 - self.sigmoid())
    ),
)
log_sigmoid_backward.batching(BROADCASTS)


# --- glu ------------------------------------------------------------------------------

glu = define("aten::glu(Tensor self, int dim=-1) -> Tensor", variants=[Variant.OUT])
glu.describe("The first half along `dim` times the sigmoid of the second: half the size.")


def halves(meta: TensorMeta, dim: int) -> tuple[TensorMeta, int]:
    """The first half of a meta along ``dim``, and the dimension counted from the front."""
    check(meta.ndim > 0, lambda: "glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, meta.ndim)
    size = meta.shape[dim]
    check(
        size % 2 == 0,
        lambda: f"Halving dimension must be even, but dimension {dim} is size {size}",
    )
    shape = (*meta.shape[:dim], size // 2, *meta.shape[dim + 1 :])
    return meta.view(shape, meta.strides), dim


@glu.shape
def glu_shape(self: TensorMeta, dim: int) -> TensorMeta:
    half, _ = halves(self, dim)
    check_category("glu", self.dtype, REAL_FLOATS)
    return elementwise((half, half), self.dtype)


@glu.kernel
def glu_kernel(xp: ModuleType, self: Array, dim: int) -> Array:
    value, gate = xp.split(computed(self), 2, axis=dim)
    return value * logistic(xp, gate)


glu.cost(elementwise_cost(5))
glu.derivative(self=lambda grad, self, dim: glu_backward(grad, self, dim))
glu.batching(along)

glu_backward: OperatorPage = define(
    "aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor"
)


@glu_backward.shape
def glu_backward_shape(grad_output: TensorMeta, self: TensorMeta, dim: int) -> TensorMeta:
    half, _ = halves(self, dim)
    check(
        expect_alike(grad_output.shape, half.shape),
        lambda: f"glu_backward: expected a gradient of shape {list(half.shape)}, got {grad_output}",
    )
    check_floats_only("glu_backward_cpu", self, grad_output)
    check(
        grad_output.dtype is self.dtype,
        lambda: (
            f"glu_backward: Found dtype {grad_output.dtype.scalar_name} but expected "
            f"{self.dtype.scalar_name}: the gradient has the dtype of the input"
        ),
    )
    return self.fresh(self.shape)


@glu_backward.kernel
def glu_backward_kernel(xp: ModuleType, grad_output: Array, self: Array, dim: int) -> Array:
    grad = computed(grad_output)
    value, gate = xp.split(computed(self), 2, axis=dim)
    s = logistic(xp, gate)
    return xp.concatenate([grad * s, grad * value * s * (1 - s)], axis=dim)


glu_backward.cost(elementwise_cost(5))


def glu_backward_by_grad(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    """The gradient of ``glu_backward`` by the gradient it was given."""
    first, second = _split(grad, dim)
    value, gate = _split(self, dim)
    s = gate.sigmoid()
    return first * s + second * value * s * (1 - s)


def glu_backward_by_self(grad: Tensor, grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """The gradient of ``glu_backward`` by its input."""
    first, second = _split(grad, dim)
    value, gate = _split(self, dim)
    s = gate.sigmoid()
    rise = s * (1 - s) * grad_output
    return aten.cat([second * rise, first * rise + second * value * rise * (1 - 2 * s)], dim)


def _split(t: Tensor, dim: int) -> Sequence[Tensor]:
    half = t.shape[dim] // 2
    return t.narrow(dim, 0, half), t.narrow(dim, half, half)


glu_backward.derivative(grad_output=glu_backward_by_grad, self=glu_backward_by_self)


@glu_backward.batching_decomposition
def glu_backward_batching(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    first, second = self.chunk(2, dim)
    gate = second.sigmoid()
    return aten.cat([grad * gate, grad * first * gate * (1 - gate)], dim)
