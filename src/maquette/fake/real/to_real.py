"""`try_convert_fake_to_real`: the data of fakes whose storage came from a real tensor's (F104)."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.core.layout import strided
from maquette.fake.constants import running_for_real
from maquette.fake.tensor import FakeTensor
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


def try_convert_fake_to_real(tensors: Sequence[object]) -> list[object]:
    """The list with a clone of the real data for each fake whose storage was converted.

    A fake stays where no data is known: its storage is new or its original has ended, it is not
    strided, or its sizes are symbols. What is no fake stays too.
    """
    return [_data_of(t) if isinstance(t, FakeTensor) else t for t in tensors]


def _data_of(fake: FakeTensor) -> Tensor:
    meta = fake.meta
    if meta.layout is not strided or meta.is_symbolic:
        return fake
    storage = _original(fake)
    if storage is None:
        return fake
    with running_for_real():
        empty = operators.empty([0], dtype=meta.dtype, device=meta.device)
        there: Tensor = operators.set_(empty, storage, meta.offset, meta.shape, meta.strides)
        made: Tensor = operators.clone(there)
        return made


def _original(fake: FakeTensor) -> UntypedStorage | None:
    """The real storage that the fake's was made for, if it lives."""
    return fake.fake_mode.converter.storage_memo.original_of(fake._storage)
