"""`torch.ao.quantization.fx._decomposed`: numbers of few bits, by plain operators.

Importing it defines the operators of ``torch.ops.quantized_decomposed``, by which programs say
where they quantize: a scale and a zero point for a tensor, a channel, a token or a group. A number
``q`` stands for ``(q - zero_point) * scale``. There are no quantized tensors in this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import maquette as mq
from maquette.autograd.function import Function
from maquette.core.dtype import dtype
from maquette.core.dtype import dtype as Dtype
from maquette.library import Library
from maquette.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., object])

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")

_DTYPE_TO_QVALUE_BOUNDS: dict[Dtype, tuple[int, int]] = {
    mq.uint8: (0, 255),
    mq.int8: (-128, 127),
    mq.uint16: (0, 65535),
    mq.int16: (-32768, 32767),
    mq.int32: (-(2**31), 2**31 - 1),
    mq.float8_e5m2: (-57344, 57344),
    mq.float8_e4m3fn: (-448, 448),
}
_RANGE = "int quant_min, int quant_max, ScalarType dtype"
_HALVES = (mq.bfloat16, mq.float16)
_KERNELS = "CompositeExplicitAutograd"


def _defines(
    name: str, arguments: str, returns: str = "Tensor", *, key: str = _KERNELS
) -> Callable[[F], F]:
    """Define an operator with the decorated function as its kernel, of any backend."""

    def decorate(function: F) -> F:
        quantized_decomposed_lib.define(f"{name}({arguments}) -> {returns}")
        quantized_decomposed_lib.impl(name, function, key)
        return function

    return decorate


# --- checks --------------------------------------------------------------------------


def _quant_min_max_bounds_check(quant_min: int, quant_max: int, dtype: Dtype) -> None:
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    least, most = _DTYPE_TO_QVALUE_BOUNDS[dtype]
    if quant_min < least:
        raise AssertionError(f"quant_min out of bounds for {dtype}: {quant_min}, at least {least}")
    if quant_max > most:
        raise AssertionError(f"quant_max out of bounds for {dtype}: {quant_max}, at most {most}")


def _as_float32(input: Tensor) -> Tensor:
    """The numbers to quantize; AssertionError unless they are float32 or narrower."""
    if input.dtype in _HALVES:
        return input.to(mq.float32)
    if input.dtype is not mq.float32:
        raise AssertionError(f"Expecting input to have dtype {mq.float32}, got {input.dtype}")
    return input


def _check_held(input: Tensor, dtype: Dtype) -> None:
    if input.dtype is not dtype:
        raise AssertionError(f"Expecting input to have dtype: {dtype}, but got {input.dtype}")


def _single(name: str, t: Tensor) -> Tensor:
    """The one element of a tensor, as a number would be."""
    if t.numel() != 1:
        raise AssertionError(f"Expecting {name} tensor to be one element, but got {t.numel()}")
    return t.reshape(())


# --- a tensor ------------------------------------------------------------------------


@_defines("quantize_per_tensor", f"Tensor input, float scale, int zero_point, {_RANGE}")
def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: dtype
) -> Tensor:
    """The nearest number to each element that ``dtype`` holds in the range, by one scale."""
    input = _as_float32(input)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    steps = mq.round(input * (1.0 / scale)) + zero_point
    return steps.clamp(quant_min, quant_max).to(dtype)


@_defines("quantize_per_tensor.tensor", f"Tensor input, Tensor scale, Tensor zero_point, {_RANGE}")
def quantize_per_tensor_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: dtype
) -> Tensor:
    """`quantize_per_tensor` with tensors of one element."""
    scale, zero_point = _single("scale", scale).double(), _single("zero_point", zero_point)
    return quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype)


_BY_TENSORS = (
    "Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, "
    "ScalarType dtype"
)


@_defines("quantize_per_tensor.tensor2", _BY_TENSORS)
def quantize_per_tensor_tensor2(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Tensor,
    quant_max: Tensor,
    dtype: dtype,
) -> Tensor:
    """`quantize_per_tensor` with all by tensors; the range is not held to the dtype's."""
    least, most = _single("quant_min", quant_min), _single("quant_max", quant_max)
    scale, zero_point = _single("scale", scale).double(), _single("zero_point", zero_point)
    steps = mq.round(_as_float32(input) * (1.0 / scale)) + zero_point
    return mq.minimum(mq.maximum(steps, least), most).to(dtype)


