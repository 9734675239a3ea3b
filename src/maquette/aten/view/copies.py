"""Copies, casts and fills: clone, copy_, _to_copy and what is defined by them.

The dtype and strides of every copy are its shape rule's. Joining tensors is in `joining.py`,
writing a slice of a copy in `view_scatters.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import laid_out, rank_of, same_shape, to_front
from maquette.aten.common.large_arrays import without_repeats
from maquette.aten.common.narrow_floats import as_bits, full_like, full_of, is_foreign
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, cast, check_layout, result_dtype
from maquette.core.broadcast import broadcast_shapes
from maquette.core.device import canonical
from maquette.core.device import device as Device
from maquette.core.dtype import bool_, complex32, from_numpy_dtype
from maquette.core.dtype import dtype as DType
from maquette.core.errors import check, check_not_implemented
from maquette.core.fitting import check_fits
from maquette.core.layout import contiguous_format, memory_format, preserve_format
from maquette.core.layout import layout as Layout
from maquette.core.meta import TensorMeta
from maquette.core.strides import repeats
from maquette.core.symbols import alike
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.library.arrays import warn_resized
from maquette.library.page import NewNumbers, define
from maquette.library.variants import check_castable, check_same_dtype, check_writable
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo, refuse_unbatched_target

clone = define(
    "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    tags=[Tag.core, Tag.pointwise],
)
clone.describe("A copy of the tensor, which autograd follows.")


@clone.shape
def clone_shape(self: TensorMeta, memory_format: memory_format | None) -> TensorMeta:
    return self.like(memory_format=memory_format or preserve_format)


@clone.kernel
def clone_kernel(xp: ModuleType, self: Array, memory_format: memory_format | None) -> Array:
    if is_foreign(xp, self.dtype) and not self.flags.c_contiguous:
        bits: Array = clone_kernel(xp, as_bits(self), memory_format)
        return bits.view(self.dtype)
    if xp is np and memory_format is not preserve_format and not all(self.strides):
        rows: Array = self.copy("C")  # as it is wanted: NumPy would keep what is expanded together
        return rows
    copied: Array = xp.array(self, copy=True)
    return copied


clone.linear(self=lambda grad: grad)
clone.batching(laid_out)
clone.bits_for_handlers()


def check_has_data(source: TensorMeta, target: Device) -> None:
    """Refuse to take values from a tensor without data to a device with data (T3)."""
    check_not_implemented(
        source.device.type != "meta" or target.type == "meta",
        lambda: (
            f"Cannot copy out of meta tensor; no data! It is {source}; to get memory on "
            f"{target} without values, use torch.empty_like(..., device='{target}')"
        ),
    )


copy_ = define(
    "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
    tags=[Tag.inplace],
    takes_numbers=True,
).any_device()
copy_.node_name("torch::autograd::CopyBackwards")
copy_.bits_for_handlers()


@copy_.shape
def copy__shape(self: TensorMeta, src: TensorMeta | Number, non_blocking: bool) -> TensorMeta:
    check_writable("copy_", self)
    if isinstance(src, TensorMeta):
        check_has_data(src, self.device)
        _check_broadcasts(self, src)
    return self


def _check_broadcasts(self: TensorMeta, src: TensorMeta) -> None:
    check(
        alike(src.shape, self.shape) or alike(broadcast_shapes(self.shape, src.shape), self.shape),
        lambda: (
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(broadcast_shapes(self.shape, src.shape))}"
        ),
    )


@copy_.kernel
def copy__kernel(xp: ModuleType, self: Array, src: Array | Number, non_blocking: bool) -> None:
    write(xp, self, src)


def write(xp: ModuleType, target: Array, values: Array | Number) -> None:
    """Cast ``values`` to the dtype of ``target`` and write them, broadcasting."""
    kind = from_numpy_dtype(target.dtype)
    if isinstance(values, (bool, int, float, complex)):
        target[...] = result_dtype(values, kind)
    else:
        given = values if values.dtype == target.dtype else cast(xp, values, kind)
        if is_foreign(xp, target.dtype):
            target, given = as_bits(target), as_bits(given)
        target[...] = given


def filled(
    xp: ModuleType, shape: Sequence[int], kind: np.dtype[Any], values: Array | Number
) -> Array:
    """A new array of ``values``, cast and broadcast."""
    if isinstance(values, (bool, int, float, complex)):
        return full_of(xp, shape, result_dtype(values, from_numpy_dtype(kind)), kind)
    given = values if values.dtype == kind else cast(xp, values, from_numpy_dtype(kind))
    copied: Array = xp.array(xp.broadcast_to(given, shape), copy=True)
    return copied


def write_out(out: object, result: object) -> Tensor:
    """Write a result to what ``out=`` names, resized where its shape differs (T36).

    RuntimeError where the result has a history, or the output requires grad.
    """
    assert isinstance(out, Tensor)
    assert isinstance(result, Tensor)
    _check_out(out, result)
    if out.meta.shape != result.meta.shape:
        warn_resized(out.meta, result.meta.shape)
        out.resize_(result.meta.shape)
    copy_(out, result)
    return out


def _check_out(out: Tensor, result: Tensor) -> None:
    check(
        not (result.requires_grad or (out.requires_grad and tls.st.grad_enabled)),
        lambda: (
            "functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        ),
    )
    check_castable("out", result.meta.dtype, out.meta.dtype)


def write_exact_out(out: object, result: object) -> Tensor:
    """`write_out` for operators that do not convert: the dtype of ``out`` is the result's (T34)."""
    assert isinstance(out, Tensor)
    assert isinstance(result, Tensor)
    check_same_dtype("out", result.meta.dtype, out.meta.dtype)
    return write_out(out, result)


