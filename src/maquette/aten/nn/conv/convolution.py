"""Convolution and its gradients, in any number of dimensions, and the names users call them by.

Three linear maps of `convolution_maps` do all of it: `correlate` (input to output), `spread` (its
adjoint, output to input) and `weight_sums` (its adjoint in the weight). A transposed convolution is
`spread`; the gradients of either are the other two.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.element_types import check_no_integers
from maquette.aten.nn.conv.convolution_batching import (
    convolution_backward_batching,
    convolution_batching,
)
from maquette.aten.nn.conv.convolution_maps import (
    Geometry,
    Ints,
    alike,
    correlate,
    spread,
    weight_sums,
)
from maquette.aten.nn.conv.sliding_windows import expanded, reach
from maquette.core.dtype import bool_, float32, float64, int64
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import c_name
from maquette.core.layout import channels_last, channels_last_3d, contiguous_format
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import expect_alike, expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

# --- shapes -----------------------------------------------------------------------------------


def _check_parameters(
    dims: int, stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints, groups: int
) -> None:
    _check_least("groups", (groups,), 1, "non-positive groups is not supported")
    _check_length("stride", stride, dims)
    _check_length("padding", padding, dims)
    _check_length("dilation", dilation, dims)
    _check_length("output_padding", output_padding, dims)
    _check_least("padding", padding, 0, "negative padding is not supported")
    _check_least("output_padding", output_padding, 0, "negative output_padding is not supported")
    _check_least("stride", stride, 1, "non-positive stride is not supported")
    _check_least("dilation", dilation, 1, "dilation should be greater than zero")


def _check_least(name: str, values: Ints, least: int, refusal: str) -> None:
    check_advised(
        check,
        min(values, default=least) >= least,
        lambda: refusal,
        lambda: f"{name} is {values[0] if name == 'groups' else values}.",
    )


def _check_same_type(input: TensorMeta, other: TensorMeta, name: str) -> None:
    check_advised(
        check,
        other.dtype is input.dtype,
        lambda: (
            f"Input type ({c_name(input.dtype)}) and {name} type ({c_name(other.dtype)}) should "
            f"be the same"
        ),
        lambda: f"They are {input.dtype} and {other.dtype}.",
    )


def _check_length(name: str, values: Ints, dims: int) -> None:
    check(
        len(values) in (1, dims),
        lambda: (
            f"expected {name} to be a single integer value or a list of {dims} values to match "
            f"the convolution dimensions, but got {name}={list(values)}"
        ),
    )


def _check_operands(
    input: TensorMeta, weight: TensorMeta, bias: TensorMeta | None, transposed: bool, groups: int
) -> None:
    _check_same_type(input, weight, "weight")
    _check_same_type(input, bias or input, "bias")
    size = list(weight.shape)
    check(
        input.ndim == weight.ndim,
        lambda: (
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight "
            f"{size}, but got {input.ndim}-dimensional input of size {list(input.shape)} instead"
        ),
    )
    check(
        weight.shape[0] >= groups,
        lambda: (
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
            f"but got weight of size {size} instead"
        ),
    )
    check(
        weight.shape[0] % groups == 0,
        lambda: (
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension "
            f"0, but got weight of size {size} instead"
        ),
    )
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups
    check(
        input.shape[1] == wanted,
        lambda: (
            f"Given {'transposed' if transposed else 'groups'}="
            f"{1 if transposed else groups}, weight of size {size}, expected input"
            f"{list(input.shape)} to have {wanted} channels, but got {input.shape[1]} channels "
            f"instead"
        ),
    )
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    check(
        bias is None or (bias.ndim == 1 and bias.shape[0] == channels),
        lambda: (
            f"Given weight of size {size}, expected bias to be 1-dimensional with {channels} "
            f"elements, but got bias {bias} instead"
        ),
    )


def _expanded_geometry(dims: int, stride: Ints, padding: Ints, dilation: Ints) -> Geometry:
    return expanded(stride, dims), expanded(padding, dims), expanded(dilation, dims)


def _output_space(space: Ints, size: Ints, geometry: Geometry) -> Shape:
    """How many windows of ``size`` there are along each dimension of ``space``."""
    each = zip(space, size, *geometry, strict=True)
    return tuple([(n + 2 * p - reach(k, d)) // s + 1 for n, k, s, p, d in each])


def _transposed_space(space: Ints, size: Ints, geometry: Geometry, extra: Ints) -> Shape:
    """The dimensions that have ``space`` windows of ``size``; extra: more at their ends."""
    each = zip(space, size, *geometry, extra, strict=True)
    return tuple([(n - 1) * s - 2 * p + reach(k, d) + o for n, k, s, p, d, o in each])


def _check_windows(space: Ints, size: Ints, geometry: Geometry) -> None:
    sizes = list(zip(space, size, *geometry, strict=True))
    check(
        all(expect_true(n + 2 * p >= reach(k, d)) for n, k, _, p, d in sizes),
        lambda: (
            f"Calculated padded input size per channel: "
            f"({' x '.join(str(n + 2 * p) for n, _, _, p, _ in sizes)}). Kernel size: "
            f"({' x '.join(str(reach(k, d)) for _, k, _, _, d in sizes)}). Kernel size can't be "
            f"greater than actual input size"
        ),
    )


def _check_not_empty(input: TensorMeta, weight: TensorMeta, transposed: bool) -> None:
    """Refuse what has no elements to convolve, unless there are no samples."""
    size = list(weight.shape)
    space = "x".join(map(str, size[2:]))
    check(
        all(expect_true(n > 0) for n in size[2:]),
        lambda: f"kernel size should be greater than zero, but got: {space} in a weight of {size}",
    )
    check(
        not transposed or expect_true(size[1] > 0),
        lambda: f"non-empty weight tensor expected, but got: {size}",
    )
    check(
        is_true(input.shape[0] == 0) or not any(is_true(n == 0) for n in input.shape[2:]),
        lambda: (
            f"Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(input.shape)}"
        ),
    )


def _check_transposed_space(input: TensorMeta, space: Shape) -> None:
    # PyTorch's float32 (oneDNN) gives a result without elements, its other dtypes none.
    least = 0 if input.dtype is float32 else 1
    check(
        all(expect_true(n >= least) for n in space),
        lambda: (
            f"Given input size per channel: ({' x '.join(map(str, input.shape[2:]))}). Calculated "
            f"output size per channel: ({' x '.join(map(str, space))}). Output size is too small"
        ),
    )


def _check_output_padding(geometry: Geometry, extra: Ints) -> None:
    stride, _, dilation = geometry
    check(
        all(o < max(s, d) for o, s, d in zip(extra, stride, dilation, strict=True)),
        lambda: (
            f"output padding must be smaller than either stride or dilation, but got "
            f"output_padding: {list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
        ),
    )


def result_format(input: TensorMeta, weight: TensorMeta) -> MemoryFormat:
    """The order of the output and the gradients: channels-last if input or weight is (F61).

    Along one dimension the weight alone decides, seen as an image one row high: the input is made
    contiguous first.
    """
    if input.ndim == 3:
        given = {_as_image(weight).suggested_format}
    else:
        given = {input.suggested_format, weight.suggested_format}
    wanted = channels_last_3d if input.ndim == 5 else channels_last
    if wanted not in given:
        return contiguous_format
    plain = float64 if input.device.type == "cuda" or input.ndim == 5 else None
    if input.dtype is plain or (input.ndim == 5 and not input.dtype.is_floating_point):
        return contiguous_format
    return wanted


def _as_image(meta: TensorMeta) -> TensorMeta:
    """(n, c, l) as (n, c, 1, l)."""
    (n, c, length), (by_n, by_c, by_l) = meta.shape, meta.strides
    strides = (by_n, by_c, length * by_l, by_l)
    return TensorMeta.of(meta.dtype, (n, c, 1, length), strides, meta.offset, meta.device)


def _in_format(meta: TensorMeta, shape: Shape, order: MemoryFormat) -> TensorMeta:
    if len(shape) == 3 and order is channels_last:
        _, channels, length = shape
        strides = (channels * length, 1, channels)
        return TensorMeta.of(meta.dtype, shape, strides, 0, meta.device)
    return meta.fresh(shape).like(memory_format=order)


# --- convolution ------------------------------------------------------------------------------

convolution = define(
    "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, "
    "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
    "SymInt groups) -> Tensor",
    tags=[Tag.core],
)
convolution.describe(
    "Convolution, or its transpose, of [N, C, ...] with `weight` over any number of dimensions."
)
convolution.autocast(cuda="lower")


@convolution.shape
def convolution_shape(
    input: TensorMeta,
    weight: TensorMeta,
    bias: TensorMeta | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> TensorMeta:
    dims = weight.ndim - 2
    check_advised(
        check,
        dims > 0,
        lambda: "weight should have at least three dimensions",
        lambda: f"It is {weight}.",
    )
    _check_parameters(dims, stride, padding, dilation, output_padding, groups)
    _check_operands(input, weight, bias, transposed, groups)
    check_not_implemented(
        input.dtype is not bool_, lambda: "\"slow_conv2d_cpu\" not implemented for 'Bool'"
    )
    if input.dtype is not int64 and not is_true(input.numel == 0):
        if transposed:
            check_no_integers(f"slow_conv_transpose{max(dims, 2)}d_out_cpu", input.dtype)
        elif any(is_true(d != 1) for d in dilation):
            check_no_integers("slow_conv_dilated<>", input.dtype)
    geometry = _expanded_geometry(dims, stride, padding, dilation)
    places, size = input.shape[2:], weight.shape[2:]
    if transposed:
        extra = expanded(output_padding, dims)
        _check_output_padding(geometry, extra)
        channels = weight.shape[1] * groups
        space = _transposed_space(places, size, geometry, extra)
    else:
        _check_windows(places, size, geometry)
        channels = weight.shape[0]
        space = _output_space(places, size, geometry)
    if is_true(input.shape[1] == 0):
        channels = 0  # of the output as well, as PyTorch has it
    else:
        _check_not_empty(input, weight, transposed)
    if transposed:
        _check_transposed_space(input, space)
    return _in_format(input, (input.shape[0], channels, *space), result_format(input, weight))


@convolution.kernel
def convolution_kernel(
    xp: ModuleType,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Array:
    dims = weight.ndim - 2
    geometry = _expanded_geometry(dims, stride, padding, dilation)
    given, size = input.shape[2:], weight.shape[2:]
    if transposed:
        space = _transposed_space(given, size, geometry, expanded(output_padding, dims))
        channels = weight.shape[1] * groups
    else:
        space = _output_space(given, size, geometry)
        channels = weight.shape[0]
    if not input.shape[1] or 0 in space:
        found = (input.shape[0], channels if input.shape[1] else 0, *space)
        return xp.empty(found, input.dtype)
    move = spread if transposed else correlate
    out = move(xp, input, weight, space, geometry, groups)
    if bias is not None:
        out += wide(bias).reshape(-1, *[1] * dims)
    return out


@convolution.tangent
def convolution_tangent(
    input: Tensor,
    input_t: Tensor,
    weight: Tensor,
    weight_t: Tensor,
    bias_t: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> object:
    """A product of input and weight, to which the bias is added: one call for each factor."""
    more = (stride, padding, dilation, transposed, output_padding, groups)
    return convolution(input_t, weight, bias_t, *more) + convolution(input, weight_t, None, *more)


@convolution.derivative("input", "weight", "bias")
def convolution_gradients(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_meta: TensorMeta | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    needs: list[bool],
) -> object:
    bias_sizes = [0] if bias_meta is None else bias_meta.shape
    complex_valued = grad.is_complex()
    return convolution_backward(
        grad,
        input.conj() if complex_valued else input,
        weight.conj() if complex_valued else weight,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        needs,
    )


def _conv_flops(x: Shape, weight: Shape, out: Shape, transposed: bool) -> int:
    """A multiplication and an addition for each place, element of the weight and sample."""
    return 2 * x[0] * prod(weight) * prod((x if transposed else out)[2:])


@convolution.cost
def convolution_cost(
    input: TensorMeta,
    weight: TensorMeta,
    bias: TensorMeta | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    out: TensorMeta,
) -> Cost:
    return Cost(flops=_conv_flops(input.shape, weight.shape, out.shape, transposed))


convolution.batching(convolution_batching)


# --- its gradients ----------------------------------------------------------------------------

convolution_backward = define(
    "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, "
    "SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    tags=[Tag.core],
)


@convolution_backward.shape
def convolution_backward_shape(
    grad_output: TensorMeta,
    input: TensorMeta,
    weight: TensorMeta,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: tuple[bool, ...],
) -> tuple[TensorMeta | None, ...]:
    expected = convolution_shape(
        input, weight, None, stride, padding, dilation, transposed, output_padding, groups
    )
    check(
        expect_alike(grad_output.shape, expected.shape),
        lambda: (
            f"convolution_backward: expected grad_output of shape {list(expected.shape)}, the "
            f"output's; got {grad_output}"
        ),
    )
    check(
        grad_output.dtype is input.dtype,
        lambda: (
            f"convolution_backward: expected grad_output of dtype {input.dtype}, the input's; got "
            f"{grad_output}"
        ),
    )
    order = result_format(input, weight)
    return (
        _in_format(input, input.shape, order) if output_mask[0] else None,
        _in_format(weight, weight.shape, order) if output_mask[1] else None,
        grad_output.fresh(_bias_shape(grad_output.shape[1], bias_sizes))
        if output_mask[2]
        else None,
    )


def _bias_shape(channels: int, sizes: Ints | None) -> Shape:
    """The channels of the output, which has none where the input has none: then as it was given."""
    return tuple(sizes) if sizes and is_true(channels == 0) else (channels,)


@convolution_backward.kernel
def convolution_backward_kernel(
    xp: ModuleType,
    grad_output: Array,
    input: Array,
    weight: Array,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: tuple[bool, ...],
) -> tuple[Array | None, ...]:
    geometry = _expanded_geometry(weight.ndim - 2, stride, padding, dilation)
    size, space = weight.shape[2:], input.shape[2:]
    by_input = by_weight = by_bias = None
    if not grad_output.size:
        bias = _bias_shape(grad_output.shape[1], bias_sizes)
        made = [xp.zeros(shape, input.dtype) for shape in (input.shape, weight.shape, bias)]
        return tuple([zeros if m else None for zeros, m in zip(made, output_mask, strict=True)])
    if groups == 1 or groups == input.shape[1]:
        grad_output = alike(xp, input, grad_output)
    if output_mask[0] and transposed:
        by_input = correlate(xp, grad_output, weight, space, geometry, groups)
    elif output_mask[0]:
        by_input = spread(xp, grad_output, weight, space, geometry, groups)
    if output_mask[1] and transposed:
        by_weight = weight_sums(xp, grad_output, input, size, geometry, groups)
    elif output_mask[1]:
        by_weight = weight_sums(xp, input, grad_output, size, geometry, groups)
    if output_mask[2]:
        by_bias = wide(grad_output).sum(axis=(0, *range(2, grad_output.ndim)))
    return by_input, by_weight, by_bias


@convolution_backward.derivative("grad_output", "input", "weight")
def convolution_backward_gradients(
    grads: Sequence[Tensor | None],
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    needs: list[bool],
) -> tuple[Tensor | None, ...]:
    """The maps are bilinear: each gradient is one of them, with a gradient for an operand."""
    if grad_output.is_complex():
        grad_output, input, weight = grad_output.conj(), input.conj(), weight.conj()
    by_input, by_weight, by_bias = grads
    rest = (stride, padding, dilation, transposed, output_padding, groups)
    terms: list[Tensor] = []
    if needs[0]:
        if by_input is not None:
            terms.append(convolution(by_input, weight, None, *rest))
        if by_weight is not None:
            terms.append(convolution(input, by_weight, None, *rest))
        if by_bias is not None:
            bias = by_bias.reshape([1, -1, *[1] * (weight.ndim - 2)])
            terms.append(bias.expand(list(grad_output.shape)))
    to_input = to_weight = None
    if needs[1] and by_weight is not None:
        mask = [True, False, False]
        to_input = convolution_backward(grad_output, input, by_weight, None, *rest, mask)[0]
    if needs[2] and by_input is not None:
        mask = [False, True, False]
        to_weight = convolution_backward(grad_output, by_input, weight, None, *rest, mask)[1]
    return _sum(terms), to_input, to_weight


def _sum(terms: list[Tensor]) -> Tensor | None:
    total = terms[0] if terms else None
    for term in terms[1:]:
        total = total + term  # type: ignore[operator]  # tensors
    return total


@convolution_backward.cost
def convolution_backward_cost(
    grad_output: TensorMeta,
    input: TensorMeta,
    weight: TensorMeta,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: tuple[bool, ...],
    *results: object,
) -> Cost:
    flops = 0
    if output_mask[0]:
        flops += _conv_flops(grad_output.shape, weight.shape, input.shape, not transposed)
    if output_mask[1]:
        # As a convolution of one operand by the other, batch and channels exchanged.
        x, y = (grad_output, input) if transposed else (input, grad_output)
        flops += 2 * x.shape[1] * prod(y.shape) * prod(weight.shape[2:])
    return Cost(flops=flops)


convolution_backward.batching(convolution_backward_batching)
