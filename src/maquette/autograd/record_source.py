"""The source of kernels that record: links, node, history, what is kept.

Each function gives lines over the parameters ``p0, p1, ...`` and the result ``_r`` of a call; what
they call is in `recording_space`. `record.py` makes the kernels of them, and `fake` writes its own
between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn, cast

from maquette.autograd.compiled_formulas import DerivativePlan
from maquette.autograd.node import NOWHERE, OpNode, grad_edge, next_sequence, set_history
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.generated import indented
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import node_observers, tls
from maquette.tensor.history import OutputHistory, ViewVersion
from maquette.tensor.tensor import Tensor


def refusal_lines(op: OpOverload, plan: DerivativePlan) -> list[str]:
    """Source that refuses arguments that may not require grad, over ``p0, p1, ...``."""
    lines: list[str] = []
    for i in plan.constant:
        number = f"p{i} is not None and p{i}.__class__ not in _NUMBERS and "
        exact = plan.arguments[i].type.written == "Tensor" and not op.takes_numbers
        lines += [f"    if {'' if exact else number}p{i}._keys & _req:"]
        lines += [f"        _refuse_constant(_plan, {i})"]
    return lines


def node_lines(op: OpOverload, plan: DerivativePlan) -> list[str]:
    """Source that makes the node of a call with result ``_r``; returns if none is to be made."""
    lines = indented([*plan.number_lines(), *link_lines(op, plan, "return _r")])
    if plan.of_reals:
        lines += [f"    _refuse_complex(_plan, {'(_r,)' if plan.one_output else '_r'})"]
    lines += indented(NEW_NODE)
    lines += indented(_history_lines(op) if plan.one_output else _HISTORY_OF_MANY)
    return [*lines, *indented(saving_lines(plan))]


def saving_lines(plan: DerivativePlan, tensor: int | None = None) -> list[str]:
    """Source by which the node ``_n`` of a call with result ``_r`` keeps what it needs of both.

    tensor: a parameter that is known to be no number.
    """
    lines = ["_n.list_sizes = _sizes"] if plan.lists else []
    saved = f"_class.save(_r, {', '.join(f'p{i}' for i in range(len(plan.arguments)))})"
    if plan.one_output and not plan.lists:
        # Written out where all inputs take a gradient: 0.1 us less a call (timeit, CPython 3.11).
        every = (1 << len(plan.wrt)) - 1
        here = plan.save_source(every)
        for asked in (f"_is_p{tensor} or ", f"None if _is_p{tensor} else "):
            here = here.replace(asked, "")
        here = here.replace(f"_metas(p{tensor})", f"p{tensor}.meta")
        saved = here if every == 1 else f"{here} if _mask == {every} else {saved}"
    return [*lines, f"_n.saved = {saved}"]


NEW_NODE = (
    "_n = _new(_class)",
    "_n.links = _links",
    "_n.sequence = _next()",
    "_n.context = _tls.st.node_context if _nodes_seen else None",
    "_n.hooks = None",
)
"""Source that makes the node of a call; of `link_lines` it has its links and class."""


def first_history_lines(*, view: bool) -> list[str]:
    """Source that makes a node the history of ``_r``, a new tensor with its keys.

    view: whether it is a view, whose version is ``_vc.value``.
    """
    return [*NEW_NODE, "_r._ag = _n", *(["_n.view_version = _vc.value"] if view else [])]


def link_lines(
    op: OpOverload, plan: DerivativePlan, otherwise: str, tensor: int | None = None
) -> list[str]:
    """Source that makes the links and the class of the node, ``otherwise`` if there is to be none.

    tensor: a parameter that is known to be no number.
    """
    dead = plan.dead_bit
    if plan.lists:
        lines = ["_links = []", "_sizes = []", "_mask = 0"]
        for bit, i in enumerate(plan.wrt):
            lines += [f"_f = _gather(p{i}, _links, _sizes)"]
            lines += ["if _f is not None:", f"    _mask |= {1 << bit} if _f else {1 << dead}"]
        lines += ["_links = tuple(_links)"]
    else:
        lines = ["_mask = 0"]
        for bit, i in enumerate(plan.wrt):
            absent = f"p{i} is None" if plan.arguments[i].type.written == "Tensor?" else ""
            if op.takes_numbers and not absent and i != tensor:
                absent = f"_is_p{i}"
            lines += edge_lines(f"p{i}", bit, dead, absent)
        parts = "".join(f"_n{bit}, _k{bit}, _m{bit}, " for bit in range(len(plan.wrt)))
        lines += [f"_links = ({parts})"]
    lines += ["if not _mask:", f"    {otherwise}"]
    return [*lines, "_class = _classes.get(_mask) or _node_class(_mask)"]


@cache  # operators share few: a tenth of the text that a first call makes
def edge_lines(name: str, bit: int, dead: int, absent: str = "") -> tuple[str, ...]:
    """Source that makes the edge of one parameter: its history itself where nothing is special.

    absent: a condition on which it is no tensor. dead: the bit of the mask for parameters that
    require grad but have nowhere to take it.
    """
    lines = [
        f"if {name}._keys & _req:",
        f"    _n{bit} = {name}._ag",
        f"    _k{bit} = 0",
        f"    if _n{bit} is None or not _n{bit}.plain or (",
        f"        {name}._base is not None and {name}._vc.value != _n{bit}.view_version",
        "    ):",
        f"        if _n{bit}.__class__ is _Output and (",
        f"            {name}._base is None or {name}._vc.value == _n{bit}.view_version",
        "        ):",
        f"            _k{bit} = _n{bit}.output_nr",
        f"            _n{bit} = _n{bit}.grad_fn",
        f"            _mask |= {1 << bit}",
        "        else:",
        f"            _g = _edge({name})",
        f"            _n{bit}, _k{bit} = _g or _nowhere",
        f"            _mask |= {1 << bit} if _g else {1 << dead}",
        "    else:",
        f"        _mask |= {1 << bit}",
        "else:",
        f"    _n{bit} = None",
        f"    _k{bit} = 0",
        f"_m{bit} = {name}.meta",
    ]
    if absent:
        lines = [
            f"if {absent}:",
            f"    _n{bit} = _m{bit} = None",
            f"    _k{bit} = 0",
            "else:",
            *indented(lines),
        ]
    return tuple(lines)


def _history_lines(op: OpOverload) -> list[str]:
    """Source that makes the node the history of the only result."""
    unknown = "_r._ag is None"
    if op.is_view:  # of memory written before, as parameters are when they are initialised
        unknown += " or _r._ag.__class__ is _ViewVersion"
    lines = [f"if {unknown}:", "    _r._ag = _n", "    _m = _r.meta"]
    lines += ["    _r._keys = _m.fake_grad_keys if _r._keys is _m.fake_keys else _r._keys | _req"]
    if op.is_view:
        lines += ["    if _r._base is not None:", "        _n.view_version = _r._vc.value"]
    return [*lines, "else:", "    _history(_r, _n, 0)"]


_HISTORY_OF_MANY = ["_n.count = len(_r)", "_histories(_r, _n, _plan)"]


def recording_space(plan: DerivativePlan) -> dict[str, object]:
    """What `refusal_lines` and `node_lines` call."""
    own = {"_plan": plan, "_classes": plan.classes, "_node_class": plan.node_class}
    return {**plan.helpers(), **_SPACE, **own}


def gather(p: object, links: list[object], sizes: list[int]) -> bool | None:
    """Add the links of a parameter, a tensor or a list of tensors.

    Whether any takes a gradient; None if none requires grad.
    """
    found: bool | None = None
    members = cast(tuple[object, ...], p if p.__class__ is tuple else (p,))
    for t in members:
        if not isinstance(t, Tensor):
            links += (None, 0, None)
        elif not t._keys & K.REQUIRES_GRAD:
            links += (None, 0, t.meta)
        else:
            # `grad_edge`, where nothing is special: 0.9 us less of a view (timeit, CPython 3.11).
            node: Any = t._ag
            own = node is not None and (node.plain or node.__class__ is OutputHistory)
            if own and (t._base is None or t._version_counter().value == node.view_version):
                links += (node, 0, t.meta) if node.plain else (node.grad_fn, node.output_nr, t.meta)
                found = True
            else:
                edge = grad_edge(t)
                links += (*(edge or NOWHERE), t.meta)
                found = found or edge is not None
    sizes.append(len(members))
    return found


def set_histories(outputs: Sequence[object], node: OpNode, plan: DerivativePlan) -> None:
    without = plan.nondifferentiable
    for number, out in enumerate(outputs):
        if number not in without and isinstance(out, Tensor):
            kind = out.meta.dtype  # `_can_have_history`, written out: 0.1 us less a result
            if kind.is_floating_point or kind.is_complex:
                set_history(out, node, number)


def refuse_constant(plan: DerivativePlan, i: int) -> NoReturn:
    """Refuse an argument that requires grad and of which no gradient is known."""
    raise RuntimeError(
        f"The function '{plan.op._opname}' is not differentiable with respect to argument "
        f"'{plan.names[i]}'. This input cannot have requires_grad True: detach() it."
    )


def refuse_complex(plan: DerivativePlan, outputs: Sequence[object]) -> None:
    """Refuse complex results of a call that records where the derivative is of real numbers."""
    if any(isinstance(out, Tensor) and out.meta.dtype.is_complex for out in outputs):
        raise RuntimeError(
            f"{plan.op._opname} does not support automatic differentiation for "
            f"outputs with complex dtype. Compute on real and imaginary parts (view_as_real)."
        )


_SPACE: dict[str, object] = {
    "_edge": grad_edge,
    "_gather": gather,
    "_histories": set_histories,
    "_history": set_history,
    "_refuse_complex": refuse_complex,
    "_refuse_constant": refuse_constant,
    "_req": K.REQUIRES_GRAD,
    "_new": object.__new__,
    "_nowhere": NOWHERE,
    "_next": next_sequence,
    "_nodes_seen": node_observers,
    "_tls": tls,
    "_NUMBERS": NUMBERS,
    "_Output": OutputHistory,
    "_ViewVersion": ViewVersion,
}
"""What the texts of all plans call."""
