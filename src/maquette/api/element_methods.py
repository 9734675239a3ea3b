"""Methods of `Tensor` that call a Python function for each element: slow, and on cpu only.

Attached at import; with them those whose operator takes the tensor in another place than the first.
"""

from __future__ import annotations

from collections.abc import Callable

from maquette.api.creation import tensor
from maquette.aten.common.operators import aten
from maquette.tensor.tensor import Tensor

Number = bool | int | float | complex


def apply_(self: Tensor, function: Callable[[Number], Number]) -> Tensor:
    """Replace each element by ``function`` of it, converted to the dtype."""
    return _replaced("apply_", self, (), function)


def map_(self: Tensor, tensor: Tensor, function: Callable[[Number, Number], Number]) -> Tensor:
    """Replace each element by ``function`` of it and its counterpart; ``tensor`` broadcasts."""
    return _replaced("map_", self, (tensor,), function)


def map2_(
    self: Tensor,
    x: Tensor,
    y: Tensor,
    function: Callable[[Number, Number, Number], Number],
) -> Tensor:
    """Replace each element by ``function`` of it and its counterparts in ``x`` and ``y``."""
    return _replaced("map2_", self, (x, y), function)


def _replaced(
    name: str, self: Tensor, others: tuple[Tensor, ...], function: Callable[..., Number]
) -> Tensor:
    if self.requires_grad or any(other.requires_grad for other in others):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            f"instead."
        )
    for other in others:
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {other.type()})")
    operands = [self, *(other.expand(self.shape) for other in others)]
    if self.fake_mode is not None or self.is_meta:
        return self  # there are no elements to call the function for
    kind = self.dtype
    convert: Callable[..., Number] = (
        complex if kind.is_complex else float if kind.is_floating_point else int
    )
    rows = zip(*(operand.flatten().tolist() for operand in operands), strict=True)
    values = [convert(_number(function(*row))) for row in rows]
    written: Tensor = self.copy_(tensor(values, dtype=kind).view(self.shape))
    return written


def _number(value: Number) -> Number:
    if isinstance(value, str):
        raise TypeError("must be real number, not str")
    return value


def where(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """Elements of this tensor where ``condition`` holds, of ``other`` elsewhere."""
    found: Tensor = aten.where(condition, self, other)
    return found


def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of the digamma function of each element."""
    found: Tensor = aten.polygamma(n, self)
    return found


for _method in (apply_, map_, map2_, where, polygamma):
    setattr(Tensor, _method.__name__, _method)
