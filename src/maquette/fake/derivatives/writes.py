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
    mode = grad.fake_mode
    if grad.__class__ is not FakeTensor or not isinstance(mode, FakeTensorMode):
        return None
    if not (run.state.effective is plain_state[0] or is_plain(run.state)) or OBSERVERS:
        return None
    if ACTIVE[0] is not mode and ACTIVE[0] is not None:
        return None
    said = _outline(node, mode)
    if said is None:
        return None
    key = (_family, EPOCH[0], defaults["float"], grad.meta, grad._keys, *said)
    try:
        known: Any = REMEMBERED_STEPS.get(key, _NOT_MET)
    except TypeError:  # something symbolic
        return None
    if known is _NOT_MET:
        known = unknown(key, mode)
    if known is None:
        return None
    make, facts = known
    return list(make(facts, mode, grad, node, None, key))


_NOT_MET = object()


def _outline(node: CopySlices, mode: object) -> tuple[Any, ...] | None:
    """`Node.outline`: of a write that saved no tensor."""
    function = node.function
    if node.freed or not isinstance(function, OpNode) or function.saves_tensors:
        return None
    links = node.links
    wanted = tuple([target is not None for target in links[::3]])
    how = node.last, node.number, function.__class__, wanted
    try:
        # The looks part by part: whether a meta is a symbol's is asked of plain tuples.
        return (*node.base, *node.view, links[2::3], *how, outline(function.saved, mode))
    except TypeError:  # what no key can say
        return None


ANSWERED[0] = _answered
CopySlices.outline = staticmethod(_outline)