def write_outs(
    outs: Sequence[Tensor],
    results: Sequence[Tensor],
    write: Callable[[object, object], Tensor] = write_out,
) -> tuple[Tensor, ...]:
    """Write several results by `write_out` or `write_exact_out`: all of them, or none."""
    check_outs(outs, results, exact=write is write_exact_out)
    return tuple([write(out, result) for out, result in zip(outs, results, strict=True)])


def check_outs(outs: Sequence[Tensor], results: Sequence[Tensor], *, exact: bool = False) -> None:
    """Refuse what `write_out` would refuse of any of several outputs."""
    for out, result in zip(outs, results, strict=True):
        if exact:
            check_same_dtype("out", result.meta.dtype, out.meta.dtype)
        _check_out(out, result)
        if out.meta.shape == result.meta.shape:
            check_writable("out", out.meta)


def _to_device_of(grad: Tensor, meta: TensorMeta) -> Tensor:
    return grad if grad.meta.device is meta.device else grad.to(device=meta.device)


copy_.flat("self")
copy_.linear(src=lambda grad, src_meta: _to_device_of(grad, src_meta))


def geometry_kept(self: TensorMeta) -> TensorMeta:
    """The meta of a clone of the whole storage; of an overlapping tensor, of a plain clone."""
    if repeats(self.shape, self.strides):
        return self.like()
    return self


copy = define(
    "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    tags=[Tag.core],
    takes_numbers=True,
).any_device()
copy.describe("`src` broadcast to the shape of `self`, with its dtype and device.")


@copy.shape
def copy_shape(self: TensorMeta, src: TensorMeta | Number, non_blocking: bool) -> TensorMeta:
    if isinstance(src, TensorMeta):
        check_has_data(src, self.device)
        _check_broadcasts(self, src)
    return geometry_kept(self)


@copy.kernel
def copy_kernel(xp: ModuleType, self: Array, src: Array | Number, non_blocking: bool) -> Array:
    return filled(xp, self.shape, self.dtype, src)


copy.flat("self")
copy.linear(src=lambda grad, src_meta: _to_device_of(grad, src_meta))


@copy.batching
def functional_copy_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, src: Tensor, non_blocking: bool = False
) -> Any:
    x = to_front(self, in_dims[0], info.batch_size)
    made = aten.empty_like(x)
    return made.copy_(to_front(src, in_dims[1], rank=rank_of(self, in_dims[0]))), 0


_to_copy = define(
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, bool non_blocking=False, "
    "MemoryFormat? memory_format=None) -> Tensor",
    tags=[Tag.core],
    takes_numbers=True,
).any_device()


@_to_copy.shape
def _to_copy_shape(
    self: TensorMeta,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    memory_format: memory_format | None,
) -> TensorMeta:
    check_layout("_to_copy", layout)
    where = self.device if device is None else canonical(device)
    check_has_data(self, where)
    return self.like(dtype, where, memory_format or preserve_format)


@_to_copy.kernel
def _to_copy_kernel(
    xp: ModuleType,
    self: Array,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    memory_format: memory_format | None,
) -> Array:
    if dtype is None:
        return clone_kernel(xp, self, memory_format)
    once = without_repeats(xp, self)
    if once is not None:
        repeated: Array = np.broadcast_to(cast(xp, once, dtype), self.shape)
        return repeated
    return cast(xp, self, dtype)


_to_copy.linear(self=lambda grad, self_meta: _to_device_of(grad, self_meta))
_to_copy.batching(laid_out)


# By its entry: 0.23 us less than by its page, which is slow with keywords (timeit, CPython 3.11).
_copied: Callable[..., Tensor] = _to_copy.entry