_OUT = "*, ScalarType? out_dtype=None"


@_defines("dequantize_per_tensor", f"Tensor input, float scale, int zero_point, {_RANGE}, {_OUT}")
def dequantize_per_tensor(
    input: Tensor,
    scale: Any,
    zero_point: Any,
    quant_min: Any,
    quant_max: Any,
    dtype: dtype,
    *,
    out_dtype: Dtype | None = None,
) -> Tensor:
    """What the numbers of a tensor stand for, as float32 or ``out_dtype``."""
    _check_held(input, dtype)
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")
    found: Tensor = (input.to(out_dtype or mq.float32) - zero_point) * scale
    return found


@_defines(
    "dequantize_per_tensor.tensor",
    f"Tensor input, Tensor scale, Tensor zero_point, {_RANGE}, {_OUT}",
)
def dequantize_per_tensor_tensor(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Any,
    quant_max: Any,
    dtype: dtype,
    *,
    out_dtype: Dtype | None = None,
) -> Tensor:
    """`dequantize_per_tensor` with tensors of one element."""
    scale, zero_point = _single("scale", scale), _single("zero_point", zero_point)
    return dequantize_per_tensor(
        input, scale, zero_point, quant_min, quant_max, dtype, out_dtype=out_dtype
    )


@_defines("dequantize_per_tensor.tensor2", f"{_BY_TENSORS}, {_OUT}")
def dequantize_per_tensor_tensor2(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Tensor,
    quant_max: Tensor,
    dtype: dtype,
    *,
    out_dtype: Dtype | None = None,
) -> Tensor:
    """`dequantize_per_tensor` with all by tensors."""
    _single("quant_min", quant_min)
    _single("quant_max", quant_max)
    return dequantize_per_tensor_tensor(
        input, scale, zero_point, quant_min, quant_max, dtype, out_dtype=out_dtype
    )


# --- scales of what is seen ----------------------------------------------------------


def _extremes(input: Tensor, quant_min: int, quant_max: int, dtype: Dtype) -> tuple[Tensor, Tensor]:
    """The least and the greatest element, or 0; AssertionError for what is not to be quantized."""
    if input.dtype not in (mq.float32, *_HALVES):
        raise AssertionError(
            f"Expecting input to have dtype torch.float32/16/b16, but got dtype: {input.dtype}"
        )
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        known = [*_DTYPE_TO_QVALUE_BOUNDS]
        raise AssertionError(f"Expecting target dtype to be one of {known}, but got: {dtype}")
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified range.")
    least, most = input.aminmax()
    return least.clamp(max=0), most.clamp(min=0)


_SEEN = "Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype"
_TWO = "(Tensor, Tensor)"


@_defines("choose_qparams.tensor", _SEEN, _TWO)
def choose_qparams_tensor(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: dtype
) -> tuple[Tensor, Tensor]:
    """The scale, float64, and the zero point, int64, by which the elements fill the range."""
    least, most = _extremes(input, quant_min, quant_max, dtype)
    scale = mq.maximum((most - least) / float(quant_max - quant_min), _at_least(eps, input))
    zero_point = (quant_min - mq.round(least / scale)).clamp(quant_min, quant_max)
    return scale.to(mq.float64), zero_point.to(mq.int64)


@_defines("choose_qparams_symmetric.tensor", _SEEN, _TWO)
def choose_qparams_symmetric_tensor(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: dtype
) -> tuple[Tensor, Tensor]:
    """The scale by which the largest element is at the range's end, and the zero point of 0."""
    least, most = _extremes(input, quant_min, quant_max, dtype)
    most = mq.maximum(-least, most)
    scale = mq.maximum(most / (float(quant_max - quant_min) / 2), _at_least(eps, input))
    middle = 128 if dtype is mq.uint8 else 0
    return scale.to(mq.float64), mq.full_like(scale, middle, dtype=mq.int64)


def _at_least(eps: float, input: Tensor) -> Tensor:
    return mq.full((1,), eps, dtype=mq.float32, device=input.device)


