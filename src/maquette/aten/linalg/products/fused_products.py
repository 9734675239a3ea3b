"""Products that PyTorch has with what comes before or after them, for inference.

They have no derivative. `_int_mm` multiplies quantized weights; the activation is the one that
follows a linear layer.
"""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.accumulation import Array, Number
from maquette.aten.common.operators import aten
from maquette.aten.linalg.products.matrix_products import addmm
from maquette.aten.view.copies import write_out
from maquette.core.dtype import int8, int32, uint8
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, Variant, define
from maquette.tensor.tensor import Tensor

_addmm_activation = define(
    "aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, "
    "Scalar alpha=1, bool use_gelu=False) -> Tensor",
)
_addmm_activation.describe("`addmm`, then `relu` or the exact `gelu`; it has no derivative.")
_addmm_activation.autocast(cpu="lower")
_addmm_activation_out = define(
    "aten::_addmm_activation.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, "
    "Scalar alpha=1, bool use_gelu=False, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@_addmm_activation.explicit
def addmm_activation_explicit(
    self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number, use_gelu: bool
) -> Tensor:
    summed: Tensor = addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return aten.gelu(summed) if use_gelu else aten.relu(summed)


_addmm_activation_out.explicit(
    lambda *args: write_out(args[-1], addmm_activation_explicit(*args[:-1]))
)

_int_mm = define("aten::_int_mm(Tensor self, Tensor mat2) -> Tensor", variants=[Variant.OUT])
_int_mm.describe("The product of int8 matrices [n, m] and [m, p] as int32: [n, p].")
_int_mm.nondifferentiable()


@_int_mm.shape
def int_mm_shape(self: TensorMeta, mat2: TensorMeta) -> TensorMeta:
    check(
        self.ndim == 2 and mat2.ndim == 2,
        lambda: f"int_mm: expected two matrices, got {self.ndim}D and {mat2.ndim}D tensors",
    )
    check(
        is_true(self.shape[1] == mat2.shape[0]),
        lambda: (
            f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} "
            f"and {mat2.shape[0]}"
        ),
    )
    check(
        self.dtype in (int8, uint8),
        lambda: f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {self.dtype}",
    )
    check(
        mat2.dtype is int8,
        lambda: f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {mat2.dtype}",
    )
    return self.fresh((self.shape[0], mat2.shape[1]), int32)


@_int_mm.kernel
def int_mm_kernel(xp: ModuleType, self: Array, mat2: Array) -> Array:
    # Doubles hold the sums of up to 2 ** 37 products of bytes exactly, and BLAS is quick.
    return xp.matmul(self.astype(xp.float64), mat2.astype(xp.float64)).astype(xp.int32)


@_int_mm.cost
def int_mm_cost(self: TensorMeta, mat2: TensorMeta, result: TensorMeta) -> Cost:
    return Cost(flops=2 * self.shape[0] * self.shape[1] * mat2.shape[1])
