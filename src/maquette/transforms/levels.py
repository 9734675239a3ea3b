"""The kernels at the keys of function transforms: which level a call belongs to.

FuncTorchDynamicLayerFrontMode is included while a transform is in force. Under grad and jvp every
call is theirs, so that what they make belongs to their level. Under vmap the innermost level that
batches one of the tensors takes the call; with none the key is passed over once, when the key set
is resolved, but for random operators. FuncTorchBatched and FuncTorchGradWrapper are reached only by
tensors whose transform is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from maquette.dispatch.higher_order import AT_TRANSFORM, REVIVE, HigherOrderOperator
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, fall_through, keys_of, set_fallback
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.batch import VmapInterpreter, batched_call, broadcasts
from maquette.transforms.functional.wrapper import each
from maquette.transforms.interpreter import (
    BACK,
    BATCHED,
    GRAD_WRAPPER,
    VMAP_MODE,
    Interpreter,
    at_level,
)
from maquette.transforms.pointwise import written_out
from maquette.transforms.recorded_calls import written_out_call
from maquette.transforms.reverse_level import back_kernel, written_out_front
from maquette.transforms.wrappers import Wrapper, revived

_WRAPPED = BATCHED | GRAD_WRAPPER | BACK


def front_kernel(op: OpOverload, ks: int) -> Boxed | None:
    """The kernel at FuncTorchDynamicLayerFrontMode."""
    if not ks & VMAP_MODE:
        return _own_level(op)
    if Tag.nondeterministic_seeded in op.tags:
        return _batching(op)
    return _innermost(op) if ks & _WRAPPED else None


def _own_level(op: OpOverload) -> Boxed:
    """Under grad, jvp and functionalize: the top of the stack takes every call."""

    calls: dict[type, Callable[[Interpreter, Sequence[object]], object]] = {}

    def kernel(ks: int, *params: object) -> object:
        level = cast(Interpreter, tls.st.transforms[-1])
        call = calls.get(level.__class__)
        if call is None:
            call = calls[level.__class__] = level.call_of(op)
        return call(level, params)

    return written_out_call(op, written_out_front(op, kernel))


def _batching(op: OpOverload) -> Boxed:
    """Random operators are always those of the innermost vmap, which knows what they may do."""
    call = batched_call(op)

    def kernel(ks: int, *params: object) -> object:
        level = tls.st.transforms[-1]
        if not isinstance(level, VmapInterpreter):  # the key alone was included
            return op.run(ks & ~VMAP_MODE, params)
        return call(level, params)

    return kernel


def _innermost(op: OpOverload) -> Boxed:
    call = batched_call(op)

    def kernel(ks: int, *params: object) -> object:
        st = tls.st
        top = st.transforms[-1]
        highest: Interpreter | None = None
        for t in _tensors(params):
            if isinstance(t, Wrapper):
                level = t._interpreter
                if not level.live:
                    return run_revived(op, params)
                if highest is None or level.number > highest.number:
                    highest = level
        if highest is top:
            return call(cast(VmapInterpreter, top), params)
        assert highest is not None  # the key set says that there is a wrapper
        with at_level(highest):
            return op.run(tls.st.effective_keys(keys_of(params)), params)

    return written_out(op, kernel) if broadcasts(op) else kernel


def _tensors(params: Sequence[object]) -> list[object]:
    found: list[object] = []
    for p in params:
        if p.__class__ is tuple:
            found += cast(tuple[object, ...], p)
        else:
            found.append(p)
    return found


def left_behind(op: OpOverload, ks: int) -> Boxed:
    """The kernel at FuncTorchBatched and FuncTorchGradWrapper: the transform is over."""

    def kernel(ks: int, *params: object) -> object:
        st = tls.st
        keys = 0
        values: list[object] = []
        for p in params:
            if p.__class__ is tuple:
                p = tuple([_let_go(op, t) for t in cast(tuple[object, ...], p)])
                keys |= keys_of(p)
            elif isinstance(p, Tensor):
                p = _let_go(op, p)
                keys |= p._keys  # type: ignore[attr-defined]  # a tensor
            values.append(p)
        keys = (keys | st.include) & st.keep
        return (op._table.get(keys) or op.resolve(keys))(keys, *values)

    return kernel


def _let_go(op: OpOverload, p: object) -> object:
    """The value of a wrapper whose level is gone; RuntimeError if the level only waits."""
    if not isinstance(p, Wrapper):
        return p
    value = revived(p)
    if value is p:
        raise RuntimeError(
            f"{op.name()}: {p.meta} is inside of a transform that waits for the function which "
            f"uses it here; pass it to that function as an operand, it was captured"
        )
    return value


def run_revived(op: OpOverload, params: Sequence[object]) -> object:
    """Call an operator with the values of wrappers whose level is gone."""
    plain = [
        tuple([revived(t) if isinstance(t, Tensor) else t for t in cast(tuple[object, ...], p)])
        if p.__class__ is tuple
        else revived(p)
        if isinstance(p, Tensor)
        else p
        for p in params
    ]
    return op.run(tls.st.effective_keys(keys_of(plain)), plain)


def at_transform(op: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a higher-order operator under the top transform: its rule for that (D123)."""
    if not tls.st.transforms:  # the key alone was included
        raise NotImplementedError(f"{op.name()}: no function transform is in force")
    level = cast(Interpreter, tls.st.transforms[-1])
    rule = op.functorch_table.get(level.key())
    if rule is None:
        raise NotImplementedError(
            f"the HigherOrderOperator {op.name()} has no rule for {level.key()}: register one with "
            f"{op.name()}.py_impl({level.key()})"
        )
    given = each(Tensor, lambda t: level.lifted(revived(t)), (args, kwargs))
    return rule(level, *given[0], **given[1])


AT_TRANSFORM[:] = [at_transform]
REVIVE[:] = [lambda values: each(Tensor, revived, values)]

for _key, _factory in (
    (DispatchKey.FuncTorchDynamicLayerFrontMode, front_kernel),
    (DispatchKey.FuncTorchGradWrapper, left_behind),
    (DispatchKey.FuncTorchVmapMode, fall_through),
    (DispatchKey.FuncTorchBatched, left_behind),
    (DispatchKey.FuncTorchDynamicLayerBackMode, back_kernel),
):
    set_fallback(_key, _factory)