@_defines("choose_qparams_per_token", "Tensor input, ScalarType dtype", _TWO)
def choose_qparams_per_token(input: Tensor, dtype: dtype) -> tuple[Tensor, Tensor]:
    """A scale for each token by its largest element, and zero points 0."""
    scales = input.abs().amax(dim=-1, keepdim=True)
    if scales.dtype is mq.float16:
        scales = scales.float()
    if dtype is not mq.int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}")  # PyTorch's
    scales = scales.clamp(min=1e-5).div(127)
    return scales, mq.zeros_like(scales)


_DIFFERENTIATED = "CompositeImplicitAutograd"


@_defines(
    "_choose_qparams_per_token_asymmetric_impl",
    "Tensor input, ScalarType dtype",
    _TWO,
    key=_DIFFERENTIATED,
)
def _choose_qparams_per_token_asymmetric_impl(input: Tensor, dtype: dtype) -> tuple[Tensor, Tensor]:
    """`choose_qparams_per_token_asymmetric`, which training differentiates the scale of."""
    qmin, qmax = _DTYPE_TO_QVALUE_BOUNDS[mq.int8]
    least, most = input.amin(dim=-1, keepdim=True), input.amax(dim=-1, keepdim=True)
    # Not `clamp`: an extreme that is 0 shares its gradient with the 0 of the range.
    least = mq.minimum(least, mq.zeros_like(least))
    most = mq.maximum(most, mq.zeros_like(most))
    scale = ((most - least) / float(qmax - qmin)).clamp(min=mq.finfo(mq.float32).eps)
    lowest, highest = least / scale, most / scale
    # From the end of the range at which less is lost.
    from_below = (qmin + lowest) + (qmax + highest) > 0
    zero_point = mq.where(from_below, qmin - lowest, qmax - highest)
    return scale.to(mq.float64), zero_point.clamp(qmin, qmax).round().to(mq.int64)


@_defines("choose_qparams_per_token_asymmetric", "Tensor input, ScalarType dtype", _TWO)
def choose_qparams_per_token_asymmetric(input: Tensor, dtype: dtype) -> tuple[Tensor, Tensor]:
    """A scale and a zero point of int8 for each token, by which its elements fill the range."""
    return _choose_qparams_per_token_asymmetric_impl(input, dtype)


# --- channels ------------------------------------------------------------------------


def _along(t: Tensor, input: Tensor, axis: int) -> Tensor:
    """One number for each channel, with ones for the other dimensions of ``input``."""
    shape = [1] * input.ndim
    shape[axis] = t.shape[0]
    return t.view(shape)


def _check_axis(input: Tensor, axis: int) -> None:
    if axis >= input.ndim:
        raise AssertionError(f"Expecting axis to be < {input.ndim}")


_CHANNELS = "Tensor input, Tensor scales, Tensor{} zero_points, int axis, {}"


@_defines("quantize_per_channel", _CHANNELS.format("", _RANGE))
def quantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: dtype,
) -> Tensor:
    """`quantize_per_tensor` with a scale and a zero point for each index along ``axis``."""
    input = _as_float32(input)
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    scales, zero_points = _along(scales, input, axis), _along(zero_points, input, axis)
    steps = mq.round(input * (1.0 / scales)) + zero_points
    return steps.clamp(quant_min, quant_max).to(dtype)


@_defines("dequantize_per_channel", f"{_CHANNELS.format('?', _RANGE)}, {_OUT}")
def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: dtype,
    *,
    out_dtype: Dtype | None = None,
) -> Tensor:
    """What the numbers of a tensor stand for, with a scale for each index along ``axis``."""
    _check_held(input, dtype)
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    moved = input if zero_points is None else input - _along(zero_points, input, axis)
    return (moved * _along(scales, input, axis)).to(out_dtype or mq.float32)


class FakeQuantPerChannel(Function):
    """Round to what a number stands for; the gradient passes where the range holds it."""

    @staticmethod
    def forward(  # type: ignore[override]  # each function has its own parameters
        ctx: Any,
        input: Tensor,
        scales: Tensor,
        zero_points: Tensor,
        axis: int,
        quant_min: int,
        quant_max: int,
    ) -> Tensor:
        scales, zero_points = _along(scales, input, axis), _along(zero_points, input, axis)
        steps = mq.round(input * (1.0 / scales)) + zero_points
        ctx.save_for_backward(mq.logical_and(steps >= quant_min, steps <= quant_max))
        found: Tensor = (steps.clamp(quant_min, quant_max) - zero_points) * scales
        return found

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]  # as above
        (mask,) = ctx.saved_tensors
        return gy * mask, None, None, None, None, None


