"""A loss by chunks of rows: the logits of a model's last linear are never whole.

In the block of `Chunked`, the linear that `look` found gives no logits but a `LateLogits`, which
remembers what they would be made of. What is done to it row by row is remembered too, until
``cross_entropy`` asks: each chunk's logits are then made, reduced to a sum, and dropped, and made
again in backward (`checkpoint`). Anything else that a model does with its logits would need them
whole, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from maquette.autograd import no_grad
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import float32
from maquette.dispatch.torch_function import TorchFunctionMode
from maquette.higher_order.checkpoint import checkpoint
from maquette.nn import Module
from maquette.nn import functional as F
from maquette.tensor.tensor import Tensor

Step = Callable[[Tensor], Tensor]


class WholeLogitsError(TypeError):
    """The model needs its logits whole."""


@dataclass(frozen=True)
class Look:
    """What a model calls. head: the weight of the linear whose rows ``cross_entropy`` reads, or
    None; attention: whether it calls ``scaled_dot_product_attention``.
    """

    head: Tensor | None
    attention: bool


def look(model: Module, run: Callable[[], object], *, train: bool) -> Look:
    """Watch ``run``, a forward with its loss, without gradients; train: the model's mode."""
    watch = _Watch()
    was_training = model.training
    model.train(train)
    try:
        with no_grad(), watch:
            run()
    finally:
        model.train(was_training)
    return Look(watch.head, watch.attention)


class _Watch(TorchFunctionMode):
    def __init__(self) -> None:
        self.head: Tensor | None = None
        self.attention = False
        self._linears: list[Tensor] = []
        self._largest = 0

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        named = kwargs or {}
        if func is F.linear:
            self._linears.append(args[1] if len(args) > 1 else named["weight"])
        elif func is F.scaled_dot_product_attention:
            self.attention = True
        elif func is F.cross_entropy:
            self._note(args[0] if args else named["input"])
        return func(*args, **named)

    def _note(self, logits: Tensor) -> None:
        """Of several losses, the one of the most logits counts."""
        like = [w for w in self._linears if w.shape[0] == logits.shape[-1]]
        if logits.dim() == 2 and like and logits.numel() > self._largest:
            self.head, self._largest = like[-1], logits.numel()


class Chunked(TorchFunctionMode):
    """In the block, the linear of weight ``head`` and its loss are computed in ``chunks``."""

    def __init__(self, head: Tensor, chunks: int) -> None:
        self.head = head
        self.chunks = chunks

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        named = kwargs or {}
        if func is F.linear and any(a is self.head for a in [*args, *named.values()]):
            return _late(self.chunks, *args, **named)
        return func(*args, **named)


