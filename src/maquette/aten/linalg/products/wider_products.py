"""Products whose result has another type than the factors: ``mm(a, b, out_dtype=torch.float32)``.

PyTorch has kernels of these for cuda alone; here they are computed on any device. Matrices of 8-bit
floats come with scales, one for all elements or one for each row and column.
"""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.aten.linalg.products.matrix_products import check_multiply
from maquette.aten.view.copies import write_exact_out
from maquette.core.dtype import bfloat16, dtype, float16, float32
from maquette.core.errors import check, check_value
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

_FACTORS = ", *, Scalar beta=1, Scalar alpha=1"


def _check_out_dtype(factor: Tensor, kind: dtype) -> None:
    own = factor.dtype
    check(
        kind is own or (kind is float32 and own in (float16, bfloat16)),
        lambda: (
            f"out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs; got {kind} "
            f"for a factor of {own}"
        ),
    )


def _wide(name: str, tensors: str, factors: str) -> None:
    product = getattr(aten, name).default
    count = tensors.count("Tensor")
    text = f"{tensors}, ScalarType out_dtype{factors}"
    page = define(f"aten::{name}.dtype({text}) -> Tensor")
    page.describe(f"`{name}`, with a result of `out_dtype`: the factors', or float32 of 16 bits.")

    def wide(*params: object) -> Tensor:
        tensors, kind, numbers = params[:count], params[count], params[count + 1 :]
        assert isinstance(kind, dtype)
        operands = [t for t in tensors if isinstance(t, Tensor)]
        for factor in operands[-2:]:
            _check_out_dtype(factor, kind)
        named = dict(zip(("beta", "alpha"), numbers, strict=False))
        result: Tensor = product(*[t.to(kind) for t in operands], **named)
        return result

    page.composite(wide)
    page.op.seldom = True
    star = "" if factors else ", *"
    form = define(
        f"aten::{name}.dtype_out({text}{star}, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
    )
    form.composite(lambda *params: write_exact_out(params[-1], wide(*params[:-1])))
    form.op.seldom = True


_wide("mm", "Tensor self, Tensor mat2", "")
_wide("bmm", "Tensor self, Tensor mat2", "")
_wide("addmm", "Tensor self, Tensor mat1, Tensor mat2", _FACTORS)
_wide("baddbmm", "Tensor self, Tensor batch1, Tensor batch2", _FACTORS)


# --- 8-bit floats with scales -----------------------------------------------------------------


def scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    scale_result: Tensor | None,
    out_dtype: dtype | None,
    use_fast_accum: bool,
) -> Tensor:
    check(self.ndim == 2, lambda: f"mat1 must be a matrix, got {list(self.shape)}")
    check(mat2.ndim == 2, lambda: f"mat2 must be a matrix, got {list(mat2.shape)}")
    check_multiply(self.meta, mat2.meta)
    rows, columns = self.shape[0], mat2.shape[1]
    one = scale_a.numel() == 1 and scale_b.numel() == 1
    each = list(scale_a.shape) == [rows, 1] and list(scale_b.shape) == [1, columns]
    eight = all(t.dtype.name.startswith("float8") for t in (self, mat2))
    check_value(
        eight and (one or each) and scale_a.dtype is float32 and scale_b.dtype is float32,
        lambda: (
            f"Invalid scaling configuration: expected matrices of float8 with float32 scales, of "
            f"one element each or [{rows}, 1] and [1, {columns}]; got {self.dtype} and "
            f"{mat2.dtype} with scales {list(scale_a.shape)} of {scale_a.dtype} and "
            f"{list(scale_b.shape)} of {scale_b.dtype}"
        ),
    )
    product = (self.to(float32) * scale_a) @ (mat2.to(float32) * scale_b)
    if bias is not None:
        product = product + bias
    kind = self.dtype if out_dtype is None else out_dtype
    if scale_result is not None and kind.name.startswith("float8"):
        product = product * scale_result
    result: Tensor = product.to(kind)
    return result


_SCALED = (
    "Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False"
)
_scaled_mm = define(f"aten::_scaled_mm({_SCALED}) -> Tensor")
_scaled_mm.describe("The product of matrices of 8-bit floats, each times its scales.")
_scaled_mm.explicit(scaled_mm)
_scaled_mm_out = define(
    f"aten::_scaled_mm.out({_SCALED}, *, Tensor(a!) out) -> Tensor(a!)", tags=[Tag.out]
)
_scaled_mm_out.composite(lambda *params: write_exact_out(params[-1], scaled_mm(*params[:-1])))
