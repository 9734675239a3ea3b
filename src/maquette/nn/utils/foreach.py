"""Which tensors are worked on as whole lists, and in which groups.

PyTorch's optimizers and gradient clipping call `_foreach_*` operators on lists of tensors where a
device has kernels for them (cuda has), and one operator a tensor elsewhere (cpu). The two differ in
temporaries, so a plan must choose as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.tensor import Tensor

Group = tuple[device, dtype]

FOREACH_DEVICES = ("cuda", "xpu", "mtia", "privateuseone")


def prefers_lists(tensors: Iterable[Tensor | None]) -> bool:
    """Whether all these tensors are on devices whose default is lists; None counts as such."""
    return all(t is None or t.device.type in FOREACH_DEVICES for t in tensors)


def can_list(tensors: Iterable[Tensor]) -> bool:
    """Whether `foreach=True` may be asked for on these tensors."""
    return all(t.device.type in (*FOREACH_DEVICES, "cpu") for t in tensors)


def grouped(leaders: Sequence[Tensor], *lists: Sequence[Any]) -> list[tuple[list[Any], ...]]:
    """`leaders` and lists as long, cut into groups of equal device and dtype of the leaders.

    An empty list stays empty in each group; each keeps its type, hence Any. The first group is
    that of the first leader.
    """
    places: dict[Group, list[int]] = {}
    for place, leader in enumerate(leaders):
        places.setdefault((leader.device, leader.dtype), []).append(place)
    everything = (leaders, *lists)
    return [
        tuple([members[i] for i in group] if members else [] for members in everything)
        for group in places.values()
    ]
