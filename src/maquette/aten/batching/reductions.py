"""Batching rules of reductions, scans, sorting and what else goes along dimensions."""

from __future__ import annotations

from typing import Any

from maquette.aten.batching.forms import VmapInfo, along, aten, rank_of, to_front
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import decomposition_for, family, rule_for

family(
    "sum.dim_IntList mean.dim prod.dim_int nansum amax amin logsumexp all.dim any.dim all.dims "
    "any.dims max.dim min.dim median.dim nanmedian.dim mode kthvalue topk sort sort.stable "
    "cumsum cumprod cummax cummin logcumsumexp _softmax _log_softmax _safe_softmax "
    "_softmax_backward_data _log_softmax_backward_data "
    "count_nonzero.dim_IntList linalg_vector_norm var.correction std.correction "
    "var_mean.correction std_mean.correction norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype "
    "linalg_cross hash_tensor _fft_c2c _fft_r2c _fft_c2r",
    along,
)


def _over_all(names: str) -> None:
    """Reductions without dimensions: over all but the batch, by the form with dimensions."""
    for name in names.split():

        @rule_for(name)
        def rule(
            info: VmapInfo, in_dims: Any, self: Tensor, _name: str = name, **kwargs: Any
        ) -> Any:
            x = to_front(self, in_dims[0]).reshape(self.shape[in_dims[0]], -1)
            if self.meta.ndim == 1:
                x = to_front(self, in_dims[0]).unsqueeze(-1)
            return getattr(aten, _name)(x, 1, **kwargs), 0


_over_all("sum mean prod all any")


def _values_over_all(names: str) -> None:
    """Those whose form with a dimension gives the index too."""
    for name in names.split():

        @rule_for(name)
        def rule(info: VmapInfo, in_dims: Any, self: Tensor, _name: str = name) -> Any:
            x = to_front(self, in_dims[0])
            x = x.flatten(1) if x.meta.ndim > 1 else x.unsqueeze(-1)
            return getattr(aten, _name)(x, 1)[0], 0


_values_over_all("max min median nanmedian")


def _norm(info: VmapInfo, in_dims: Any, self: Tensor, p: Any = 2, **kwargs: Any) -> Any:
    x = to_front(self, in_dims[0])
    dims = list(range(1, x.meta.ndim)) if x.meta.ndim > 1 else [1]
    x = x if x.meta.ndim > 1 else x.unsqueeze(-1)
    return aten.linalg_vector_norm(x, 2 if p is None else p, dims, **kwargs), 0


rule_for("norm.Scalar norm.ScalarOpt_dtype")(_norm)


def _arg(name: str) -> None:
    @rule_for(name)
    def rule(
        info: VmapInfo, in_dims: Any, self: Tensor, dim: Any = None, keepdim: Any = False
    ) -> Any:
        x = to_front(self, in_dims[0])
        rank = rank_of(self, in_dims[0])
        function = getattr(aten, name)
        if dim is None or not rank:
            found = function(x.flatten(1) if rank else x.unsqueeze(-1), 1)
            return (found.view(-1, *[1] * rank) if keepdim else found), 0
        return function(x, dim % rank + 1, keepdim), 0


_arg("argmax")
_arg("argmin")


@rule_for("count_nonzero")
def count_nonzero_batching(info: VmapInfo, in_dims: Any, self: Tensor, dim: Any = None) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not rank:
        return (x != 0).to(aten.count_nonzero(x).dtype), 0
    dims = list(range(1, rank + 1)) if dim is None else [dim % rank + 1]
    return aten.count_nonzero.dim_IntList(x, dims), 0


@rule_for("aminmax")
def aminmax_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> Any:
    x = to_front(self, in_dims[0])
    rank = rank_of(self, in_dims[0])
    if not rank:
        return (aten.clone(x), aten.clone(x)), 0
    if dim is not None:
        return aten.aminmax(x, dim=dim % rank + 1, keepdim=keepdim), 0
    low, high = aten.aminmax(x.flatten(1), dim=1)
    shape = (-1, *[1] * rank) if keepdim else (-1,)
    return (low.view(shape), high.view(shape)), 0


@decomposition_for("renorm")
def renorm(self: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    others = [d for d in range(self.meta.ndim) if d != dim % self.meta.ndim]
    norms = aten.linalg_vector_norm(self, p, others, True)
    factor = aten.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return (self * factor).to(self.dtype)


@decomposition_for("dist")
def dist(self: Tensor, other: Tensor, p: Any) -> Tensor:
    return aten.linalg_vector_norm(self - other, p)


@rule_for("searchsorted.Tensor")
def searchsorted_batching(
    info: VmapInfo,
    in_dims: Any,
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    sorter: Tensor | None = None,
    **kwargs: Any,
) -> Any:
    rank = rank_of(sorted_sequence, in_dims[0])
    x = to_front(self, in_dims[1], info.batch_size)
    line = to_front(sorted_sequence, in_dims[0], info.batch_size)
    if sorter is not None and sorter.meta.ndim == rank:
        sorter = to_front(sorter, None, info.batch_size)
    if rank == 1:
        found = aten.searchsorted(line, x.reshape(info.batch_size, -1), sorter=sorter, **kwargs)
        return found.view(x.shape), 0
    return aten.searchsorted(line, x, sorter=sorter, **kwargs), 0


@rule_for("bucketize.Tensor")
def bucketize_batching(
    info: VmapInfo, in_dims: Any, self: Tensor, boundaries: Tensor, **kwargs: Any
) -> Any:
    if in_dims[1] is None:
        return aten.bucketize(self, boundaries, **kwargs), in_dims[0]
    x = to_front(self, in_dims[0], info.batch_size)
    line = to_front(boundaries, in_dims[1])
    found = aten.searchsorted(line, x.reshape(info.batch_size, -1), **kwargs)
    return found.view(x.shape), 0


@rule_for("isin.Tensor_Scalar")
def isin_scalar_batching(
    info: VmapInfo, in_dims: Any, elements: Tensor, test_element: Any, **kwargs: Any
) -> Any:
    return aten.isin(elements, test_element, **kwargs), in_dims[0]


@decomposition_for("isin.Tensor_Tensor")
def isin(elements: Tensor, test: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    found = (elements.unsqueeze(-1) == test.flatten()).any(-1)
    return found.logical_not() if invert else found
