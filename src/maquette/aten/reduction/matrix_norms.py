"""Matrix norms, and the norms that are one or the other by their arguments.

Vector norms are in `vector_norms.py`. A matrix norm is a sum or an extreme of vector norms, or of
singular values.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from maquette.aten.common.axes import Dims
from maquette.aten.common.operators import aten
from maquette.aten.view.copies import write_exact_out
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import dtype
from maquette.core.errors import check
from maquette.core.promotion import Number
from maquette.core.symbols import is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor

Pair = tuple[int, int]
Kind = dtype | None


# --- matrix norms --------------------------------------------------------------------


def _check_matrix(self: Tensor, dim: tuple[int, ...]) -> Pair:
    """The two dimensions of the matrices, from the front."""
    check(
        self.dtype.category > 1,
        lambda: (
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got "
            f"{self.dtype.scalar_name}"
        ),
    )
    check(
        self.meta.ndim >= 2,
        lambda: (
            f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. Got "
            f"{self.meta}"
        ),
    )
    check(len(dim) == 2, lambda: f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    rows, columns = (wrap_dim(d, self.meta.ndim) for d in dim)
    check(
        rows != columns,
        lambda: f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})",
    )
    return rows, columns


def _singular_values(self: Tensor, rows: int, columns: int, kind: Kind) -> Tensor:
    """Singular values of every matrix, along the last dimension."""
    x = self if kind is None else self.to(kind)
    outer = [d for d in range(self.meta.ndim) if d not in (rows, columns)]
    values: Tensor = aten.linalg_svdvals(x.permute((*outer, rows, columns)))
    return values


def _put_back(t: Tensor, rows: int, columns: int, keepdim: bool) -> Tensor:
    if keepdim:
        for d in sorted((rows, columns)):
            t = t.unsqueeze(d)
    return t


def matrix_norm(
    self: Tensor, order: Number | str, dim: tuple[int, ...], keepdim: bool, kind: Kind
) -> Tensor:
    """The norm of matrices: "fro", "nuc", or of order 1, 2, inf, -1, -2, -inf."""
    rows, columns = _check_matrix(self, dim)
    check(
        kind is None or kind.is_complex == self.dtype.is_complex,
        lambda: (
            f"linalg.matrix_norm: dtype should be {'complex' if self.dtype.is_complex else 'real'} "
            f"for {'complex' if self.dtype.is_complex else 'real'} inputs, but got "
            f"{kind and kind.scalar_name}"
        ),
    )
    if order == "fro":
        return aten.linalg_vector_norm(self, 2, (rows, columns), keepdim, dtype=kind)
    if order == "nuc":
        summed = _singular_values(self, rows, columns, kind).sum((-1,))
        return _put_back(summed, rows, columns, keepdim)
    size = abs(float(order.real)) if not isinstance(order, str) else math.nan
    check(size in (1, 2, math.inf), lambda: f"linalg.matrix_norm: Order {order} not supported.")
    assert not isinstance(order, str)
    if size == 2:
        values = _singular_values(self, rows, columns, kind)
        return _put_back(_extreme(values, order, -1, False), rows, columns, keepdim)
    if math.isinf(size):
        rows, columns = columns, rows
    if columns > rows and not keepdim:
        columns -= 1
    sums = aten.linalg_vector_norm(self, 1, (rows,), keepdim, dtype=kind)
    return _extreme(sums, order, columns, keepdim)


def _extreme(values: Tensor, order: Number, dim: int, keepdim: bool) -> Tensor:
    """The greatest value for a positive order (0 of none), the least for a negative."""
    if order.real < 0:
        return values.amin((dim,), keepdim)
    if is_true(values.meta.shape[dim] == 0):
        return values.sum((dim,), keepdim)
    return values.amax((dim,), keepdim)


_MATRIX = "int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None"
_EITHER = "int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None"


def _with_out(schema: str, out: str, function: Callable[..., Tensor]) -> OperatorPage:
    """A composite and its ``out=`` form, whose overload is named ``out``."""
    page = define(f"aten::{schema} -> Tensor")
    name, _, arguments = schema.partition("(")
    star = ", " if "*" in arguments else ", *, "
    written = define(
        f"aten::{name.partition('.')[0]}.{out}({arguments[:-1]}{star}Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    )
    page.composite(function)
    written.composite(lambda *args: write_exact_out(args[-1], function(*args[:-1])))
    return page


linalg_matrix_norm = _with_out(
    f"linalg_matrix_norm(Tensor self, Scalar ord, {_MATRIX})", "out", matrix_norm
)
linalg_matrix_norm.describe(
    'A norm of matrices in two dimensions: "fro", "nuc", 1, 2, inf or their negatives.'
)
linalg_matrix_norm.autocast(cuda="float32 dtype")
linalg_matrix_norm_named = _with_out(
    f'linalg_matrix_norm.str_ord(Tensor self, str ord="fro", {_MATRIX})',
    "str_ord_out",
    matrix_norm,
)
linalg_matrix_norm_named.autocast(cuda="float32 dtype")


# --- vector or matrix norm -----------------------------------------------------------


def _check_dims(self: Tensor, dim: Dims) -> tuple[int, ...]:
    """The dimensions given, or all of them."""
    if dim is None:
        check(
            self.meta.ndim in (1, 2),
            lambda: (
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or "
                f"2D. Got {self.meta.ndim}D."
            ),
        )
        return tuple(range(self.meta.ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    check(
        len(dims) in (1, 2),
        lambda: f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}",
    )
    return dims


def _norm(self: Tensor, ord: Number | None, dim: Dims, keepdim: bool, dtype: Kind) -> Tensor:
    if ord is not None or dim is not None:
        dims = _check_dims(self, dim)
        if ord is not None and len(dims) == 2:
            return matrix_norm(self, ord, dims, keepdim, dtype)
    return aten.linalg_vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def _named_norm(self: Tensor, ord: str, dim: Dims, keepdim: bool, dtype: Kind) -> Tensor:
    return matrix_norm(self, ord, _check_dims(self, dim), keepdim, dtype)


linalg_norm = _with_out(f"linalg_norm(Tensor self, Scalar? ord=None, {_EITHER})", "out", _norm)
linalg_norm.describe("A norm of vectors or of matrices, of order `ord`.")
linalg_norm_named = _with_out(
    f"linalg_norm.ord_str(Tensor self, str ord, {_EITHER})", "ord_str_out", _named_norm
)

frobenius_norm = _with_out(
    "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False)",
    "out",
    lambda self, dim, keepdim: aten.norm.ScalarOpt_dim(self, 2.0, dim, keepdim),
)
frobenius_norm.describe("The root of the sum of squares over `dim`.")
frobenius_norm.autocast(cuda="float32")
nuclear_norm = _with_out(
    "nuclear_norm(Tensor self, bool keepdim=False)",
    "out",
    lambda self, keepdim: matrix_norm(self, "nuc", (-2, -1), keepdim, None),
)
nuclear_norm.describe("The sum of the singular values of matrices.")
nuclear_norm.autocast(cuda="float32")
nuclear_norm_dim = _with_out(
    "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False)",
    "dim_out",
    lambda self, dim, keepdim: matrix_norm(self, "nuc", dim, keepdim, None),
)
nuclear_norm_dim.autocast(cuda="float32")
