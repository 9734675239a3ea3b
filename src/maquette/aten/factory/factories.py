"""Tensors from sizes and a value: empty, zeros, ones, full, and their `_like` and `new_` forms.

One rule for all: the meta comes from the options, the kernel fills it. Ranges are in `ranges.py`,
random values in `random_factories.py`, tensors from Python data in `creation.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.array_libraries import is_array
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import same_shape, sized
from maquette.aten.common.narrow_floats import full_like as like_filled
from maquette.aten.common.narrow_floats import full_of
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import (
    Number,
    check_layout,
    new_meta,
    result_dtype,
)
from maquette.aten.view.copies import filled, write
from maquette.core.determinism import Determinism, left_unset
from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import (
    complex32,
    complex64,
    float64,
    from_numpy_dtype,
    get_default_dtype,
    number_dtype,
)
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check
from maquette.core.fitting import check_fits, computing_type
from maquette.core.layout import layout as Layout
from maquette.core.layout import memory_format as MemoryFormat
from maquette.core.layout import preserve_format
from maquette.core.meta import TensorMeta
from maquette.core.symbols import alike
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Ints = tuple[int, ...]
OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"

empty = define(
    f"aten::empty.memory_format(SymInt[] size, *, {OPTIONS}, MemoryFormat? memory_format=None) "
    "-> Tensor",
    tags=[Tag.core],
)
empty.describe("A new tensor of a size, whose elements are whatever its memory holds.")


@empty.shape
def empty_shape(
    size: Ints,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> TensorMeta:
    return new_meta("empty", size, dtype, layout, device, memory_format)


def _kind(dtype: DType | None) -> np.dtype[np.generic]:
    return (get_default_dtype() if dtype is None else dtype).numpy


@empty.kernel
def empty_kernel(xp: ModuleType, size: Ints, dtype: DType | None, *options: object) -> Array:
    return left_unset(xp.empty(size, _kind(dtype)))


empty_strided = define(
    f"aten::empty_strided(SymInt[] size, SymInt[] stride, *, {OPTIONS}) -> Tensor",
    tags=[Tag.core],
)
empty_strided.describe("A new tensor of a size and strides, not filled.")


@empty_strided.shape
def empty_strided_shape(
    size: Ints,
    stride: Ints,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> TensorMeta:
    plain = new_meta("empty_strided", size, dtype, layout, device)
    check(
        len(size) == len(stride),
        lambda: (
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides "
            f"({len(stride)})"
        ),
    )
    return plain.fresh(size, strides=stride)


@empty_strided.kernel
def empty_strided_kernel(
    xp: ModuleType, size: Ints, stride: Ints, dtype: DType | None, *options: object
) -> Array:
    return left_unset(xp.zeros(size, _kind(dtype)))


empty_permuted = define(
    f"aten::empty_permuted(SymInt[] size, int[] physical_layout, *, {OPTIONS}) -> Tensor"
)
empty_permuted.describe(
    "A new tensor of a size, not filled, whose dimensions lie in memory in the order "
    "`physical_layout`."
)


@empty_permuted.shape
def empty_permuted_shape(
    size: Ints,
    physical_layout: Ints,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> TensorMeta:
    ndim = len(size)
    check(
        ndim == len(physical_layout),
        lambda: (
            f"Number of dimensions in size does not match the length of the physical_layout; "
            f"i.e. len(size) = {ndim} is not equal to len(physical_layout) = {len(physical_layout)}"
        ),
    )
    for i, dim in enumerate(physical_layout):
        if not 0 <= dim < ndim:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {ndim - 1}, "
                f"but got {dim} at index {i}).  NB: negative dims not currently supported; file an "
                f"issue if you want it."
            )
        check(dim not in physical_layout[:i], lambda: "Duplicate dim not allowed")
    plain = new_meta("empty_permuted", size, dtype, layout, device)
    physical = plain.fresh(tuple(size[d] for d in physical_layout)).strides
    strides = [0] * ndim
    for dim, stride in zip(physical_layout, physical, strict=True):
        strides[dim] = stride
    return plain.fresh(size, strides=tuple(strides))


empty_permuted.kernel(empty_strided_kernel)


def _constant(name: str, value: int) -> OperatorPage:
    """``zeros`` and ``ones``."""
    page = define(f"aten::{name}(SymInt[] size, *, {OPTIONS}) -> Tensor")

    @page.shape
    def shape(
        size: Ints,
        dtype: DType | None,
        layout: Layout | None,
        device: Device | None,
        pin_memory: bool | None,
    ) -> TensorMeta:
        return new_meta(name, size, dtype, layout, device)

    @page.kernel
    def kernel(xp: ModuleType, size: Ints, dtype: DType | None, *options: object) -> Array:
        if value:
            return full_of(xp, size, value, _kind(dtype))
        made: Array = xp.zeros(size, _kind(dtype))
        return made

    return page


zeros = _constant("zeros", 0)
zeros.describe("A new tensor of zeros of a size.")
_efficientzerotensor = _constant("_efficientzerotensor", 0)
_efficientzerotensor.describe(
    "Zeros of a size, as `zeros` makes them; PyTorch's take no memory and cannot be mutated."
)
ones = _constant("ones", 1)
ones.describe("A new tensor of ones of a size.")


def fill_dtype(fill_value: Number, dtype: DType | None) -> DType:
    """The dtype of ``full``: the value's own where none is named; it must hold the value."""
    kind = number_dtype(fill_value) if dtype is None else dtype
    if dtype is None and kind is complex32:  # not of a number, where float16 is the default
        kind = complex64
    check_fits(fill_value, kind)
    return kind


