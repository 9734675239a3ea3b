"""Hooks on what autograd saves: `saved_tensors_hooks` (T66).

A tensor that a call saves while hooks are on is handed to ``pack``; backward gets what ``unpack``
makes of the answer. Calls pay for this only while it is used: the hidden bit WATCHED is then among
the included keys, under which calls resolve to recording kernels that look here. `anomaly.py` uses
the same bit.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from maquette.autograd.node import AccumulateGrad, Edge, Node, SavedTensor, grad_edge
from maquette.core.device import device
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor, alias

Pack = Callable[[Tensor], object]
Unpack = Callable[[object], Tensor]


class _Watch(threading.local):
    """What a thread watches its recording for."""

    def __init__(self) -> None:
        self.hooks: list[tuple[Pack, Unpack]] = []
        self.disabled: list[str] = []
        self.anomaly = False
        self.check_nan = True

    def update(self) -> None:
        """Have calls resolve to watched kernels if there is anything to watch for."""
        if self.hooks or self.anomaly:
            tls.st.add_include(K.WATCHED)
        else:
            tls.st.drop_include(K.WATCHED)


watch = _Watch()


class saved_tensors_hooks:
    """In the block, keep ``pack(tensor)`` of what is saved; backward takes ``unpack`` of that.

    Both run without recording. The innermost pair counts. Raises RuntimeError if ``pack`` writes to
    its tensor, TypeError if ``unpack`` gives no tensor.
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if watch.disabled:
            raise RuntimeError(watch.disabled[-1])
        watch.hooks.append((self.pack_hook, self.unpack_hook))
        watch.update()

    def __exit__(self, *exc: object) -> None:
        watch.hooks.pop()
        watch.update()


class save_on_cpu(saved_tensors_hooks):
    """In the block, keep what is saved in the memory of the host.

    pin_memory: asked for in PyTorch so that copies overlap with work; there is nothing to pin here.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> tuple[device, Tensor]:
            return t.device, t.cpu()

        def unpack(packed: object) -> Tensor:
            where, t = cast(tuple[device, Tensor], packed)
            moved: Tensor = t.to(where)
            return moved

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In the block, `saved_tensors_hooks` are refused with RuntimeError, active ones at once."""
    if watch.hooks:
        raise RuntimeError(error_message)
    watch.disabled.append(error_message)
    try:
        yield
    finally:
        watch.disabled.pop()


class PackedTensor:
    """A tensor kept for backward as its pack hook chose, and its place in the graph."""

    __slots__ = ("edge", "number", "packed", "requires_grad", "unpack_hook")

    def __init__(self, t: Tensor, hooks: tuple[Pack, Unpack], number: int | None = None) -> None:
        """number: which output of the saving node the tensor is; None if it is an input."""
        SavedTensor(t)  # refuses inference tensors
        pack, self.unpack_hook = hooks
        self.number = number
        self.requires_grad = bool(t._keys & K.REQUIRES_GRAD)
        self.edge: Edge | None = grad_edge(t) if number is None else None
        # An output's own history leads to the node that keeps this: a cycle.
        given = t if number is None else alias(t)
        version = given._version
        self.packed = _unrecorded(pack, given)
        if given._version != version:
            raise RuntimeError(
                f"A saved tensor pack hook is modifying its input in place ({t.meta}), which would "
                f"change the result of the call that saves it; write to a clone() of it"
            )

    def unpack(self, node: Node | None) -> Tensor:
        """What the unpack hook makes of it, at the same place of the graph."""
        t = _unrecorded(self.unpack_hook, self.packed)
        if not isinstance(t, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(t).__name__}"
            )
        if not self.requires_grad or not tls.st.grad_enabled:
            return t
        if node is None and self.edge is None:
            return t
        made = alias(t)
        made._keys |= K.REQUIRES_GRAD
        ag = made._autograd()
        ag.requires_grad = True
        target, number = self.edge or (cast(Node, node), self.number or 0)
        if isinstance(target, AccumulateGrad):
            ag.accumulator = weakref.ref(target)
        else:
            ag.grad_fn, ag.output_nr = target, number
        return made


def _unrecorded(function: Callable[..., object], value: object) -> object:
    st = tls.st
    before = st.grad_enabled
    st.set_grad_enabled(False)
    try:
        return function(value)
    finally:
        st.set_grad_enabled(before)


__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]
