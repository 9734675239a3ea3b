"""Which function and operator does what to masked tensors: the two tables that the class asks.

`FUNCTIONS` answers functions as programs call them, which may have a gradient of their own;
`OPERATORS` answers the operators beneath, below autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from maquette.api import functions as mq
from maquette.autograd.function import Function
from maquette.core.dtype import bool_
from maquette.core.layout import sparse_coo, sparse_csr, strided
from maquette.dispatch.registry import ops
from maquette.tensor.tensor import Tensor
from maquette.torch.masked_tensors.binary import BINARY_NAMES, INPLACE_BINARY_NAMES, binary
from maquette.torch.masked_tensors.core import (
    FUNCTIONS,
    OPERATORS,
    Handler,
    MaskedTensor,
    _get_data,
    _masks_match,
    is_masked_tensor,
    made,
    mapped,
    wrapped,
)
from maquette.torch.masked_tensors.reductions import REDUCE_NAMES, reduction
from maquette.torch.masked_tensors.unary import INPLACE_UNARY_NAMES, UNARY_NAMES, unary

aten = ops.aten

# What is done to the data and to the mask alike.
_BOTH = """
    select transpose split t slice slice_backward select_backward index expand view _unsafe_view
    _reshape_alias cat unsqueeze unfold unfold_backward im2col col2im stack
""".split()


def _answers(*names: str) -> Callable[[Handler], Handler]:
    """A decorator: these operators are answered so; the packet comes first."""

    def register(handler: Handler) -> Handler:
        for name in names:
            packet = getattr(aten, name)
            OPERATORS[packet] = partial(handler, packet)
        return handler

    return register


def _whole(t: Tensor) -> MaskedTensor:
    """A tensor as a masked one all of which counts."""
    return t if is_masked_tensor(t) else made(t, mq.ones_like(t, dtype=bool_))


# --- conversions and choices, which have gradients of their own -----------------------


class _Contiguous(Function):
    @staticmethod
    def forward(ctx: Any, input: MaskedTensor) -> MaskedTensor:  # type: ignore[override]  # its arguments
        return made(input._masked_data.contiguous(), input._masked_mask.contiguous())

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # type: ignore[override]  # its arguments
        return grad_output


class _InLayout(Function):
    """A masked tensor in another layout; its gradient comes back in its own."""

    @staticmethod
    def forward(ctx: Any, input: MaskedTensor, layout: Any) -> MaskedTensor:  # type: ignore[override]  # its arguments
        ctx.layout = input.layout
        return _in_layout(input, layout)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]  # its arguments
        return _in_layout(_whole(grad_output), ctx.layout), None


def _in_layout(input: MaskedTensor, layout: Any) -> MaskedTensor:
    data, mask = input._masked_data, input._masked_mask
    if input.layout is layout:
        return input
    if layout is strided:
        return made(data.to_dense(), mask.to_dense())
    plain = mask.to_dense() if mask.layout is not strided else mask
    kept = plain.to_sparse_csr() if layout is sparse_csr else plain.to_sparse_coo().coalesce()
    whole = data.to_dense() if data.layout is not strided else data
    return made(whole.sparse_mask(kept), kept)


class _Where(Function):
    @staticmethod
    def forward(ctx: Any, condition: Tensor, self: Tensor, other: Tensor) -> Tensor:  # type: ignore[override]  # its arguments
        ctx.mark_non_differentiable(condition)
        ctx.save_for_backward(condition)
        return aten.where(condition, self, other)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor, Tensor]:  # type: ignore[override]  # its arguments
        (condition,) = ctx.saved_tensors
        grad = _whole(grad_output)
        nothing = made(grad._masked_data, mq.zeros_like(grad._masked_mask))
        return (
            None,
            aten.where(condition, grad, nothing),
            aten.where(condition, nothing, grad),
        )


def _contiguous(input: MaskedTensor, **options: Any) -> Any:
    return input if input.is_contiguous() else _Contiguous.apply(input)


def _to_dense(input: MaskedTensor, **options: Any) -> Any:
    return input if input.layout is strided else _InLayout.apply(input, strided)


def _to_sparse(input: MaskedTensor, **options: Any) -> Any:
    return input if input.layout is sparse_coo else _InLayout.apply(input, sparse_coo)


def _to_sparse_csr(input: MaskedTensor, **options: Any) -> Any:
    if input.dim() != 2:
        raise ValueError(
            f"Only 2D tensors can be converted to the SparseCsr layout but got shape: "
            f"{input.size()}"
        )
    return input if input.layout is sparse_csr else _InLayout.apply(input, sparse_csr)


def _where_function(condition: Any, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 2 or kwargs:
        raise ValueError(
            f"__torch_function__, torch.where: len(args) must be 3 but got {1 + len(args)}"
        )
    return _Where.apply(condition, *args)


# --- operators -----------------------------------------------------------------------


@_answers(*_BOTH)
def _both(op: Handler, *args: Any, **kwargs: Any) -> Any:
    data_args, data_kwargs = mapped(args, kwargs, lambda t: t._masked_data)
    mask_args, mask_kwargs = mapped(args, kwargs, lambda t: t._masked_mask)
    return wrapped(op(*data_args, **data_kwargs), op(*mask_args, **mask_kwargs))


@_answers("is_contiguous", "sym_is_contiguous", "is_non_overlapping_and_dense")
def _of_strides(op: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    if input._masked_data.layout is not strided:
        raise ValueError(f"MaskedTensors with sparse data do not have {op.__name__}")
    return op(input._masked_data, *args, **kwargs)


@_answers("stride", "sym_stride")
def _no_strides(op: Any, input: MaskedTensor) -> None:
    """As PyTorch: the wrapper's own are told."""


