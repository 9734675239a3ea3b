"""`fill_diagonal_`, and `vander`, whose columns are powers."""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.axes import Array
from maquette.aten.common.operators import aten
from maquette.aten.common.tensor_options import Number, cast
from maquette.core.dtype import from_numpy_dtype, int64, promote_types
from maquette.core.errors import check
from maquette.core.fitting import check_fits
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

fill_diagonal_ = define(
    "aten::fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
    tags=[Tag.inplace],
)
fill_diagonal_.describe(
    "Fill the main diagonal with `fill_value`; of tall matrices again and again, if `wrap`."
)
fill_diagonal_.functional_form("PyTorch has none: there it is made of a view and fill_")


@fill_diagonal_.shape
def fill_diagonal__shape(self: TensorMeta, fill_value: Number, wrap: bool) -> TensorMeta:
    check(self.ndim >= 2, lambda: f"dimensions must larger than 1; got {self}")
    check(
        self.ndim == 2 or len(set(self.shape)) == 1,
        lambda: f"all dimensions of input must be of equal length; got {self}",
    )
    check_fits(fill_value, self.dtype)
    return self


@fill_diagonal_.kernel
def fill_diagonal__kernel(xp: ModuleType, self: Array, fill_value: Number, wrap: bool) -> None:
    value = cast(xp, xp.asarray(fill_value), from_numpy_dtype(self.dtype))
    rows, columns = self.shape[0], self.shape[-1]
    # A tall matrix may have its diagonal begin again, a row further down.
    for start in range(0, rows, columns + 1) if wrap and self.ndim == 2 else (0,):
        along = xp.arange(min(rows - start, columns))
        self[(start + along, *[along] * (self.ndim - 1))] = value


@fill_diagonal_.derivative("self")
def fill_diagonal__grad(grad: Tensor, wrap: bool) -> tuple[Tensor]:
    """The values that were overwritten get no gradient."""
    return (grad.clone().fill_diagonal_(0, wrap),)


vander = define("aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor")
vander.describe("Vandermonde's matrix: a row for each element, with its powers up to N - 1.")


@vander.composite
def vander_composite(x: Tensor, N: int | None, increasing: bool) -> Tensor:
    check(x.meta.ndim == 1, lambda: f"x must be a one-dimensional tensor.; got {x.meta}")
    rows = x.meta.shape[0]
    columns = rows if N is None else N
    check(columns >= 0, lambda: f"N must be non-negative.; got {columns}")
    x = x.to(promote_types(x.dtype, int64))
    ones = x.new_ones((rows, min(columns, 1)))
    if columns <= 1:
        return ones
    powers = x.unsqueeze(-1).expand((rows, columns - 1)).cumprod(-1)
    joined: Tensor = aten.cat([ones, powers], -1)
    return joined if increasing else joined.flip((-1,))
