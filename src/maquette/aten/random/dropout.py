"""Dropout in its forms: ``native_dropout`` and what PyTorch defines by random fills."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType

import numpy as np

from maquette.aten.common.array_libraries import from_host
from maquette.aten.common.axes import Array
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.large_arrays import chosen
from maquette.aten.common.operators import aten
from maquette.aten.factory.factories import empty, empty_like
from maquette.aten.random.distributions import empty_alike, truths
from maquette.aten.random.random_fills import write_drawn
from maquette.core.dtype import bool_, get_default_dtype
from maquette.core.elementwise import elementwise
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.streams.generator import stream_of
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

_SEEDED = Tag.nondeterministic_seeded
# Devices with a fused kernel: `dropout` is `native_dropout` there.
_FUSED = frozenset(("cuda", "xpu", "lazy", "privateuseone"))
# -scale * alpha of SELU, the value that alpha dropout leaves in the place of a dropped one.
_ALPHA = 1.7580993408473766

native_dropout = define(
    "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    tags=[Tag.core, _SEEDED],
)
native_dropout.describe("`dropout`, and where elements were kept: a bool tensor.")


def _check_probability(p: float) -> None:
    check(
        0 <= p <= 1,
        lambda: f"dropout probability has to be between 0 and 1, but got {p:g}",
    )


@native_dropout.shape
def native_dropout_shape(
    input: TensorMeta, p: float, train: bool | None
) -> tuple[TensorMeta, TensorMeta]:
    if train is not False:
        _check_probability(p)
    check(
        train is False or input.numel == 0 or input.dtype.category >= 2,
        lambda: (
            f"result type Float can't be cast to the desired output type {input.dtype.scalar_name}"
        ),
    )
    out = input.like()
    return out, out.with_dtype(bool_) if input.numel else out


def _scale(p: float, train: bool | None) -> float:
    if train is False:
        return 1.0
    return 0.0 if p == 1 else 1 / (1 - p)


@native_dropout.kernel
def native_dropout_kernel(
    xp: ModuleType, input: Array, p: float, train: bool | None
) -> tuple[Array, Array]:
    if train is False:
        return xp.array(input, copy=True), xp.ones(input.shape, bool)
    kept = empty_alike(input, bool)  # laid out as the input: it is filled in memory's order
    write_drawn(np, kept, truths(stream_of(None), input.size, 1 - p))
    scale = input.dtype.type(_scale(p, train))
    kept = from_host(xp, np.asarray(kept))
    return chosen(xp, kept, input * scale, input.dtype.type(0)), kept


native_dropout.nondifferentiable(1)

native_dropout_backward: OperatorPage = define(
    "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    tags=[Tag.pointwise],
)


@native_dropout_backward.shape
def native_dropout_backward_shape(
    grad_output: TensorMeta, mask: TensorMeta, scale: float
) -> TensorMeta:
    check(
        mask.dtype is bool_,
        lambda: f"Mask should be Bool Scalar Type, got {mask.dtype.scalar_name}",
    )
    kind = grad_output.dtype if grad_output.dtype.category >= 2 else get_default_dtype()
    return elementwise([grad_output, mask], kind)


@native_dropout_backward.kernel
def native_dropout_backward_kernel(
    xp: ModuleType, grad_output: Array, mask: Array, scale: float
) -> Array:
    wide = grad_output if grad_output.dtype.kind in "fc" else grad_output.astype(xp.float32)
    return wide * mask * wide.dtype.type(scale)


native_dropout.derivative(
    input=lambda grad, result1, p, train: native_dropout_backward(grad, result1, _scale(p, train))
)
native_dropout.batching(BROADCASTS)
native_dropout_backward.derivative(
    grad_output=lambda grad, mask, scale: native_dropout_backward(grad, mask, scale),
    mask=lambda grad: None,
)


@native_dropout.tangent
def native_dropout_tangent(
    input_t: Tensor, result1: Tensor, p: float, train: bool | None
) -> tuple[Tensor, None]:
    return native_dropout_backward(input_t, result1, _scale(p, train)), None


@native_dropout_backward.tangent
def native_dropout_backward_tangent(grad_output_t: Tensor, mask: Tensor, scale: float) -> Tensor:
    return native_dropout_backward(grad_output_t, mask, scale)


for _page in (native_dropout, native_dropout_backward):
    _page.real_derivative()

# --- defined by random fills ---------------------------------------------------------


def _noise_shape(input: Tensor, *, feature: bool) -> tuple[int, ...]:
    """A number an element, or one a channel."""
    shape = input.meta.shape
    if not feature:
        return shape
    check(len(shape) >= 2, lambda: "Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *((1,) * (len(shape) - 2)))


def _noise(input: Tensor, kept: float, *, feature: bool) -> Tensor:
    """Ones with probability ``kept``, zeros else; drawn in the order of the input's memory."""
    empty = input.new_empty(_noise_shape(input, feature=True)) if feature else empty_like(input)
    return empty.bernoulli_(kept)