def converted(
    self: Tensor,
    dtype: DType | None,
    device: Device | None,
    non_blocking: bool,
    copy: bool,
    format: memory_format | None,
) -> Tensor:
    """``self`` where nothing changes (T17), else a copy of the wanted type, place and format."""
    meta = self.meta
    where = None if device is None else canonical(device)
    if (
        not copy
        and (dtype is None or dtype is meta.dtype)
        # As in PyTorch, ``cpu:0`` by name is not the ``cpu`` that a tensor is on: it copies.
        and (device is None or (where is meta.device and device.index in (None, where.index)))
        and (format is None or format is preserve_format or format is meta.suggested_format)
    ):
        return self
    return _copied(self, dtype=dtype, device=where, non_blocking=non_blocking, memory_format=format)


to_device = define(
    "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, "
    "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    takes_numbers=True,
)
to_device.describe(
    "The tensor with another dtype, device or memory format; itself, if it has them."
)
to_dtype = define(
    "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor(a)",
    takes_numbers=True,
)
to_other = define(
    "aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor(a)",
    takes_numbers=True,
)
to_dtype_layout = define(
    "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor(a)",
    takes_numbers=True,
)


@to_device.composite
def to_device_composite(
    self: Tensor,
    device: Device,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    memory_format: memory_format | None,
) -> Tensor:
    return converted(self, dtype, device, non_blocking, copy, memory_format)


@to_dtype.composite
def to_dtype_composite(
    self: Tensor,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    memory_format: memory_format | None,
) -> Tensor:
    return converted(self, dtype, None, non_blocking, copy, memory_format)


@to_other.composite
def to_other_composite(
    self: Tensor,
    other: Tensor,
    non_blocking: bool,
    copy: bool,
    memory_format: memory_format | None,
) -> Tensor:
    return converted(self, other.dtype, other.device, non_blocking, copy, memory_format)


@to_dtype_layout.composite
def to_dtype_layout_composite(
    self: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    copy: bool,
    memory_format: memory_format | None,
) -> Tensor:
    check_layout("to", layout)
    return converted(self, dtype, device, non_blocking, copy, memory_format)


type_as = define("aten::type_as(Tensor self, Tensor other) -> Tensor")
type_as.describe("The tensor with the dtype and device of `other`; itself, if it has them.")
type_as.composite(
    lambda self, other: converted(self, other.meta.dtype, other.meta.device, False, False, None)
)

contiguous = define(
    "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)"
)
contiguous.describe(
    "The tensor itself if it is contiguous in a memory format, else a copy that is."
)


@contiguous.composite
def contiguous_composite(self: Tensor, memory_format: memory_format) -> Tensor:
    if self.meta.is_contiguous_in(memory_format):
        return self
    check(
        memory_format is not preserve_format,
        lambda: "preserve memory format is unsupported by the contiguous operator",
    )
    copied = clone(self, memory_format=memory_format)
    assert isinstance(copied, Tensor)
    return copied


fill__scalar = define(
    "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", tags=[Tag.inplace]
)
fill__scalar.node_name("FillBackward2")
fill__tensor = define(
    "aten::fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)", tags=[Tag.inplace]
)
fill__tensor.node_name("FillBackward3")
fill_scalar = define("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", tags=[Tag.core])
fill_scalar.describe("`self` with each element `value`.")
fill_tensor = define("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor")
fill_tensor.node_name("FillBackward1")


@fill__scalar.shape
def fill__scalar_shape(self: TensorMeta, value: Number) -> TensorMeta:
    check_fits(value, self.dtype)
    return self


@fill__tensor.shape
def fill__tensor_shape(self: TensorMeta, value: TensorMeta) -> TensorMeta:
    check(
        value.ndim == 0,
        lambda: (
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            f"dimensions."
        ),
    )
    check_writable("fill_", self)
    return self


@fill_scalar.shape
def fill_scalar_shape(self: TensorMeta, value: Number) -> TensorMeta:
    return fill__scalar_shape(self, value).like()


fill_scalar.batching(same_shape)


@fill_tensor.shape
def fill_tensor_shape(self: TensorMeta, value: TensorMeta) -> TensorMeta:
    return fill__tensor_shape(self.like(), value)


@fill_tensor.batching_decomposition
def fill_tensor_batching(self: Tensor, value: Tensor) -> Tensor:
    return aten.zeros_like(self) + value.to(self.dtype)


def _fill(xp: ModuleType, self: Array, value: Array | Number) -> None:
    write(xp, self, value)


def _filled(xp: ModuleType, self: Array, value: Array | Number) -> Array:
    return filled(xp, self.shape, self.dtype, value)


for _page in (fill__scalar, fill__tensor):
    _page.kernel(_fill)
fill__tensor.overlap_allowed()  # one number is read: ``x[0] = x[0][0]``


