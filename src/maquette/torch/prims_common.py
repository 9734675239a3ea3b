"""`torch._prims_common`: what writers of decompositions ask of dtypes, sizes and strides.

Those of its functions that programs outside PyTorch call; each is `maquette.core`'s.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from enum import Enum
from typing import Any

from maquette.core import scalar_types as dtypes
from maquette.core.determinism import Determinism
from maquette.core.dtype import dtype
from maquette.core.layout import memory_format, strided
from maquette.core.promotion import number_dtype, promote_types, result_type_of
from maquette.core.strides import (
    channels_last_strides,
    contiguous_strides,
    is_dense,
    suggested_format,
)
from maquette.core.strides import is_channels_last as _is_channels_last
from maquette.core.symbols import is_true
from maquette.fake.exceptions import MetadataMismatchError
from maquette.symbolic import check as check
from maquette.tensor.tensor import Tensor
from maquette.torch.face.forwarding import forward

TensorLike = Tensor
Number = (int, float, complex)


def alert_not_deterministic(caller: str) -> None:
    """Warn, or raise RuntimeError, as `use_deterministic_algorithms` was told to.

    For kernels of programs, as torchvision's; those of maquette are deterministic.
    """
    if not Determinism.enabled:
        return
    told = (
        f"{caller} does not have a deterministic implementation, but you set "
        f"'torch.use_deterministic_algorithms(True"
    )
    if not Determinism.warn_only:
        raise RuntimeError(f"{told})'; turn that off for this operation")
    warnings.warn(f"{told}, warn_only=True)'", UserWarning, stacklevel=2)


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):
    """How an elementwise operator chooses the dtypes of its computation and its result."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


# --- dtypes -------------------------------------------------------------------------------------

_REAL = {
    dtypes.complex32: dtypes.float16,
    dtypes.complex64: dtypes.float32,
    dtypes.complex128: dtypes.float64,
}
_COMPLEX = {real: complex_ for complex_, real in _REAL.items()}
_WIDE = {
    dtypes.bfloat16: dtypes.float32,
    dtypes.float16: dtypes.float32,
    dtypes.complex32: dtypes.complex64,
}


def is_boolean_dtype(d: dtype) -> bool:
    """Whether it is bool."""
    return d is dtypes.bool_


def is_integer_dtype(d: dtype) -> bool:
    """Whether it is an integer type, or bool."""
    return not d.is_floating_point and not d.is_complex


def is_float_dtype(d: dtype) -> bool:
    """Whether it is a floating-point type."""
    return d.is_floating_point


def is_complex_dtype(d: dtype) -> bool:
    """Whether it is a complex type."""
    return d.is_complex


def corresponding_real_dtype(d: dtype) -> dtype:
    """The type of the parts of a complex one."""
    return _REAL[d]


def corresponding_complex_dtype(d: dtype) -> dtype:
    """The complex type whose parts are of this type."""
    return _COMPLEX[d]


def get_computation_dtype(d: dtype) -> dtype:
    """The type that values of a 16-bit type are computed in; of others, itself."""
    return _WIDE.get(d, d)


def dtype_to_type(d: dtype) -> type:
    """Python's type of one element."""
    if d is dtypes.bool_:
        return bool
    return complex if d.is_complex else float if d.is_floating_point else int


def type_to_dtype(typ: type) -> dtype:
    """The dtype of a Python number of this type."""
    return number_dtype(typ(0))


def get_higher_dtype(a: Any, b: Any) -> dtype | None:
    """What the dtypes of two tensors, dtypes or numbers promote to; None stands for nothing."""
    first, second = (_dtype_of(x) for x in (a, b))
    if first is None or second is None:
        return second if first is None else first
    return promote_types(first, second)


def _dtype_of(x: Any) -> dtype | None:
    if x is None or isinstance(x, dtype):
        return x
    return x.dtype if isinstance(x, Tensor) else number_dtype(x)


def elementwise_dtypes(
    *_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND
) -> tuple[dtype, dtype]:
    """The dtypes of an elementwise operator's computation and of its result."""
    kind, kinds = type_promotion_kind, ELEMENTWISE_TYPE_PROMOTION_KIND
    result = result_type_of([a.meta if isinstance(a, Tensor) else a for a in _args])
    if kind is kinds.INT_TO_FLOAT and is_integer_dtype(result):
        result = number_dtype(0.0)
    if kind is kinds.BOOL_TO_LONG and result is dtypes.bool_:
        return dtypes.int64, dtypes.int64
    computed = result if kind is kinds.NO_OPMATH else get_computation_dtype(result)
    if kind is kinds.COMPLEX_TO_FLOAT and result.is_complex:
        result = corresponding_real_dtype(result)
    return computed, dtypes.bool_ if kind is kinds.ALWAYS_BOOL else result


# --- sizes and strides --------------------------------------------------------------------------


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are equal; sizes that are symbols are guarded."""
    return len(a) == len(b) and all(bool(x == y) for x, y in zip(a, b, strict=True))


def is_expandable_to(shape: Sequence[Any], desired: Sequence[Any]) -> bool:
    """Whether a tensor of ``shape`` may be expanded to ``desired``."""
    pairs = zip(reversed(shape), reversed(desired))
    return len(shape) <= len(desired) and all(s in (1, d) for s, d in pairs)


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from 0; IndexError for one that is not there."""
    ndim = max(rank, 1) if wrap_scalar else rank
    if not -ndim <= idx < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got "
            f"{idx})"
        )
    return idx % ndim


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """`canonicalize_dim` of one dimension, or of each in a sequence."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple([canonicalize_dim(rank, i, wrap_scalar) for i in indices])


def reduction_dims(shape: Sequence[Any], dims: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that are reduced, counted from 0; RuntimeError if one is named twice."""
    found = tuple(range(len(shape))) if dims is None else canonicalize_dims(len(shape), dims)
    check(len(set(found)) == len(found), lambda: f"a dimension is named twice in {tuple(dims)}")  # type: ignore[arg-type]  # not None then
    return tuple(found)


