"""`autograd.Function` under transforms: each level asks for its own part of it.

A level of grad makes one node of the call, with the class's backward; one of vmap runs its
``vmap``, or a function generated from its parts, each batched; one of jvp its ``jvp``. What runs
below is the call itself, on the values: so levels nest in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, cast

from maquette.autograd.custom import (
    CustomNode,
    FunctionCtx,
    connect,
    node_class,
    recording_off,
)
from maquette.autograd.function import TRANSFORMED, Function
from maquette.core.pytree import tree_flatten
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor
from maquette.transforms.batch import OlderVmapInterpreter, VmapInterpreter
from maquette.transforms.dual_level import DualLevelInterpreter
from maquette.transforms.forward_level import JvpInterpreter, tangent_at, write_tangent
from maquette.transforms.inspection import enable_single_level_autograd_function
from maquette.transforms.interpreter import Interpreter, pushed, top
from maquette.transforms.pointwise import VmapInfo
from maquette.transforms.reverse_level import GradInterpreter
from maquette.transforms.rules import operators
from maquette.transforms.vmap import broadcast_to_and_flatten, unwrap_batched, wrap_batched
from maquette.transforms.wrappers import BatchedTensor, DualTensor, Wrapper, dual, revived, tracked

Cls = type[Function]
Args = tuple[Any, ...]


def apply_transformed(cls: Cls, args: Args) -> Any:
    """`Function.apply` while transforms are in force."""
    level = top()
    assert level is not None
    combined = cls.setup_context is Function.setup_context
    if combined and isinstance(level, OlderVmapInterpreter):
        with enable_single_level_autograd_function():
            return cls.apply(*args)
    if combined and not isinstance(level, DualLevelInterpreter):
        raise RuntimeError(
            f"{cls.__name__}: In order to use an autograd.Function with functorch transforms "
            f"(vmap, grad, jvp, jacrev, ...), it must override the setup_context staticmethod: "
            f"take the context away from forward and save there what backward needs"
        )
    args = tuple([revived(a) if isinstance(a, Wrapper) else a for a in args])
    if isinstance(level, VmapInterpreter):
        return _batched(cls, level, args)
    if isinstance(level, JvpInterpreter):
        return _moved(cls, level, args)
    if isinstance(level, GradInterpreter):
        return _recorded(cls, level, args)
    raise NotImplementedError(f"{cls.__name__}: no rule for autograd.Function under {level.key()}")


TRANSFORMED[0] = apply_transformed


def _values(args: Args, level: Interpreter) -> list[Any]:
    return [a._value if isinstance(a, Wrapper) and a._interpreter is level else a for a in args]


def _listed(output: Any) -> list[Any]:
    return list(output) if isinstance(output, tuple) else [output]


def _as_given(output: Any, results: Sequence[Any]) -> Any:
    return tuple(results) if isinstance(output, tuple) else results[0]


# --- grad -------------------------------------------------------------------------------------


def _recorded(cls: Cls, level: GradInterpreter, args: Args) -> Any:
    inputs = tuple([_at(a, level) for a in args])
    ctx = FunctionCtx()
    ctx.needs_input_grad = tuple([isinstance(a, Tensor) and a.requires_grad for a in inputs])
    node: CustomNode | None = None
    if tls.st.grad_enabled and any(ctx.needs_input_grad):
        node = _node_class(cls)(ctx, cls._mq_backward(), inputs, [False] * len(inputs))
    values = _values(inputs, level)
    with level.lower():
        output = cls.apply(*values)
    wrapped = [_tracked(r, inputs, values, level) for r in _listed(output)]
    with recording_off():
        cls.setup_context(ctx, inputs, _as_given(output, wrapped))
    return _as_given(output, connect(node, ctx, inputs, wrapped, [False] * len(wrapped)))


def _node_class(cls: Cls) -> type[CustomNode]:
    return _named_node_class(f"{cls.__name__}GeneratedBackward")


@functools.lru_cache(1024)
def _named_node_class(name: str) -> type[CustomNode]:
    return node_class(name)


def _at(a: Any, level: Interpreter) -> Any:
    own = not isinstance(a, Tensor) or (isinstance(a, Wrapper) and a._interpreter is level)
    return a if own else tracked(a, level)


def _tracked(r: Any, inputs: Args, values: Sequence[Any], level: Interpreter) -> Any:
    """A result at the level; an input that is returned as it is, or a view of it, stays that."""
    if not isinstance(r, Tensor):
        return r
    for mine, value in zip(inputs, values):
        if r is value:
            return mine
        if isinstance(value, Tensor) and r._base is value and r.meta is value.meta:
            return mine  # it was returned as is, and `connect` makes a view of it
    return tracked(r, level)


# --- vmap -------------------------------------------------------------------------------------


def _batched(cls: Cls, level: VmapInterpreter, args: Args) -> Any:
    overrides = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and overrides:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and a "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap "
            "staticmethod to avoid ambiguity."
        )
    if not cls.generate_vmap_rule and not overrides:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            "override and implement the vmap staticmethod or set generate_vmap_rule=True."
        )
    values, dims = unwrap_batched(args, level)
    if all(d is None for d in tree_flatten(dims)[0]):
        with level.lower():
            return cls.apply(*args)
    if overrides:
        with level.lower():
            result = cls.vmap(level.info, dims, *values)
        output, out_dims = _checked_pair(cls, result)
    else:
        made, out_dims_of = _generated(cls, dims, level.info)
        with level.lower():
            output = made.apply(*values)
        out_dims = out_dims_of[0]
    return _hidden(cls, output, out_dims, level)


def _checked_pair(cls: Cls, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        given = (
            f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
        )
        raise RuntimeError(
            f"Expected the vmap staticmethod of {cls.__name__} to have two returns, an output and "
            f"out_dims with pytree structure compatible with the output. Got {given} instead"
        )
    return result


def _hidden(cls: Cls, output: Any, out_dims: Any, level: VmapInterpreter) -> Any:
    if broadcast_to_and_flatten(out_dims, tree_flatten(output)[1]) is None:
        raise RuntimeError(
            f"The vmap staticmethod of {cls.__name__} returned an incompatible (output, out_dims) "
            f"tuple: expected out_dims={out_dims} to be compatible with the structure of the "
            f"output, {tree_flatten(output)[1]}"
        )
    return wrap_batched(output, out_dims, level)


def _generated(cls: Cls, in_dims: Any, info: VmapInfo) -> tuple[Cls, list[Any]]:
    """The function on values whose parts are those of ``cls``, batched; and its out_dims, later."""
    out_dims: list[Any] = [None]
    saved_dims: list[Any] = [()]
    forward_dims: list[Any] = [()]
    shapes: list[Any] = [()]

    def at_new_level(part: Callable[..., Any], dims: Any, values: Any) -> tuple[Any, Any]:
        level = VmapInterpreter(info.batch_size, info.randomness)
        with pushed(level):
            result = part(*wrap_batched(values, dims, level))
            return unwrap_batched(result, level)

    class Generated(Function):
        generate_vmap_rule = True  # of a vmap around this one

        @staticmethod
        def forward(*values: Any, **kwargs: Any) -> Any:
            shapes[0] = [_example_shape(v, d) for v, d in zip(values, in_dims)]
            output, out_dims[0] = at_new_level(cls.forward, in_dims, values)
            return output

        @staticmethod
        def setup_context(ctx: FunctionCtx, inputs: Args, output: Any) -> None:
            def part(inputs: Any, output: Any) -> tuple[Any, Any]:
                inner = _BatchedCtx(ctx)
                cls.setup_context(cast(FunctionCtx, inner), inputs, output)
                ctx._inner = inner  # type: ignore[attr-defined]  # any attribute
                return inner._backward, inner._forward

            values, dims = at_new_level(part, (in_dims, out_dims[0]), (inputs, output))
            saved_dims[0], forward_dims[0] = dims
            ctx.save_for_backward(*values[0])
            ctx.save_for_forward(*values[1])

        @staticmethod
        def backward(ctx: FunctionCtx, *grads: Any) -> Any:
            flat_dims = (
                broadcast_to_and_flatten(out_dims[0], tree_flatten(tuple(grads))[1])
                if isinstance(out_dims[0], tuple)
                else [out_dims[0]] * len(grads)
            )
            given_dims = tuple([None if g is None else d for g, d in zip(grads, flat_dims or ())])

            def part(saved: Any, *given: Any) -> Any:
                inner = ctx._inner  # type: ignore[attr-defined]
                inner._saved = saved
                return cls._mq_backward()(inner, *given)

            found, dims = at_new_level(
                part, (saved_dims[0], *given_dims), (ctx.saved_tensors, *grads)
            )
            found = found if isinstance(found, tuple) else (found,)
            dims = dims if isinstance(dims, tuple) else (dims,)
            each = zip(found, dims, in_dims, shapes[0])
            return tuple([reduced(g, d, want, info.batch_size, s) for g, d, want, s in each])

        @staticmethod
        def jvp(ctx: FunctionCtx, *tangents: Any) -> Any:
            def part(saved: Any, *given: Any) -> Any:
                inner = ctx._inner  # type: ignore[attr-defined]
                inner._saved = saved
                return cls.jvp(inner, *given)

            dims = tuple([None if t is None else d for t, d in zip(tangents, in_dims)])
            found, found_dims = at_new_level(
                part, (forward_dims[0], *dims), (ctx.saved_tensors, *tangents)
            )
            return _like_outputs(found, found_dims, out_dims[0], info.batch_size)

    Generated.__name__ = f"Vmapped{cls.__name__}"
    return Generated, out_dims


def _example_shape(t: Any, dim: int | None) -> tuple[Any, ...] | None:
    """The shape of one example of what may be a tensor."""
    if not isinstance(t, Tensor):
        return None
    return tuple([n for i, n in enumerate(t.shape) if i != dim])


def reduced(
    grad: Any,
    dim: int | None,
    wanted: int | None,
    size: int,
    shape: Sequence[int] | None = None,
) -> Any:
    """A gradient with its batch where the input has it; summed up where the input has none.

    shape: of an example of the input, which the gradient may have more or larger dimensions than.
    """
    if not isinstance(grad, Tensor):
        return grad
    if shape is not None and wanted is not None:
        given = _example_shape(grad, dim) or ()
        if given != tuple(shape):
            ones = [1] * (len(given) - len(shape))
            front = operators.sum_to_size(reduced(grad, dim, 0, size), [size, *ones, *shape])
            return operators.movedim(front.reshape([size, *shape]), 0, wanted)
    if wanted is None:
        return grad if dim is None else grad.sum(dim)
    if dim is None:
        wide = grad.unsqueeze(wanted)
        return wide.expand([size if i == wanted else n for i, n in enumerate(wide.shape)])
    return grad if dim == wanted else operators.movedim(grad, dim, wanted)


def _like_outputs(found: Any, dims: Any, wanted: Any, size: int) -> Any:
    if isinstance(found, tuple):
        each = wanted if isinstance(wanted, tuple) else (wanted,) * len(found)
        return tuple([reduced(f, d, w, size) for f, d, w in zip(found, dims, each)])
    return reduced(found, dims, wanted, size)


class _BatchedCtx:
    """The context that a batched part sees: what it saves is handed to the outer one as values."""

    def __init__(self, outer: FunctionCtx) -> None:
        self._outer = outer
        self._backward: tuple[Any, ...] = ()
        self._forward: tuple[Any, ...] = ()
        self._saved: tuple[Any, ...] = ()

    @property
    def needs_input_grad(self) -> tuple[object, ...]:
        return self._outer.needs_input_grad

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    def save_for_backward(self, *tensors: Any) -> None:
        self._backward = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self._forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError(
            "generate_vmap_rule=True does not go with mark_dirty: write a vmap staticmethod"
        )

    def mark_non_differentiable(self, *tensors: Any) -> None:
        values = [t._value if isinstance(t, BatchedTensor) else t for t in tensors]
        self._outer.mark_non_differentiable(*values)

    def set_materialize_grads(self, value: bool) -> None:
        self._outer.set_materialize_grads(value)


# --- jvp --------------------------------------------------------------------------------------


def _moved(cls: Cls, level: JvpInterpreter, args: Args) -> Any:
    values = _values(args, level)
    tangents = [tangent_at(a, level) for a in args]
    held: list[FunctionCtx] = []
    combined = cls.setup_context is Function.setup_context
    with level.lower():
        output = (_holding(cls, held) if combined else cls).apply(*values)
    results = _listed(output)
    if all(t is None for t in tangents):
        return _as_given(output, [_dual(r, None, args, values, level) for r in results])
    if cls.jvp is Function.jvp:
        raise NotImplementedError(
            f"{cls.__name__}: You must implement the jvp function for custom autograd.Function to "
            "use it with forward mode AD."
        )
    with level.lower():
        moved = _tangents(cls, values, tangents, output, held)
    found = [_dual(r, t, args, values, level) for r, t in zip(results, moved, strict=True)]
    return _as_given(output, found)


def _holding(cls: Cls, held: list[FunctionCtx]) -> Cls:
    """The class, whose forward puts the context that it is given into a list."""

    def forward(ctx: FunctionCtx, *args: Any) -> Any:
        held.append(ctx)
        return cls.forward(ctx, *args)

    return type(cls.__name__, (cls,), {"forward": staticmethod(forward)})


def _tangents(
    cls: Cls,
    values: Sequence[Any],
    tangents: Sequence[Tensor | None],
    output: Any,
    held: Sequence[FunctionCtx],
) -> list[Any]:
    """What the class's jvp says, on values; with the context of a forward that took one."""
    if held:
        ctx = copy(held[0])  # backward has the other
    else:
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple([t is not None for t in tangents])
        with recording_off():
            cls.setup_context(ctx, tuple(values), output)
    ctx._give_forward()
    results = _listed(output)
    fixed = _fixed(ctx, results) if not held else ctx._fixed
    given = [
        operators.zeros_like(v) if t is None and ctx._materialize and _floating(v) else t
        for t, v in zip(tangents, values)
    ]
    versions = [t._version if isinstance(t, Tensor) else 0 for t in given]
    answer = cls.jvp(ctx, *given)
    moved = _listed(answer)
    if len(moved) != len(results):
        raise RuntimeError(
            f"{cls.__name__}.jvp: expected {len(results)} tangents, one for each output, got "
            f"{len(moved)}"
        )
    for i, t in enumerate(moved):
        if t is not None and i in fixed:
            raise RuntimeError(
                f"{cls.__name__}.jvp gave a tangent for output {i}, which is marked as "
                f"non-differentiable. You should return None at that position instead."
            )
    _check_places(cls, values, given, versions, results, moved)
    return moved