def _noise_in_transforms(input: Tensor, kept: float, *, feature: bool) -> Tensor:
    """`_noise`, drawn in the order of the members and of what each sees of its own dimensions.

    Where the input lies in memory a transform is not to tell.
    """
    shape = _noise_shape(input, feature=feature)
    like = {"dtype": input.dtype, "device": input.device}
    values = empty(shape, **like) if feature else empty((), **like).expand(shape)
    return aten.bernoulli.p(values, kept)


def _dropped(
    input: Tensor,
    p: float,
    train: bool,
    *,
    feature: bool,
    alpha: bool,
    inplace: bool,
    noise_of: Callable[..., Tensor] = _noise,
) -> Tensor:
    _check_probability(p)
    if p == 0 or not train or input.meta.numel == 0:
        return input
    times = input.mul_ if inplace else input.mul
    if p == 1:
        return times(zeros_beside(input, ()))
    noise = noise_of(input, 1 - p, feature=feature)
    if not alpha:
        return times(aten.div_.Scalar(noise, 1 - p))
    a = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    offset = aten.mul_.Scalar(aten.add.Scalar(noise, -1), _ALPHA * a)
    offset = aten.add_.Scalar(offset, _ALPHA * a * p)
    return times(aten.mul_.Scalar(noise, a)).add_(offset)


def _dropout(input: Tensor, p: float, train: bool) -> object:
    _check_probability(p)
    fused = input.device.type in _FUSED and 0 < p < 1 and input.meta.numel > 0
    if train and fused:
        return native_dropout(input, p, train)[0]
    return _dropped(input, p, train, feature=False, alpha=False, inplace=False)


def _pages(name: str, *, feature: bool, alpha: bool) -> None:
    functional = define(
        f"aten::{name}(Tensor input, float p, bool train) -> Tensor",
        tags=[Tag.maybe_aliasing_or_mutating, _SEEDED],
    )
    inplace = define(
        f"aten::{name}_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
        tags=[Tag.inplace, _SEEDED],
    )
    in_place = partial(_dropped, feature=feature, alpha=alpha, inplace=True)
    by_value = partial(_dropped, feature=feature, alpha=alpha, inplace=False)
    functional.composite(_dropout if name == "dropout" else by_value)
    inplace.composite(in_place)
    for page, function in ((functional, by_value), (inplace, in_place)):
        page.in_transforms(partial(function, noise_of=_noise_in_transforms))


_pages("dropout", feature=False, alpha=False)
describe(
    "dropout",
    "In training, elements at random set to zero, the others divided by ``1 - p``; of the "
    "same shape.",
)


@aten.dropout.default.py_impl(DispatchKey.CompositeImplicitAutograd)
def _dropout_in_python(input: Tensor, p: float, train: bool) -> object:
    """What a symbolic trace and functionalization record, as PyTorch's do."""
    return native_dropout(input, p, train)[0] if train and p != 0 else input.clone()


_pages("feature_dropout", feature=True, alpha=False)
describe("feature_dropout", "`dropout` of whole channels.")
_pages("alpha_dropout", feature=False, alpha=True)
describe(
    "alpha_dropout",
    "In training, elements at random set to the value that keeps mean and variance of `selu`.",
)
_pages("feature_alpha_dropout", feature=True, alpha=True)
describe("feature_alpha_dropout", "`alpha_dropout` of whole channels.")
