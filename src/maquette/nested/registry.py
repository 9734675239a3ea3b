"""Which kernel answers an operator on nested tensors: by the tensors' layout, then the operator.

Both layouts share one dispatch key, AutogradNestedTensor. A layout's kernels get the parameters in
schema order and speak operators on plain tensors, so autograd, and whatever else follows operators,
follows those. Definitions by other operators need no kernel; what has neither goes to the layout's
own last resort, which computes or refuses by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, replace_fallback
from maquette.dispatch.packet import find_packet
from maquette.dispatch.schemas.matching import normalise
from maquette.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
LastResort = Callable[[OpOverload, Sequence[object]], object]


class Layout:
    """The kernels of one layout. tensors: the class of its tensors."""

    def __init__(self, tensors: type[Tensor], last_resort: LastResort) -> None:
        self.tensors = tensors
        self.kernels: dict[OpOverload, Callable[..., object]] = {}
        self.last_resort = last_resort
        _layouts.append(self)

    def __call__(self, *names: str) -> Callable[[F], F]:
        """Register the kernel of these aten overloads."""

        def register(function: F) -> F:
            for name in names:
                op = _overload(name)
                if not any(op in layout.kernels for layout in _layouts):
                    op.register_for_good((DispatchKey.AutogradNestedTensor,), _KERNEL)
                self.kernels[op] = function
            return function

        return register

    def answer(self, op: OpOverload, params: Sequence[object]) -> object:
        """The result of an operator on such tensors."""
        known = self.kernels.get(op)
        if known is not None:
            return known(*params)
        if op._can_decompose():
            args, kwargs = normalise(op._schema, tuple(params))
            return op.decompose(*args, **kwargs)
        return self.last_resort(op, params)


_layouts: list[Layout] = []


def answer(op: OpOverload, params: Sequence[object]) -> object:
    """The result of an operator on nested tensors; RuntimeError where two layouts meet."""
    found = {id(layout): layout for t in _tensors(params) for layout in _layouts_of(t)}
    if len(found) > 1:
        raise RuntimeError(
            f"{op.name()}: expected nested tensors of one layout, got strided and jagged ones"
        )
    return next(iter(found.values())).answer(op, params)


def _layouts_of(t: Tensor) -> Iterator[Layout]:
    for layout in _layouts:
        if isinstance(t, layout.tensors):
            yield layout


def _tensors(params: Sequence[object]) -> Iterator[Tensor]:
    for p in params:
        if isinstance(p, Tensor):
            yield p
        elif isinstance(p, (list, tuple)):
            yield from _tensors(p)


def _overload(name: str) -> OpOverload:
    base, _, which = name.partition(".")
    packet = find_packet(f"aten::{base}")
    assert packet is not None, name
    op: OpOverload = getattr(packet, which or "default")
    return op


def _answering(op: OpOverload, ks: int) -> Callable[..., object]:
    return lambda ks, *params: answer(op, params)


_KERNEL = Kernel(_answering, python=answer, speaks_operators=True)
replace_fallback(DispatchKey.AutogradNestedTensor, _answering)

__all__ = ["Layout", "answer"]
