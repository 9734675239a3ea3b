"""How factorizations fail: the messages, and the operator that looks at LAPACK's status."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from maquette.aten.common.accumulation import Array
from maquette.aten.common.array_libraries import on_host
from maquette.aten.common.operators import aten
from maquette.aten.linalg.factorizations import refuse
from maquette.library.page import define
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo

NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {code} is not positive-definite)."
)
ZERO_PIVOT = (
    "U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If you "
    "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)
SINGULAR = (
    "The diagonal element {code} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
UNSOLVABLE = "The solver failed because the input matrix is singular."

_linalg_check_errors = define(
    "aten::_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()"
)
_linalg_check_errors.shape(lambda info, api_name, is_matrix: None)


@_linalg_check_errors.kernel
@on_host
def check_errors_kernel(xp: ModuleType, info: Array, api_name: str, is_matrix: bool) -> None:
    if "inv" in api_name:
        refuse(info, api_name, SINGULAR, is_matrix=is_matrix)
    elif "solve" in api_name:
        refuse(info, api_name, UNSOLVABLE, is_matrix=is_matrix)
    elif "cholesky" in api_name:
        refuse(info, api_name, NOT_POSITIVE, is_matrix=is_matrix)
    elif "lu_factor" in api_name:
        refuse(info, api_name, ZERO_PIVOT, is_matrix=is_matrix)
    else:
        refuse(info, api_name, "Unknown error code: {code}.", is_matrix=is_matrix)


@_linalg_check_errors.batching
def check_errors_batching(
    info: VmapInfo, in_dims: Any, given: Tensor, api: str, *, is_matrix: bool
) -> Any:
    aten._linalg_check_errors(given, api, is_matrix=False)
    return None, None