def _fixed(ctx: FunctionCtx, results: Sequence[Any]) -> frozenset[int]:
    """The results, by number, that a context says are not differentiable."""
    said = {id(t) for t in ctx._non_differentiable}
    return frozenset([i for i, r in enumerate(results) if id(r) in said])


def _check_places(
    cls: Cls,
    values: Sequence[Any],
    given: Sequence[Any],
    versions: Sequence[int],
    results: Sequence[Any],
    moved: Sequence[Any],
) -> None:
    """Refuse a tangent that is not written, or no view, where its result is."""
    for r, t in zip(results, moved):
        if not isinstance(r, Tensor) or not isinstance(t, Tensor):
            continue
        for value, tangent, version in zip(values, given, versions):
            if not isinstance(value, Tensor) or tangent is None:
                continue
            if r is value and (t is not tangent or t._version == version):
                raise RuntimeError(
                    f"{cls.__name__}: an inplace custom Function is not modifying the forward mode "
                    "gradients inplace. If the forward is modifying an input inplace, then the jvp "
                    "function must modify the corresponding gradient inplace."
                )
            root = value if value._base is None else value._base
            if r is not value and r._base is root:
                _check_view(cls, value, tangent, t)


def _check_view(cls: Cls, value: Tensor, tangent: Tensor, t: Tensor) -> None:
    """Refuse a tangent that is no view where its result is one."""
    wanted, what = tangent, "a view of the given tangent"
    if value._base is not None and tangent._base is not None:
        wanted, what = tangent._base, "a view of the same base as the given tangent"
    if t._base is not wanted:
        raise RuntimeError(
            f"{cls.__name__}: A custom Function's forward is returning a view (or an input as-is) "
            f"but the jvp is not returning {'a view' if t._base is None else what}. Return the "
            f"same view of the tangent, as t.view_as(t) of a whole one."
        )


def _floating(v: Any) -> bool:
    return isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())


def _dual(r: Any, tangent: Any, args: Args, values: Sequence[Any], level: JvpInterpreter) -> Any:
    if not isinstance(r, Tensor):
        return r
    for mine, value in zip(args, values):
        if r is value and isinstance(mine, DualTensor):  # written in place
            write_tangent(mine, tangent, level)
            return mine
    return dual(r, tangent, level)


__all__ = ["apply_transformed"]
