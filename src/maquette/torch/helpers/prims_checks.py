"""More of `torch._prims_common`: permutations, checks of operands, defaults of factories."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

from maquette.core import scalar_types as dtypes
from maquette.core.device import canonical, device
from maquette.core.dtype import can_cast, dtype, get_default_dtype
from maquette.core.errors import check, check_value
from maquette.core.layout import layout, strided
from maquette.core.strides import channels_last_strides
from maquette.tensor.tensor import Tensor

Shape = Sequence[Any]
_KINDS = (bool, int, float, complex)
_LOW = (dtypes.float16, dtypes.bfloat16, dtypes.complex32)


# --- permutations ---------------------------------------------------------------------


def is_valid_permutation(rank: int, perm: Sequence[int]) -> bool:
    """Whether ``perm`` names each of ``rank`` dimensions once."""
    return sorted(perm) == list(range(rank))


def apply_perm(inp: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    """A sequence, permuted; -1 leaves its place out."""
    return [inp[p] for p in perm if p != -1]


def invert_perm(perm: Sequence[int]) -> list[int]:
    """The permutation that undoes one."""
    return [list(perm).index(place) for place in range(len(perm))]


# --- numbers, sizes, strides -----------------------------------------------------------


def prod(xs: Sequence[Any]) -> Any:
    """The product of numbers; 1 of none."""
    return reduce(operator.mul, xs, 1)


def same_shape(a: Shape, b: Shape, *, allow_rhs_unbacked: bool = False) -> bool:
    """Whether two shapes are equal."""
    return len(a) == len(b) and all(x == y for x, y in zip(a, b, strict=True))


def compute_required_storage_length(shape: Shape, strides: Shape, storage_offset: int) -> Any:
    """How many elements a storage needs for these sizes and strides."""
    if any(size == 0 for size in shape):
        return 0
    reached = sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return 1 + storage_offset + reached


def infer_size(shape: Shape, numel: int) -> tuple[Any, ...]:
    """A shape with its -1 replaced by what makes ``numel`` elements; RuntimeError if none does."""
    known = math.prod(size for size in shape if size != -1)
    unknown = list(shape).count(-1)
    check(unknown <= 1, lambda: f"only one dimension can be inferred, got {list(shape)}")
    fits = known == numel if not unknown else known > 0 and numel % known == 0
    check(fits, lambda: f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


def make_channels_last_strides_for(shape: Shape) -> tuple[Any, ...]:
    """The strides of channels last for 4 or 5 sizes."""
    check(len(shape) in (4, 5), lambda: f"no channels last for {len(shape)} dimensions")
    return tuple(channels_last_strides(tuple(shape)))


def compute_reduction_output_shape(shape: Shape, dimensions: Sequence[int]) -> tuple[Any, ...]:
    """The sizes that are left of a reduction over dimensions."""
    return tuple(size for d, size in enumerate(shape) if d not in dimensions)


def extract_shape_from_varargs(shape: Any, validate: bool = True) -> tuple[Any, ...]:
    """``(2, 3)`` and ``((2, 3),)`` as the first."""
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = shape[0]
    if validate:
        validate_shape(shape)
    return tuple(shape)


def extract_dims_from_varargs(dims: Any) -> Any:
    """``(0, 1)`` and ``((0, 1),)`` as the first."""
    return dims[0] if dims and isinstance(dims[0], Sequence) else dims


def validate_shape(shape: Shape) -> None:
    """RuntimeError for a negative size."""
    for size in shape:
        check(size >= 0, lambda: f"expected sizes of at least 0, got {list(shape)}")


def validate_strides(strides: Shape) -> None:
    """RuntimeError for a negative stride."""
    for step in strides:
        check(step >= 0, lambda: f"expected strides of at least 0, got {list(strides)}")


def validate_idx(rank: int, idx: int) -> None:
    """RuntimeError for an index of no dimension of ``rank``."""
    check(0 <= idx < rank or idx == 0, lambda: f"{idx} is no dimension of {rank}")


def validate_no_repeating_dims(dims: Sequence[int]) -> None:
    """RuntimeError for a dimension that is named twice."""
    check(len(dims) == len(set(dims)), lambda: "duplicate value in the list of dims")


def set_correction(unbiased: bool | None = None, correction: float | None = None) -> float:
    """The correction of a variance from either argument, 1 by default; RuntimeError for both."""
    check(
        unbiased is None or correction is None,
        lambda: "cannot specify both correction and unbiased arguments",
    )
    found = correction if correction is not None else float(unbiased is None or unbiased)
    check_value(found >= 0, lambda: f"correction argument should be non-negative, got {found}")
    return float(found)


# --- types and places ------------------------------------------------------------------


def get_higher_type(a: type, b: type) -> type:
    """The later of two of bool, int, float and complex."""
    return max(a, b, key=_KINDS.index)


def is_weakly_lesser_type(a: type, b: type) -> bool:
    """Whether a number of type ``a`` is one of type ``b``, too."""
    return _KINDS.index(a) <= _KINDS.index(b)


def can_safe_cast_to(*, cast_to: dtype, cast_from: dtype) -> bool:
    """Whether a cast keeps the kind of number."""
    return can_cast(cast_from, cast_to)


def is_low_precision_dtype(dtype: dtype) -> bool:
    """Whether a dtype is of 16-bit floats."""
    return dtype in _LOW


def is_grad_dtype(dtype: dtype) -> bool:
    """Whether tensors of a dtype can require grad."""
    return dtype.is_floating_point or dtype.is_complex


def check_fp_or_complex(
    dtype: dtype, fn_name: str, allow_low_precision_dtypes: bool = True
) -> None:
    """RuntimeError for integers, and for 16-bit floats unless they are allowed."""
    check(
        is_grad_dtype(dtype),
        lambda: f"{fn_name}: Expected a floating point or complex tensor as input. Got {dtype}",
    )
    check(
        allow_low_precision_dtypes or not is_low_precision_dtype(dtype),
        lambda: f"{fn_name}: Half precision dtypes not supported. Got {dtype}",
    )


def dtype_or_default(dtype: dtype | None) -> dtype:
    """A dtype, or the default one."""
    return get_default_dtype() if dtype is None else dtype


def device_or_default(device: Any) -> Any:
    """A device, or the cpu."""
    return canonicalize_device("cpu") if device is None else device


def layout_or_default(layout: layout | None) -> layout:
    """A layout, or strided."""
    return strided if layout is None else layout


def canonicalize_device(given: Any) -> device:
    """A device from a device, or from its name."""
    return canonical(given)


# --- tensors ---------------------------------------------------------------------------


def _tensors(args: Sequence[Any], scalars_count: bool = True) -> list[Tensor]:
    found = [a for a in args if isinstance(a, Tensor)]
    return found if scalars_count else [t for t in found if t.dim() or t.device.type != "cpu"]


def check_same_shape(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """RuntimeError for tensors of two shapes."""
    shapes = [tuple(t.shape) for t in _tensors(args, not allow_cpu_scalar_tensors)]
    check(len(set(shapes)) <= 1, lambda: f"expected tensors of one shape, got {shapes}")


def check_same_device(*args: Any, allow_cpu_scalar_tensors: bool) -> None:
    """RuntimeError for tensors on two devices."""
    places = {str(t.device) for t in _tensors(args, not allow_cpu_scalar_tensors)}
    check(len(places) <= 1, lambda: f"expected tensors on one device, got {sorted(places)}")


def check_same_dtype(*args: Any) -> None:
    """RuntimeError for tensors of two dtypes."""
    kinds = {t.dtype for t in _tensors(args)}
    check(len(kinds) <= 1, lambda: f"expected tensors of one dtype, got {sorted(map(str, kinds))}")


def check_is_matrix(A: Tensor, f_name: str, arg_name: str = "A") -> None:
    """RuntimeError for a tensor of fewer than two dimensions."""
    check(
        A.dim() >= 2,
        lambda: f"{f_name}: The input tensor {arg_name} must have at least 2 dimensions.",
    )


def mask_tensor(mask: Tensor, t: Tensor) -> Tensor:
    """The tensor where the mask is True, zeros elsewhere."""
    found: Tensor = mask.logical_and(t) if t.dtype is dtypes.bool_ else t.where(mask, 0)
    return found


def clone_preserve_strides(x: Tensor) -> Tensor:
    """A copy with the same strides, and the memory between the elements."""
    length = compute_required_storage_length(x.shape, x.stride(), x.storage_offset())
    whole = x.as_strided((length,), (1,), 0).clone()
    return whole.as_strided(x.shape, x.stride(), x.storage_offset())
