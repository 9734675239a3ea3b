"""Batching rules of matrix products: all are `matmul`, which takes any number of batches."""

from __future__ import annotations

from typing import Any

from maquette.aten.common.batching_forms import rank_of, to_front
from maquette.aten.common.operators import aten
from maquette.tensor.tensor import Tensor
from maquette.transforms.pointwise import VmapInfo


def _ranks(name: str, in_dims: Any, tensors: Any, wanted: Any) -> None:
    """Refuse what the operator itself refuses: matmul takes examples of other ranks too."""
    for t, d, rank in zip(tensors, in_dims, wanted):
        if rank_of(t, d) != rank:
            raise RuntimeError(
                f"{name}: expected a {rank}-D tensor, but got one of {rank_of(t, d)} dims"
            )


def mm_batching(info: VmapInfo, in_dims: Any, self: Tensor, mat2: Tensor) -> Any:
    _ranks("mm", in_dims, (self, mat2), (2, 2))
    return aten.matmul(to_front(self, in_dims[0]), to_front(mat2, in_dims[1])), 0


def bmm_batching(info: VmapInfo, in_dims: Any, self: Tensor, mat2: Tensor) -> Any:
    _ranks("bmm", in_dims, (self, mat2), (3, 3))
    return aten.matmul(to_front(self, in_dims[0]), to_front(mat2, in_dims[1])), 0


def mv_batching(info: VmapInfo, in_dims: Any, self: Tensor, vec: Tensor) -> Any:
    _ranks("mv", in_dims, (self, vec), (2, 1))
    column = to_front(vec, in_dims[1]).unsqueeze(-1)
    return aten.matmul(to_front(self, in_dims[0]), column).squeeze(-1), 0


def _dot(name: str, in_dims: Any, a: Tensor, b: Tensor) -> Any:
    _ranks(name, in_dims, (a, b), (1, 1))
    row = to_front(a, in_dims[0]).unsqueeze(-2)
    column = to_front(b, in_dims[1]).unsqueeze(-1)
    return aten.matmul(row, column).squeeze(-1).squeeze(-1), 0


def dot_batching(info: VmapInfo, in_dims: Any, self: Tensor, tensor: Tensor) -> Any:
    return _dot("dot", in_dims, self, tensor)


def vdot_batching(info: VmapInfo, in_dims: Any, self: Tensor, other: Tensor) -> Any:
    return _dot("vdot", in_dims, self.conj(), other)


def _scaled(value: Tensor, factor: Any) -> Tensor:
    return value if factor.__class__ is not bool and factor == 1 else value * factor


def _plus(self: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``beta * self + alpha * product``; a beta of 0 hides what is in ``self``."""
    if product.dtype.category <= 1:  # integers take no part of a factor
        beta, alpha = int(beta), int(alpha)
    product = _scaled(product, alpha)
    return product.clone() if beta == 0 else _scaled(self, beta) + product


def addmm_batching(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _plus(self, aten.mm(mat1, mat2), beta, alpha)


def addmv_batching(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _plus(self, aten.mv(mat, vec), beta, alpha)


def addr_batching(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any, alpha: Any) -> Tensor:
    if self.dtype.name == vec1.dtype.name == vec2.dtype.name == "bool":
        product = vec1.unsqueeze(-1) & vec2.unsqueeze(-2) & bool(alpha)
        return product | self if beta else product
    return _plus(self, vec1.unsqueeze(-1) * vec2.unsqueeze(-2), beta, alpha)


def baddbmm_batching(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _plus(self, aten.bmm(batch1, batch2), beta, alpha)


def addbmm_batching(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return _plus(self, aten.bmm(batch1, batch2).sum(0), beta, alpha)