@_answers("contiguous")
def _contiguous_operator(op: Any, input: MaskedTensor, **options: Any) -> Any:
    if input._masked_data.layout is not strided:
        raise ValueError("MaskedTensors with sparse data do not have contiguous")
    return _contiguous(input)


@_answers("new_empty_strided")
def _new_empty_strided(
    op: Any, input: MaskedTensor, size: Any, stride: Any, **kwargs: Any
) -> MaskedTensor:
    data = input._masked_data
    for what, given, own in (("size", size, data.size()), ("stride", stride, data.stride())):
        if tuple(given) != tuple(own):
            raise ValueError(f"new_empty_strided: expected the data's {what} {own}, got {given}")
    return made(op(data, size, stride, **kwargs), input._masked_mask)


@_answers("_local_scalar_dense")
def _item(op: Any, input: MaskedTensor) -> Any:
    if not input._masked_mask.item():
        raise ValueError("item() of an element that is masked out; ask get_mask() first")
    return op(input._masked_data)


@_answers("detach", "clone")
def _on_data(op: Any, input: MaskedTensor, **kwargs: Any) -> MaskedTensor:
    return made(op(input._masked_data), input._masked_mask)


@_answers("_to_copy")
def _copied(op: Any, input: MaskedTensor, **kwargs: Any) -> MaskedTensor:
    mask = op(input._masked_mask, **{**kwargs, "dtype": bool_})
    return made(op(input._masked_data, **kwargs), mask)


@_answers("_softmax")
def _softmax(op: Any, input: MaskedTensor, dim: int, half_to_float: bool) -> MaskedTensor:
    result = aten._masked_softmax(input._masked_data, ~input._masked_mask, dim, 2)
    return made(result, input._masked_mask)


@_answers("_softmax_backward_data")
def _softmax_backward(op: Any, grad: Tensor, output: Tensor, dim: int, dtype: Any) -> MaskedTensor:
    if not (is_masked_tensor(grad) and is_masked_tensor(output)):
        raise ValueError("_softmax_backward_data: grad and output must both be MaskedTensors")
    if not _masks_match(grad, output):
        raise ValueError("_softmax_backward_data: the masks of grad and output must match")
    data, mask = grad._masked_data, grad._masked_mask
    back = aten._masked_softmax_backward(data, output._masked_data, ~mask, dim % data.dim())
    return made(back, mask)


