"""The largest of each window, with where it stood, its gradient, and putting values back there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import assigned_at, data_says
from maquette.aten.common.backward_checks import check_gradient_dtype
from maquette.aten.common.batching_forms import folded
from maquette.aten.nn.pool.pool_windows import (
    all_dims,
    check_kind,
    check_pool_input,
    line_maxima,
    max_pool_meta,
    places_of,
    pool_meta,
    pooled_shape,
    pooled_size,
    scattered,
    window_maxima,
)
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.dtype import int64
from maquette.core.errors import check, of_data
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike, expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.arrays import run_as_on_page
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import wants_derivative

Ints = Sequence[int]
Steps = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _windows_of(
    name: str, dims: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Steps:
    """Kernel, stride (the kernel, if none is given), padding and dilation for each dimension."""
    kernel = all_dims(name, "kernel_size", kernel, dims)
    return (
        kernel,
        all_dims(name, "stride", stride, dims) if stride else kernel,
        all_dims(name, "padding", padding, dims),
        all_dims(name, "dilation", dilation, dims),
    )


def _max_pool(dims: int) -> tuple[OperatorPage, OperatorPage, OperatorPage]:
    """`max_pool<dims>d_with_indices`, its backward, and the form that drops the indices."""
    name = f"max_pool{dims}d"
    parameters = (
        f"int[{dims}] kernel_size, int[{dims}] stride=[], int[{dims}] padding=0, "
        f"int[{dims}] dilation=1, bool ceil_mode=False"
    )
    page = define(
        f"aten::{name}_with_indices(Tensor self, {parameters}) -> (Tensor, Tensor)",
        tags=[Tag.core],
    )
    backward = define(
        f"aten::{name}_with_indices_backward(Tensor grad_output, Tensor self, int[{dims}] "
        f"kernel_size, int[{dims}] stride, int[{dims}] padding, int[{dims}] dilation, "
        f"bool ceil_mode, Tensor indices) -> Tensor",
        tags=[Tag.core] if dims == 2 else [],
    )

    @page.shape
    def max_pool_shape(
        self: TensorMeta, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
    ) -> tuple[TensorMeta, TensorMeta]:
        steps = _windows_of(name, dims, kernel, stride, padding, dilation)
        check_pool_input(name, self, steps[0], steps[2], steps[3])
        check_kind(name, self, 0 < self.dtype.category < 3)
        out = max_pool_meta(self, pooled_shape(self, *steps, ceil), dims)
        return out, out.with_dtype(int64)

    @page.kernel
    def max_pool_kernel(
        xp: ModuleType,
        self: Array,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        ceil: bool,
    ) -> tuple[Array, Array]:
        steps = _windows_of(name, dims, kernel, stride, padding, dilation)
        x = wide(self)
        places = places_of(x.shape[-dims:], steps, ceil)
        return window_maxima(xp, x, places, *steps)

    @page.derivative("self")
    def max_pool_gradient(
        grad: Tensor,
        self: Tensor,
        kernel_size: Ints,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        ceil_mode: bool,
        result1: Tensor,
    ) -> tuple[object]:
        return (backward(grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1),)

    page.nondifferentiable(1)

    @backward.shape
    def max_pool_backward_shape(
        grad_output: TensorMeta,
        self: TensorMeta,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        ceil: bool,
        indices: TensorMeta,
    ) -> TensorMeta:
        steps = _windows_of(name, dims, kernel, stride, padding, dilation)
        check_pool_input(name, self, steps[0], steps[2], steps[3])
        check_gradient_dtype(f"{name}_backward", grad_output, self)
        _check_gradient(name, grad_output, indices, pooled_shape(self, *steps, ceil))
        return pool_meta(self, self.shape, dims)

    @backward.kernel
    def max_pool_backward_kernel(
        xp: ModuleType, grad_output: Array, self: Array, *rest: object
    ) -> Array:
        indices = rest[-1]
        return scattered(xp, wide(grad_output), indices, self.shape[-dims:])  # type: ignore[arg-type]  # an array

    backward.linear(grad_output=lambda grad, indices: gathered(grad, indices, dims))
    backward.flat("self")
    plain = define(f"aten::{name}(Tensor self, {parameters}) -> Tensor")

    @plain.composite
    def max_pool_composite(
        self: Tensor, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
    ) -> Tensor:
        result: Tensor = page(self, kernel, stride, padding, dilation, ceil)[0]
        return result

    return page, backward, plain


def _check_gradient(
    name: str, grad_output: TensorMeta, indices: TensorMeta, shape: tuple[int, ...]
) -> None:
    check_kind(f"{name}_backward", grad_output, grad_output.dtype.is_floating_point)
    check(
        indices.dtype is int64,
        lambda: f"{name}_backward: expected indices of dtype int64, got {indices}",
    )
    check(
        expect_alike(grad_output.shape, shape) and expect_alike(indices.shape, shape),
        lambda: (
            f"{name}_backward: expected grad_output and indices of shape {list(shape)}, got "
            f"{grad_output} and {indices}"
        ),
    )


def gathered(grad: Tensor, indices: Tensor, dims: int) -> Tensor:
    """The gradient's values at the indices of planes: the derivative of scattering them."""
    where = indices.flatten(-dims)
    flat = grad.contiguous().flatten(-dims).gather(-1, where)
    return flat.view(list(indices.shape))