def _late(chunks: int, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> LateLogits:
    return LateLogits(input, weight, bias, chunks, input.dtype)


@dataclass(frozen=True, eq=False)
class LateLogits:
    """Logits (*, classes) that are not there: what they are made of, and what is done to each row.

    hidden: (*, features), indexed and reshaped as the logits were; steps: element by element.
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    chunks: int
    dtype: DType
    steps: tuple[Step, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the logits."""
        return (*self.hidden.shape[:-1], int(self.weight.shape[0]))

    @property
    def device(self) -> Device:
        """Where they would be."""
        return self.hidden.device

    def size(self, dim: int | None = None) -> int | tuple[int, ...]:
        """One size, or all."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """How many dimensions."""
        return len(self.shape)

    # --- rows --------------------------------------------------------------------------

    def __getitem__(self, index: object) -> LateLogits:
        """Rows by index; the classes stay whole."""
        indices = index if isinstance(index, tuple) else (index,)
        if any(i is None or isinstance(i, Tensor) for i in indices):
            _refuse("an index that is no number or slice")
        if Ellipsis in indices:
            at = indices.index(Ellipsis)
            gap = self.dim() - len(indices) + 1
            indices = (*indices[:at], *[slice(None)] * gap, *indices[at + 1 :])
        if len(indices) == self.dim() and indices[-1] != slice(None):
            _refuse("a slice of the classes")
        return replace(self, hidden=self.hidden[indices[: self.dim() - 1]])

    def view(self, *shape: Any) -> LateLogits:
        """Rows in another shape; the classes stay whole."""
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        rows, classes = self.shape[:-1], self.shape[-1]
        if not sizes or sizes[-1] not in (classes, -1) or (sizes[-1] == -1 and -1 in sizes[:-1]):
            _refuse(f"a view as {sizes} of {(*rows, classes)}")
        hidden = self.hidden.reshape(*sizes[:-1], self.hidden.shape[-1])
        return replace(self, hidden=hidden)

    reshape = view

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> LateLogits:
        """Rows joined; the classes stay whole."""
        if end_dim in (-1, self.dim() - 1):
            _refuse("rows and classes flattened together")
        return replace(self, hidden=self.hidden.flatten(start_dim, end_dim))

    def contiguous(self) -> LateLogits:
        """As they are: each chunk is contiguous."""
        return self

    # --- element by element ------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> LateLogits:
        """Another dtype, chunk by chunk."""
        kinds = [a for a in [*args, *kwargs.values()] if isinstance(a, DType)]
        return self._then(lambda t: t.to(*args, **kwargs), kinds[0] if kinds else None)

    def float(self) -> LateLogits:
        """As float32, chunk by chunk."""
        return self._then(lambda t: t.float(), float32)

    def tanh(self) -> LateLogits:
        """The hyperbolic tangent of each."""
        return self._then(lambda t: t.tanh())

    def __truediv__(self, other: object) -> LateLogits:
        return self._by_number(other, lambda t: t / other)  # type: ignore[operator]

    def __mul__(self, other: object) -> LateLogits:
        return self._by_number(other, lambda t: t * other)  # type: ignore[operator]

    __rmul__ = __mul__

    def _by_number(self, other: object, step: Step) -> LateLogits:
        if not isinstance(other, (int, float)):
            _refuse("arithmetic with what is no number")
        return self._then(step)

    def _then(self, step: Step, kind: DType | None = None) -> LateLogits:
        return replace(self, steps=(*self.steps, step), dtype=kind or self.dtype)

    # --- the loss ----------------------------------------------------------------------

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Answer ``cross_entropy``; refuse every other function of logits."""
        name = getattr(func, "__name__", str(func))
        if func is F.cross_entropy:
            return _cross_entropy(*args, **(kwargs or {}))
        if name == "tanh" and len(args) == 1 and not kwargs:
            return args[0].tanh()
        _refuse(name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse(name)


def _refuse(what: str) -> NoReturn:
    raise WholeLogitsError(
        f"the loss cannot be computed by chunks: the model needs its logits whole for {what}"
    )


def _cross_entropy(
    input: LateLogits,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of rows (rows, classes), the sum of its chunks' sums."""
    if weight is not None or reduction not in ("mean", "sum") or target.is_floating_point():
        _refuse("cross_entropy with weights, probabilities or without a reduction")
    if not (size_average is None and reduce is None and input.dim() == 2 and target.dim() == 1):
        _refuse("cross_entropy of more than rows")

    def total(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
        logits = F.linear(hidden, weight, bias)
        for step in input.steps:
            logits = step(logits)
        return F.cross_entropy(
            logits,
            target,
            ignore_index=ignore_index,
            reduction="sum",
            label_smoothing=label_smoothing,
        )

    rows = -(-target.numel() // input.chunks)
    parts = zip(input.hidden.split(rows), target.split(rows), strict=True)
    sums = [
        checkpoint(total, hidden, input.weight, input.bias, targets, use_reentrant=False)
        for hidden, targets in parts
    ]
    loss: Tensor = sum(sums[1:], start=sums[0])
    if reduction == "mean":
        loss = loss / (target != ignore_index).sum()
    return loss
