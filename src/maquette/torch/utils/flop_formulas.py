"""FLOPs by the shapes of arguments: what an operator's page says, asked by PyTorch's names.

`flop_registry` has a function for each operator that `FlopCounterMode` counts; programs add those
of their own operators by `register_flop_formula`. The functions of single operators (`mm_flop`) ask
the pages, by tensors without data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from maquette.api import functions as mq
from maquette.dispatch.higher_order import HigherOrderOperator
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import OpOverloadPacket, find_packet, ops
from maquette.library.costs import cost_of
from maquette.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
Shape = Sequence[int]

COUNTED = tuple(
    "mm addmm bmm baddbmm _scaled_mm convolution _convolution convolution_backward "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward "
    "_efficient_attention_forward _efficient_attention_backward _flash_attention_forward "
    "_flash_attention_backward".split()
)
"""The operators of aten that PyTorch counts."""

flop_registry: dict[Any, Callable[..., int]] = {}
"""By operator, a function of a call's values: ``f(*args, out_val=result, **kwargs)``."""


# --- registering -----------------------------------------------------------------------------


def get_shape(i: Any) -> Any:
    """The shape of a tensor; anything else itself."""
    return i.shape if isinstance(i, Tensor) else i


def _shapes(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(_shapes, value))
    if type(value) is dict:
        return {name: _shapes(v) for name, v in value.items()}
    return get_shape(value)


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """A function of values, with ``out_val=``, from one of shapes, with ``out_shape=``."""

    @functools.wraps(f)
    def of_values(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return f(*_shapes(args), out_shape=_shapes(out_val), **_shapes(kwargs))

    return of_values


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[F], F]:
    """Let a function say the FLOPs of calls of these operators, or of this one.

    It takes the shapes of the arguments, and ``out_shape=``; get_raw: the values, and
    ``out_val=``. RuntimeError where an operator has one already, ValueError for what is neither a
    packet of overloads nor an operator on functions.
    """

    def register(formula: F) -> F:
        of_values = formula if get_raw else shape_wrapper(formula)
        alone = isinstance(targets, OpOverloadPacket) or not isinstance(targets, Iterable)
        for target in (targets,) if alone else targets:
            if not isinstance(target, OpOverloadPacket | HigherOrderOperator):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be OpOverloadPacket "
                    f"(i.e. torch.ops.mylib.foo) or HigherOrderOperator, got {target} of type "
                    f"{type(target).__name__}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = of_values
        return formula

    return register


