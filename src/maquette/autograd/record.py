"""Recording: the kernel at the autograd keys that derives from an operator's formulas.

It runs the operator below autograd and leaves an `OpNode` behind. Resolution skips this kernel when
no argument requires grad (`Kernel.only_with_grad`), so it never asks that question itself. Writes to
tensors rebase history: on a view, the base's too (`CopySlices`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.autograd.formulas import Derivatives
from maquette.autograd.inplace import check_inplace, rebase_history
from maquette.autograd.node import Edge, Node, OpNode, RaisingNode, grad_edge, set_history
from maquette.autograd.plan import DerivativePlan
from maquette.core.meta import TensorMeta
from maquette.dispatch import keys as K
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keys import DispatchKey
from maquette.dispatch.operator import FALLBACKS, OpOverload, set_fallback
from maquette.tensor.tensor import Tensor

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
        return _without_formula(op, below)
    plan = DerivativePlan(op)
    if not plan.rules:
        return lambda ks, *params: below(ks, params)
    if plan.written:
        return _recording_write(op, plan, below)
    return _recording(op, plan, below)


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
    def kernel(ks: int, *params: object) -> object:
        result = below(ks, params)
        node = make_node(op, plan, params, result)
        if node is not None:
            for number, out in enumerate(outputs_of(result)):
                if isinstance(out, Tensor) and _differentiable(out, number, plan):
                    set_history(out, node, number)
            node.saved = plan.save(params, outputs_of(result), node.active)
        return result

    return kernel


def _recording_write(
    op: OpOverload, plan: DerivativePlan, below: Callable[[int, Sequence[object]], object]
) -> Callable[..., object]:
    """Record an operator that writes arguments: history moves from before to after the write."""

    def kernel(ks: int, *params: object) -> object:
        targets = [params[i] for i in plan.written]
        if op._schema.arguments[plan.written[0]].is_out:
            _refuse_out(op, params)
        for target in targets:
            if isinstance(target, Tensor):
                check_inplace(op, target)
        kept = list(params)
        if plan.saves_written:
            # The formulas speak of the values before the write.
            kept = [p.clone() if i in plan.written else p for i, p in enumerate(params)]  # type: ignore[attr-defined]  # tensors
        node = make_node(op, plan, params, params[plan.written[0]])
        result = below(ks, params)
        if node is not None:
            for number, target in enumerate(targets):
                if isinstance(target, Tensor) and _differentiable(target, number, plan):
                    rebase_history(target, node, number)
            node.saved = plan.save(kept, outputs_of(result), node.active)
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
    op: OpOverload, plan: DerivativePlan, params: Sequence[object], result: object
) -> OpNode | None:
    """The node of a call, its edges made; None if no differentiable argument requires grad."""
    edges: list[Edge | None] = []
    metas: list[TensorMeta | None] = []
    sizes: list[int] = []
    wanted: set[str] = set()
    for i in plan.wrt:
        p = params[i]
        if p.__class__ is tuple:
            sizes.append(len(p))  # type: ignore[arg-type]  # a tuple, by the line above
            members = p
        else:
            sizes.append(-1)
            members = (p,)
        for t in members:  # type: ignore[attr-defined]  # a tuple
            keys = getattr(t, "_keys", 0)
            edge = grad_edge(t) if keys & K.REQUIRES_GRAD else None
            edges.append(edge)
            metas.append(t.meta if keys else None)
            if edge is not None:
                wanted.add(plan.names[i])
    if not wanted:
        return None
    count = len(result) if isinstance(result, (tuple, list)) else 1
    node = OpNode(op, plan, edges, metas, count)
    node.active = [r for r in plan.rules if not wanted.isdisjoint(r.wrt)]
    node.list_sizes = sizes
    return node


def _without_formula(
    op: OpOverload, below: Callable[[int, Sequence[object]], object]
) -> Callable[..., object]:
    """An operator without formula on inputs that require grad: an error once backward gets there."""
    name = "NotImplemented"
    message = (
        f"derivative for {op.name()} is not implemented; register one with "
        f"maquette.library.register_autograd('{op.name()}', ...)"
    )

    def kernel(ks: int, *params: object) -> object:
        result = below(ks, params)
        tensors = [t for p in params for t in (p if p.__class__ is tuple else (p,))]  # type: ignore[attr-defined]  # a tuple
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

__all__ = ["FALLBACKS", "Kernel", "Node", "autograd_kernel"]
