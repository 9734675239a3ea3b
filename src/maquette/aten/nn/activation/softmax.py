"""Softmax and its logarithm: the pages that have kernels, their backward pages, the composites.

A kernel works in float32 for 16-bit floats and rounds once. `softmax.int` and `log_softmax.int` are
what users call; a dtype given to them is converted to before, not after.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array, total
from maquette.aten.common.backward_checks import check_floats_only
from maquette.aten.common.batching_forms import along
from maquette.aten.common.large_arrays import loops_for
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import dtype, float16, float32
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.arrays import warn_resized
from maquette.library.page import Cost, OperatorPage, define
from maquette.tensor.tensor import Tensor


def _softmax_meta(name: str, self: TensorMeta, dim: int, half_to_float: bool) -> TensorMeta:
    wrap_dim(dim, self.ndim)
    check(
        not half_to_float or self.dtype is float16,
        lambda: f"conversion is supported for Half type only; {name} got {self}",
    )
    check(
        not half_to_float or self.device.type != "cpu",
        lambda: "softmax with half to float conversion is not supported on CPU",
    )
    check_not_implemented(
        self.dtype.is_floating_point,
        lambda: f"\"{name}_lastdim_kernel_impl\" not implemented for '{self.dtype.scalar_name}'",
    )
    return self.fresh(self.shape, float32 if half_to_float else None)


def _exponentials(xp: ModuleType, x: Array, axis: int) -> tuple[Array, Array]:
    """The input less its maximum, and the exponential of that: no overflow."""
    if not x.size:
        return x, x
    if xp is np:
        x = np.ascontiguousarray(x)  # as the result is: short lines are slow along memory
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted, xp.exp(shifted)


def _probabilities(xp: ModuleType, self: Array, dim: int, half_to_float: bool) -> Array:
    if not self.ndim:
        return xp.where(xp.isfinite(self), 1, xp.nan).astype(self.dtype)
    x = wide(self)
    by_rows = _by_rows(xp, "softmax_rows", dim, x)
    if by_rows is not None:
        return by_rows
    _, powers = _exponentials(xp, x, dim)
    with np.errstate(invalid="ignore"):
        result: Array = powers / total(xp, powers, (dim % self.ndim,), True)
    return result


def _log_probabilities(xp: ModuleType, self: Array, dim: int, half_to_float: bool) -> Array:
    if not self.ndim:
        return xp.where(xp.isfinite(self), 0, xp.nan).astype(self.dtype)
    x = wide(self)
    by_rows = _by_rows(xp, "log_softmax_rows", dim, x)
    if by_rows is not None:
        return by_rows
    shifted, powers = _exponentials(xp, x, dim)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Array = shifted - xp.log(total(xp, powers, (dim % self.ndim,), True))
    return result


_LONG = 64  # elements of a row that make a loop over rows quicker than one over columns


def _by_rows(xp: ModuleType, loop: str, dim: int, *arrays: Array) -> Array | None:
    """What a compiled loop over rows gives for lines of large arrays; None where none is for them.

    Lines are along the last dimension, or in a row of memory, as channels are that are last there.
    """
    if not arrays[0].ndim:
        return None
    loops = loops_for(xp, *arrays)
    if loops is None:
        return None
    if dim % arrays[0].ndim != arrays[0].ndim - 1:
        arrays = tuple([np.moveaxis(a, dim, -1) for a in arrays])
        if arrays[0].shape[-1] < _LONG or not all(a.flags.c_contiguous for a in arrays):
            return None
        dim -= arrays[0].ndim if dim >= 0 else 0
    else:
        dim = -1
    rows = getattr(loops, loop)(*[a.reshape(-1, a.shape[-1]) for a in arrays])
    found: Array = np.moveaxis(rows.reshape(arrays[0].shape), -1, dim)
    return found


def _page(name: str) -> OperatorPage:
    return define(
        f"aten::{name}(Tensor self, int dim, bool half_to_float) -> Tensor", tags=[Tag.core]
    )


_softmax = _page("_softmax")
_log_softmax = _page("_log_softmax")
_softmax.shape(lambda self, dim, half: _softmax_meta("softmax", self, dim, half))
_log_softmax.shape(lambda self, dim, half: _softmax_meta("log_softmax", self, dim, half))
_softmax.kernel(_probabilities)
_log_softmax.kernel(_log_probabilities)
_softmax.cost(lambda self, *rest: Cost(flops=4 * self.numel))
_log_softmax.cost(lambda self, *rest: Cost(flops=5 * self.numel))


# --- backward ------------------------------------------------------------------------


def _backward(name: str) -> OperatorPage:
    page = define(
        f"aten::{name}(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) "
        f"-> Tensor",
        variants=[
            f"aten::{name}.out(Tensor grad_output, Tensor output, int dim, "
            f"ScalarType input_dtype, *, Tensor(a!) "
            f"{'grad_input' if name == '_softmax_backward_data' else 'out'}) -> Tensor(a!)"
        ],
    )

    def shape(
        grad_output: TensorMeta, output: TensorMeta, dim: int, input_dtype: dtype
    ) -> TensorMeta:
        wrap_dim(dim, grad_output.ndim)
        check(
            grad_output.shape == output.shape,
            lambda: (
                f"{name}: expected grad_output and output of one shape, got {grad_output} "
                f"and {output}"
            ),
        )
        check_floats_only(name, grad_output, output)
        # Only where half went in and float32 came out does the gradient change its type.
        widened = grad_output.dtype is float32 and input_dtype is float16
        return grad_output.fresh(grad_output.shape, input_dtype if widened else None)

    page.shape(shape)
    page.cost(lambda grad_output, *rest: Cost(flops=4 * grad_output.numel))
    return page


softmax_backward = _backward("_softmax_backward_data")
log_softmax_backward = _backward("_log_softmax_backward_data")


def _axis_sum(xp: ModuleType, x: Array, dim: int) -> Array:
    return total(xp, x, (dim % x.ndim,), True) if x.ndim else x


@softmax_backward.kernel
def softmax_backward_kernel(
    xp: ModuleType, grad_output: Array, output: Array, dim: int, input_dtype: dtype
) -> Array:
    y, grad = wide(output), wide(grad_output)
    by_rows = _by_rows(xp, "softmax_gradients", dim, grad, y)
    if by_rows is not None:
        return by_rows
    weighted = grad * y
    result: Array = weighted - y * _axis_sum(xp, weighted, dim)
    return result


@log_softmax_backward.kernel
def log_softmax_backward_kernel(
    xp: ModuleType, grad_output: Array, output: Array, dim: int, input_dtype: dtype
) -> Array:
    y, grad = wide(output), wide(grad_output)
    by_rows = _by_rows(xp, "log_softmax_gradients", dim, grad, y)
    if by_rows is not None:
        return by_rows
    result: Array = grad - xp.exp(y) * _axis_sum(xp, grad, dim)
    return result


@_softmax.tangent
def softmax_tangent(self_t: Tensor, dim: int, result: Tensor) -> Tensor:
    moved = result * self_t
    return moved - result * moved.sum(dim, True)


@_log_softmax.tangent
def log_softmax_tangent(self_t: Tensor, dim: int, result: Tensor) -> Tensor:
    return self_t - (result.exp() * self_t).sum(dim, True)


_softmax.derivative(
    self=lambda grad, result, dim, self_meta: softmax_backward(grad, result, dim, self_meta.dtype)
)
_softmax.batching(along)
_log_softmax.derivative(
    self=lambda grad, result, dim, self_meta: log_softmax_backward(
        grad, result, dim, self_meta.dtype
    )
)
_log_softmax.batching(along)


def softmax_double_grad(grad: Tensor, grad_output: Tensor, dim: int, output: Tensor) -> Tensor:
    """The derivative of softmax's backward by softmax's result."""
    grad = grad.to(output.dtype)
    first = grad_output * grad - (output * grad_output).sum(dim, True) * grad
    return first - grad_output * (output * grad).sum(dim, True)


def log_softmax_double_grad(grad: Tensor, grad_output: Tensor, output: Tensor, dim: int) -> Tensor:
    """The derivative of log_softmax's backward by log_softmax's result."""
    return -(grad_output.sum(dim, True) * output.exp() * grad.to(output.dtype))


softmax_backward.derivative(
    grad_output=lambda grad, output, dim, input_dtype: softmax_backward(
        grad.to(output.dtype), output, dim, input_dtype
    ),
    output=lambda grad, grad_output, dim, output: softmax_double_grad(
        grad, grad_output, dim, output
    ),
)
softmax_backward.batching(along)
log_softmax_backward.derivative(
    grad_output=lambda grad, output, dim: (
        grad.to(output.dtype) - (grad.to(output.dtype) * output.exp()).sum(dim, True)
    ),
    output=lambda grad, grad_output, output, dim: log_softmax_double_grad(
        grad, grad_output, output, dim
    ),
)
log_softmax_backward.batching(along)


# --- what users call -----------------------------------------------------------------


def _composite(name: str, kernel_page: OperatorPage) -> OperatorPage:
    """softmax.int or log_softmax.int: convert first, then the page that has the kernel."""
    schema = "Tensor self, int dim, ScalarType? dtype=None"
    page = define(f"aten::{name}.int({schema}) -> Tensor")
    out = define(f"aten::{name}.int_out({schema}, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out])

    def definition(self: Tensor, dim: int, dtype: dtype | None) -> object:
        half = self.device.type == "cuda" and self.dtype is float16 and dtype is float32
        if half or dtype is None:
            return kernel_page(self, dim, half)
        return kernel_page(self.to(dtype), dim, False)

    def out_definition(self: Tensor, dim: int, dtype: dtype | None, out: Tensor) -> Tensor:
        result = definition(self, dim, dtype)
        assert isinstance(result, Tensor)
        check(
            out.dtype is result.dtype,
            lambda: (
                f"Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead"
            ),
        )
        if out.meta.shape != result.meta.shape:
            warn_resized(out.meta, result.meta.shape)
            out.resize_(result.meta.shape)
        return out.copy_(result)

    page.composite(definition)
    out.composite(out_definition)
    return page


softmax = _composite("softmax", _softmax)
softmax.describe("``exp(x)`` divided by its sum along `dim`, of the same shape.")
softmax.autocast(cuda="float32 dtype")
log_softmax = _composite("log_softmax", _log_softmax)
log_softmax.describe(
    "The logarithm of the softmax along `dim`, of the same shape, without overflow."
)
log_softmax.autocast(cuda="float32 dtype")

special_softmax = define(
    "aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"
)
special_softmax.describe("``exp(x)`` divided by its sum along `dim`, of the same shape.")
special_softmax.composite(lambda self, dim, dtype: softmax(self, dim, dtype))
special_log_softmax = define(
    "aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
)
special_log_softmax.describe(
    "The logarithm of the softmax along `dim`, of the same shape, without overflow."
)
special_log_softmax.composite(lambda self, dim, dtype: log_softmax(self, dim, dtype))

_safe_softmax = define(
    "aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"
)


@_safe_softmax.shape
def _safe_softmax_shape(self: TensorMeta, dim: int, dtype: dtype | None) -> TensorMeta:
    converted = self if dtype is None else self.with_dtype(dtype)
    return _softmax_meta("softmax", converted, dim, False)


@_safe_softmax.kernel
def _safe_softmax_kernel(xp: ModuleType, self: Array, dim: int, dtype: dtype | None) -> Array:
    """Softmax that is zero, not NaN, where everything is masked out."""
    values = self if dtype is None else self.astype(dtype.numpy)
    masked = (values == -xp.inf).all(axis=dim, keepdims=True) if self.ndim else values == -xp.inf
    return xp.where(masked, 0, _probabilities(xp, values, dim, False))


_safe_softmax.derivative(
    self=lambda grad, result, dim, self_meta: softmax_backward(grad, result, dim, self_meta.dtype)
)
_safe_softmax.batching(along)
