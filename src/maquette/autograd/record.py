"""Recording: the kernel at the autograd keys that derives from an operator's formulas.

It runs the operator below autograd and leaves an `OpNode` behind. Resolution skips this kernel when
no argument requires grad (`Kernel.only_with_grad`), so it never asks that question itself. Writes
to tensors rebase history: on a view, the base's too (`CopySlices`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.autograd.anomaly import remember_call
from maquette.autograd.formulas import Derivatives
from maquette.autograd.inplace import check_inplace, rebase_history
from maquette.autograd.node import (
    Edge,
    OpNode,
    RaisingNode,
    grad_edge,
    next_sequence,
    set_history,
)
from maquette.autograd.plan import DerivativePlan
from maquette.autograd.undifferentiated import undifferentiated_kernel
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.call import compiled
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, set_fallback
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import AutogradMeta, Tensor, alias

BELOW = ~(
    K.functionality_bits(DispatchKey.AutogradCPU)
    | K.functionality_bits(DispatchKey.AutogradOther)
    | K.functionality_bits(DispatchKey.AutogradNestedTensor)
    | K.REQUIRES_GRAD
)


def autograd_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    """The callable that serves the autograd keys for ``op``."""
    below = _below(op)
    if not isinstance(op.derivatives, Derivatives):
        if op.shape_rule is None and op.namespace != "aten":
            return undifferentiated_kernel(op)
        return _without_formula(op, below)
    plan = DerivativePlan(op, watched=bool(ks & K.WATCHED))
    if not plan.rules:
        return lambda ks, *params: below(ks, params)
    if plan.written and not _returns_only_fresh(op):
        return _recording_write(op, plan, below)
    return _recording(op, plan, below)


def _returns_only_fresh(op: OpOverload) -> bool:
    """Whether what is written is a side effect, as batch norm's running statistics are."""
    returns = op._schema.returns
    return bool(returns) and all(r.alias_info is None for r in returns)


def _below(op: OpOverload) -> Callable[[int, Sequence[object]], object]:
    """Run ``op`` under autograd; kernels that speak operators must not record in turn."""
    table, resolve = op._table, op.resolve
    if op.shape_rule is not None:

        def direct(ks: int, params: Sequence[object]) -> object:
            ks &= BELOW
            return (table.get(ks) or resolve(ks))(ks, *params)

        return direct

    def guarded(ks: int, params: Sequence[object]) -> object:
        ks &= BELOW
        with AutoDispatchBelowAutograd():
            return (table.get(ks) or resolve(ks))(ks, *params)

    return guarded


def _recording(
    op: OpOverload, plan: DerivativePlan, below: Callable[[int, Sequence[object]], object]
) -> Callable[..., object]:
    single = len(op._schema.returns) == 1 and op._schema.returns[0].type.written == "Tensor"
    if single and not plan.lists and op.shape_rule is not None and not plan.watched:
        return _generated(op, plan)

    def kernel(ks: int, *params: object) -> object:
        result = below(ks, params)
        outputs = outputs_of(result)
        node = make_node(op, plan, params, len(outputs))
        if node is not None:
            for number, out in enumerate(outputs):
                if isinstance(out, Tensor) and _differentiable(out, number, plan):
                    set_history(out, node, number)
            node.saved = node.variant.save(result, *params)
        return result

    return kernel


def _generated(op: OpOverload, plan: DerivativePlan) -> Callable[..., object]:
    """One tensor result, no lists: 3 us a call of this common case, 6.3 by the plain kernel."""
    names = [f"p{i}" for i in range(len(plan.arguments))]
    passed = ", ".join(names)
    lines = [
        f"def _kernel(_ks, {passed}):",
        "    _b = _ks & _below",
        "    try:",
        "        _f = _table[_b]",
        "    except KeyError:",
        "        _f = _resolve(_b)",
        f"    _r = _f(_b, {passed})",
        "    _d = _r.meta.dtype",
        "    if not (_d.is_floating_point or _d.is_complex):",
        "        return _r",
        "    _mask = 0",
    ]
    for bit, i in enumerate(plan.wrt):
        optional = op.takes_numbers or plan.arguments[i].type.written == "Tensor?"
        lines += _edge_lines(f"p{i}", bit, optional)
    edges = ", ".join(f"_e{bit}" for bit in range(len(plan.wrt)))
    metas = ", ".join(f"_m{bit}" for bit in range(len(plan.wrt)))
    lines += [
        "    if not _mask:",
        "        return _r",
        "    _n = _new(_Node)",
        f"    _n.edges = [{edges}]",
        f"    _n.metas = [{metas}]",
        "    _n.sequence = _next()",
        "    _n.context = _tls.st.node_context",
        "    _n.pre_hooks = _n.post_hooks = None",
        "    _n.op = _op",
        "    _n.count = 1",
        "    _n.variant = _v = _variants.get(_mask) or _variant(_mask)",
        # set_history(_r, _n, 0), written out.
        "    _a = _r._ag",
        "    if _a is None:",
        "        _a = _r._ag = _Meta()",
        "    _a.grad_fn = _n",
        "    if _r._base is not None:",
        "        _a.view_version = _r._vc.value",
        "    _r._keys |= _req",
        f"    _n.saved = _v.save(_r, {passed})",
        "    return _r",
    ]
    space: dict[str, object] = {
        "_below": BELOW & K.ALL_BITS,
        "_table": op._table,
        "_resolve": op.resolve,
        "_edge": grad_edge,
        "_req": K.REQUIRES_GRAD,
        "_new": object.__new__,
        "_Node": OpNode,
        "_next": next_sequence,
        "_tls": tls,
        "_op": op,
        "_variants": plan._variants,
        "_variant": plan.variant,
        "_Meta": AutogradMeta,
    }
    exec(compiled("\n".join(lines) + "\n", "record"), space)
    kernel = space["_kernel"]
    assert callable(kernel)
    return kernel


