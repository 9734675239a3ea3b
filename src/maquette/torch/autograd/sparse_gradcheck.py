"""`gradcheck` of sparse inputs: a function of their values, which are dense.

``masked``: only the elements that an input specifies vary; otherwise all do, so the input is made
anew with every element specified. Sparse results become dense ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.api.sparse_functions import sparse_compressed_tensor, sparse_coo_tensor
from maquette.core.layout import sparse_coo, strided
from maquette.tensor.sparse import BLOCKED, block_of, parts_of, sparse_dims
from maquette.tensor.tensor import Tensor

Function = Callable[..., Any]


def of_values(
    func: Function, inputs: Sequence[Any], *, masked: bool
) -> tuple[Function, tuple[Any, ...]]:
    """The function and its inputs, each sparse one that requires grad replaced by its values."""
    patterns = [
        _pattern(value, masked=masked) if _is_sparse(value) and value.requires_grad else None
        for value in inputs
    ]
    if all(p is None for p in patterns):
        return func, tuple(inputs)
    leaves = [
        value if p is None else p.values().detach().clone().requires_grad_()
        for p, value in zip(patterns, inputs, strict=True)
    ]

    def function(*given: Any) -> Any:
        made = [
            value if p is None else _with_values(p, value)
            for p, value in zip(patterns, given, strict=True)
        ]
        result = func(*made)
        if isinstance(result, Tensor):
            return _dense(result, masked=masked)
        return tuple(_dense(r, masked=masked) for r in result)

    return function, tuple(leaves)


def _is_sparse(value: object) -> bool:
    return isinstance(value, Tensor) and value.layout is not strided


def _pattern(t: Tensor, *, masked: bool) -> Tensor:
    """A sparse tensor of these values with the elements that are to vary."""
    t = t.detach()
    if t.layout is sparse_coo:
        t = t.coalesce()
    if masked:
        return t
    dense = t.to_dense()
    block = block_of(t) if t.layout in BLOCKED else None
    inner = sparse_dims(t)[1]
    full = mq.ones_like(dense).to_sparse(layout=t.layout, blocksize=block, dense_dim=inner)
    return dense.sparse_mask(full) if t.layout is sparse_coo else _filled(full, dense, block, inner)


def _filled(full: Tensor, dense: Tensor, block: tuple[int, int] | None, inner: int) -> Tensor:
    """A compressed tensor that specifies all of ``dense``: zeros are lifted while it is made."""
    lift = 1 + (dense.abs().max() if dense.numel() else 0)
    made = (dense + lift).to_sparse(layout=full.layout, blocksize=block, dense_dim=inner)
    return _with_values(full, made.values() - lift)


def _with_values(pattern: Tensor, values: Tensor) -> Tensor:
    parts, shape = parts_of(pattern), pattern.shape
    if pattern.layout is sparse_coo:
        return sparse_coo_tensor(pattern.indices(), values, shape, is_coalesced=True)
    return sparse_compressed_tensor(parts[0], parts[1], values, shape, layout=pattern.layout)


def _dense(value: Any, *, masked: bool) -> Any:
    return value.to_dense(masked_grad=masked) if _is_sparse(value) else value
