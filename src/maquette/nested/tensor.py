"""`NestedTensor`: values of all rows in a row, offsets where each begins, a nested int as size.

It is a wrapper subclass. Operators on it are kernels at the key AutogradNestedTensor
(`operators.py`), which speak operators on the values: autograd follows those, between the two
functions here that go from a nested tensor to its values and back.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from maquette.autograd.function import Function
from maquette.core.layout import jagged
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.abstract import disabled_torch_function
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tls import tls
from maquette.symbolic.nested_ints import NestedInt
from maquette.tensor.keys import inference_keys, keys_for
from maquette.tensor.nested_ints import nested_int_of, nested_size, tie
from maquette.tensor.pickled_form import pickled_form
from maquette.tensor.tensor import Tensor, of_class, wrap

if TYPE_CHECKING:
    from maquette.fake.symbols import Symbols

NESTED = K.functionality_bits(DispatchKey.NestedTensor) | K.functionality_bits(
    DispatchKey.AutogradNestedTensor
)
ANSWER: list[Callable[[OpOverload, Sequence[object]], object] | None] = [None]
"""What answers an operator on nested tensors; `operators.py` fills it in."""


class NestedTensor(Tensor):
    """Rows of different lengths: sizes (rows, ..., j1, ...), where j1 stands for the lengths.

    ``_values`` has the rows one after the other along the ragged dimension, ``_offsets`` (int64,
    rows + 1) where each begins. With ``_lengths`` rows end before the next begins.
    """

    _values: Tensor
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _min_seqlen_tensor: Tensor | None
    _max_seqlen_tensor: Tensor | None
    is_nested: ClassVar[bool] = True
    __torch_function__: ClassVar[Callable[..., object]] = disabled_torch_function

    def __new__(
        cls,
        values: Tensor,
        offsets: Tensor,
        *,
        lengths: Tensor | None = None,
        requires_grad: bool = False,
        _ragged_idx: int = 1,
        _min_seqlen_tensor: Tensor | None = None,
        _max_seqlen_tensor: Tensor | None = None,
        _size: Sequence[Any] | None = None,
    ) -> NestedTensor:
        _check_parts(values, offsets, lengths)
        size, stride = geometry(values, offsets, lengths, _ragged_idx, _size)
        v = values.meta
        meta = TensorMeta.of(v.dtype, size, stride, v.offset, v.device, jagged)
        keys = inference_keys(meta) if tls.st.inference else keys_for(meta) | NESTED
        made = cast(NestedTensor, of_class(wrap(meta, values._storage, None, keys), cls))
        made._values, made._offsets, made._lengths = values, offsets, lengths
        made._ragged_idx = _ragged_idx
        made._min_seqlen_tensor = _min_seqlen_tensor
        made._max_seqlen_tensor = _max_seqlen_tensor
        if requires_grad:
            made._require_grad()
        return made

    # --- taken apart ------------------------------------------------------------------

    def __tensor_flatten__(self) -> tuple[list[str], dict[str, object]]:
        names = ["_values", "_offsets"]
        optional = ("_lengths", "_min_seqlen_tensor", "_max_seqlen_tensor")
        names += [name for name in optional if getattr(self, name) is not None]
        return names, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Tensor], context: dict[str, Any], size: Sequence[Any], stride: object
    ) -> NestedTensor:
        return NestedTensor(
            inner["_values"],
            inner["_offsets"],
            lengths=inner.get("_lengths"),
            requires_grad=context["requires_grad"],
            _ragged_idx=context["ragged_idx"],
            _min_seqlen_tensor=inner.get("_min_seqlen_tensor"),
            _max_seqlen_tensor=inner.get("_max_seqlen_tensor"),
            _size=size,
        )

    def geometry_around(
        self, inner: dict[str, Tensor], symbols: Symbols | None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The sizes and strides of such a tensor around other parts (M57, M61).

        The ragged size is this one's, and is tied to the other offsets from now on. differs: in
        PyTorch it becomes a symbol that has the nested int as its hint.
        """
        size = (self.meta.shape[0], *inner["_values"].meta.shape)
        known = [*size[: self._ragged_idx], self.meta.shape[self._ragged_idx]]
        lengths = inner.get("_lengths")
        return geometry(inner["_values"], inner["_offsets"], lengths, self._ragged_idx, known)

    # --- the parts --------------------------------------------------------------------

    def values(self) -> Tensor:
        """The rows one after the other; gradients flow through."""
        return values_of(self)

    def offsets(self) -> Tensor:
        """Where each row begins, and the last one ends."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """How long each row is, where they do not follow one another; else None."""
        return self._lengths

    def _bounds(self) -> list[tuple[int, int]]:
        """Where each row begins and ends."""
        starts = self._offsets.tolist()
        if self._lengths is None:
            return list(itertools.pairwise(starts))
        return [(a, a + n) for a, n in zip(starts, self._lengths.tolist())]

    def _get_max_seqlen(self) -> int:
        """The length of the longest row."""
        if self._max_seqlen_tensor is None:
            longest = max((b - a for a, b in self._bounds()), default=0)
            self._max_seqlen_tensor = carrier(longest)
        return int(self._max_seqlen_tensor.meta.shape[0])

    def _get_min_seqlen(self) -> int:
        """The length of the shortest row."""
        if self._min_seqlen_tensor is None:
            shortest = min((b - a for a, b in self._bounds()), default=0)
            self._min_seqlen_tensor = carrier(shortest)
        return int(self._min_seqlen_tensor.meta.shape[0])

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)

    def numel(self) -> int:
        """How many elements the rows have together."""
        if self._lengths is None:
            return self._values.numel()
        total = int(self._lengths.sum().item())
        rest = 1
        for dim, n in enumerate(self._values.meta.shape):
            rest *= 1 if dim == self._ragged_idx - 1 else n
        return total * rest

    def is_contiguous(self, memory_format: object | None = None) -> bool:
        """Whether the rows follow one another, and the values are row-major."""
        return self._lengths is None and self._values.is_contiguous()

    def __repr__(self) -> str:
        size = ", ".join(map(str, self.meta.shape))
        grad = ""
        if self.grad_fn is not None:
            grad = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            grad = ", requires_grad=True"
        return (
            f"NestedTensor(size=({size}), offsets={self._offsets}{grad}, "
            f"contiguous={self.is_contiguous()})"
        )

    def _alias(self) -> NestedTensor:
        other = around(self, self._values)
        other._vc = self._version_counter()
        return other

    def __len__(self) -> int:
        return self.meta.shape[0]

    def tolist(self) -> NoReturn:
        """RuntimeError: rows of different lengths are no nested list."""
        raise RuntimeError(
            ".tolist() is not supported for tensor subclasses, got NestedTensor; ask each of "
            "unbind() for its list"
        )

    def numpy(self, *, force: bool = False) -> NoReturn:
        """RuntimeError: rows of different lengths are no array."""
        raise RuntimeError(
            ".numpy() is not supported for tensor subclasses, got NestedTensor; ask values(), or "
            "each of unbind(), for its array"
        )

    def _parts(self) -> tuple[Any, ...]:
        parts = (self._values, self._offsets, self._lengths)
        lengths = (self._min_seqlen_tensor, self._max_seqlen_tensor)
        return (*[None if p is None else p.detach() for p in parts], self._ragged_idx, *lengths)

    def __deepcopy__(self, memo: dict[int, object]) -> NestedTensor:
        if id(self) not in memo:
            memo[id(self)] = _of_parts(copy.deepcopy(self._parts(), memo), self.requires_grad)
        return cast(NestedTensor, memo[id(self)])

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        form = pickled_form()
        if form is not None:
            return form.tensor(self)
        return _of_parts, (self._parts(), self.requires_grad)

    # --- operators --------------------------------------------------------------------

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # a marker in Tensor, a method in subclasses
        cls,
        func: OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        params = bind(func._schema, args, kwargs or {}, takes_numbers=func.takes_numbers)
        assert ANSWER[0] is not None
        return ANSWER[0](func, tuple(params))


def _of_parts(parts: tuple[Any, ...], requires_grad: bool) -> NestedTensor:
    values, offsets, lengths, ragged_idx, least, most = parts
    return NestedTensor(
        values,
        offsets,
        lengths=lengths,
        requires_grad=requires_grad,
        _ragged_idx=ragged_idx,
        _min_seqlen_tensor=least,
        _max_seqlen_tensor=most,
    )


def _check_parts(values: Tensor, offsets: Tensor, lengths: Tensor | None) -> None:
    assert offsets is not None, "a jagged tensor needs its offsets"
    assert offsets.meta.ndim == 1, f"offsets must be 1D, but got {offsets.meta.ndim}D"
    assert not values.is_nested, "the values of a jagged tensor cannot be nested"
    assert values.meta.device == offsets.meta.device, (
        f"values and offsets must be on one device, got {values.meta.device} and "
        f"{offsets.meta.device}"
    )
    if lengths is not None:
        rows = offsets.meta.shape[0] - 1
        assert lengths.meta.shape[0] in (rows, rows + 1), (
            f"offsets and lengths batch sizes must match: offsets.shape[0] - 1 = {rows}, "
            f"lengths.shape[0] = {lengths.meta.shape[0]}"
        )
        assert lengths.meta.shape[0] == rows or offsets.meta.shape[0] == lengths.meta.shape[0]


def geometry(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int,
    size: Sequence[Any] | None = None,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Sizes and strides (M57); size: that of which the ragged one is taken, if it is known."""
    source = offsets if lengths is None else lengths
    ragged: Any = None if size is None else size[ragged_idx]
    if isinstance(ragged, NestedInt) and nested_int_of(source) is None:
        tie(source, ragged.node.t_id)
    if ragged is None:
        ragged = nested_size(source)
    v = values.meta
    shape = list(v.shape)
    shape[ragged_idx - 1] = ragged
    step = v.strides[ragged_idx - 1]
    return (offsets.meta.shape[0] - 1, *shape), (ragged * step, *v.strides)