max_pool2d_with_indices, max_pool2d_with_indices_backward, max_pool2d = _max_pool(2)
max_pool2d_with_indices.batching(folded)
max_pool2d_with_indices_backward.batching(folded)
describe("max_pool2d_with_indices", "`max_pool2d`, with the positions of the maxima: int64.")
describe(
    "max_pool2d",
    "Maxima over windows of `kernel_size` of the last two dimensions of [N, C, H, W].",
)
max_pool3d_with_indices, max_pool3d_with_indices_backward, max_pool3d = _max_pool(3)
max_pool3d_with_indices.batching(folded)
max_pool3d_with_indices_backward.batching(folded)
describe("max_pool3d_with_indices", "`max_pool3d`, with the positions of the maxima: int64.")
describe(
    "max_pool3d",
    "Maxima over windows of `kernel_size` of the last three dimensions of [N, C, D, H, W].",
)
max_pool3d.autocast(cpu="float32")

# --- one dimension ----------------------------------------------------------------------------

_PARAMETERS_1D = (
    "Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], "
    "bool ceil_mode=False"
)
max_pool1d_with_indices = define(
    f"aten::max_pool1d_with_indices({_PARAMETERS_1D}) -> (Tensor, Tensor)"
)
max_pool1d_with_indices.describe("`max_pool1d`, with the positions of the maxima: int64.")


def _check_input_1d(self: Tensor) -> None:
    check(
        self.ndim in (2, 3) and not any(is_true(n == 0) for n in self.shape[-2:]),
        lambda: (
            f"max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size "
            f"for input, but got:{list(self.shape)}"
        ),
    )


