"""`torch.lu`, the older function for what `linalg.lu_factor` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from maquette.api.signatures import called
from maquette.core.errors import check_type
from maquette.tensor.tensor import Tensor


def lu(
    A: Tensor,
    pivot: bool = True,
    get_infos: bool = False,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Packed factors (..., m, n) and pivots (..., min(m, n)) of matrices; their status if asked.

    A singular matrix is factored all the same: the status, which PyTorch's does not look at
    either, says so. TypeError if ``out`` has not as many tensors as there are results.
    """
    found = cast("tuple[Tensor, ...]", called("linalg_lu_factor_ex", "default", A, pivot=pivot))
    results = found if get_infos else found[:2]
    if out is None:
        return results
    given = len(out) if isinstance(out, (tuple, list)) else 0
    check_type(
        given == len(results),
        lambda: f"lu: expected out= to be a tuple of {len(results)} tensors, but it has {given}",
    )
    for target, result in zip(out, results, strict=True):
        target.resize_(result.meta.shape).copy_(result)
    return tuple(out)


def lu_method(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """`lu` as a method."""
    return lu(self, pivot, get_infos)


Tensor.lu = lu_method  # type: ignore[attr-defined]  # attached, as all methods are
