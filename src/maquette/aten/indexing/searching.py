"""Finding values among values: searchsorted, bucketize, isin, and histograms of fixed bins."""

from __future__ import annotations

from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.array_libraries import combined_at, data_says
from maquette.aten.common.axes import Array
from maquette.aten.common.batching_forms import rank_of, to_front
from maquette.aten.common.element_types import check_no_bool, check_no_complex
from maquette.aten.common.operators import aten
from maquette.aten.common.type_promotion import common_type, promoted
from maquette.core.dtype import bool_, dtype, int32, int64
from maquette.core.errors import check, check_not_implemented, of_data
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.core.symbols import is_true
from maquette.library.page import Cost, OperatorPage, Variant, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

# --- sorted sequences ----------------------------------------------------------------

_SEARCH = "*, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None"
searchsorted = define(
    f"aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, {_SEARCH}) -> Tensor",
    variants=["Tensor_out"],
)
searchsorted.describe(
    "Where each value would be put into a sorted sequence: int64, of the shape of `self`."
)
searchsorted_scalar = define(
    f"aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, {_SEARCH}) -> Tensor"
)
bucketize = define(
    "aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, "
    "bool right=False) -> Tensor",
    variants=["Tensor_out"],
)
bucketize.describe(
    "The interval between `boundaries` that each element is in: int64, of the shape of `self`."
)
bucketize_scalar = define(
    "aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, "
    "bool right=False) -> Tensor"
)


def _check_sequence(
    sequence: TensorMeta, right: bool, side: str | None, sorter: TensorMeta | None
) -> None:
    check(
        side in (None, "left", "right"),
        lambda: f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}",
    )
    check(
        not (right and side == "left"),
        lambda: (
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        ),
    )
    check(
        sequence.ndim > 0,
        lambda: (
            "torch.searchsorted(): the boundary tensor should have positive dimension, but "
            "got 0 dimension"
        ),
    )
    check(
        sorter is None or (sorter.shape == sequence.shape and sorter.dtype is int64),
        lambda: (
            f"torch.searchsorted(): boundary and sorter must have the same size, and the "
            f"sorter must be of type Long; got boundary {sequence} and sorter {sorter}"
        ),
    )


@searchsorted.shape
def searchsorted_shape(
    sorted_sequence: TensorMeta,
    self: TensorMeta,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: TensorMeta | None,
) -> TensorMeta:
    _check_sequence(sorted_sequence, right, side, sorter)
    check(
        sorted_sequence.ndim == 1 or sorted_sequence.shape[:-1] == self.shape[:-1],
        lambda: (
            f"torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            f"dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(sorted_sequence.shape)} and input value tensor "
            f"{list(self.shape)}"
        ),
    )
    common = common_type((sorted_sequence, self))
    check_no_complex("searchsorted_out_cpu", common)
    if not is_true(self.numel == 0):
        check_no_bool("searchsorted_out_cpu", common)
    return self.fresh(self.shape, int32 if out_int32 else int64)


@searchsorted.kernel
def searchsorted_kernel(
    xp: ModuleType,
    sorted_sequence: Array,
    self: Array,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Array | None,
) -> Array:
    sequence, values = promoted(xp, sorted_sequence, self)
    if sorter is not None:
        sequence = xp.take_along_axis(sequence, sorter, -1)
    where = "right" if right or side == "right" else "left"
    if sequence.ndim == 1:
        found: Array = xp.searchsorted(sequence, values, where)
        return found
    if not values.size:
        return xp.zeros(values.shape, xp.int64)
    rows = sequence.reshape(prod(sequence.shape[:-1]), sequence.shape[-1])
    wanted = values.reshape(len(rows), -1)
    lines = [xp.searchsorted(row, line, where) for row, line in zip(rows, wanted, strict=True)]
    stacked: Array = xp.stack(lines).reshape(values.shape)
    return stacked


