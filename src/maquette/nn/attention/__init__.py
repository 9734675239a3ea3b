"""`torch.nn.attention`: which kernels of attention a program allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from maquette.aten.nn.attention.attention_choice import SDPBackend, only


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Allow only these kernels of scaled dot product attention, for a block of this thread.

    set_priority: the first one that takes the inputs is chosen, in the order given. The choice
    decides which operators a graph shows and what memory a plan counts; on data the values agree.
    Where none of them can be taken, a call of attention raises RuntimeError. TypeError for what is
    no `SDPBackend`.
    """
    listed = [backends] if isinstance(backends, SDPBackend) else backends
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise TypeError(f"expected an SDPBackend or a list of them, got {backends!r}")
    for backend in listed:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"expected SDPBackends, got {backend!r}")
    with only(tuple(listed), in_order=set_priority):
        yield


__all__ = ["SDPBackend", "sdpa_kernel"]
