"""Recording: the kernel at the autograd keys that derives from an operator's formulas.

It runs the operator below autograd and leaves an `OpNode` behind. Resolution skips this kernel when
no argument requires grad (`Kernel.only_with_grad`), so it never asks that question itself. Writes
to tensors rebase history: on a view, the base's too (`CopySlices`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NoReturn, cast

from maquette.autograd.anomaly import remember_call
from maquette.autograd.compiled_formulas import DerivativePlan
from maquette.autograd.inplace import check_inplace, rebase_history
from maquette.autograd.node import (
    NOWHERE,
    OpNode,
    RaisingNode,
    grad_edge,
    next_sequence,
    set_history,
)
from maquette.autograd.undifferentiated import undifferentiated_kernel
from maquette.autograd.view_history import STRIDED_NODE
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.generated import Text, generate, generate_later, indented
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, set_fallback
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import node_observers, tls
from maquette.tensor.history import OutputHistory, ViewVersion
from maquette.tensor.tensor import Tensor, alias

BELOW = ~(
    K.functionality_bits(DispatchKey.AutogradCPU)
    | K.functionality_bits(DispatchKey.AutogradOther)
    | K.functionality_bits(DispatchKey.AutogradNestedTensor)
    | K.REQUIRES_GRAD
)


_PYTHON = K.functionality_bits(DispatchKey.Python)


def autograd_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    """The callable that serves the autograd keys for ``op`` at the key set ``ks``."""
    below = _below(op, ks)
    if op.derivatives is None:
        if op.shape_rule is None and op._defined_in_python:
            return undifferentiated_kernel(op)
        return _without_formula(op, below)
    plan = DerivativePlan(op, watched=bool(ks & K.WATCHED))
    if not plan.rules:
        return lambda ks, *params: below(*params)
    if plan.written and not _returns_only_fresh(op):
        return _recording_write(op, plan, below)
    if plan.watched or op.shape_rule is None:
        return _recording(op, plan, below)
    return _generated(op, plan, ks)


def _returns_only_fresh(op: OpOverload) -> bool:
    """Whether what is written is a side effect, as batch norm's running statistics are."""
    returns = op._schema.returns
    return bool(returns) and all(r.alias_info is None for r in returns)


def _below(op: OpOverload, ks: int) -> Callable[..., object]:
    """Run ``op`` under autograd; kernels that speak operators must not record in turn."""
    below = partial(op.resolved(ks & BELOW), ks & BELOW)
    if op.shape_rule is not None:
        return below

    def guarded(*params: object) -> object:
        with AutoDispatchBelowAutograd():
            return below(*params)

    return guarded


def _recording(
    op: OpOverload, plan: DerivativePlan, below: Callable[..., object]
) -> Callable[..., object]:
    """The plain form of `_generated`."""

    early = not plan.saves_result

    def kernel(ks: int, *params: object) -> object:
        _check_constants(plan, params)
        node = make_node(op, plan, params, 0)
        if node is not None and early:
            # Before the call, as in PyTorch: hooks that have had enough of it stop it here.
            node.saved = node.save(None, *params)
        result = below(*params)
        if node is not None and result is not None:
            outputs = outputs_of(result)
            if plan.of_reals:
                refuse_complex(plan, outputs)
            node.count = len(outputs)
            node.context = tls.st.node_context  # as modes that saw the call have left it
            if not (plan.one_output and _is_first_history(result, node)):
                _histories(outputs, node, plan)
            if not early:
                node.saved = node.save(result, *params)
        return result

    return kernel


Function = Callable[..., object]
JOINED: list[Callable[[OpOverload, DerivativePlan, int, Function], Function | None] | None] = [None]
"""Makes one function of a kernel that records and the one below it, at that one's key set, or says
None; it is given what takes over where a call is unusual. `fake.derivatives.recorded` sets it.
"""
_SELDOM = 16  # calls that are unusual where the usual ones have a function of their own


