"""Copies of data kept beside converted tensors, as ``real_tensor`` (M70, F97)."""

from __future__ import annotations

from typing import cast

from maquette.core.layout import strided
from maquette.fake.constants import running_for_real
from maquette.tensor.keys import CONJUGATE, NEGATIVE
from maquette.tensor.sparse import SPARSE_LAYOUTS
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, from_storage


def keep_data(t: Tensor, made: Tensor) -> None:
    """Keep a copy of the data beside what ``t`` was converted to, aliases sharing it (M70).

    Whole storages are copied, once each; tensors of other classes than Tensor's own keep none.
    """
    if t.fake_mode is not None:
        if "real_tensor" in t.__dict__:
            made.real_tensor = t.__dict__["real_tensor"]  # type: ignore[attr-defined]  # a fake has it
        return
    if t.meta.layout in SPARSE_LAYOUTS:
        made.real_tensor = t.detach().clone()  # type: ignore[attr-defined]  # a fake has it
        return
    plain = type(t) is Tensor or t._is_param
    if not plain or t.meta.layout is not strided or t._storage.data is None:
        return
    kept = made._storage.__dict__
    if "real_storage" not in kept:
        with running_for_real():
            kept["real_storage"] = t._storage.clone()
    real = from_storage(cast(UntypedStorage, kept["real_storage"]), t.meta)
    real._keys |= t._keys & (CONJUGATE | NEGATIVE)
    made.real_tensor = real  # type: ignore[attr-defined]  # a fake has it
