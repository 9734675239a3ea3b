"""`MaskedTensor`: data and a mask of the same shape and layout; where it is False, nothing counts.

What operators do is in `operators.py`, by families in `unary.py`, `binary.py`, `reductions.py`;
this file has the class, how one is made and printed, and how masks are compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, cast

from maquette.api import functions as mq
from maquette.autograd.function import Function
from maquette.core import dtype as dtypes
from maquette.core.layout import sparse_coo, sparse_csr, strided
from maquette.dispatch.torch_function import DisableTorchFunctionSubclass
from maquette.tensor.tensor import Tensor

Args = tuple[Any, ...]
Handler = Callable[..., Any]
Options = Mapping[str, Any]

FUNCTIONS: dict[Any, Handler] = {}
OPERATORS: dict[Any, Handler] = {}
"""What does what to masked tensors; `operators.py` fills both."""

_LAYOUTS = (strided, sparse_coo, sparse_csr)
_DTYPES = (
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
    dtypes.bool_,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
)
_PROTOTYPE = (
    "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. "
    "See the documentation of torch.masked."
)


def is_masked_tensor(obj: object, /) -> TypeGuard[MaskedTensor]:
    """Whether an object is a `MaskedTensor`."""
    return isinstance(obj, MaskedTensor)


def is_tensor(obj: object) -> TypeGuard[Tensor]:
    """Whether an object is a tensor, masked or not."""
    return isinstance(obj, Tensor)


def _parts(t: Tensor) -> tuple[Tensor, ...]:
    """The strided tensors that a tensor is made of: itself, or indices and values."""
    if t.layout is sparse_coo:
        return t.indices(), t.values()
    if t.layout is sparse_csr:
        return t.crow_indices(), t.col_indices(), t.values()
    return (t,)


def same_indices(a: Tensor, b: Tensor) -> bool:
    """Whether two sparse tensors of one layout have their values in the same places."""
    return all(map(_same, _parts(a)[:-1], _parts(b)[:-1]))


def _same(a: Tensor, b: Tensor) -> bool:
    return tuple(a.shape) == tuple(b.shape) and bool((a == b).all())


def _tensors_match(
    a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-5, atol: float = 1e-8
) -> bool:
    """Whether two plain tensors have the same values, or nearly; ValueError for two layouts."""
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout is not b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    b = b if a.dtype is b.dtype else b.to(a.dtype)
    if a.dim() != b.dim():
        return False
    if exact:
        return all(map(_same, _parts(a), _parts(b)))
    return same_indices(a, b) and bool(
        mq.allclose(_parts(a)[-1], _parts(b)[-1], rtol=rtol, atol=atol)
    )


def _masks_match(a: object, b: object) -> bool:
    """Whether two masked tensors have the same mask; True of what is not masked."""
    if is_masked_tensor(a) and is_masked_tensor(b):
        return _tensors_match(a._masked_mask, b._masked_mask)
    return True


def _get_data(a: Any) -> Any:
    """The data of a masked tensor, outside autograd; all else as it is."""
    return a._masked_data if is_masked_tensor(a) else a


def _maybe_get_mask(a: object) -> Tensor | None:
    """The mask of a masked tensor."""
    return a._masked_mask if is_masked_tensor(a) else None


def mapped(
    args: Args, kwargs: Options, part: Callable[[MaskedTensor], Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments with a part of each masked tensor in its place, in lists and tuples, too."""

    def of(a: Any) -> Any:
        if is_masked_tensor(a):
            return part(a)
        return type(a)([of(item) for item in a]) if isinstance(a, list | tuple) else a

    return [of(a) for a in args], {name: of(a) for name, a in kwargs.items()}


_map_mt_args_kwargs = mapped


def wrapped(data: Any, mask: Any) -> Any:
    """Results and their masks, as masked tensors; NotImplemented for what is no tensor."""
    if isinstance(data, list | tuple):
        return type(data)([wrapped(d, m) for d, m in zip(data, mask, strict=True)])
    return made(data, mask) if is_tensor(data) else NotImplemented


_wrap_result = wrapped