def make_contiguous_strides_for(shape: Sequence[Any], row_major: bool = True) -> tuple[Any, ...]:
    """Strides in row-major order; otherwise each matrix has its columns in memory order."""
    steps = contiguous_strides(tuple(shape))
    if row_major or len(shape) < 2:
        return steps
    return (*steps[:-2], 1, max(shape[-2], 1))


def make_channels_last_2d_strides_for(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Strides of the channels-last format of [N, C, H, W]."""
    return channels_last_strides(tuple(shape))


make_channels_last_3d_strides_for = make_channels_last_2d_strides_for


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    """Whether elements lie in row-major order without gaps."""
    return bool(a.meta.is_contiguous)


is_contiguous_or_false = is_contiguous


def is_channels_last_contiguous_2d(a: Tensor) -> bool:
    """Whether [N, C, H, W] lies in the channels-last format."""
    return a.meta.ndim == 4 and _is_channels_last(a.meta.shape, a.meta.strides, 4)


def is_non_overlapping_and_dense_or_false(a: Tensor) -> bool:
    """Whether elements fill their range of memory without gap or overlap."""
    return a.meta.layout is strided and is_dense(a.meta.shape, a.meta.strides)


def suggest_memory_format(x: Tensor) -> memory_format:
    """The format that results laid out like ``x`` should have."""
    return suggested_format(x.meta.shape, x.meta.strides)


def is_cpu_scalar_tensor(a: object) -> bool:
    """Whether it is a 0-dimensional tensor on the cpu."""
    return isinstance(a, Tensor) and a.meta.ndim == 0 and a.meta.device.type == "cpu"


# --- comparing ----------------------------------------------------------------------------------


def compare_tensor_meta(
    a: Tensor,
    b: Tensor,
    check_sizes: bool = True,
    check_strides: bool = False,
    *,
    allow_rhs_unbacked: bool = False,
    check_conj: bool = True,
) -> None:
    """MetadataMismatchError, with both, unless two tensors are alike but for their data.

    allow_rhs_unbacked: a size of ``b`` that only data tells may be any.
    """
    for t in (a, b):
        assert isinstance(t, Tensor), f"expected a tensor, got {type(t)}"
    sizes = is_same_shape(a.shape, b.shape) or (allow_rhs_unbacked and b.meta.is_symbolic)
    _must(not check_sizes or sizes, f"Shapes {a.shape} and {b.shape} are not equal!")
    _must(a.dtype is b.dtype, f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    same = str(a.device).removesuffix(":0") == str(b.device).removesuffix(":0")
    _must(same, f"Devices {a.device} and {b.device} are not equal!")
    if check_strides:
        _check_strides(a, b)
    if check_conj:
        _must(
            a.is_conj() == b.is_conj(),
            f"Conj mismatch! is_conj is set to {a.is_conj()} and {b.is_conj()}",
        )
    _must(a.is_neg() == b.is_neg(), f"Neg mismatch! is_neg is set to {a.is_neg()} and {b.is_neg()}")


def check_significant_strides(
    a: Tensor, b: Tensor, *, only_cuda: bool = True, allow_rhs_unbacked: bool = False
) -> tuple[bool, int | None]:
    """Whether strides agree, and else the first dimension in which they do not.

    Those of dimensions larger than 1 count, and only where there are elements. only_cuda: tensors
    that are both on other devices agree, as their strides may differ in PyTorch.
    allow_rhs_unbacked: symbolic strides of ``b`` agree, as they do in any case.
    """
    return _first_other_stride(a, b, only_cuda=only_cuda, all_dims=False)


def check_all_strides(a: Tensor, b: Tensor, *, only_cuda: bool = True) -> tuple[bool, int | None]:
    """`check_significant_strides`, where those of dimensions of size 1 count too."""
    return _first_other_stride(a, b, only_cuda=only_cuda, all_dims=True)


def _first_other_stride(
    a: Tensor, b: Tensor, *, only_cuda: bool, all_dims: bool
) -> tuple[bool, int | None]:
    if (only_cuda and "cuda" not in (a.device.type, b.device.type)) or is_true(a.numel() == 0):
        return True, None
    for dim, (size, own, other) in enumerate(zip(a.shape, a.stride(), b.stride(), strict=True)):
        counts = all_dims or not is_true(size <= 1)
        if counts and isinstance(other, int) and own != other:
            return False, dim
    return True, None


def _check_strides(a: Tensor, b: Tensor) -> None:
    agree, dim = _first_other_stride(a, b, only_cuda=False, all_dims=False)
    _must(
        agree,
        f"Stride mismatch! Strides are {a.stride()} and {b.stride()} (mismatched at {dim})!",
    )


def _must(condition: bool, message: str) -> None:
    if not condition:
        raise MetadataMismatchError(message)


__getattr__ = forward(__name__, "maquette.torch.helpers.prims_checks")