full = define(
    f"aten::full(SymInt[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor", tags=[Tag.core]
)
full.describe("A new tensor of a size, each element `fill_value`.")


@full.shape
def full_shape(
    size: Ints,
    fill_value: Number,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> TensorMeta:
    return new_meta("full", size, fill_dtype(fill_value, dtype), layout, device)


@full.kernel
def full_kernel(
    xp: ModuleType, size: Ints, fill_value: Number, dtype: DType | None, *options: object
) -> Array:
    return _full(xp, size, fill_value, fill_dtype(fill_value, dtype))


def _full(xp: ModuleType, size: Ints, value: Number, kind: DType) -> Array:
    return full_of(xp, size, result_dtype(value, kind), kind.numpy)


scalar_tensor = define(f"aten::scalar_tensor(Scalar s, *, {OPTIONS}) -> Tensor", tags=[Tag.core])
scalar_tensor.describe("A new 0-dim tensor of one number.")


@scalar_tensor.shape
def scalar_tensor_shape(
    s: Number,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> TensorMeta:
    kind = get_default_dtype() if dtype is None else dtype
    # The number becomes a float64 first, and is rounded to fewer than 32 bits after that.
    check_fits(s, float64 if computing_type(kind) is not kind else kind)
    return new_meta("scalar_tensor", (), dtype, layout, device)


@scalar_tensor.kernel
def scalar_tensor_kernel(xp: ModuleType, s: Number, dtype: DType | None, *options: object) -> Array:
    return _full(xp, (), s, get_default_dtype() if dtype is None else dtype)


# --- as another tensor ---------------------------------------------------------------


def _like(
    name: str, fill: Callable[[ModuleType, Array, np.dtype[np.generic]], Array]
) -> OperatorPage:
    """``empty_like``, ``zeros_like`` ...: shape, strides (T16), dtype and device of a tensor."""
    page = define(
        f"aten::{name}(Tensor self, *, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor"
    ).any_device()

    @page.shape
    def shape(
        self: TensorMeta,
        dtype: DType | None,
        layout: Layout | None,
        device: Device | None,
        pin_memory: bool | None,
        memory_format: MemoryFormat | None,
    ) -> TensorMeta:
        return like_meta(name, self, dtype, layout, device, memory_format)

    @page.kernel
    def kernel(xp: ModuleType, self: Array, dtype: DType | None, *options: object) -> Array:
        return fill(xp, self, self.dtype if dtype is None else dtype.numpy)

    page.nondifferentiable()
    return page


def like_meta(
    name: str,
    self: TensorMeta,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    memory_format: MemoryFormat | None,
) -> TensorMeta:
    """The meta of a ``_like`` factory."""
    check_layout(name, layout)
    where = self.device if device is None else canonical(device)
    return self.like(dtype, where, memory_format or preserve_format)


def _laid_like(name: str) -> Callable[[ModuleType, Array, np.dtype[Any]], Array]:
    """The kernel of ``zeros_like`` or ``ones_like``: in the array's order, where it has one."""

    def kernel(xp: ModuleType, self: Array, kind: np.dtype[Any]) -> Array:
        if _is_expanded(xp, self):
            plain: Array = getattr(xp, name)(self.shape, kind)
            return plain
        return like_filled(xp, self, int(name == "ones"), kind)

    return kernel


def _is_expanded(xp: ModuleType, array: Array) -> bool:
    """Whether dimensions share elements: then NumPy would make another order than PyTorch."""
    return xp is np and 0 in array.strides


empty_like = _like("empty_like", lambda xp, self, kind: left_unset(xp.empty_like(self, kind)))
empty_like.describe(
    "A new tensor of the size, and by default the dtype, layout and device of `self`, not filled."
)
empty_like.batching(same_shape)
zeros_like = _like("zeros_like", _laid_like("zeros"))
zeros_like.describe("A new tensor of zeros like `self`.")
zeros_like.batching(same_shape)
ones_like = _like("ones_like", _laid_like("ones"))
ones_like.describe("A new tensor of ones like `self`.")
ones_like.batching(same_shape)

full_like = define(
    f"aten::full_like(Tensor self, Scalar fill_value, *, {OPTIONS}, "
    "MemoryFormat? memory_format=None) -> Tensor",
    tags=[Tag.core],
).any_device()
full_like.describe("A new tensor like `self` with each element `fill_value`.")
full_like.nondifferentiable()


@full_like.shape
def full_like_shape(
    self: TensorMeta,
    fill_value: Number,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> TensorMeta:
    made = like_meta("full_like", self, dtype, layout, device, memory_format)
    check_fits(fill_value, made.dtype)
    return made


@full_like.kernel
def full_like_kernel(
    xp: ModuleType, self: Array, fill_value: Number, dtype: DType | None, *options: object
) -> Array:
    kind = self.dtype if dtype is None else dtype.numpy
    if xp is not np or _is_expanded(xp, self):
        return filled(xp, self.shape, kind, fill_value)
    value = result_dtype(fill_value, from_numpy_dtype(kind))
    return like_filled(xp, self, value, kind)


full_like.batching(same_shape)


# --- beside another tensor -----------------------------------------------------------


def _new(name: str, make: Callable[[ModuleType], Callable[..., Array]]) -> OperatorPage:
    """``new_zeros``, ``new_ones`` ...: other sizes, dtype and device of a tensor."""
    page = define(f"aten::{name}(Tensor self, SymInt[] size, *, {OPTIONS}) -> Tensor").any_device()

    @page.shape
    def shape(
        self: TensorMeta,
        size: Ints,
        dtype: DType | None,
        layout: Layout | None,
        device: Device | None,
        pin_memory: bool | None,
    ) -> TensorMeta:
        return beside(name, self, size, dtype, layout, device)

    @page.kernel
    def kernel(
        xp: ModuleType, self: Array, size: Ints, dtype: DType | None, *options: object
    ) -> Array:
        return make(xp)(size, self.dtype if dtype is None else dtype.numpy)

    page.nondifferentiable()
    return page


def beside(
    name: str,
    self: TensorMeta,
    size: Ints,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
) -> TensorMeta:
    """The meta of a ``new_`` factory."""
    return new_meta(name, size, dtype or self.dtype, layout, device or self.device)


new_empty = _new("new_empty", lambda xp: lambda size, kind: left_unset(xp.empty(size, kind)))
new_empty.describe(
    "A new tensor of a size, not filled, by default with the dtype and device of `self`."
)
new_empty.batching(sized)
new_zeros = _new("new_zeros", lambda xp: xp.zeros)
new_zeros.describe(
    "A new tensor of zeros of a size, by default with the dtype and device of `self`."
)
new_zeros.batching(sized)
new_ones = _new("new_ones", lambda xp: lambda size, kind: full_of(xp, size, 1, kind))
new_ones.describe("A new tensor of ones of a size, by default with the dtype and device of `self`.")
new_ones.batching(sized)

new_full = define(
    f"aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor"
).any_device()
new_full.describe(
    "A new tensor of a size, each element `fill_value`, by default with the dtype and device "
    "of `self`."
)
new_full.nondifferentiable()


@new_full.shape
def new_full_shape(
    self: TensorMeta,
    size: Ints,
    fill_value: Number,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> TensorMeta:
    check_fits(fill_value, dtype or self.dtype)
    return beside("new_full", self, size, dtype, layout, device)


@new_full.kernel
def new_full_kernel(
    xp: ModuleType,
    self: Array,
    size: Ints,
    fill_value: Number,
    dtype: DType | None,
    *options: object,
) -> Array:
    return filled(xp, size, self.dtype if dtype is None else dtype.numpy, fill_value)


new_full.batching(sized)


new_empty_strided = define(
    f"aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, {OPTIONS}) -> Tensor"
).any_device()
new_empty_strided.describe(
    "A new tensor of a size and strides, not filled, by default with the dtype and device of "
    "`self`."
)
new_empty_strided.nondifferentiable()


@new_empty_strided.shape
def new_empty_strided_shape(
    self: TensorMeta,
    size: Ints,
    stride: Ints,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> TensorMeta:
    plain = beside("new_empty_strided", self, size, dtype, layout, device)
    return plain.fresh(size, strides=stride)


@new_empty_strided.kernel
def new_empty_strided_kernel(
    xp: ModuleType, self: Array, size: Ints, stride: Ints, dtype: DType | None, *options: object
) -> Array:
    return left_unset(xp.zeros(size, self.dtype if dtype is None else dtype.numpy))


@new_empty_strided.batching
def new_empty_strided_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, size: Any, stride: Any, **kwargs: Any
) -> Any:
    span = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if 0 not in size else 0
    made = aten.new_empty_strided(self, (info.batch_size, *size), (span, *stride), **kwargs)
    return made, 0


# --- into a given tensor -------------------------------------------------------------


def _into(schema: str, value: Callable[..., Number]) -> OperatorPage:
    """The ``out=`` form of a factory: ``out`` resized where its shape differs, then filled."""
    page = define(schema, tags=[Tag.out])

    @page.shape
    def shape(size: Ints, *rest: object) -> TensorMeta:
        out = rest[-1]
        assert isinstance(out, TensorMeta)
        check_fits(value(*rest), out.dtype)
        return resized(out, size)

    @page.kernel
    def kernel(xp: ModuleType, size: Ints, *rest: object) -> None:
        out = rest[-1]
        assert is_array(out)
        write(xp, out, value(*rest))

    return page


def resized(out: TensorMeta, size: Ints) -> TensorMeta:
    """The meta of ``out`` after it was made ``size`` (T6)."""
    if alike(out.shape, size):
        return out
    return TensorMeta.of(out.dtype, size, None, out.offset, out.device)


_into("aten::zeros.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)", lambda out: 0)
_into("aten::ones.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)", lambda out: 1)
_into(
    "aten::full.out(SymInt[] size, Scalar fill_value, *, Tensor(a!) out) -> Tensor(a!)",
    lambda fill_value, out: fill_value,
)

empty_out = define(
    "aten::empty.out(SymInt[] size, *, MemoryFormat? memory_format=None, Tensor(a!) out) "
    "-> Tensor(a!)",
    tags=[Tag.out],
)


@empty_out.explicit
def empty_out_explicit(size: Ints, memory_format: MemoryFormat | None, out: Tensor) -> Tensor:
    check(
        memory_format is None,
        lambda: "'memory_format' argument is incompatible with 'out' tensor argument",
    )
    made = out if out.meta.shape == size else out.resize_(size)
    if Determinism.enabled and made._mq_data is not None:
        left_unset(made._mq_data)
    return made
