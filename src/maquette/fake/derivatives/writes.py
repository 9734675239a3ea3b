"""The way back of writes to views of fakes, remembered as that of other nodes is (`steps.py`).

A node of such a write calls eight operators, each time the same ones where metas are the same.
"""

from __future__ import annotations

from typing import Any

from maquette.autograd.engine import Run
from maquette.autograd.inplace import ANSWERED, CopySlices
from maquette.autograd.node import Grad, OpNode
from maquette.core.promotion import defaults
from maquette.core.remembered import EPOCH
from maquette.fake.cache import REMEMBERED_STEPS
from maquette.fake.derivatives.steps import Family, is_plain, outline, plain_state, unknown
from maquette.fake.mode import ACTIVE, FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.tensor.storage import OBSERVERS
from maquette.tensor.tensor import Tensor

_family = Family()


def _answered(node: CopySlices, grad: Tensor, run: Run) -> list[Grad] | None:
    """The gradients of a node that were made of equal metas before; None: its operators run."""
    function, mode = node.function, grad.fake_mode
    if grad.__class__ is not FakeTensor or not isinstance(mode, FakeTensorMode):
        return None
    if not isinstance(function, OpNode) or function.saves_tensors:
        return None
    if not (run.state.effective is plain_state[0] or is_plain(run.state)) or OBSERVERS:
        return None
    if ACTIVE[0] is not mode and ACTIVE[0] is not None:
        return None
    links = node.links
    wanted = tuple([target is not None for target in links[::3]])
    since = _family, EPOCH[0], defaults["float"]
    how = node.last, node.number, function.__class__, wanted
    try:
        # The looks part by part: whether a meta is a symbol's is asked of plain tuples.
        looks = grad.meta, grad._keys, *node.base, *node.view, links[2::3]
        key: tuple[Any, ...] = (*since, *looks, *how, outline(function.saved, mode))
        known: Any = REMEMBERED_STEPS.get(key, _NOT_MET)
    except TypeError:  # something symbolic, or that no key can say
        return None
    if known is _NOT_MET:
        known = unknown(key, mode)
    if known is None:
        return None
    make, facts = known
    return list(make(facts, mode, grad, node, None, key))


_NOT_MET = object()

ANSWERED[0] = _answered
