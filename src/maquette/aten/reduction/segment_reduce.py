"""Reductions of segments of a dimension, and the xor of all bits."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.axes import Array, Dims, axes_of, check_reducible, reduced
from maquette.aten.common.backward_checks import check_floats_only, check_sizes
from maquette.aten.common.batching_forms import along
from maquette.aten.common.type_promotion import check_real_numbers
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import int32, int64, uint64
from maquette.core.errors import check, check_data, of_data
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.library.page import Cost, Variant, define
from maquette.tensor.tensor import Tensor

Maybe = TensorMeta | None
MaybeArray = Array | None

_WAYS = ("sum", "mean", "max", "amax", "min", "amin", "prod")

segment_reduce = define(
    "aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
    "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor"
)
segment_reduce.describe("The sum, mean, largest, smallest or product of each segment of the data.")
_segment_reduce_backward = define(
    "aten::_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, "
    "Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor"
)


# --- shape rules ---------------------------------------------------------------------


@segment_reduce.shape
def segment_reduce_shape(
    data: TensorMeta,
    reduce: str,
    lengths: Maybe,
    indices: Maybe,
    offsets: Maybe,
    axis: int,
    unsafe: bool,
    initial: Number | None,
) -> TensorMeta:
    check_real_numbers("segment_reduce", initial)
    check(
        reduce in _WAYS,
        lambda: f"segment_reduce(): reduce must be one of {', '.join(_WAYS)}; got '{reduce}'",
    )
    check(
        indices is None and (lengths is None) != (offsets is None),
        lambda: (
            "segment_reduce(): exactly one of lengths and offsets must be given, and indices "
            "are not supported"
        ),
    )
    bounds = lengths if lengths is not None else offsets
    assert bounds is not None
    axis = wrap_dim(axis, data.ndim)
    check(
        bounds.dtype in (int32, int64) and bounds.ndim == axis + 1,
        lambda: (
            f"segment_reduce(): expected integral bounds of axis + 1 = {axis + 1} dimensions, "
            f"got {bounds}"
        ),
    )
    check(
        bounds.shape[:-1] == data.shape[:axis],
        lambda: f"segment_reduce(): bounds {bounds} do not fit data {data} along axis {axis}",
    )
    check(
        data.ndim > 0 and data.dtype.is_floating_point,
        lambda: f"segment_reduce(): expected floating point data with dimensions, got {data}",
    )
    segments = bounds.shape[-1] - (offsets is not None)
    return data.fresh((*bounds.shape[:-1], segments, *data.shape[axis + 1 :]))


# --- kernels -------------------------------------------------------------------------


class _Segments:
    """Data as (outer, along, inner) and where each outer row's segments begin and end."""

    def __init__(self, data: Array, lengths: MaybeArray, offsets: MaybeArray, unsafe: bool) -> None:
        bounds = lengths if lengths is not None else offsets
        assert bounds is not None
        axis = bounds.ndim - 1
        self.shape = data.shape
        self.axis = axis
        rows = prod(data.shape[:axis])
        self.data = wide(data).reshape(rows, data.shape[axis], prod(data.shape[axis + 1 :]))
        flat = bounds.reshape(rows, bounds.shape[-1])
        if lengths is not None:
            if not unsafe and (flat < 0).any():
                raise of_data(RuntimeError("lengths contains negative value!"))
            ends = np.cumsum(flat, axis=1)
            full = unsafe or not rows or bool((ends[:, -1:] == data.shape[axis]).all())
            check_data(
                full,
                lambda: (
                    "segment_reduce(): Expected all rows of lengths along axis to sum to "
                    "data.size(lengths.dim()-1) when !unsafe."
                ),
            )
            self.starts, self.ends = ends - flat, ends
        else:
            self.starts, self.ends = flat[:, :-1], flat[:, 1:]

    def result_shape(self) -> tuple[int, ...]:
        """The shape of a reduction, with the number of segments in the place of the axis."""
        shape, axis = self.shape, self.axis
        return (*shape[:axis], self.starts.shape[1], *shape[axis + 1 :])

    def __iter__(self) -> Iterator[tuple[int, int, slice]]:
        for row in range(len(self.data)):
            for number in range(self.starts.shape[1]):
                yield row, number, slice(self.starts[row, number], self.ends[row, number])


_STARTS = {
    "sum": 0.0,
    "mean": 0.0,
    "prod": 1.0,
    "max": -np.inf,
    "amax": -np.inf,
    "min": np.inf,
    "amin": np.inf,
}
_UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "amax": np.maximum,
    "min": np.minimum,
    "amin": np.minimum,
}


def _reduced(part: Array, reduce: str, initial: Number | None) -> Array:
    """One segment, (length, inner), reduced; what is empty is the initial value alone."""
    start = np.asarray(_STARTS[reduce] if initial is None else initial, part.dtype)
    if reduce == "mean":
        if not len(part):
            empty = np.nan if initial is None else start
            return np.full(part.shape[1], empty, part.dtype)
        mean: Array = (part.sum(axis=0) + start) / part.dtype.type(len(part))
        return mean
    found: Array = _UFUNCS[reduce].reduce(part, axis=0, initial=start)
    return found


@segment_reduce.kernel
@on_host
def segment_reduce_kernel(
    xp: ModuleType,
    data: Array,
    reduce: str,
    lengths: MaybeArray,
    indices: MaybeArray,
    offsets: MaybeArray,
    axis: int,
    unsafe: bool,
    initial: Number | None,
) -> Array:
    segments = _Segments(data, lengths, offsets, unsafe)
    rows, _, inner = segments.data.shape
    found: Array = xp.empty((rows, segments.starts.shape[1], inner), segments.data.dtype)
    for row, number, part in segments:
        found[row, number] = _reduced(segments.data[row, part], reduce, initial)
    return found.reshape(segments.result_shape())