def _edge_lines(name: str, bit: int, optional: bool) -> list[str]:
    """Source that makes the edge of one parameter: the grad_fn itself where nothing is special."""
    lines = [
        f"if {name}._keys & _req:",
        f"    _mask |= {1 << bit}",
        f"    _a = {name}._ag",
        "    if _a is not None and _a.grad_fn is not None and (",
        f"        {name}._base is None or {name}._vc.value == _a.view_version",
        "    ):",
        f"        _e{bit} = (_a.grad_fn, _a.output_nr)",
        "    else:",
        f"        _e{bit} = _edge({name})",
        "else:",
        f"    _e{bit} = None",
        f"_m{bit} = {name}.meta",
    ]
    if optional:
        lines = [
            f"if hasattr({name}, '_keys'):",
            *(f"    {line}" for line in lines),
            "else:",
            f"    _e{bit} = _m{bit} = None",
        ]
    return [f"    {line}" for line in lines]


def _recording_write(
    op: OpOverload, plan: DerivativePlan, below: Callable[[int, Sequence[object]], object]
) -> Callable[..., object]:
    """Record an operator that writes arguments: history moves from before to after the write."""
    relays = Tag.inplace_view in op.tags

    def kernel(ks: int, *params: object) -> object:
        targets = [params[i] for i in plan.written]
        if op._schema.arguments[plan.written[0]].is_out:
            _refuse_out(op, params)
        for target in targets:
            if isinstance(target, Tensor):
                check_inplace(op, target)
        kept: Sequence[object] = params
        if plan.saves_written:
            # The formulas speak of the values before the write.
            kept = [p.clone() if i in plan.written else p for i, p in enumerate(params)]  # type: ignore[attr-defined]  # tensors
        elif relays:
            # Formulas ask for the geometry before the write too.
            kept = [alias(p) if i in plan.written else p for i, p in enumerate(params)]  # type: ignore[arg-type]  # tensors
        node = make_node(op, plan, params, len(targets))
        result = below(ks, params)
        if node is not None:
            for number, target in enumerate(targets):
                if isinstance(target, Tensor) and _differentiable(target, number, plan):
                    rebase_history(target, node, number)
            node.saved = node.variant.save(result, *kept)
        return result

    return kernel


def _refuse_out(op: OpOverload, params: Sequence[object]) -> None:
    raise RuntimeError(
        f"{op._opname}(): functions with out=... arguments don't support automatic "
        f"differentiation, but one of the arguments requires grad."
    )


def outputs_of(result: object) -> Sequence[object]:
    """An operator's results as a flat sequence: a list return counts one by one."""
    if isinstance(result, (tuple, list)):
        return result
    return (result,)


def _differentiable(out: Tensor, number: int, plan: DerivativePlan) -> bool:
    kind = out.meta.dtype
    return (kind.is_floating_point or kind.is_complex) and number not in plan.nondifferentiable


def make_node(
    op: OpOverload, plan: DerivativePlan, params: Sequence[object], count: int
) -> OpNode | None:
    """The node of a call, its edges made; None if no differentiable argument requires grad."""
    edges: list[Edge | None] = []
    metas: list[TensorMeta | None] = []
    sizes: list[int] = []
    mask = 0
    for bit, i in enumerate(plan.wrt):
        p = params[i]
        members = p if p.__class__ is tuple else (p,)
        sizes.append(len(members))
        for t in members:
            keys = getattr(t, "_keys", 0)
            edge = grad_edge(t) if keys & K.REQUIRES_GRAD else None
            edges.append(edge)
            metas.append(t.meta if keys else None)
            if edge is not None:
                mask |= 1 << bit
    if not mask:
        return None
    node = OpNode(edges, metas)
    node.op = op
    node.variant = plan.variant(mask)
    node.saved = ()
    node.count = count
    node.list_sizes = sizes
    if plan.watched:
        remember_call(node)
    return node


def _without_formula(
    op: OpOverload, below: Callable[[int, Sequence[object]], object]
) -> Callable[..., object]:
    """For an operator without formula: inputs that require grad are an error in backward."""
    name = "NotImplemented"
    message = (
        f"derivative for {op.name()} is not implemented; register one with "
        f"maquette.library.register_autograd('{op.name()}', ...)"
    )

    def kernel(ks: int, *params: object) -> object:
        result = below(ks, params)
        tensors = [t for p in params for t in (p if p.__class__ is tuple else (p,))]
        differentiable = [t for t in tensors if isinstance(t, Tensor)]
        for out in outputs_of(result):
            if not isinstance(out, Tensor) or any(out is t for t in tensors):
                continue
            if out.meta.dtype.is_floating_point or out.meta.dtype.is_complex:
                edges = [grad_edge(t) for t in differentiable]
                set_history(out, RaisingNode(edges, [None] * len(edges), name, message), 0)
        return result

    return kernel


def _autograd_fallback(op: OpOverload, ks: int) -> Callable[..., object] | None:
    return autograd_kernel(op, ks)


AUTOGRAD_KEYS = [k for k in K.runtime_keys(K.VISIBLE) if K.is_autograd_key(k)]
for _key in AUTOGRAD_KEYS:
    set_fallback(_key, _autograd_fallback)