def _generated(op: OpOverload, plan: DerivativePlan, ks: int) -> Function:
    """`_recording`, written out for the operator: 2 us a call less (make bench)."""
    ks &= BELOW
    below = op.resolved(ks)

    def source() -> str:
        passed = ", ".join(f"p{i}" for i in range(len(plan.arguments)))
        lines = [f"def _kernel(_ks, {passed}):", *refusal_lines(op, plan)]
        lines += [f"    _r = _below({ks}, {passed})"]
        if ks & _PYTHON:  # a handler may answer None, which is an undefined tensor
            lines += ["    if _r is None:", "        return None"]
        if plan.one_output:
            lines += [
                "    _d = _r.meta.dtype",
                "    if not (_d.is_floating_point or _d.is_complex):",
                "        return _r",
            ]
        return "\n".join([*lines, *node_lines(op, plan), "    return _r\n"])

    text = Text((plan.facts, ks), source)
    space = recording_space(plan) | {"_below": below}
    join = JOINED[0]
    if join is not None:
        plain = _recording(op, plan, partial(below, ks))
        unusual = generate_later(text, "_kernel", "record", space, plain, after=_SELDOM)
        joined = join(op, plan, ks, unusual)
        if joined is not None:
            return joined
    return generate(text, "_kernel", "record", space)


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


def recording_space(plan: DerivativePlan) -> dict[str, object]:
    """What `refusal_lines` and `node_lines` call."""
    own = {"_plan": plan, "_classes": plan.classes, "_node_class": plan.node_class}
    return {**plan.helpers(), **_SPACE, **own}


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


def _gather(p: object, links: list[object], sizes: list[int]) -> bool | None:
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


def _is_first_history(result: object, node: OpNode) -> bool:
    """Whether a node is the history of the only result now: `_history_lines` in plain Python."""
    if not isinstance(result, Tensor) or not _can_have_history(result):
        return False
    if result._ag is not None and result._ag.__class__ is not ViewVersion:
        return False
    result._ag = node
    meta = result.meta
    usual = result._keys is meta.fake_keys
    result._keys = meta.fake_grad_keys if usual else result._keys | K.REQUIRES_GRAD
    if result._base is not None:
        node.view_version = result._version_counter().value
    return True


_HISTORY_OF_MANY = ["_n.count = len(_r)", "_histories(_r, _n, _plan)"]


def _histories(outputs: Sequence[object], node: OpNode, plan: DerivativePlan) -> None:
    without = plan.nondifferentiable
    for number, out in enumerate(outputs):
        if number not in without and isinstance(out, Tensor):
            kind = out.meta.dtype  # `_can_have_history`, written out: 0.1 us less a result
            if kind.is_floating_point or kind.is_complex:
                set_history(out, node, number)


def _recording_write(
    op: OpOverload, plan: DerivativePlan, below: Callable[..., object]
) -> Callable[..., object]:
    """Record an operator that writes arguments: history moves from before to after the write."""
    relays = Tag.inplace_view in op.tags
    # What only turns the tensor itself leaves its memory alone, so its base's history too.
    place = set_history if relays else rebase_history
    has_out = op._schema.arguments[plan.written[0]].is_out
    early = not plan.saves_result and not plan.has_effects

    def kernel(ks: int, *params: object) -> object:
        if plan.constant:
            _check_constants(plan, params)
        targets = [params[i] for i in plan.written]
        if has_out:
            _refuse_out(op, params)
        for target in targets:
            # Whole numbers have no history: what their memory is a view of does not matter.
            if isinstance(target, Tensor) and _can_have_history(target):
                check_inplace(op._opname, target)
        node = make_node(op, plan, params, len(targets))
        kept: Sequence[object] = params
        if node is not None and node.saves_written:
            # The formulas need the values that were there before the write.
            kept = [p.clone() if i in plan.written else p for i, p in enumerate(params)]  # type: ignore[attr-defined]  # tensors
        elif relays:
            # Formulas ask for the geometry before the write too.
            kept = [alias(p) if i in plan.written else p for i, p in enumerate(params)]  # type: ignore[arg-type]  # tensors
        if node is not None and early:
            # Before the write, so that operands over the same memory are known to have changed.
            node.saved = node.save(None, *kept)
        result = below(*params)
        if node is not None:
            for number, target in enumerate(targets):
                if isinstance(target, Tensor) and _differentiable(target, number, plan):
                    place(target, node, number)
            if not early:
                node.saved = node.save(result, *kept)
        return result

    return kernel


def _check_constants(plan: DerivativePlan, params: Sequence[object]) -> None:
    for i in plan.constant:
        p = params[i]
        if isinstance(p, Tensor) and p._keys & K.REQUIRES_GRAD:
            refuse_constant(plan, i)


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
    "_gather": _gather,
    "_histories": _histories,
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