def made(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor, without the warning that those of the user's making bring."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return MaskedTensor(data, mask)


class MaskedTensor(Tensor):
    """``data`` where ``mask`` is True; elsewhere nothing counts, in operators and in gradients.

    Both have one shape and one layout (strided, sparse COO with the same indices, sparse CSR). The
    constructor copies both, detached from any graph; `as_masked_tensor` does not detach. Raises
    TypeError or ValueError for parts that do not go together.
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    @staticmethod
    def __new__(
        cls: type[MaskedTensor], data: Tensor, mask: Tensor, requires_grad: bool = False
    ) -> MaskedTensor:
        for name, part in (("data", data), ("mask", mask)):
            if is_masked_tensor(part) or not is_tensor(part):
                raise TypeError(f"{name} must be a Tensor")
        warnings.warn(_PROTOTYPE, UserWarning, stacklevel=2)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        wrapper: MaskedTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]  # by name
            cls,
            data.size(),
            device=data.device,
            dtype=data.dtype,
            layout=data.layout,
            requires_grad=requires_grad,
        )
        return wrapper

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        if data.layout is not mask.layout:
            raise TypeError("data and mask must have the same layout.")
        if data.layout is sparse_coo:
            data, mask = data.coalesce(), mask.coalesce()
        if data.layout is not strided and data._nnz() != mask._nnz():
            data = data.to_dense().sparse_mask(mask)
        self._set_data_mask(data.clone(), mask.clone())

    def _set_data_mask(self, data: Tensor, mask: Tensor) -> None:
        _check(data, mask)
        self._masked_data = data
        self._masked_mask = mask

    @staticmethod
    def _from_values(data: Tensor, mask: Tensor) -> MaskedTensor:
        """A masked tensor whose gradient is that of the data."""
        return cast(MaskedTensor, _FromValues.apply(data, mask))

    def get_data(self) -> Tensor:
        """The data, within the graph: what comes back is masked."""
        return cast(Tensor, GetData.apply(self))

    def get_mask(self) -> Tensor:
        """The mask."""
        return self._masked_mask

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor: the data, and ``value`` where the mask is False."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    def is_sparse_coo(self) -> bool:
        """Whether the layout is sparse COO."""
        return self.layout is sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]  # a method, as in PyTorch
        """Whether the layout is sparse CSR."""
        return self.layout is sparse_csr

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is sparse, COO or CSR."""
        return self.is_sparse_coo() or self.is_sparse_csr()

    @classmethod
    def unary(cls, fn: Callable[[Tensor], Tensor], data: Tensor, mask: Tensor) -> MaskedTensor:
        """A masked tensor of what a function makes of the data."""
        return MaskedTensor(fn(data), mask)

    def __lt__(self, other: Any) -> MaskedTensor:
        return made(self.get_data() < _get_data(other), self.get_mask())

    def __repr__(self) -> str:
        data, mask = self._masked_data, self._masked_mask
        if data.layout is not strided:
            data, mask = data.to_dense(), mask.to_dense()
        if data.dim() == 0:
            return f"MaskedTensor({_text(data) if mask.item() else '--'}, {mask.item()})"
        return f"MaskedTensor(\n{_indented(_rows(data, mask))}\n)"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Args = (),
        kwargs: Options | None = None,
    ) -> Any:
        handler = FUNCTIONS.get(func)
        if handler is not None:
            return handler(*args, **(kwargs or {}))
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as dispatch calls it
        cls, func: Any, types: Iterable[type], args: Args = (), kwargs: Options | None = None
    ) -> Any:
        packet = func.overloadpacket
        handler = OPERATORS.get(packet)
        if handler is not None:
            return handler(*args, **(kwargs or {}))
        warnings.warn(
            f"{packet.__name__} is not implemented in __torch_dispatch__ for MaskedTensor.",
            stacklevel=2,
        )
        return NotImplemented


class _FromValues(Function):
    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> MaskedTensor:  # type: ignore[override]  # its arguments
        return made(data, mask)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]  # its arguments
        return grad_output, None


class GetData(Function):
    @staticmethod
    def forward(ctx: Any, masked: MaskedTensor) -> Tensor:  # type: ignore[override]  # its arguments
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # type: ignore[override]  # its arguments
        return grad_output if is_masked_tensor(grad_output) else made(grad_output, ctx.mask)


def _check(data: Tensor, mask: Tensor) -> None:
    if type(data) is not type(mask):
        raise TypeError(f"data and mask must have the same type. Got {type(data)} and {type(mask)}")
    if data.layout not in _LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is sparse_coo and not same_indices(data, mask):
        raise ValueError(
            "data and mask are both sparse COO tensors but do not have the same indices."
        )
    if data.layout is sparse_csr and not same_indices(data, mask):
        raise ValueError(
            "data and mask are both sparse CSR tensors but do not share either crow or col indices."
        )
    if mask.dtype is not dtypes.bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")


def _text(element: Tensor) -> str:
    value = element.item()
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _rows(data: Tensor, mask: Tensor) -> str:
    if data.dim() > 1:
        rows = [_indented(_rows(d, m)) for d, m in zip(data, mask, strict=True)]
        return "[\n" + ",\n".join(rows) + "\n]"
    texts = [_text(element) for element in data]
    kept = mask.tolist()
    width = max((len(t) if k else 8 for t, k in zip(texts, kept, strict=True)), default=8)
    return "[" + ", ".join(t if k else "--".rjust(width) for t, k in zip(texts, kept)) + "]"


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


__all__ = ["MaskedTensor", "is_masked_tensor"]