def _check_pool1d(
    self: Tensor, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> None:
    _check_input_1d(self)
    parameters = {
        "kernel_size": kernel,
        "stride": stride or kernel,
        "padding": padding,
        "dilation": dilation,
    }
    for name, values in parameters.items():
        check(
            len(values) == 1,
            lambda name=name, values=values: (
                f"max_pool1d() {name} must be an int, list of ints or tuple of ints of size 1 but "
                f"got size {len(values)}"
            ),
        )
    (size,), (step,), (pad,), (apart,) = parameters.values()
    for name, value in (("kernel_size", size), ("stride", step), ("dilation", apart)):
        check(
            value > 0,
            lambda name=name, value=value: (
                f"max_pool1d() {name} must be greater than zero, but got {value}"
            ),
        )
    check(pad >= 0, lambda: f"max_pool1d() padding must be non-negative, but got {pad}")
    check(
        pad <= size // 2,
        lambda: (
            f"max_pool1d() padding should be at most half of kernel size, but got padding={pad} "
            f"and kernel_size={size}"
        ),
    )
    places = pooled_size(self.shape[-1], size, step, pad, apart, ceil)
    check(expect_true(places > 0), lambda: f"max_pool1d() Invalid computed output size: {places}")


@max_pool1d_with_indices.composite
def max_pool1d_with_indices_composite(
    self: Tensor, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> tuple[Tensor, Tensor]:
    _check_input_1d(self)
    return _pooled_as_rows(self, kernel, stride, padding, dilation, ceil)


def _pooled_as_rows(
    self: Tensor, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> tuple[Tensor, Tensor]:
    stride = stride or kernel
    values, indices = max_pool2d_with_indices(
        self.unsqueeze(-2), [1, *kernel], [1, *stride], [0, *padding], [1, *dilation], ceil
    )
    return values.squeeze(-2), indices.squeeze(-2)


max_pool1d = define(f"aten::max_pool1d({_PARAMETERS_1D}) -> Tensor")
max_pool1d.describe("Maxima over windows of `kernel_size` of the last dimension of [N, C, L].")


@max_pool1d.composite
def max_pool1d_composite(
    self: Tensor, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> Tensor:
    _check_pool1d(self, kernel, stride, padding, dilation, ceil)
    recorded = is_grad_enabled() and wants_derivative(self)
    check_kind("max_pool1d_impl", self.meta, self.meta.dtype.is_floating_point)
    if not recorded and run_as_on_page((self,), "max_pool2d_with_indices"):
        maxima: Tensor = max_pool1d_values(self, kernel, stride, padding, dilation, ceil)
        return maxima
    return _pooled_as_rows(self, kernel, stride, padding, dilation, ceil)[0]


max_pool1d_values = define(
    "maquette::max_pool1d_values(Tensor self, int[1] kernel_size, int[1] stride, int[1] padding, "
    "int[1] dilation, bool ceil_mode) -> Tensor"
)
max_pool1d_values.describe("`max_pool1d` where nobody asks for the positions: not differentiable.")


@max_pool1d_values.shape
def max_pool1d_values_shape(
    self: TensorMeta, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> TensorMeta:
    steps = _windows_of("max_pool1d", 1, kernel, stride, padding, dilation)
    check_pool_input("max_pool1d", self, steps[0], steps[2], steps[3])
    return self.fresh(pooled_shape(self, *steps, ceil))


@max_pool1d_values.kernel
def max_pool1d_values_kernel(
    xp: ModuleType,
    self: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil: bool,
) -> Array:
    steps = _windows_of("max_pool1d", 1, kernel, stride, padding, dilation)
    x = wide(self)
    return line_maxima(xp, x, places_of(x.shape[-1:], steps, ceil)[0], *[n for (n,) in steps])


# --- back to where they stood -----------------------------------------------------------------


def _max_unpool(dims: int, parameters: str) -> OperatorPage:
    name = f"max_unpool{dims}d"
    page = define(
        f"aten::{name}(Tensor self, Tensor indices, SymInt[{dims}] output_size{parameters}) -> "
        f"Tensor"
    )

    @page.shape
    def max_unpool_shape(
        self: TensorMeta, indices: TensorMeta, output_size: Ints, *rest: Ints
    ) -> TensorMeta:
        check(
            indices.dtype is int64,
            lambda: f"elements in indices should be type int64 but got: {indices.dtype.name}",
        )
        check_kind(name, self, self.dtype.is_floating_point)
        check(
            len(output_size) == dims,
            lambda: (
                f"There should be exactly {dims} elements in output_size, but got "
                f"{len(output_size)} elements."
            ),
        )
        check(
            self.ndim in (dims + 1, dims + 2),
            lambda: (
                f"Input to {name} should be a {dims + 1}d or {dims + 2}d Tensor, but got a "
                f"tensor with {self.ndim} dimensions."
            ),
        )
        for what, values in zip(("stride", "padding"), rest):
            check(
                len(values) == dims and (what == "padding" or min(values) > 0),
                lambda what=what, values=values: (
                    f"{name}: {what} takes exactly {dims} elements, those of stride greater than "
                    f"zero; got {list(values)}"
                ),
            )
        check(
            self.shape == indices.shape,
            lambda: (
                f"Expected shape of indices to be same as that of the input tensor "
                f"({list(self.shape)}) but got indices tensor with shape: {list(indices.shape)}"
            ),
        )
        check(
            not any(is_true(n == 0) for n in self.shape[1:]),
            lambda: (
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"got {list(self.shape)}"
            ),
        )
        shape = (*self.shape[:-dims], *output_size)
        return pool_meta(self, shape, dims) if dims == 2 else self.fresh(shape)

    @page.kernel
    def max_unpool_kernel(
        xp: ModuleType, self: Array, indices: Array, output_size: Ints, *rest: Ints
    ) -> Array:
        leading, plane = self.shape[:-dims], prod(output_size)
        if indices.size and data_says(lambda: indices.min() < 0 or indices.max() >= plane):
            raise of_data(
                RuntimeError(
                    f"Found an invalid max index: {int(indices.max())} for output of size "
                    f"{list(output_size)}"
                )
            )
        result: Array = xp.zeros((prod(leading), plane), self.dtype)
        rows = xp.arange(prod(leading))[:, None]
        flat = (prod(leading), prod(self.shape[-dims:]))
        result = assigned_at(xp, result, (rows, indices.reshape(flat)), self.reshape(flat))
        return result.reshape(*leading, *output_size)

    page.linear(self=lambda grad, indices: gathered(grad, indices, dims))
    return page


max_unpool2d = _max_unpool(2, "")
max_unpool2d.describe(
    "Zeros of `output_size` with the elements of `self` at the positions that a max pooling gave."
)
max_unpool2d.autocast(cpu="float32")
max_unpool2d.batching(folded)
max_unpool3d = _max_unpool(3, ", int[3] stride, int[3] padding")
max_unpool3d.describe(
    "Zeros of `output_size` with the elements of `self` at the positions that a max pooling gave."
)
max_unpool3d.autocast(cpu="float32")
max_unpool3d.batching(folded)