@_segment_reduce_backward.shape
def _segment_reduce_backward_shape(
    grad: TensorMeta,
    output: TensorMeta,
    data: TensorMeta,
    reduce: str,
    lengths: Maybe,
    offsets: Maybe,
    axis: int,
    initial: Number | None,
) -> TensorMeta:
    whole = segment_reduce_shape(data, reduce, lengths, None, offsets, axis, True, initial)
    check_sizes("_segment_reduce_backward", "a gradient", grad, whole.shape)
    check_sizes("_segment_reduce_backward", "an output", output, whole.shape)
    check_floats_only("_segment_reduce_backward", grad, output)
    return data.fresh(data.shape)


def _pulled(part: Array, grad: Array, output: Array, reduce: str, initial: Number | None) -> Array:
    """The gradient by each element of one segment."""
    if reduce == "sum":
        return np.broadcast_to(grad, part.shape)
    if reduce == "mean":
        share: Array = grad / part.dtype.type(max(len(part), 1))
        return np.broadcast_to(share, part.shape)
    if reduce in ("max", "amax", "min", "amin"):
        ties = (part == output) | np.isnan(part)
        found: Array = ties * grad / np.maximum(ties.sum(axis=0), 1).astype(part.dtype)
        return found
    others = np.empty_like(part)
    start = part.dtype.type(1 if initial is None else float(initial.real))
    for i in range(len(part)):
        others[i] = np.delete(part, i, axis=0).prod(axis=0) * start
    return grad * others


@_segment_reduce_backward.kernel
@on_host
def _segment_reduce_backward_kernel(
    xp: ModuleType,
    grad: Array,
    output: Array,
    data: Array,
    reduce: str,
    lengths: MaybeArray,
    offsets: MaybeArray,
    axis: int,
    initial: Number | None,
) -> Array:
    segments = _Segments(data, lengths, offsets, unsafe=True)
    shape = (len(segments.data), segments.starts.shape[1], segments.data.shape[2])
    by_segment, results = wide(grad).reshape(shape), wide(output).reshape(shape)
    found: Array = xp.zeros(segments.data.shape, segments.data.dtype)
    for row, number, part in segments:
        found[row, part] = _pulled(
            segments.data[row, part], by_segment[row, number], results[row, number], reduce, initial
        )
    return found.reshape(data.shape)


segment_reduce.derivative(
    data=lambda grad, result, data, reduce, lengths, offsets, axis, initial: (
        _segment_reduce_backward(
            grad.contiguous(),
            result,
            data,
            reduce,
            lengths=lengths,
            offsets=offsets,
            axis=axis,
            initial=initial,
        )
    )
)


@segment_reduce.tangent
def segment_reduce_tangent(
    data: Tensor,
    data_t: Tensor,
    reduce: str,
    lengths: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    initial: Number | None,
    result: Tensor,
) -> Tensor:
    """An element has a part in its own segment only: slopes times tangents, summed by segment."""
    cut = {"lengths": lengths, "offsets": offsets, "axis": axis}
    slope = _segment_reduce_backward(
        result.new_ones(result.shape), result, data, reduce, **cut, initial=initial
    )
    moved: Tensor = segment_reduce(slope * data_t, "sum", **cut, unsafe=True)
    return moved


segment_reduce.cost(lambda data, *rest: Cost(flops=data.numel))


# --- bits ----------------------------------------------------------------------------

hash_tensor = define(
    "aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    variants=[Variant.OUT],
)
hash_tensor.describe("A hash of the elements, as an unsigned number of 64 bits.")


@hash_tensor.shape
def hash_tensor_shape(self: TensorMeta, dim: Dims, keepdim: bool, mode: int) -> TensorMeta:
    check(
        mode == 0 and not self.dtype.is_complex,
        lambda: f"hash_tensor: knows mode 0 of real tensors only; got mode={mode} and {self}",
    )
    if self.ndim:
        check_reducible("hash_tensor", self, dim)
    return reduced(self, dim, keepdim, uint64)


@hash_tensor.kernel
def hash_tensor_kernel(xp: ModuleType, self: Array, dim: Dims, keepdim: bool, mode: int) -> Array:
    """The xor of the elements' bits as doubles, or as 64-bit integers."""
    integral = self.dtype.kind in "biu"
    bits = self.astype(xp.int64 if integral else xp.float64).view(xp.uint64)
    axes = axes_of(dim, self.ndim)
    kept = [d for d in range(self.ndim) if d not in axes]
    count = prod([self.shape[d] for d in axes])
    rows = bits.transpose([*kept, *axes]).reshape(*[self.shape[d] for d in kept], count)
    shape = [1 if d in axes else n for d, n in enumerate(self.shape)]
    return _xor(xp, rows).reshape(shape if keepdim else [self.shape[d] for d in kept])


def _xor(xp: ModuleType, rows: Array) -> Array:
    """The xor along the last axis, by halves: few array libraries reduce with it."""
    while (count := rows.shape[-1]) > 1:
        half = count // 2
        folded = rows[..., :half] ^ rows[..., half : 2 * half]
        rows = xp.concatenate([folded, rows[..., 2 * half :]], -1)
    return rows.squeeze(-1) if rows.shape[-1] else xp.zeros(rows.shape[:-1], rows.dtype)


hash_tensor.nondifferentiable()
hash_tensor.exact_out()
hash_tensor.cost(lambda self, *rest: Cost(flops=self.numel))
hash_tensor.batching(along)
