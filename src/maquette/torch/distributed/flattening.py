"""Several tensors as one vector and back, as programs do that send gradients as one message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maquette.api import functions as mq
from maquette.tensor.tensor import Tensor


def flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors, one after the other; of one tensor its elements, shared."""
    flat = [t.contiguous().view(-1) for t in tensors]
    return flat[0] if len(flat) == 1 else mq.cat(flat)


def unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a vector, views of it, in the shapes of `tensors`; an empty one is made anew."""
    parts = []
    at = 0
    for t in tensors:
        size = t.numel()
        parts.append(flat.narrow(0, at, size).view(t.shape) if size else mq.empty_like(t))
        at += size
    return tuple(parts)


def take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors in lists of one type, each closed when it has reached ``size_limit`` bytes."""
    open_lists: dict[str, tuple[list[Tensor], int]] = {}
    for t in tensors:
        size = t.numel() * t.element_size()
        held, held_size = open_lists.get(t.type(), ([], 0))
        if held and held_size + size > size_limit:
            yield held
            held, held_size = [], 0
        open_lists[t.type()] = ([*held, t], held_size + size)
    for held, _ in open_lists.values():
        if held:
            yield held