@copy_.batching
@fill__tensor.batching
def copy_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, src: Tensor, non_blocking: bool = False
) -> Any:
    if in_dims[0] is None:
        refuse_unbatched_target(aten.copy_.default)
    rank = rank_of(self, in_dims[0])
    source = to_front(src, in_dims[1], rank=rank)
    if in_dims[1] is None and source.meta.ndim > rank:
        source = source.reshape(source.shape[-rank:] if rank else ())
    return to_front(self, in_dims[0]).copy_(source, non_blocking), 0


for _page in (fill_scalar, fill_tensor):
    _page.kernel(_filled)
for _page in (fill__scalar, fill_scalar):
    _page.flat("self")
for _page in (fill__tensor, fill_tensor):
    _page.flat("self")
    _page.linear(value=lambda grad: grad.sum())

zero_ = define("aten::zero_(Tensor(a!) self) -> Tensor(a!)", tags=[Tag.inplace])
zero_.shape(lambda self: self)
zero_.kernel(lambda xp, self: _fill(xp, self, 0))
zero_.flat("self")


@zero_.batching
@fill__scalar.batching
def zero_batching(info: VmapInfo, in_dims: Any, self: Tensor, *value: Any) -> Any:
    if value:
        return self.fill_(value[0]), in_dims[0]
    return self.zero_(), in_dims[0]


zero = define("aten::zero(Tensor self) -> Tensor", tags=[Tag.generated])
zero.describe("`self` with zeros.")
zero.shape(lambda self: self.like())
zero.kernel(lambda xp, self: full_like(xp, self, 0, self.dtype))
zero.flat("self")
zero.batching(same_shape)

_local_scalar_dense = define(
    "aten::_local_scalar_dense(Tensor self) -> Scalar",
    tags=[Tag.core, Tag.data_dependent_output],
)


@_local_scalar_dense.shape
def _local_scalar_dense_shape(self: TensorMeta) -> int:
    check(
        self.device.type != "meta",
        lambda: f"Tensor.item() cannot be called on meta tensors: {self} has no data",
    )
    check(
        self.numel == 1,
        lambda: f"a Tensor with {self.numel} elements cannot be converted to Scalar",
    )
    return 0  # stands for the number, which only the kernel knows


@_local_scalar_dense.memoised().unbacked
def _local_scalar_dense_unbacked(new: NewNumbers, self: TensorMeta) -> object:
    _local_scalar_dense_shape(self)
    check_not_implemented(
        not self.dtype.is_complex,
        lambda: f"item() of {self}: there are no symbolic complex numbers",
    )
    if self.dtype is bool_:
        return new.truth()
    return new.real() if self.dtype.is_floating_point else new.integer()


@_local_scalar_dense.kernel
def _local_scalar_dense_kernel(xp: ModuleType, self: Array) -> Number:
    number: Number = self.item()
    return number


_local_scalar_dense.nondifferentiable()


def _number_of_data(op: OpOverload, ks: int) -> Callable[..., object]:
    """The kernel on data, without building a result: 3 us less an ``item()``."""

    def kernel(ks: int, self: Tensor) -> object:
        data = self._mq_data
        if data is None or self.meta.numel != 1:
            _local_scalar_dense_shape(self.meta)
        assert data is not None
        return data.item()

    return kernel


_local_scalar_dense.op.register(DispatchKey.CPU, Kernel(_number_of_data))

item = define("aten::item(Tensor self) -> Scalar", tags=[Tag.data_dependent_output])
item.describe("The only element as a Python number; RuntimeError if there are several.")
item.composite(lambda self: _local_scalar_dense(self))


@_local_scalar_dense.batching
@item.batching
def item_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
        "calling .item() on a Tensor, please try to rewrite what you're doing with other "
        "operations: the number differs over the batch"
    )


is_nonzero = define("aten::is_nonzero(Tensor self) -> bool")
is_nonzero.describe("Whether the only element is not zero; RuntimeError if there are several.")


@is_nonzero.composite
def is_nonzero_composite(self: Tensor) -> bool:
    what = "no values" if self.meta.numel == 0 else "more than one value"
    check(self.meta.numel == 1, lambda: f"Boolean value of Tensor with {what} is ambiguous")
    return bool(item(self))


@is_nonzero.batching
def is_nonzero_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    raise RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
        "flow. We don't support that yet: the answer differs over the batch"
    )


chalf = define("aten::chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor")
chalf.describe("The tensor as half-precision complex numbers.")
chalf.composite(
    lambda self, memory_format: converted(self, complex32, None, False, False, memory_format)
)


__all__ = ["clone", "contiguous", "contiguous_format", "copy", "copy_", "fill_scalar", "item"]
