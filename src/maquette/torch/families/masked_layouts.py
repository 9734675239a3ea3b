"""Masks and tensors of other layouts, for `torch.masked`.

What is here: the mask of an input in its shape and layout, the mask of a result, the elements that
a mask keeps (`where`), and reductions of sparse tensors. A sparse tensor whose mask is applied
holds exactly what is kept, so a reduction of it is one of its values, in groups of those whose
indices agree in the dimensions that stay. The functions on dense tensors are in `masked`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from maquette.api import functions as mq
from maquette.api import sparse_functions as sparse
from maquette.core import layout as layouts
from maquette.core.broadcast import wrap_dim
from maquette.core.dtype import bfloat16, bool_, dtype, float16, float32
from maquette.tensor.tensor import Tensor

KNOWN = (layouts.strided, layouts.sparse_coo, layouts.sparse_csr)
REDUCTIONS = frozenset(
    "sum prod amax amin argmax argmin mean median norm var std logsumexp".split()
)
NORMALIZATIONS = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())


def canonical_dims(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Dimensions from 0, in order; None and () are all. RuntimeError for one given twice."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    given = [dim] if isinstance(dim, int) else list(dim)
    wrapped = sorted(wrap_dim(d, max(ndim, 1)) for d in given)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"dim={wrapped[0]} appears multiple times in the list of dims")
    return tuple(wrapped)


# --- masks ---------------------------------------------------------------------------


def input_mask(input: Tensor, *args: object, mask: Tensor | None = None, **rest: object) -> Tensor:
    """The mask of bools in the input's shape and layout, coalesced; ValueError if there is none."""
    if input.layout not in KNOWN:
        raise ValueError(
            f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}"
        )
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.meta.shape != input.meta.shape:
        mask = _broadcast(mask, input)
    if mask.layout is not input.layout:
        if input.layout is layouts.strided:
            mask = mask.to_dense()
        elif input.layout is layouts.sparse_csr:
            mask = mask.to_sparse_csr()
        elif mask.layout is layouts.strided:
            mask = mask.to_sparse(input.sparse_dim())
        else:
            mask = mask.to_sparse()
    if mask.layout is layouts.sparse_coo:
        mask = mask.coalesce()
    return cast(Tensor, mask.to(bool_))


def _broadcast(mask: Tensor, input: Tensor) -> Tensor:
    if mask.ndim > input.ndim:
        raise IndexError(
            f"_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            f"input): mask {mask.meta}, input {input.meta}"
        )
    shape = input.meta.shape
    if mask.layout is layouts.strided:
        return cast(Tensor, mq.broadcast_to(mask.clone(), shape))
    if mask.layout is layouts.sparse_coo:
        return cast(Tensor, mq._sparse_broadcast_to(mask, shape))
    return cast(Tensor, mq._sparse_broadcast_to(mask.to_sparse(), shape).to_sparse_csr())


def output_mask(
    op: Callable[..., object], input: Tensor, *args: object, **options: object
) -> Tensor:
    """Where the result of a masked function has an element that comes of something kept."""
    if not callable(op):
        raise ValueError(f"_output_mask expected masked operation (got {type(op).__name__} object)")
    found = input_mask(input, **cast(dict[str, Tensor], options))
    if op.__name__ in NORMALIZATIONS:
        return found
    if op.__name__ not in REDUCTIONS:
        raise ValueError(
            f"_output_mask expected masked operation (got callable {op.__module__}.{op.__name__})"
        )
    if op.__name__ == "norm":
        args = args[1:]  # the order
    dim = cast("int | None", args[0] if args else options.get("dim"))
    for d in reversed(canonical_dims(dim, input.ndim)):
        found = cast(Tensor, mq.any(found, d, keepdim=bool(options.get("keepdim", False))))
    return found


# --- what is kept --------------------------------------------------------------------