@searchsorted.batching
def searchsorted_batching(
    info: VmapInfo,
    in_dims: Any,
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    sorter: Tensor | None = None,
    **kwargs: Any,
) -> Any:
    rank = rank_of(sorted_sequence, in_dims[0])
    x = to_front(self, in_dims[1], info.batch_size)
    line = to_front(sorted_sequence, in_dims[0], info.batch_size)
    if sorter is not None and sorter.meta.ndim == rank:
        sorter = to_front(sorter, None, info.batch_size)
    if rank == 1:
        flat = x.reshape(info.batch_size, prod(x.shape[1:]))
        found = aten.searchsorted(line, flat, sorter=sorter, **kwargs)
        return found.view(x.shape), 0
    return aten.searchsorted(line, x, sorter=sorter, **kwargs), 0


def _check_boundaries(boundaries: TensorMeta) -> None:
    check(
        boundaries.ndim == 1,
        lambda: f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})",
    )


def _check_ordered(value: Number) -> None:
    check_not_implemented(
        not isinstance(value, complex),
        lambda: f"\"searchsorted_out_cpu\" not implemented for 'ComplexFloat': got {value}",
    )


@bucketize.shape
def bucketize_shape(
    self: TensorMeta, boundaries: TensorMeta, out_int32: bool, right: bool
) -> TensorMeta:
    _check_boundaries(boundaries)
    return searchsorted_shape(boundaries, self, out_int32, right, None, None)


bucketize.kernel(
    lambda xp, self, boundaries, out_int32, right: searchsorted_kernel(
        xp, boundaries, self, out_int32, right, None, None
    )
)


@bucketize.batching
def bucketize_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, boundaries: Tensor, **kwargs: Any
) -> Any:
    if in_dims[1] is None:
        return aten.bucketize(self, boundaries, **kwargs), in_dims[0]
    x = to_front(self, in_dims[0], info.batch_size)
    line = to_front(boundaries, in_dims[1])
    found = aten.searchsorted(line, x.reshape(info.batch_size, prod(x.shape[1:])), **kwargs)
    return found.view(x.shape), 0


@searchsorted_scalar.shape
def searchsorted_scalar_shape(
    sorted_sequence: TensorMeta,
    self: Number,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: TensorMeta | None,
) -> TensorMeta:
    _check_sequence(sorted_sequence, right, side, sorter)
    _check_boundaries(sorted_sequence)
    _check_ordered(self)
    return sorted_sequence.fresh((), int32 if out_int32 else int64)


searchsorted_scalar.kernel(
    lambda xp, sequence, self, out_int32, right, side, sorter: searchsorted_kernel(
        xp, sequence, xp.asarray(self), out_int32, right, side, sorter
    )
)


@bucketize_scalar.shape
def bucketize_scalar_shape(
    self: Number, boundaries: TensorMeta, out_int32: bool, right: bool
) -> TensorMeta:
    _check_boundaries(boundaries)
    _check_ordered(self)
    return boundaries.fresh((), int32 if out_int32 else int64)


bucketize_scalar.kernel(
    lambda xp, self, boundaries, out_int32, right: searchsorted_kernel(
        xp, boundaries, xp.asarray(self), out_int32, right, None, None
    )
)


# --- membership ----------------------------------------------------------------------

_ISIN = "*, bool assume_unique=False, bool invert=False"
isin = define(
    f"aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, {_ISIN}) -> Tensor",
    variants=["Tensor_Tensor_out"],
).exact_out()
isin.describe("Where elements are among `test_elements`: a bool tensor of the shape of `elements`.")


