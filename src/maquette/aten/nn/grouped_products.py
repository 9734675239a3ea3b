"""`_grouped_mm`: products of groups of rows with matrices of their own, as experts have them.

``offs`` [groups], int32, says where each group ends: along the rows of a matrix [m, k] that meets
[groups, k, n], the columns of one [k, n] that meets [groups, m, k], or what two matrices sum over.
Two batches have no offsets. The last dimension of a result is laid out in steps of 16 bytes.
"""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.core.dtype import bfloat16, dtype, float16, float32, int32
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.strides import Shape
from maquette.core.symbols import is_true
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

_ALIGNMENT = 16  # bytes

_grouped_mm = define(
    "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
    "ScalarType? out_dtype=None) -> Tensor"
)
_grouped_mm.describe("Products of groups: rows of ``self`` up to ``offs[g]`` meet ``mat2[g]``.")


def _check_operand(name: str, meta: TensorMeta) -> None:
    check(
        meta.dtype in (float32, bfloat16, float16),
        lambda: (
            f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got "
            f"{meta.dtype.scalar_name}"
        ),
    )
    check(meta.ndim in (2, 3), lambda: f"{name} has to be 2 or 3d; got {meta}")
    step = _ALIGNMENT // meta.itemsize
    rows, columns = meta.strides[-2:]
    along = columns if is_true(rows == 1) else rows
    check(
        (is_true(rows == 1) or is_true(columns == 1)) and is_true(along % step == 0),
        lambda: (
            f"strides should be multiple of 16 bytes: {name} is {meta}; one of its last two "
            f"strides is to be 1, the other a multiple of {step}"
        ),
    )


def _result_shape(a: TensorMeta, b: TensorMeta, offs: TensorMeta | None) -> Shape:
    rows, columns = a.shape[-2], b.shape[-1]
    if offs is None:
        check(a.shape[0] == b.shape[0], lambda: f"batched dimension has to match: {a} and {b}")
        return a.shape[0], rows, columns
    groups = offs.shape[0]
    if a.ndim == b.ndim == 2:
        return groups, rows, columns
    batch = (a if a.ndim == 3 else b).shape[0]
    check(batch == groups, lambda: f"matrix batch sizes have to match: {batch} and {groups} groups")
    return rows, columns


@_grouped_mm.shape
def grouped_mm_shape(
    self: TensorMeta,
    mat2: TensorMeta,
    offs: TensorMeta | None,
    bias: TensorMeta | None,
    out_dtype: dtype | None,
) -> TensorMeta:
    _check_operand("mat_a", self)
    _check_operand("mat_b", mat2)
    batches = self.ndim == mat2.ndim == 3
    check(
        (offs is None) == batches,
        lambda: (
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are "
            f"3d; got {self}, {mat2} and offs {offs}"
        ),
    )
    if offs is not None:
        check(offs.ndim == 1, lambda: f"offs has to be 1D; got {offs}")
        check(offs.dtype is int32, lambda: f"Offsets have to be int32; got {offs}")
    check(
        self.shape[-1] == mat2.shape[-2],
        lambda: f"contraction dimension of mat_a and mat_b must match; got {self} and {mat2}",
    )
    check(bias is None, lambda: "Bias not supported yet; add it to the result")
    check(
        out_dtype is None or out_dtype is self.dtype,
        lambda: f"Grouped gemm output dtype must match `mat_a` dtype; got {out_dtype} and {self}",
    )
    shape = _result_shape(self, mat2, offs)
    step = _ALIGNMENT // self.itemsize
    row = (shape[-1] + step - 1) // step * step
    strides = (row, 1) if len(shape) == 2 else (shape[1] * row, row, 1)
    return self.fresh(shape, strides=strides)


@_grouped_mm.kernel
def grouped_mm_kernel(
    xp: ModuleType,
    self: Array,
    mat2: Array,
    offs: Array | None,
    bias: Array | None,
    out_dtype: dtype | None,
) -> Array:
    a, b = wide(self), wide(mat2)
    if offs is None:
        return xp.matmul(a, b)
    ends = [int(end) for end in offs]
    spans = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    if a.ndim == b.ndim == 2:
        return xp.stack([xp.matmul(a[:, span], b[span]) for span in spans])
    out = xp.zeros((a.shape[-2], b.shape[-1]), dtype=a.dtype)
    for group, span in enumerate(spans):
        if a.ndim == 2:
            out[span] = xp.matmul(a[span], b[group])
        else:
            out[:, span] = xp.matmul(a[group], b[:, span])
    return out


def _by_columns(meta: TensorMeta) -> bool:
    rows, columns = meta.strides[-2:]
    return is_true(rows == 1) and is_true(columns == meta.shape[-2])


def _for_left(grad: Tensor, mat2: Tensor, offs: Tensor | None, meta: TensorMeta) -> Tensor:
    if _by_columns(meta):
        return _grouped_mm(mat2, grad.transpose(-2, -1), offs).transpose(-2, -1)
    return _grouped_mm(grad, mat2.transpose(-2, -1), offs)


def _for_right(grad: Tensor, left: Tensor, offs: Tensor | None, meta: TensorMeta) -> Tensor:
    if _by_columns(meta):
        return _grouped_mm(grad.transpose(-2, -1), left, offs).transpose(-2, -1)
    return _grouped_mm(left.transpose(-2, -1), grad, offs)


_grouped_mm.derivative(
    self=lambda grad, mat2, offs, self_meta: _for_left(grad, mat2, offs, self_meta),
    mat2=lambda grad, self, offs, mat2_meta: _for_right(grad, self, offs, mat2_meta),
)


@_grouped_mm.cost
def grouped_mm_cost(
    self: TensorMeta,
    mat2: TensorMeta,
    offs: TensorMeta | None,
    bias: TensorMeta | None,
    out_dtype: dtype | None,
    out: TensorMeta,
) -> Cost:
    # Each of the rows, columns or inner elements belongs to one group.
    batch = out.shape[0] if self.ndim == mat2.ndim == 3 else 1
    rows, columns = out.shape[-2:]
    return Cost(flops=2 * batch * rows * columns * self.shape[-1])