quantized_decomposed_lib.define(
    "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max) -> Tensor"
)


def fake_quant_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """`quantize_per_channel` and back, with the gradient of `FakeQuantPerChannel`."""
    if input.dtype is not mq.float32:
        raise AssertionError(f"Expecting input to have dtype {mq.float32}, got {input.dtype}")
    _check_axis(input, axis)
    found = FakeQuantPerChannel.apply(input, scales, zero_points, axis, quant_min, quant_max)
    return cast(Tensor, found)


quantized_decomposed_lib.impl("fake_quant_per_channel", fake_quant_per_channel, _DIFFERENTIATED)

# --- tokens and groups ---------------------------------------------------------------


def _per_token_quant_qparam_dim_check(  # PyTorch's name, which torchao imports
    input: Tensor, scales: Tensor, zero_points: Tensor
) -> None:
    tokens = math.prod(input.shape[:-1])
    for name, t in (("scales", scales), ("zero_points", zero_points)):
        if t.numel() != tokens:
            raise AssertionError(f"num_tokens: {tokens} {name}: {t.shape}")


_TOKENS = f"Tensor input, Tensor scales, Tensor zero_points, {_RANGE}"


@_defines("quantize_per_token", _TOKENS)
def quantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: dtype
) -> Tensor:
    """`quantize_per_tensor` with a scale and a zero point for each row of the last dimension."""
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    steps = input.mul(1.0 / scales).add(zero_points).round()
    return steps.clamp(quant_min, quant_max).to(dtype)


@_defines("dequantize_per_token", f"{_TOKENS}, ScalarType output_dtype")
def dequantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: dtype,
    output_dtype: Dtype = mq.float32,
) -> Tensor:
    """What the numbers of a tensor stand for, with a scale for each row of the last dimension."""
    return ((input - zero_points) * scales).to(output_dtype)


def _in_groups(input: Tensor, scales: Tensor, group_size: int) -> Tensor:
    """The rows in parts of ``group_size``; a row with one scale is one, however short."""
    if group_size <= 1:
        raise AssertionError("group_size must be > 1")
    if group_size > input.shape[-1] and scales.shape[-1] == 1:
        group_size = input.shape[-1]
    if input.shape[-1] % group_size != 0:
        raise AssertionError("input.shape[-1] must be divisible by group_size")
    if input.ndim != 2:
        raise AssertionError(f"input must be 2-dimensional, got {input.ndim} dimensions")
    return input.reshape(-1, group_size)


@_defines("quantize_per_channel_group", f"{_TOKENS}, int group_size")
def quantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: dtype,
    group_size: int = 128,
) -> Tensor:
    """`quantize_per_tensor` with a scale for each group of neighbours in a row of a matrix.

    RuntimeError for NaNs, once there are data to ask.
    """
    grouped = _in_groups(input, scales, group_size)
    none = mq.logical_not(grouped.isnan().any())
    mq.ops.aten._assert_async.msg(none, "quantize_per_channel_group: the input has NaNs")
    steps = grouped.mul(1.0 / scales.reshape(-1, 1)).add(zero_points.reshape(-1, 1)).round()
    return steps.clamp(quant_min, quant_max).to(dtype).reshape(input.shape)


@_defines(
    "dequantize_per_channel_group",
    f"Tensor input, Tensor scales, Tensor? zero_points, {_RANGE}, int group_size, "
    "ScalarType output_dtype",
)
def dequantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: dtype,
    group_size: int = 128,
    output_dtype: Dtype = mq.float32,
) -> Tensor:
    """What the numbers of a matrix stand for, with a scale for each group of a row."""
    grouped = _in_groups(input, scales, group_size)
    if zero_points is not None:
        grouped = grouped.sub(zero_points.reshape(-1, 1))
    found: Tensor = grouped.mul(scales.reshape(-1, 1)).reshape(input.shape)
    return found.to(output_dtype)


@_defines("convert_element_type.no_fuse", "Tensor input, ScalarType dtype")
def convert_element_type(input: Tensor, dtype: dtype) -> Tensor:
    """A copy as another dtype, which compilers do not merge with its neighbours."""
    found: Tensor = mq.ops.aten._to_copy.default(input, dtype=dtype)
    return found