def carrier(n: int) -> Tensor:
    """A tensor of sizes [n, 0], which tells a number without data."""
    found: Tensor = ops.aten.empty([n, 0])
    return found


def around(like: NestedTensor, values: Tensor, ragged_idx: int | None = None) -> NestedTensor:
    """A nested tensor of the rows of ``like`` with other values, outside autograd."""
    return NestedTensor(
        values,
        like._offsets,
        lengths=like._lengths,
        _ragged_idx=like._ragged_idx if ragged_idx is None else ragged_idx,
        _min_seqlen_tensor=like._min_seqlen_tensor,
        _max_seqlen_tensor=like._max_seqlen_tensor,
    )


# --- to values and back, for autograd ----------------------------------------------------------


class NestedGetValues(Function):
    """From a nested tensor to its values."""

    @staticmethod
    def forward(ctx: Any, nested: NestedTensor) -> Tensor:  # type: ignore[override]
        ctx.like = nested
        return nested._values.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return around(ctx.like, grad)


class NestedViewFromJagged(Function):
    """From values to a nested tensor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, make: Callable[[Tensor], NestedTensor]) -> Tensor:  # type: ignore[override]
        return make(values.detach())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Tensor, None]:  # type: ignore[override]
        return grad._values if isinstance(grad, NestedTensor) else grad, None


def values_of(nested: NestedTensor) -> Tensor:
    """The values, through which gradients flow where they are wanted."""
    if nested.requires_grad and tls.st.grad_enabled:
        return cast(Tensor, NestedGetValues.apply(nested))
    found = nested._values.detach()
    found._base = nested if nested._base is None else nested._base
    return found


def from_values(values: Tensor, make: Callable[[Tensor], NestedTensor]) -> NestedTensor:
    """A nested tensor that ``make`` makes of values, through which gradients flow."""
    if values.requires_grad and tls.st.grad_enabled:
        return cast(NestedTensor, NestedViewFromJagged.apply(values, make))
    made = make(values)
    return made
