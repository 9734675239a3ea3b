"""Operators that say nothing of their derivative: defined by a library, without an autograd kernel.

Their kernels run as they are; a result that requires no grad of itself gets a node whose backward
warns and gives no gradient, one that does keeps its graph and warns too (L30). Operators with a
page are another matter: a missing formula there is an error (`record.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from maquette.autograd.api import register_hook
from maquette.autograd.node import Edge, Grad, Node, grad_edge, set_history
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.operator import OpOverload
from maquette.tensor.tensor import Tensor

BELOW = ~(K.AUTOGRAD | K.REQUIRES_GRAD)
_MODES = ("nothing", "warn")
_mode = ["warn"]


def get_autograd_fallback_mode() -> str:
    """What is done in the backward pass: "warn", or "nothing"."""
    return _mode[0]


def set_autograd_fallback_mode(mode: str) -> None:
    """Say what is done: "warn" (the default), or "nothing", which leaves results without grad."""
    if mode not in _MODES:
        raise ValueError(f"expected one of the modes {', '.join(_MODES)}, got {mode!r}")
    _mode[0] = mode


@contextmanager
def autograd_fallback_mode(mode: str) -> Iterator[None]:
    """`set_autograd_fallback_mode` for a block."""
    before = get_autograd_fallback_mode()
    set_autograd_fallback_mode(mode)
    try:
        yield
    finally:
        set_autograd_fallback_mode(before)


class WarnNotImplemented(Node):
    """The backward of an operator without an autograd kernel: a warning, and no gradients."""

    __slots__ = ("count", "message")

    def __init__(self, edges: Sequence[Edge | None], count: int, message: str) -> None:
        metas: list[TensorMeta | None] = [None] * len(edges)
        super().__init__(edges, metas)
        self.count = count
        self.message = message

    def output_count(self) -> int:
        return self.count

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        warnings.warn(self.message, UserWarning, stacklevel=2)
        return [None] * len(self.edges)


def undifferentiated_kernel(op: OpOverload) -> Callable[..., object]:
    """The callable that serves the autograd keys of an operator without an autograd kernel."""
    message = (
        f"{op.name()}: an autograd kernel was not registered to the Autograd key(s) but we are "
        "trying to backprop through it, which gives no or wrong gradients. Register its "
        f"derivative with maquette.library.register_autograd('{op.name()}', ...)"
    )

    def kernel(ks: int, *params: object) -> object:
        result = op.run(ks & BELOW, params)
        if _mode[0] == "nothing":
            return result
        inputs = list(_tensors(params))
        results = [t for t in _tensors((result,)) if _differentiable(t)]
        node = WarnNotImplemented([grad_edge(t) for t in inputs], len(results), message)
        for number, out in enumerate(results):
            if out.requires_grad:
                register_hook(out, lambda grad: warnings.warn(message, UserWarning, stacklevel=2))
            elif not any(out is t for t in inputs):
                set_history(out, node, number)
        return result

    return kernel


def _tensors(values: Sequence[object]) -> Iterator[Tensor]:
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif isinstance(v, (tuple, list)):
            yield from _tensors(v)


def _differentiable(t: Tensor) -> bool:
    return t.meta.dtype.is_floating_point or t.meta.dtype.is_complex