@_answers("ones_like")
def _ones_like(op: Any, input: MaskedTensor, **kwargs: Any) -> MaskedTensor:
    return made(op(input._masked_data, **kwargs), input._masked_mask)


@_answers("copy_")
def _copy_into(op: Any, self: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    if not _masks_match(self, source):
        raise ValueError("args[0] mask and args[1] mask must match but do not")
    op(_get_data(self), _get_data(source))
    return self


@_answers("where")
def _where(op: Any, condition: Tensor, self: Tensor, other: Tensor) -> MaskedTensor:
    one, two = _whole(self), _whole(other)
    mask = op(condition, one._masked_mask, two._masked_mask)
    return made(op(condition, one._masked_data, two._masked_data), mask)


@_answers("_to_sparse")
def _as_coo(op: Any, input: Tensor) -> MaskedTensor:
    return _in_layout(_whole(input), sparse_coo)


@_answers("_to_sparse_csr")
def _as_csr(op: Any, input: Tensor) -> MaskedTensor:
    return _in_layout(_whole(input), sparse_csr)


@_answers("_to_dense")
def _as_strided(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    return _in_layout(_whole(input), strided)


@_answers("_indices")
def _indices(op: Any, input: MaskedTensor) -> MaskedTensor:
    return _whole(input._masked_data.indices())


@_answers("_values")
def _values(op: Any, input: MaskedTensor) -> MaskedTensor:
    return _whole(input._masked_data.values())


@_answers("_sparse_coo_tensor_with_dims_and_tensors")
def _made_of_values(op: Any, *args: Any, **kwargs: Any) -> MaskedTensor:
    *sizes, indices, values = (_get_data(a) for a in args)
    mask = op(*sizes, indices, mq.ones_like(values), **kwargs).to(bool_)
    return made(op(*sizes, indices, values, **kwargs), mask)


@_answers("is_same_size")
def _same_size(op: Any, self: Tensor, other: Tensor) -> bool:
    return tuple(self.size()) == tuple(other.size())


@_answers("_is_any_true")
def _any_true(op: Any, input: MaskedTensor) -> MaskedTensor:
    if input._masked_data.dtype is not bool_:
        raise ValueError("_is_any_true: expected a boolean tensor")
    if input.is_sparse:
        raise ValueError("MaskedTensors with sparse data do not have _is_any_true")
    return made(op(input._masked_data & input._masked_mask), mq.tensor(True))


# --- families ------------------------------------------------------------------------


def _of_family(op: Handler, carry_out: Handler, inplace: bool) -> Handler:
    return lambda *args, **kwargs: carry_out(op, args, kwargs, inplace=inplace)


def _register_families() -> None:
    families = (
        (UNARY_NAMES, unary, False),
        (INPLACE_UNARY_NAMES, unary, True),
        (BINARY_NAMES, binary, False),
        (INPLACE_BINARY_NAMES, binary, True),
    )
    for names, carry_out, inplace in families:
        for name in names:
            packet = getattr(aten, name)
            OPERATORS[packet] = _of_family(packet, carry_out, inplace)
    for name in REDUCE_NAMES:
        for way in (getattr(mq, name), getattr(Tensor, name), getattr(aten, name)):
            FUNCTIONS[way] = reduction(name)
        OPERATORS[getattr(aten, name)] = reduction(name)
    FUNCTIONS[mq.where] = _where_function
    methods: dict[str, Handler] = {
        "where": _where_function,
        "contiguous": _contiguous,
        "to_dense": _to_dense,
        "to_sparse": _to_sparse,
        "to_sparse_csr": _to_sparse_csr,
    }
    for name, method in methods.items():
        FUNCTIONS[getattr(Tensor, name)] = method


_register_families()
__all__ = ["FUNCTIONS", "OPERATORS"]
