"""A level of vmap: how an operator runs on tensors that hide a batch dimension.

`batched_call` decides once for an operator, by what its page says, best first: a kernel or a
batching rule of its own; its definition by other operators; the broadcasting that all pointwise
operators share; for forms that write, their functional twin; and at last a loop over the batch,
which warns once and names the operator. A rule ``(info, in_dims, *args, **kwargs) -> (outputs,
out_dims)`` gets the values and speaks operators, so that it works under every level below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.dispatch.forms import Form
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, keys_of
from maquette.dispatch.schemas.matching import normalise
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.interpreter import run_below
from maquette.transforms.loop import closed, looped, opened, same_arguments
from maquette.transforms.pointwise import (
    Call,
    VmapLevel,
    in_place_call,
    pointwise_call,
)
from maquette.transforms.randomness import drawing_for_each, random_call
from maquette.transforms.rule_checks import BUILT_IN, checked_rule, unloopable_reason
from maquette.transforms.rules import BROADCASTS, Decomposition, rule_of


class VmapInterpreter(VmapLevel):
    """The level of one vmap."""

    __slots__ = ()

    def process(self, op: OpOverload, params: Sequence[object]) -> object:
        return batched_call(op)(self, params)


class OlderVmapInterpreter(VmapInterpreter):
    """The level of PyTorch's older vmap, by which `gradcheck` and batched gradients are computed.

    A `Function` runs under it operator by operator: it needs no rule, and may take its context.
    """

    __slots__ = ()


def batched_call(op: OpOverload) -> Call:
    """How an operator runs at a level of vmap."""
    for key in _OWN_KERNELS:
        kernels = op._kernels.get(key)
        if kernels:
            return _by_kernel(op, kernels[-1])
    if broadcasts(op):
        return pointwise_call(op)
    rule = rule_of(op)
    random = Tag.nondeterministic_seeded in op.tags
    if rule is BROADCASTS and random:
        return random_call(op)
    if isinstance(rule, Decomposition):
        return _by_decomposition(op, rule.function)
    if callable(rule):
        return _by_rule(op, rule)
    definition = definition_of(op)
    if definition is not None:
        defined = _by_kernel(op, definition)
        return drawing_for_each(op, defined) if random else defined
    if random:
        return random_call(op)
    return _by_form(op)


_OWN_KERNELS = (DispatchKey.FuncTorchBatched, DispatchKey.FuncTorchBatchedDecomposition)


def broadcasts(op: OpOverload) -> bool:
    """Whether all that vmap needs to know of an operator is that it broadcasts its tensors."""
    if any(op._kernels.get(key) for key in _OWN_KERNELS):
        return False
    rule = rule_of(op)
    if Tag.nondeterministic_seeded in op.tags:
        return False
    if rule is not None:
        return rule is BROADCASTS
    others = (Tag.dynamic_output_shape, Tag.data_dependent_output)
    if Tag.pointwise not in op.tags or any(tag in op.tags for tag in others):
        return False
    return definition_of(op) is None and not op._schema.is_mutable


def definition_of(op: OpOverload) -> Kernel | None:
    """The kernel that defines an operator by others, if there is one."""
    for key in (
        DispatchKey.CompositeImplicitAutograd,
        DispatchKey.CompositeExplicitAutograd,
        DispatchKey.Autograd,
    ):
        kernels = op._kernels.get(key)
        if kernels and kernels[-1].speaks_operators:
            return kernels[-1]
    return None


def _by_form(op: OpOverload) -> Call:
    written = [i for i, a in enumerate(op._schema.arguments) if a.is_write]
    if Tag.dynamic_output_shape in op.tags:
        return _refusing(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            f"to vmap over {op.name()}. Compute it outside of vmap, or with a fixed size"
        )
    if Tag.data_dependent_output in op.tags:
        return _refusing(
            f"vmap: Batching rule not implemented for {op.name()}: its answer depends on data, "
            "which differ over the batch; rewrite it with other operators, or call it outside of "
            "vmap"
        )
    if Tag.pointwise in op.tags and written == [0] and not op._schema.arguments[0].is_out:
        return in_place_call(op)
    if written:
        return _by_twin(op)
    unloopable = unloopable_reason(op)
    return _refusing(unloopable) if unloopable else looped(op)


def _refusing(message: str) -> Call:
    def call(level: VmapLevel, params: Sequence[object]) -> object:
        raise RuntimeError(message)

    return call


# --- by a kernel, a definition or a rule ------------------------------------------------------


def _by_decomposition(op: OpOverload, function: Callable[..., object]) -> Call:
    """Run what vmap takes for the operator; what that refuses of an example is refused first."""

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        if op.shape_rule is not None:
            op.shape_rule(*map(_meta, params))
        return function(*params)

    return call


def _meta(p: object) -> object:
    """A parameter as a shape rule takes it, of tensors the metas, which hide the batch."""
    if p.__class__ is tuple:
        return tuple(map(_meta, cast("tuple[object, ...]", p)))
    return p.meta if isinstance(p, Tensor) else p


def _by_kernel(op: OpOverload, kernel: Kernel) -> Call:
    """Run a kernel on the batched tensors themselves, at their level."""
    built = kernel.factory(op, 0)

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        if built is None:
            return run_below(level, op, params)
        return built(tls.st.effective_keys(keys_of(params)), *params)

    return call


def _by_rule(op: OpOverload, rule: Callable[..., Any]) -> Call:
    arguments = op._schema.arguments
    keywords = [a.name for a in arguments if a.kwarg_only]
    count = len(arguments) - len(keywords)
    writes = any(a.is_write for a in arguments)
    if op.namespace not in BUILT_IN:
        rule = checked_rule(op, rule)

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        dims: list[object] = []
        values = [opened(p, level, dims) for p in params]
        if any(d is not None for d in dims[count:]):  # rules are not told of these
            return looped(op)(level, params)
        kwargs = dict(zip(keywords, values[count:]))
        with level.lower():
            result, out_dims = rule(level.info, tuple(dims[:count]), *values[:count], **kwargs)
        wrapped = closed(result, out_dims, level)
        return same_arguments(op, params, wrapped) if writes else wrapped

    return call


# --- forms that write, and the rest -----------------------------------------------------------


def _by_twin(op: OpOverload) -> Call:
    """Compute by the functional form, then copy into what is written."""
    functional = op.functional_call
    if functional is None:
        unloopable = unloopable_reason(op)
        return _refusing(unloopable) if unloopable else looped(op)
    if rule_of(functional.twin) is None and definition_of(functional.twin) is not None:
        return looped(op)  # the twin may be defined by this form
    resizes = op.form is Form.OUT

    def call(level: VmapLevel, params: Sequence[object]) -> object:
        args, kwargs = normalise(functional.twin._schema, functional.parameters(params))
        result = functional.twin(*args, **kwargs)
        for at, value in functional.new_values(result):
            _copy_into(params[at], value, resizes=resizes)
        results = functional.results(result)
        found = [
            params[r.source] if r.kind == "written" else results[n]
            for n, r in enumerate(functional.returns)
        ]
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _copy_into(target: object, value: object, *, resizes: bool) -> None:
    if isinstance(target, tuple) and isinstance(value, (tuple, list)):
        for t, v in zip(target, value, strict=True):
            _copy_into(t, v, resizes=resizes)
    elif isinstance(target, Tensor) and isinstance(value, Tensor):
        if target is not value:
            if resizes and target.meta.shape != value.meta.shape:
                target.resize_(value.meta.shape)
            target.copy_(value)


__all__ = ["VmapInterpreter", "batched_call", "broadcasts", "definition_of"]