def where(mask: Tensor, input: Tensor, filler: Tensor | None) -> Tensor:
    """The elements that the mask keeps; others are the filler, or, in a sparse tensor, absent.

    A sparse result holds what the mask keeps and no more: 0 where the input holds nothing there.
    """
    if mask.layout is layouts.strided:
        return cast(Tensor, mq.where(mask, input, filler))
    if mask.layout is layouts.sparse_csr:
        kept = where(mask.to_sparse(), input.to_sparse(), filler)
        return cast(Tensor, kept.to_sparse_csr())
    if mask.layout is not layouts.sparse_coo:
        raise ValueError(
            f"_where expects strided or sparse COO or sparse CSR tensor but got {mask.layout}"
        )
    mask = mask.coalesce()
    rows = mask.values()
    keeps = rows.flatten(1).any(1) if rows.ndim > 1 else rows
    indices, rows = mask.indices()[:, keeps], rows[keeps]
    pattern = sparse_tensor(indices, mq.ones_like(rows, dtype=input.dtype), input)
    values = input.coalesce().sparse_mask(pattern).values()
    if rows.ndim > 1:
        values = mq.where(rows, values, filler)
    return sparse_tensor(indices, values, input)


def sparse_tensor(indices: Tensor, values: Tensor, like: Tensor) -> Tensor:
    """A coalesced tensor of the shape of ``like``; the indices are those of a coalesced one."""
    return sparse.sparse_coo_tensor(indices, values, like.meta.shape, is_coalesced=True)


# --- reductions ----------------------------------------------------------------------


def check_reducible(name: str, input: Tensor, masked: bool) -> None:
    """ValueError where a sparse tensor has no such masked reduction.

    Without a mask the elements that it does not hold are zeros, which only a sum may pass over.
    """
    if name == "mean" and input.layout is not layouts.sparse_csr:
        raise ValueError(
            f"masked mean expects strided or sparse_csr tensor (got {input.layout} tensor)"
        )
    if not masked and name != "sum":
        kind = str(input.layout).removeprefix("torch.")
        raise ValueError(f"masked {name} expects explicit mask for {kind} tensor input")


def reduced(
    name: str,
    kept: Tensor,
    dims: Sequence[int],
    keepdim: bool,
    wanted: dtype,
    identity: Tensor | None,
) -> Tensor:
    """``name`` (sum, prod, amax, amin, mean) of a sparse tensor that holds what is kept.

    identity: the result where nothing is held, of the least and the greatest.
    """
    if kept.layout is layouts.sparse_coo:
        return _reduced_coo(name, kept, dims, keepdim, wanted, identity)
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    found = _reduced_coo(name, kept.to_sparse(), dims, True, wanted, identity)
    return cast(Tensor, found.to_sparse_csr())


def _reduced_coo(
    name: str,
    kept: Tensor,
    dims: Sequence[int],
    keepdim: bool,
    wanted: dtype,
    identity: Tensor | None,
) -> Tensor:
    placed = kept.sparse_dim()
    values, indices = kept._values(), kept._indices()
    # A 16-bit sum is gathered in 32 bits, as a dense one.
    values = values.to(float32 if wanted in (float16, bfloat16) else wanted)
    dense = [d - placed + 1 for d in dims if placed <= d < kept.ndim]
    if dense:
        if name not in ("sum", "amax", "amin"):
            raise NotImplementedError(f"masked {name} of the dense dimensions of a sparse tensor")
        values = getattr(mq, name)(values, dense, keepdim)
    shape = [
        1 if d in dims else n for d, n in enumerate(kept.meta.shape) if keepdim or d not in dims
    ]
    stay = [d for d in range(placed) if d not in dims]
    if not stay:
        if identity is not None and not values.meta.shape[0]:
            values = cast(Tensor, identity.expand(shape))
        else:
            values = getattr(mq, name)(values, 0).reshape(shape)
        return cast(Tensor, values.to(wanted).to_sparse())
    # Those whose indices agree in the dimensions that stay are one group.
    found = mq.unique(indices[stay], dim=1, return_inverse=True)
    groups, where_to = cast("tuple[Tensor, Tensor]", found)
    count = groups.meta.shape[1]
    spread = where_to.reshape(-1, *[1] * (values.ndim - 1)).expand(values.meta.shape)
    empty = values.new_zeros((count, *values.meta.shape[1:]))
    values = empty.scatter_reduce(0, spread, values, name, include_self=False)
    if keepdim:
        whole = indices.new_zeros((placed, count))
        whole[stay] = groups
        groups = whole
    return sparse.sparse_coo_tensor(groups, values.to(wanted), shape)
