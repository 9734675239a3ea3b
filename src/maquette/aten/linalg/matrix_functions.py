"""Functions of matrices: pseudoinverse, rank, powers, exponential, condition; trace and cross.

All are made of the factorizations in `eigen_svd.py` and `solving.py`; the exponential is SciPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.axes import wrap_existing_dim
from maquette.aten.common.backward_checks import check_numbers
from maquette.aten.common.batching_forms import along, leading_matrices, to_front
from maquette.aten.common.element_types import check_no_bool
from maquette.aten.common.fresh_writes import zeros_beside
from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.common.operators import aten
from maquette.aten.linalg.eigen_svd import hermitian_values, singular_values
from maquette.aten.linalg.exponentials import exponentials
from maquette.aten.linalg.factorizations import (
    check_inexact,
    check_matrix,
    check_same,
    check_square,
)
from maquette.aten.linalg.solving import inverse_of
from maquette.aten.reduction.matrix_norms import matrix_norm
from maquette.aten.view.copies import write_exact_out, write_out
from maquette.core.broadcast import broadcast_shapes, wrap_dim
from maquette.core.dtype import finfo, int64
from maquette.core.errors import check
from maquette.core.layout import contiguous_format
from maquette.core.meta import TensorMeta
from maquette.core.promotion import Number
from maquette.core.symbols import is_true, smaller
from maquette.core.warned import warn_once
from maquette.dispatch.tags import Tag
from maquette.library.advice import check_advised
from maquette.library.page import OperatorPage, Variant, define, describe
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

Ints = tuple[int, ...]
Tolerance = Tensor | float | None


# --- rank and pseudoinverse ----------------------------------------------------------


def _least(self: Tensor, sizes: Tensor, atol: Tolerance, rtol: Tolerance) -> Tensor:
    """What counts as zero among singular values, for each matrix."""
    absolute = _column(0.0 if atol is None else atol, sizes)
    relative = _column(finfo(self.dtype).eps * max(self.meta.shape[-2:]), sizes)
    if rtol is not None:
        relative = _column(rtol, sizes)
    elif atol is not None:
        relative = relative * absolute.le(0).to(sizes.dtype)
    least: Tensor = absolute.maximum(relative * sizes.amax((-1,), True))
    return least


def _column(tolerance: Tensor | float, sizes: Tensor) -> Tensor:
    if isinstance(tolerance, Tensor):
        return tolerance.to(sizes.dtype).unsqueeze(-1)
    return sizes.new_full((1,), tolerance)


def rank_of(self: Tensor, atol: Tolerance, rtol: Tolerance, hermitian: bool) -> Tensor:
    """The number of singular values that are not as good as zero."""
    check_matrix("torch.linalg.matrix_rank", self.meta)
    if not self.meta.numel:
        return self.new_zeros(self.meta.shape[:-2], dtype=int64)
    sizes = hermitian_values(self).abs() if hermitian else singular_values(self)
    return sizes.gt(_least(self, sizes, atol, rtol)).sum((-1,))


_KEEP = "bool hermitian=False"
for _kind, _self, _type in (("tensor", "input", "Tensor?"), ("float", "self", "float?")):
    _arguments = f"Tensor {_self}, *, {_type} atol=None, {_type} rtol=None, {_KEEP}"
    _page = define(f"aten::linalg_matrix_rank.atol_rtol_{_kind}({_arguments}) -> Tensor")
    _page.composite(lambda self, atol, rtol, hermitian: rank_of(self, atol, rtol, hermitian))
    _page.autocast(cpu="float32")
    define(
        f"aten::linalg_matrix_rank.atol_rtol_{_kind}_out({_arguments}, Tensor(a!) out) "
        "-> Tensor(a!)",
        tags=[Tag.out],
    ).composite(
        lambda self, atol, rtol, hermitian, out: write_out(
            out, rank_of(self, atol, rtol, hermitian)
        )
    )


def _with_old(
    name: str,
    overload: str,
    self: str,
    argument: str,
    function: Callable[[Tensor, Any, bool], Tensor],
) -> OperatorPage:
    """The form of one tolerance, given by position, and its ``out=`` form."""
    arguments = f"Tensor {self}, {argument}, {_KEEP}"
    dot = f".{overload}" if overload else ""
    page = define(f"aten::{name}{dot}({arguments}) -> Tensor")
    page.composite(function)
    define(
        f"aten::{name}.out{overload and '_'}{overload}({arguments}, *, Tensor(a!) out) "
        "-> Tensor(a!)",
        tags=[Tag.out],
    ).composite(
        lambda self, tolerance, hermitian, out: write_out(out, function(self, tolerance, hermitian))
    )
    return page


def _rank_within(self: Tensor, tol: Tolerance, hermitian: bool) -> Tensor:
    return rank_of(self, tol, 0.0, hermitian)


for _page in (
    _with_old("linalg_matrix_rank", "", "self", "float tol", _rank_within),
    _with_old("linalg_matrix_rank", "tol_tensor", "input", "Tensor tol", _rank_within),
):
    _page.autocast(cpu="float32")
describe(
    "linalg_matrix_rank",
    "The rank of matrices, as how many singular values exceed the tolerance: int64, [...].",
)

_PINV = "Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False"
linalg_pinv = define(f"aten::linalg_pinv.atol_rtol_tensor({_PINV}) -> Tensor")
linalg_pinv.describe("The pseudo-inverses of matrices [..., m, n]: [..., n, m].")
linalg_pinv_out = define(
    f"aten::linalg_pinv.atol_rtol_tensor_out({_PINV}, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@linalg_pinv.explicit
def pinv_explicit(self: Tensor, atol: Tolerance, rtol: Tolerance, hermitian: bool) -> Tensor:
    check_matrix("linalg.pinv", self.meta)
    check_inexact("linalg.pinv", self.meta)
    *batch, m, n = self.meta.shape
    if not self.meta.numel:
        return self.new_zeros((*batch, n, m))
    if hermitian:
        values, left = aten.linalg_eigh(self)
        right = left.mH
        sizes = values.abs()
    else:
        left, values, right = aten.linalg_svd(self, False)
        sizes = values
    kept = sizes.gt(_least(self, sizes, atol, rtol))
    inverted = aten.where(kept, values.reciprocal(), values.new_zeros(()))
    return right.mH @ (inverted.unsqueeze(-1) * left.mH)


linalg_pinv_out.explicit(
    lambda self, atol, rtol, hermitian, out: write_out(
        out, pinv_explicit(self, atol, rtol, hermitian)
    )
)


@linalg_pinv.derivative("self")
def pinv_grad(grad: Tensor, self: Tensor, result: Tensor) -> tuple[Tensor]:
    turned, along = result.mH, grad.mH
    # Beside what the inverse of a square matrix has: what leaves the range or the kernel.
    if is_true(self.meta.shape[-2] <= self.meta.shape[-1]):
        inner = along @ result
        outside = inner @ turned
        inside = (turned @ result) @ (along - inner @ self)
        outside_range = (self @ result) @ outside
        return (-(result @ inner).mH + outside - outside_range + inside,)
    inner = result @ along
    inside = turned @ inner
    inside_range = (inside @ result) @ self
    outside = ((along - self @ inner) @ result) @ turned
    return (-(inner @ result).mH + inside + outside - inside_range,)


linalg_pinv.batching(leading_matrices)


def _pinv_float(self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    def tensor(tolerance: float | None) -> Tensor | None:
        kind = self.dtype.to_real()
        return None if tolerance is None else self.new_full((), tolerance, dtype=kind)

    found: Tensor = linalg_pinv(self, atol=tensor(atol), rtol=tensor(rtol), hermitian=hermitian)
    return found


_PINV_FLOAT = "Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False"
linalg_pinv_float = define(f"aten::linalg_pinv.atol_rtol_float({_PINV_FLOAT}) -> Tensor")
linalg_pinv_float.composite(_pinv_float)
linalg_pinv_float_out = define(
    f"aten::linalg_pinv.atol_rtol_float_out({_PINV_FLOAT}, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
linalg_pinv_float_out.composite(
    lambda self, atol, rtol, hermitian, out: write_out(
        out, _pinv_float(self, atol, rtol, hermitian)
    )
)
_with_old(
    "linalg_pinv",
    "",
    "self",
    "float rcond",
    lambda self, rcond, hermitian: _pinv_float(self, 0.0, rcond, hermitian),
)
_with_old(
    "linalg_pinv",
    "rcond_tensor",
    "self",
    "Tensor rcond",
    lambda self, rcond, hermitian: linalg_pinv(
        self, atol=rcond.new_zeros(()), rtol=rcond, hermitian=hermitian
    ),
)
pinverse = define("aten::pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor")
pinverse.describe("The pseudo-inverses of matrices [..., m, n]: [..., n, m].")
pinverse.autocast(cpu="float32")
pinverse.composite(lambda self, rcond: _pinv_float(self, 0.0, rcond, False))


# --- condition, powers, exponential --------------------------------------------------

linalg_cond = define("aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor")
linalg_cond.describe("The condition number of matrices in norm `p`: [...].")
linalg_cond.autocast(cpu="float32")
linalg_cond_out = define(
    "aten::linalg_cond.out(Tensor self, Scalar? p=None, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@linalg_cond.composite
def cond_composite(self: Tensor, p: Number | None) -> Tensor:
    check(
        self.meta.ndim >= 2,
        lambda: f"linalg.cond: The input tensor must have at least 2 dimensions. Got {self.meta}",
    )
    check_inexact("linalg.cond", self.meta)
    if any(is_true(n == 0) for n in self.shape[-2:]):
        return self.new_zeros(self.shape[:-2], dtype=self.dtype.to_real())
    if p is None or abs(p) == 2:
        sizes = singular_values(self)
        largest, smallest = sizes.narrow(-1, 0, 1), sizes.narrow(-1, -1, 1)
        inverted = p is not None and p.real < 0
        return (smallest / largest if inverted else largest / smallest).squeeze(-1)
    check_square("linalg.cond", self.meta)
    return _norm_and_inverses(self, p)


def _norm_and_inverses(self: Tensor, p: Number | str) -> Tensor:
    inverted, info = aten.linalg_inv_ex(self)
    singular = info.gt(0)
    inverted = inverted.masked_fill(singular.unsqueeze(-1).unsqueeze(-1), 0.0)
    product = matrix_norm(self, p, (-2, -1), False, None) * matrix_norm(
        inverted, p, (-2, -1), False, None
    )
    return product.masked_fill(singular, math.inf)


linalg_cond_out.composite(lambda self, p, out: write_out(out, cond_composite(self, p)))
linalg_cond_named = define("aten::linalg_cond.p_str(Tensor self, str p) -> Tensor")
linalg_cond_named.autocast(cpu="float32")
linalg_cond_named_out = define(
    "aten::linalg_cond.p_str_out(Tensor self, str p, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@linalg_cond_named.composite
def named_cond_composite(self: Tensor, p: str) -> Tensor:
    check_square("linalg.cond", self.meta)
    check_inexact("linalg.cond", self.meta)
    check(
        p in ("fro", "nuc"),
        lambda: f"linalg.cond got an invalid norm type: {p}",
    )
    if is_true(self.meta.numel == 0):
        return self.new_zeros(self.meta.shape[:-2], dtype=self.dtype.to_real())
    return _norm_and_inverses(self, p)


linalg_cond_named_out.composite(lambda self, p, out: write_out(out, named_cond_composite(self, p)))


def matrix_power(self: Tensor, n: int) -> Tensor:
    """A matrix multiplied with itself, by repeated squaring; negative powers are of the inverse."""
    check_square("linalg.matrix_power", self.meta)
    if n == 0:
        copy = self.clone(memory_format=contiguous_format)
        return copy.copy_(aten.eye(self.meta.shape[-1], dtype=self.dtype, device=self.device))
    if n < 0:
        self, n = inverse_of(self), -n
    if n == 1:
        return self.clone()
    result: Tensor | None = None
    square = self
    while n:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if n:
            square = square @ square
    assert result is not None
    return result


linalg_matrix_power = define("aten::linalg_matrix_power(Tensor self, int n) -> Tensor")
linalg_matrix_power.describe(
    "Square matrices to a whole power, of their shape; a negative one inverts."
)
linalg_matrix_power.composite(lambda self, n: matrix_power(self, n))
linalg_matrix_power_out = define(
    "aten::linalg_matrix_power.out(Tensor self, int n, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)


@linalg_matrix_power_out.composite
def matrix_power_out_composite(self: Tensor, n: int, out: Tensor) -> Tensor:
    """Powers that are copies may be converted, products may not."""
    write = write_out if n in (0, 1) else write_exact_out
    return write(out, matrix_power(self, n))


linalg_matrix_exp = define("aten::linalg_matrix_exp(Tensor self) -> Tensor")
linalg_matrix_exp.describe("The exponential of square matrices, of their shape.")


@linalg_matrix_exp.shape
def matrix_exp_shape(self: TensorMeta) -> TensorMeta:
    check_square("linalg.matrix_exp", self)
    check(
        self.dtype.is_floating_point or self.dtype.is_complex,
        lambda: (
            f"linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {self}"
        ),
    )
    return self.fresh(self.shape)


@linalg_matrix_exp.kernel
@on_host
def matrix_exp_kernel(xp: ModuleType, self: Array) -> Array:
    """Narrow floats have it for matrices of size 0 and 1 only; larger ones give NaN.

    PyTorch 2.13 reads the coefficients of its series, which are doubles, as if they were float16 or
    bfloat16: exp(A) comes out as 0 for a small A, as -21072 on the diagonal for a larger one, as
    NaN beyond. Those numbers are not repeated here, and NaN, which it gives for most matrices, is
    given for all: convert to float32 first.
    """
    if not self.size:
        return self.copy()
    narrow = self.dtype.itemsize < 4
    exponential = exponentials(wide(self))
    if narrow and self.shape[-1] > 1:
        known = ~self.any((-2, -1), keepdims=True)
        exponential = xp.where(known, exponential, xp.nan)
    return exponential


@linalg_matrix_exp.derivative("self")
def matrix_exp_grad(grad: Tensor, self: Tensor) -> tuple[Tensor]:
    # The exponential of [[A, G], [0, A]] holds the derivative of exp(A) along G.
    n = self.meta.shape[-1]
    turned = self.mH
    above = aten.cat([turned, grad.to(self.dtype)], -1)
    below = aten.cat([aten.zeros_like(turned), turned], -1)
    whole = linalg_matrix_exp(aten.cat([above, below], -2))
    return (whole.narrow(-2, 0, n).narrow(-1, n, n),)


linalg_matrix_exp.batching(leading_matrices)


matrix_exp = define("aten::matrix_exp(Tensor self) -> Tensor")
matrix_exp.describe("The exponential of square matrices, of their shape.")
matrix_exp.composite(lambda self: linalg_matrix_exp(self))


# --- tensors as matrices -------------------------------------------------------------


def _tensor_inverse(self: Tensor, ind: int) -> Tensor:
    check(ind > 0, lambda: "Expected a strictly positive integer for 'ind'")
    shape = self.meta.shape
    front, end = shape[:ind], shape[ind:]
    check(
        math.prod(front) == math.prod(end),
        lambda: (
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(end)} != {math.prod(front)}"
        ),
    )
    rows = math.prod(end)
    return inverse_of(self.reshape((rows, math.prod(front)))).reshape((*end, *front))


linalg_tensorinv = define("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor")
linalg_tensorinv.describe(
    "The inverse of a tensor seen as a square matrix by its first `ind` dimensions."
)
linalg_tensorinv.autocast(cpu="float32")
linalg_tensorinv.composite(_tensor_inverse)
linalg_tensorinv_out = define(
    "aten::linalg_tensorinv.out(Tensor self, int ind=2, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
linalg_tensorinv_out.composite(lambda self, ind, out: write_out(out, _tensor_inverse(self, ind)))


def _tensor_solution(self: Tensor, other: Tensor, dims: Ints | None) -> Tensor:
    if dims is not None:
        ndim = self.meta.ndim
        moved = [wrap_dim(d, ndim) for d in dims]
        kept = [d for d in range(ndim) if d not in moved]
        self = self.permute((*kept, *moved))
    result = self.meta.shape[other.meta.ndim :]
    columns = math.prod(result)
    check(
        columns == other.meta.numel,
        lambda: (
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {other.meta.numel}"
        ),
    )
    matrix = self.reshape((columns, columns))
    solution: Tensor = aten.linalg_solve(matrix, other.flatten())
    return solution.reshape(result)


linalg_tensorsolve = define(
    "aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor"
)
linalg_tensorsolve.describe("The X of ``tensordot(self, X) = other``.")
linalg_tensorsolve.autocast(cpu="float32")
linalg_tensorsolve.composite(_tensor_solution)
linalg_tensorsolve_out = define(
    "aten::linalg_tensorsolve.out(Tensor self, Tensor other, int[]? dims=None, *, "
    "Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
linalg_tensorsolve_out.composite(
    lambda self, other, dims, out: write_out(out, _tensor_solution(self, other, dims))
)


# --- trace, diagonal, cross products, powers in columns ------------------------------

linalg_diagonal = define(
    "aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)"
)
linalg_diagonal.describe("The diagonals of matrices, as a last dimension: a view.")
linalg_diagonal.composite(lambda A, offset, dim1, dim2: A.diagonal(offset, dim1, dim2))

trace = define("aten::trace(Tensor self) -> Tensor")
trace.describe("The sum of a matrix's diagonal: 0-dim.")
trace.autocast(cpu="float32")


@trace.shape
def trace_shape(self: TensorMeta) -> TensorMeta:
    check(self.ndim == 2, lambda: f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    check_no_bool("trace", self.dtype)
    return self.fresh((), self.dtype if self.dtype.category > 1 else int64)


@trace.kernel
def trace_kernel(xp: ModuleType, self: Array) -> Array:
    return wide(self).diagonal().sum()


@trace.linear("self")
def trace_grad(grad: Tensor, self_meta: TensorMeta) -> tuple[Tensor]:
    rows, columns = self_meta.shape
    flat = zeros_beside(grad, (rows * columns,))
    step = columns + 1
    diagonal = aten.arange.start_step(
        0, smaller(rows, columns) * step, step, dtype=int64, device=self_meta.device
    )
    return (aten.index_fill.int_Tensor(flat, 0, diagonal, grad).view((rows, columns)),)


@trace.batching
def trace_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    return to_front(self, in_dims[0]).diagonal(0, 1, 2).sum(-1), 0


linalg_cross = define(
    "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    variants=[Variant.OUT],
)
linalg_cross.describe("The cross products of vectors of three along `dim`; the others broadcast.")


@linalg_cross.shape
def cross_shape(self: TensorMeta, other: TensorMeta, dim: int) -> TensorMeta:
    check_advised(
        check,
        self.ndim == other.ndim,
        lambda: "linalg.cross: inputs must have the same number of dimensions.",
        lambda: f"They are {self} and {other}.",
    )
    at = wrap_existing_dim(dim, self.ndim)
    check(
        self.shape[at] == other.shape[at] == 3,
        lambda: (
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[at]} and "
            f"{other.shape[at]}"
        ),
    )
    check_same("linalg.cross", self, other)
    check_numbers("cross", self)
    return self.fresh(tuple(broadcast_shapes(self.shape, other.shape)))


@linalg_cross.kernel
def cross_kernel(xp: ModuleType, self: Array, other: Array, dim: int) -> Array:
    # Not widened: PyTorch rounds each product and the difference to 16 bits too.
    a, b = xp.moveaxis(self, dim, 0), xp.moveaxis(other, dim, 0)
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return xp.moveaxis(xp.stack(parts), 0, dim)


linalg_cross.bilinear(
    self=lambda grad, other, dim: linalg_cross(other.conj(), grad, dim=dim),
    other=lambda grad, self, dim: linalg_cross(grad, self.conj(), dim=dim),
)


linalg_cross.exact_out()
linalg_cross.batching(along)
refuse_overlap(linalg_cross.variants[0], "self", "other")


def _first_three(self: Tensor, dim: int | None) -> int:
    """The dimension given, else the first of size 3."""
    if dim is not None:
        return dim
    warn_once(
        "Using torch.cross without specifying the dim arg is deprecated. Please either pass the "
        "dim explicitly or simply use torch.linalg.cross."
    )
    threes = [d for d, n in enumerate(self.meta.shape) if n == 3]
    check(bool(threes), lambda: f"no dimension of size 3 in input {self.meta}")
    return threes[0]


cross = define("aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor")
cross.describe("The cross products of vectors of three along `dim`.")
cross.autocast(cuda="promote")
cross.composite(lambda self, other, dim: linalg_cross(self, other, dim=_first_three(self, dim)))
cross_out = define(
    "aten::cross.out(Tensor self, Tensor other, int? dim=None, *, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
cross_out.composite(
    lambda self, other, dim, out: linalg_cross.variants[0](
        self, other, dim=_first_three(self, dim), out=out
    )
)

linalg_vander = define("aten::linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor")
linalg_vander.describe("Vandermonde's matrix of vectors [..., n]: rising powers, [..., n, N].")


@linalg_vander.composite
def vander_composite(x: Tensor, N: int | None) -> Tensor:
    kind = x.meta.dtype
    check(
        kind.is_complex or kind.category == 1 or (kind.category > 1 and kind.itemsize >= 4),
        lambda: (
            f"linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{kind.scalar_name}"
        ),
    )
    x = x if x.meta.ndim else x.unsqueeze(-1)
    shape = x.meta.shape
    columns = shape[-1] if N is None else N
    check(columns > 1, lambda: f"N must be greater than 1, got {columns}")
    powers = x.unsqueeze(-1).expand((*shape, columns - 1)).cumprod(-1)
    joined: Tensor = aten.cat([powers.new_ones((*shape, 1)), powers], -1)
    return joined
