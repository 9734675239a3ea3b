"""Operators of one masked tensor, element by element: the data's result, with the same mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.api import functions as mq
from maquette.core.layout import sparse_coo, sparse_csr
from maquette.dispatch.registry import ops
from maquette.tensor.tensor import Tensor
from maquette.torch.masked_tensors.core import Args, Options, is_tensor, mapped, wrapped

UNARY_NAMES = """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh
    bitwise_not ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2
    expm1 fix floor frac lgamma log log10 log1p log2 logit i0 isnan nan_to_num neg negative positive
    pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square tan tanh
    trunc
""".split()
_WITHOUT_INPLACE = ("angle", "positive", "signbit", "isnan")
INPLACE_UNARY_NAMES = [f"{name}_" for name in UNARY_NAMES if name not in _WITHOUT_INPLACE]
NATIVE_UNARY_FNS = [getattr(ops.aten, name) for name in UNARY_NAMES]
NATIVE_INPLACE_UNARY_FNS = [getattr(ops.aten, name) for name in INPLACE_UNARY_NAMES]
# Those whose other tensors may be masked otherwise, or whose results have other shapes.
UNARY_NAMES_UNSUPPORTED = """
    atan2 arctan2 bitwise_left_shift bitwise_right_shift copysign float_power fmod frexp gradient
    imag ldexp lerp logical_not hypot igamma igammac mvlgamma nextafter polygamma real remainder
    true_divide xlogy
""".split()


def on_values(function: Callable[..., Any], data: list[Any]) -> Any:
    """A function of the values of the first tensor, in its layout."""
    first = data[0]
    if first.layout is sparse_coo:
        first = first.coalesce()
        return mq._sparse_coo_tensor_unsafe(
            first.indices(), function(first.values(), *data[1:]), first.size(), is_coalesced=True
        )
    if first.layout is sparse_csr:
        values = function(first.values(), *data[1:])
        crow, col = first.crow_indices(), first.col_indices()
        return mq.sparse_csr_tensor(crow, col, values, first.size())
    return function(*data)


def unary(op: Callable[..., Tensor], args: Args, kwargs: Options, *, inplace: bool) -> Any:
    """What an operator does to a masked tensor; ValueError or TypeError for more tensors."""
    if kwargs:
        raise ValueError(
            f"MaskedTensor unary ops require that len(kwargs) == 0; got {sorted(kwargs)}"
        )
    if any(is_tensor(a) for a in args[1:]):
        raise TypeError("MaskedTensor unary ops do not support additional Tensor arguments")
    data, _ = mapped(args, {}, lambda t: t._masked_data)
    result, mask = on_values(op, data), args[0]._masked_mask
    if not inplace:
        return wrapped(result, mask)
    args[0]._set_data_mask(result, mask)
    return args[0]