def _by_page(packet: OpOverloadPacket) -> Callable[..., int]:
    """The function of a call's values that asks the page."""

    def flops(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return cost_of(_default(packet), args, kwargs, out_val).flops

    return flops


def _default(packet: OpOverloadPacket) -> OpOverload:
    default: OpOverload = packet.default
    return default


_found = [find_packet(f"aten::{name}") for name in COUNTED]
BY_PAGE = {packet: _by_page(packet) for packet in _found if packet is not None}
"""The first entries of the registry."""
flop_registry |= BY_PAGE


# --- single operators ------------------------------------------------------------------------


def _meta(shape: Shape) -> Tensor:
    made: Tensor = mq.empty(tuple(shape), device="meta")
    return made


def _called(op: OpOverload, *args: Any) -> int:
    """The FLOPs of a call whose results are as it gives them."""
    return int(cost_of(op, args, {}, op(*args)).flops)


@shape_wrapper
def mm_flop(
    a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """FLOPs of `mm`."""
    return _called(ops.aten.mm.default, _meta(a_shape), _meta(b_shape))


@shape_wrapper
def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """FLOPs of the product in `addmm`."""
    return mm_flop(a_shape, b_shape)


@shape_wrapper
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """FLOPs of `bmm`."""
    return _called(ops.aten.bmm.default, _meta(a_shape), _meta(b_shape))


@shape_wrapper
def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """FLOPs of the products in `baddbmm`."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(
    x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False
) -> int:
    """FLOPs of a convolution from its shapes alone."""
    n = len(x_shape) - 2
    options = (None, [1] * n, [0] * n, [1] * n, transposed, [0] * n, 1)
    op = ops.aten.convolution.default
    x, w, out = map(_meta, (x_shape, w_shape, out_shape))
    return int(cost_of(op, (x, w, *options), {}, out).flops)


@shape_wrapper
def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """FLOPs of `convolution`."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@shape_wrapper
def conv_backward_flop(
    grad_out_shape: Shape,
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: Sequence[bool],
    out_shape: Any,
    **kwargs: Any,
) -> int:
    """FLOPs of `convolution_backward`, of the gradients that are asked for."""
    shapes = zip(output_mask, (x_shape, w_shape, w_shape[:1]))
    results = tuple(_meta(shape) if wanted else None for wanted, shape in shapes)
    args = (
        *map(_meta, (grad_out_shape, x_shape, w_shape)), _bias, _stride, _padding, _dilation,
        transposed, _output_padding, _groups, list(output_mask),
    )  # fmt: skip
    return int(cost_of(ops.aten.convolution_backward.default, args, {}, results).flops)


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """FLOPs of an attention's two products, by a kernel that keeps no weights."""
    op = ops.aten._scaled_dot_product_flash_attention.default
    args = tuple(map(_meta, (query_shape, key_shape, value_shape)))
    out = _meta((*query_shape[:-1], value_shape[-1]))
    return int(cost_of(op, args, {}, (out,)).flops)


@shape_wrapper
def sdpa_flop(
    query_shape: Shape,
    key_shape: Shape,
    value_shape: Shape,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """`sdpa_flop_count` of a call."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape
) -> int:
    """FLOPs of an attention's backward: five products, the weights again among them."""
    grad, query, key, value = map(_meta, (grad_out_shape, query_shape, key_shape, value_shape))
    rest = (grad, _meta(query_shape[:-1]), None, None, 1, 1, 0.0, False, _meta(()), _meta(()))
    op = ops.aten._scaled_dot_product_flash_attention_backward.default
    return int(cost_of(op, (grad, query, key, value, *rest), {}, (query, key, value)).flops)


@shape_wrapper
def sdpa_backward_flop(
    grad_out_shape: Shape,
    query_shape: Shape,
    key_shape: Shape,
    value_shape: Shape,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """`sdpa_backward_flop_count` of a call."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


# --- attention of packed sequences -----------------------------------------------------------

Shapes = tuple[Shape, Shape, Shape, Shape | None]


def _lengths(offsets: Tensor, longest: int) -> list[int]:
    """The lengths of packed sequences; without data, of each the longest that it may have."""
    if offsets.fake_mode is not None or offsets.is_meta:
        return [longest] * (offsets.size(0) - 1)
    lengths: list[int] = offsets.diff().tolist()
    return lengths


def _unpack_flash_attention_nested_shapes(
    *,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grad_out: Tensor | None = None,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
) -> Iterator[Shapes]:
    """The shapes of query, key, value and gradient; of packed sequences, those of each alone.

    Packed are ``(all tokens, heads, size of a head)``, with offsets where each sequence begins,
    and alone they are ``(1, heads, tokens, size of a head)``. AssertionError for what does not fit.
    """
    if cum_seq_q is None:
        yield query.shape, key.shape, value.shape, None if grad_out is None else grad_out.shape
        return
    if cum_seq_k is None or cum_seq_k.shape != cum_seq_q.shape:
        raise AssertionError("packed queries and keys need as many offsets")
    if not query.dim() == key.dim() == value.dim() == 3:
        raise AssertionError(
            f"packed sequences have 3 dimensions, got {query.shape}, {key.shape}, {value.shape}"
        )
    if grad_out is not None and grad_out.shape != query.shape:
        raise AssertionError(f"a gradient of {grad_out.shape} for a query of {query.shape}")
    for q, k in zip(_lengths(cum_seq_q, max_q), _lengths(cum_seq_k, max_k), strict=True):
        alone = [(1, t.shape[1], n, t.shape[2]) for t, n in ((query, q), (key, k), (value, k))]
        yield alone[0], alone[1], alone[2], None if grad_out is None else alone[0]


# --- texts -----------------------------------------------------------------------------------

_SUFFIXES = ("", "K", "M", "B", "T")


def normalize_tuple(x: Any) -> Any:
    """A tuple of what is none."""
    return x if isinstance(x, tuple) else (x,)


def get_suffix_str(number: int) -> str:
    """The suffix with which a number is written with at most about four digits before the point."""
    digits = len(str(number))
    return _SUFFIXES[max(0, min(len(_SUFFIXES) - 1, (digits - 2) // 3))]


def convert_num_with_suffix(number: float, suffix: str) -> str:
    """The number in units of the suffix: ``123.456K``."""
    return f"{number / 1000 ** _SUFFIXES.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: float, denom: float) -> str:
    """A share: ``33.33%``; of nothing, ``0%``."""
    return f"{num / denom:.2%}" if denom else "0%"


__all__ = ["flop_registry", "register_flop_formula"]
