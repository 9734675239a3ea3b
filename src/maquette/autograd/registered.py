"""The kernels at Autograd of operators whose derivative a user registers, or has not yet.

A formula is a backward and what prepares it; its kernel runs the operator below autograd and makes
the results those of one `CustomNode` (`custom.py`). Pages have formulas of another kind:
`formulas.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from maquette.autograd.custom import (
    Backward,
    FunctionCtx,
    connect,
    is_floating,
    node_class,
    recording_off,
)
from maquette.autograd.inplace import check_inplace, rebase_history
from maquette.autograd.node import Edge, RaisingNode, grad_edge, set_history
from maquette.dispatch import keysets as K
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.schema import Argument
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor

BELOW = ~(K.AUTOGRAD | K.REQUIRES_GRAD)


class below_autograd(recording_off):
    """Grad mode off and every Autograd key excluded for a ``with`` block."""

    __slots__ = ("_exclude",)

    def __enter__(self) -> None:
        super().__enter__()
        st = tls.st
        self._exclude = st.exclude
        st.add_exclude(K.AUTOGRAD)

    def __exit__(self, *exc: object) -> None:
        tls.st.set_exclude(self._exclude)
        super().__exit__(*exc)


class Formula:
    """A registered derivative of an operator: its backward and what prepares it."""

    def __init__(self, backward: Backward, setup_context: Backward | None) -> None:
        self.backward = backward
        self.setup_context = setup_context


def backward_name(op: OpOverload) -> str:
    """The name of the nodes of an operator that a user defined."""
    return f"GeneratedBackwardFor_{op.namespace}_{op._opname}_{op._overloadname}Backward"


def formula_kernel(formula: Formula) -> Callable[[OpOverload, int], Callable[..., object]]:
    """The factory of the kernel at Autograd that differentiates by a user's formula."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        arguments = op._schema.arguments
        positional = sum(not a.kwarg_only for a in arguments)
        named = [(i, a.name) for i, a in enumerate(arguments) if a.kwarg_only]
        lists = [_is_group(a) for a in arguments[:positional]]
        returns = [_is_group(r) for r in op._schema.returns]
        single = len(returns) == 1
        nodes = node_class(backward_name(op))
        backward = _padded(formula.backward, arguments[:positional])

        def kernel(ks: int, *params: object) -> object:
            if not requires_grad(params[:positional]):
                with below_autograd():
                    return op.run(ks & BELOW, params)
            inputs = tuple([list(p) if isinstance(p, tuple) else p for p in params[:positional]])
            ctx = FunctionCtx()
            ctx.needs_input_grad = tuple([_needs(p) for p in inputs])
            node = nodes(ctx, backward, inputs, lists)
            with below_autograd():
                result = op.run(ks & BELOW, params)
                if formula.setup_context is not None:
                    keywords = {"keyword_only_inputs": {n: params[i] for i, n in named}}
                    formula.setup_context(
                        ctx=ctx, inputs=inputs, output=result, **(keywords if named else {})
                    )
            results = (result,) if single else cast(tuple[object, ...], result)
            connected = connect(node, ctx, params, results, returns)
            return connected[0] if single else tuple(connected)

        return kernel

    return factory


def _padded(backward: Backward, arguments: Sequence[Argument]) -> Backward:
    """A backward that need not answer for the last parameters where they have defaults.

    PyTorch's dispatcher leaves out what equals a default, so formulas are written without them.
    """
    least = len(arguments)
    while least and arguments[least - 1].has_default_value():
        least -= 1
    if least == len(arguments):
        return backward

    @functools.wraps(backward)
    def padded(*args: Any, **kwargs: Any) -> object:
        found = backward(*args, **kwargs)
        grads = found if isinstance(found, tuple) else (found,)
        missing = len(arguments) - len(grads)
        return (*grads, *[None] * missing) if least <= len(grads) and missing > 0 else found

    return padded


def requires_grad(params: Sequence[object]) -> bool:
    """Whether a tensor among parameters, or in a list among them, requires grad."""
    for p in params:
        if isinstance(p, tuple):
            if any(getattr(t, "_keys", 0) & K.REQUIRES_GRAD for t in p):
                return True
        elif getattr(p, "_keys", 0) & K.REQUIRES_GRAD:
            return True
    return False


def _needs(p: object) -> object:
    if isinstance(p, list):
        return [_needs(t) for t in p]
    return isinstance(p, Tensor) and p.requires_grad


def no_formula_kernel(explain: str) -> Callable[[OpOverload, int], Callable[..., object]]:
    """The factory of the kernel at Autograd of an operator that has no formula yet.

    The call itself works; backward through it raises RuntimeError with ``explain``.
    """

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        name = backward_name(op)

        def kernel(ks: int, *params: object) -> object:
            with below_autograd():
                result = op.run(ks & BELOW, params)
            inputs = list(_tensors(params))
            edges: list[Edge | None] = [grad_edge(t) for t in inputs]
            for out in _tensors((result,)):
                if not is_floating(out) or not any(edges):
                    continue
                node = RaisingNode(edges, [None] * len(edges), name, explain)
                if not any(out is t for t in inputs):
                    set_history(out, node, 0)
                elif Tag.inplace in op.tags:
                    check_inplace(op._opname, out)
                    rebase_history(out, node, 0)
            return result

        return kernel

    return factory


def _tensors(values: Sequence[object]) -> Iterator[Tensor]:
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif isinstance(v, (tuple, list)):
            yield from _tensors(v)


def _is_group(argument: Argument) -> bool:
    """Whether an argument or return is a list of tensors."""
    return argument.type.base.kind == "tensor" and "[" in argument.type.written