def _refuse_out(op: OpOverload, params: Sequence[object]) -> None:
    """Refuse an output that would have a history: bools and whole numbers have none."""
    for p, argument in zip(params, op._schema.arguments):
        if argument.is_out and any(_can_have_history(t) for t in _tensors_in(p)):
            raise RuntimeError(
                f"{op._opname}(): functions with out=... arguments don't support automatic "
                f"differentiation, but one of the arguments requires grad."
            )


def _tensors_in(p: object) -> list[Tensor]:
    given = p if p.__class__ is tuple else (p,)
    return [t for t in cast("tuple[object, ...]", given) if isinstance(t, Tensor)]


def outputs_of(result: object) -> Sequence[object]:
    """An operator's results as a flat sequence: a list return counts one by one."""
    if isinstance(result, (tuple, list)):
        return result
    return (result,)


def _can_have_history(t: Tensor) -> bool:
    kind = t.meta.dtype
    return kind.is_floating_point or kind.is_complex


def _differentiable(out: Tensor, number: int, plan: DerivativePlan) -> bool:
    return _can_have_history(out) and number not in plan.nondifferentiable


def make_node(
    op: OpOverload,
    plan: DerivativePlan,
    params: Sequence[object],
    count: int,
    *,
    always: bool = False,
) -> OpNode | None:
    """The node of a call, its edges made; None if no differentiable argument requires grad.

    always: make it even then.
    """
    links: list[object] = []
    sizes: list[int] = []
    mask = 0
    for bit, i in enumerate(plan.wrt):
        found = _gather(params[i], links, sizes)
        if found is not None:
            # What requires grad but has nowhere to take it is recorded; nothing is saved for it.
            mask |= 1 << (bit if found else plan.dead_bit)
    if not (mask or always):
        return None
    node: OpNode = object.__new__(plan.classes.get(mask) or plan.node_class(mask))
    node.links = tuple(links)
    node.sequence = next_sequence()
    node.context = tls.st.node_context
    node.hooks = None
    node.saved = ()
    node.count = count
    node.list_sizes = sizes
    if plan.watched:
        remember_call(node)
    return node


def _strided_node(base: Tensor, view: TensorMeta) -> OpNode:
    """The node of ``as_strided``, as though it had just made the view from its base."""
    packet = find_packet("aten::as_strided")
    assert packet is not None
    op = cast(OpOverload, packet.default)
    plan = _plans.get(op)
    if plan is None:
        plan = _plans[op] = DerivativePlan(op)
    params = (base, view.shape, view.strides, view.offset)
    node = make_node(op, plan, params, 1, always=True)
    assert node is not None
    node.saved = node.save(None, *params)
    return node


_plans: dict[OpOverload, DerivativePlan] = {}
STRIDED_NODE[0] = _strided_node


def _without_formula(op: OpOverload, below: Callable[..., object]) -> Callable[..., object]:
    """For an operator without formula: inputs that require grad are an error in backward."""
    name = "NotImplemented"
    message = (
        f"derivative for {op.name()} is not implemented; register one with "
        f"maquette.library.register_autograd('{op.name()}', ...)"
    )

    has_out = any(a.is_out for a in op._schema.arguments)
    written = [i for i, a in enumerate(op._schema.arguments) if a.is_write and not a.is_out]

    def kernel(ks: int, *params: object) -> object:
        if has_out:
            _refuse_out(op, params)
        differentiable = [t for p in params for t in _tensors_in(p)]
        targets = [t for i in written for t in _tensors_in(params[i]) if _can_have_history(t)]
        if not any(t._keys & K.REQUIRES_GRAD for t in differentiable):
            targets = []
        for target in targets:
            check_inplace(op._opname, target)
        before = [grad_edge(t) for t in differentiable] if targets else []
        result = below(*params)
        for target in targets:
            # What was mutated is no longer what the history says.
            raising = RaisingNode(before, [None] * len(before), name, message)
            rebase_history(target, raising, 0)
        for out in outputs_of(result):
            if not isinstance(out, Tensor) or any(out is t for t in differentiable):
                continue
            if _can_have_history(out):
                edges = [grad_edge(t) for t in differentiable]
                set_history(out, RaisingNode(edges, [None] * len(edges), name, message), 0)
        return result

    return kernel


def _autograd_fallback(op: OpOverload, ks: int) -> Callable[..., object] | None:
    return autograd_kernel(op, ks)


AUTOGRAD_KEYS = [k for k in K.runtime_keys(K.VISIBLE) if K.is_autograd_key(k)]
for _key in AUTOGRAD_KEYS:
    set_fallback(_key, _autograd_fallback)
