"""Batching rules of factorizations and solvers, which take any number of batches by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.aten.batching.forms import VmapInfo, aten, leading, rank_of, to_front
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import family, rule_for

family(
    "cholesky cholesky_inverse geqrf linalg_cholesky_ex linalg_eig _linalg_eigh "
    "linalg_eigvals _linalg_eigvals "
    "linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_lu linalg_lu_factor_ex "
    "linalg_matrix_exp linalg_qr _linalg_svd _linalg_det _linalg_slogdet lu_unpack ormqr "
    "linalg_pinv.atol_rtol_tensor linalg_lstsq",
    leading,
)


def solving(op: OpOverload) -> Callable[..., Any]:
    """Solvers, which broadcast what stands before matrices and vectors of pivots."""
    arguments = op._schema.arguments
    own = {a.name: 1 if a.name == "pivots" else 2 for a in arguments if a.type.kind == "tensor"}

    def rule(info: VmapInfo, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        places = [(i, own[a.name]) for i, a in enumerate(arguments) if a.name in own]
        batches = max(rank_of(args[i], in_dims[i]) - core for i, core in places)
        for i, core in places:
            given[i] = to_front(args[i], in_dims[i], info.batch_size, batches + core)
        return op(*given, **kwargs), 0

    return rule


family(
    "cholesky_solve linalg_ldl_solve linalg_lu_solve linalg_solve_triangular triangular_solve "
    "_cdist_backward",
    solving,
)


@rule_for("_linalg_solve_ex")
def solve_batching(info: VmapInfo, in_dims: Any, A: Tensor, B: Tensor, **kwargs: Any) -> Any:
    a, b = to_front(A, in_dims[0], info.batch_size), to_front(B, in_dims[1], info.batch_size)
    rank_a, rank_b = rank_of(A, in_dims[0]), rank_of(B, in_dims[1])
    # One row less than the matrices: vectors, if examples say so.
    if rank_b == 1 or (rank_b == rank_a - 1 and b.shape[1:] == a.shape[1:-1]):
        result, *rest = aten._linalg_solve_ex(a, b.unsqueeze(-1), **kwargs)
        return (result.squeeze(-1), *rest), 0
    rank = max(rank_a, rank_b)
    a, b = (
        to_front(A, in_dims[0], info.batch_size, rank),
        to_front(B, in_dims[1], info.batch_size, rank),
    )
    return aten._linalg_solve_ex(a, b, **kwargs), 0


@rule_for("trace")
def trace_batching(info: VmapInfo, in_dims: Any, self: Tensor) -> Any:
    return to_front(self, in_dims[0]).diagonal(0, 1, 2).sum(-1), 0


@rule_for("_linalg_check_errors")
def check_errors_batching(
    info: VmapInfo, in_dims: Any, given: Tensor, api: str, *, is_matrix: bool
) -> Any:
    aten._linalg_check_errors(given, api, is_matrix=False)
    return None, None