@isin.batching_decomposition
def isin_batching(elements: Tensor, test: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    found = (elements.unsqueeze(-1) == test.flatten()).any(-1)
    return found.logical_not() if invert else found


isin_tensor_scalar = define(
    f"aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, {_ISIN}) -> Tensor",
    variants=["Tensor_Scalar_out"],
)


@isin_tensor_scalar.batching
def isin_scalar_batching(
    info: VmapInfo, in_dims: Any, elements: Tensor, test_element: Any, **kwargs: Any
) -> Any:
    return aten.isin(elements, test_element, **kwargs), in_dims[0]


isin_scalar_tensor = define(
    f"aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, {_ISIN}) -> Tensor",
    variants=["Scalar_Tensor_out"],
)


def _isin_array(
    xp: ModuleType, elements: Array, test: Array, assume_unique: bool, invert: bool
) -> Array:
    found: Array = xp.isin(wide(xp.asarray(elements)), wide(xp.asarray(test)), invert=invert)
    return found


def _isin_shape(
    elements: TensorMeta | Number, test: TensorMeta | Number, unique: bool, invert: bool
) -> TensorMeta:
    for side in (elements, test):
        if isinstance(side, TensorMeta):
            _check_comparable(side.dtype)
    if isinstance(elements, TensorMeta):
        return elements.fresh(elements.shape, bool_)
    assert isinstance(test, TensorMeta)
    return test.fresh((), bool_)


def _check_comparable(kind: dtype) -> None:
    check(
        kind is not bool_ and not kind.is_complex,
        lambda: f"Unsupported input type encountered for isin(): {kind.scalar_name}",
    )


for _page in (isin, isin_tensor_scalar, isin_scalar_tensor):
    _page.shape(_isin_shape)


# --- histograms ----------------------------------------------------------------------

histc = define(
    "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    variants=[Variant.OUT],
)
histc.describe(
    "How many elements are in each of `bins` equal intervals from `min` to `max`: a vector."
)


@histc.shape
def histc_shape(self: TensorMeta, bins: int, min: Number, max: Number) -> TensorMeta:
    check(bins > 0, lambda: f"bins must be > 0, but got {bins}")
    check(
        not isinstance(min, complex) and not isinstance(max, complex) and min <= max,
        lambda: f"torch.histc: max must be larger than min; got min={min}, max={max}",
    )
    if not self.dtype.is_floating_point and self.device.type == "cpu":  # cuda counts integers too
        raise NotImplementedError(
            f"\"histogram_cpu\" not implemented for '{self.dtype.scalar_name}'"
        )
    return self.fresh((bins,))


@histc.kernel
def histc_kernel(xp: ModuleType, self: Array, bins: int, min: float, max: float) -> Array:
    """Counts in equal bins; what lies outside, or is NaN, is not counted."""
    x = wide(self).reshape(-1)
    low, high = float(min), float(max)
    if low == high and x.size:
        low, high = x.min().astype(np.float64), x.max().astype(np.float64)
    if data_says(lambda: not (xp.isfinite(low) and xp.isfinite(high))):
        raise of_data(RuntimeError(f"range of [{low}, {high}] is not finite"))
    alone = low == high
    low, high = xp.where(alone, low - 1, low), xp.where(alone, high + 1, high)
    inside = (x >= low) & (x <= high)
    x = xp.where(inside, x, low)
    # Rounded to the input's type at each step, which decides on which side of an edge values fall.
    kind = self.dtype
    scaled = wide((wide((x - low).astype(kind)) * bins).astype(kind))
    position = (scaled / (high - low)).astype(kind).astype(xp.int64)
    counts = xp.zeros(bins, xp.int64)
    where = xp.clip(position, 0, bins - 1)
    counted: Array = combined_at(xp, "add", counts, where, inside.astype(xp.int64))
    return counted.astype(wide(self).dtype)


def _finish(pages: tuple[OperatorPage, ...]) -> None:
    for page in pages:
        page.nondifferentiable()
        page.cost(lambda *args: Cost(flops=_largest(args)))


def _largest(args: tuple[object, ...]) -> int:
    return max((a.numel for a in args if isinstance(a, TensorMeta)), default=0)


for _page in (isin, isin_tensor_scalar, isin_scalar_tensor):
    _page.kernel(_isin_array)
_finish(
    (
        searchsorted,
        searchsorted_scalar,
        bucketize,
        bucketize_scalar,
        isin,
        isin_tensor_scalar,
        isin_scalar_tensor,
        histc,
    )
)
for _page in (searchsorted, bucketize, histc):
    _page.exact_out()
