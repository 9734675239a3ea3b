"""Sums of fake gradients without an operator: nothing changes but a version.

The engine adds gradients that meet in place where nobody else holds the first. Of fakes of one meta
that is a write and no more. As with steps (`steps.py`), whoever could see the operator has it run,
and whether it does what ours does is found out once for each meta.
"""

from __future__ import annotations

from collections.abc import Hashable

from maquette.autograd.engine import ADDED, OURS
from maquette.core.layout import strided
from maquette.core.ownership import held_only
from maquette.core.remembered import EPOCH, remember
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.fake.cache import REMEMBERED_SUMS
from maquette.fake.derivatives.recipes import version_of
from maquette.fake.derivatives.steps import Listener, is_plain, may_note, plain_state
from maquette.fake.mode import ACTIVE
from maquette.fake.tensor import FakeTensor
from maquette.tensor.tensor import Tensor


def _added(held: Tensor, grad: Tensor) -> bool:
    """Add ``grad`` to ``held`` if that is the engine's alone; False where an operator has to.

    Plain keys and a plain state say the rest of what the engine asks before it writes: no batch,
    no handler, no mode that watches, no gradient recorded.
    """
    meta = held.meta
    if grad.meta is not meta or held.__class__ is not FakeTensor:
        return False
    keys, mode = meta.fake_keys, held.fake_mode
    if held._keys is not keys or grad._keys is not keys or grad.fake_mode is not mode:
        return False
    st = tls.st
    if not (st.effective is plain_state[0] or is_plain(st)):
        return False
    if ACTIVE[0] is not mode and ACTIVE[0] is not None:
        return False
    if not (held_only(held, OURS) and held_only(held._storage, 1)):
        return False
    key = EPOCH[0], meta
    known = REMEMBERED_SUMS.get(key)
    if known is None:
        # Whether memory may be written is a fact of the meta as well.
        dense = meta.is_dense and meta.layout is strided
        return dense and may_note(key, mode) and _learn(key, held, grad)
    if known is False:
        return False
    counter = held._vc
    if counter is None:
        counter = held._version_counter()
    counter.value += 1
    return True


def _learn(key: Hashable, held: Tensor, grad: Tensor) -> bool:
    """Add by the operator, and note whether it is a write and no more."""
    since, before = EPOCH[0], (held.meta, held._storage, version_of(held))
    packet = find_packet("aten::add_")
    assert packet is not None
    listener = Listener([held, grad])
    with listener:
        result = packet.Tensor._call(held, grad)
    after = held.meta, held._storage, version_of(held) - 1
    plain = listener.pure and result is held and before == after and not held.__dict__
    remember(REMEMBERED_SUMS, key, plain, since)
    return True


ADDED[0] = _added
