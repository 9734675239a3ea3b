"""Systems of equations with a triangular sparse matrix, solved as dense ones."""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.aten.sparse.forms import dense_of
from maquette.core.errors import check
from maquette.core.layout import strided
from maquette.library.sparse_kernels import for_compressed
from maquette.tensor.sparse import specifies_nothing
from maquette.tensor.tensor import Tensor


@for_compressed("triangular_solve.X")
def triangular_solve_out_kernel(
    self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool, X: Tensor, M: Tensor
) -> tuple[Tensor, Tensor]:
    solution, rest = triangular_solve_kernel(self, A, upper, transpose, unitriangular)
    return X.resize_(solution.meta.shape).copy_(solution), M.resize_(rest.meta.shape)


@for_compressed("triangular_solve")
def triangular_solve_kernel(
    self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    """The solution, and in place of the matrix' copy nothing: NaN where the matrix is empty."""
    check(
        self.meta.layout is strided,
        lambda: f"triangular_solve: expected a strided right side, got {self.meta.layout}",
    )
    dense = dense_of(A)
    solution = aten.triangular_solve(self, dense, upper, transpose, unitriangular)[0]
    if specifies_nothing(A):
        solution.fill_(float("nan"))
    return solution, self.new_empty(0)
