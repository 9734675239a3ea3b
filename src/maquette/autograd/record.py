"""Recording: the kernel at the autograd keys that derives from an operator's formulas.

It runs the operator below autograd and leaves an `OpNode` behind. Resolution skips this kernel when
no argument requires grad (`Kernel.only_with_grad`), so it never asks that question itself. Writes
to tensors rebase history: on a view, the base's too (`CopySlices`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from maquette.autograd.anomaly import remember_call
from maquette.autograd.compiled_formulas import DerivativePlan
from maquette.autograd.inplace import check_inplace, rebase_history
from maquette.autograd.node import (
    OpNode,
    RaisingNode,
    grad_edge,
    next_sequence,
    set_history,
)
from maquette.autograd.record_source import (
    NEW_NODE,
    gather,
    link_lines,
    node_lines,
    recording_space,
    refusal_lines,
    refuse_complex,
    refuse_constant,
    saving_lines,
    set_histories,
)
from maquette.autograd.undifferentiated import undifferentiated_kernel
from maquette.autograd.view_history import STRIDED_NODE
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.generated import Text, generate, generate_later, indented
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, set_fallback
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.history import ViewVersion
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
        if _writes_plainly(op, plan) and not ks & _PYTHON:
            return _generated_write(op, plan, below)
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
                set_histories(outputs, node, plan)
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


def _writes_plainly(op: OpOverload, plan: DerivativePlan) -> bool:
    """Whether a write is to the memory of one tensor, which is the only result."""
    arguments, written = op._schema.arguments, plan.written
    alone = len(written) == 1 and plan.one_output and not plan.has_effects
    usual = alone and arguments[written[0]].type.written == "Tensor"
    turns = Tag.inplace_view in op.tags
    known = op.shape_rule is not None and not plan.watched and not plan.lists
    return usual and known and not (turns or arguments[written[0]].is_out)


def _generated_write(
    op: OpOverload, plan: DerivativePlan, below: Callable[..., object]
) -> Callable[..., object]:
    """`_recording_write`, written out: to divide a result in place takes 5 us less (timeit)."""
    at = plan.written[0]
    early = not plan.saves_result

    def source() -> str:
        names = [f"p{i}" for i in range(len(plan.arguments))]
        passed = ", ".join("_t" if i == at else name for i, name in enumerate(names))
        lines = [
            *refusal_lines(op, plan),
            f"    _t = p{at}",
            "    _d = _t.meta.dtype",
            "    _has = _d.is_floating_point or _d.is_complex",
            "    if _has and (_t._base is not None or (",
            "        _t._keys & _req and (_t._ag is None or not _t._ag.plain)",
            "    )):",
            "        _check_write(_name, _t)",
            *indented([*plan.number_lines()]),
            *indented(link_lines(op, plan, f"return _below({passed})")),
            *indented(NEW_NODE),
            "    if _class.saves_written:",  # the formulas need the values before the write
            f"        p{at} = _t.clone()",
        ]
        if early:  # operands over the same memory are known to have changed
            lines += ["    _r = None", *indented(saving_lines(plan))]
        lines += [f"    _r = _below({passed})"]
        if 0 not in plan.nondifferentiable:
            lines += [
                "    if _has:",
                "        if _t._base is None and _t._ag is not None and _t._ag.plain:",
                "            _t._ag = _n",  # as `rebase_history` does
                "        else:",
                "            _rebase(_t, _n, 0)",
            ]
        lines += [] if early else indented(saving_lines(plan))
        return "\n".join([f"def _kernel(_ks, {', '.join(names)}):", *lines, "    return _r\n"])

    text = Text((plan.facts, at, early, plan.nondifferentiable), source)
    own = {"_below": below, "_check_write": check_inplace, "_rebase": rebase_history}
    space = recording_space(plan) | own | {"_name": op._opname}
    plain = _recording_write(op, plan, below)
    return generate_later(text, "_kernel", "written", space, plain)


def _check_constants(plan: DerivativePlan, params: Sequence[object]) -> None:
    for i in plan.constant:
        p = params[i]
        if isinstance(p, Tensor) and p._keys & K.REQUIRES_GRAD:
            refuse_constant(plan, i)


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
        found = gather(params[i], links, sizes)
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
