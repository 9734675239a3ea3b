"""`Function`: a piece of a program with a backward of its own (T67).

A subclass gives a static ``forward`` and ``backward``; ``apply`` runs the forward unrecorded and
makes its outputs results of one node. What a context can do and how the node works is in
`custom.py`; a `Function` is no operator, so nothing below autograd sees it as one call.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import ClassVar, NoReturn

from maquette.autograd.custom import (
    CustomNode,
    FunctionCtx,
    connect,
    node_class,
    recording_off,
)
from maquette.autograd.node import Node, RaisingNode, grad_edge, set_history
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor, alias

# What `Function.apply` does while function transforms are in force; they put it there.
TRANSFORMED: list[Callable[[type[Function], tuple[object, ...]], object] | None] = [None]


class Function(FunctionCtx):
    """Base of functions with a derivative written by hand.

    Define the static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``; or
    ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. Call the class's `apply`; never
    make an instance.
    """

    _backward_cls: ClassVar[type[CustomNode]] = CustomNode
    generate_vmap_rule: ClassVar[bool] = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        warnings.warn(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are "
            f"all static, so call {type(self).__name__}.apply on the class",
            DeprecationWarning,
            stacklevel=2,
        )

    def __init_subclass__(cls) -> None:
        cls._backward_cls = node_class(f"{cls.__name__}Backward")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(
            f"Legacy autograd function with non-static forward method is deprecated: make forward "
            f"and backward static, and call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: object, **kwargs: object) -> object:
        """The function: ``forward(ctx, *args)``, or ``forward(*args)`` with `setup_context`."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[object, ...], output: object) -> object:
        """Save what backward needs; overriding it takes the context away from `forward`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: object) -> object:
        """Gradients of the arguments, one each, from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: object) -> object:
        """Forward mode: tangents of the outputs from those of the arguments."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: object, in_dims: object, *args: object) -> object:
        """The batching rule ``(info, in_dims, *args) -> (output, out_dims)``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, override its vmap static method, or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> object:
        """Call the function; keyword arguments need the form with `setup_context`."""
        split = cls.setup_context is not Function.setup_context
        if kwargs and tls.st.transforms:
            if any(isinstance(v, Tensor) for v in kwargs.values()):
                raise NotImplementedError(
                    f"{cls.__name__}.apply: kwarg-only Tensor args are not supported under "
                    f"function transforms: pass tensors positionally"
                )
        if kwargs or split:
            args = _bound(cls, args, kwargs, split)
        st = tls.st
        if st.transforms and not st.single_level_function:
            transformed = TRANSFORMED[0]
            assert transformed is not None  # the transforms that are in force brought it
            return transformed(cls, args)
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple([isinstance(a, Tensor) and a._records() for a in args])
        node: CustomNode | None = None
        if tls.st.grad_enabled and any(ctx.needs_input_grad):
            node = cls._backward_cls(ctx, cls._mq_backward(), args, [False] * len(args))
        with recording_off():
            if split:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        return _finish(cls, node, ctx, args, output, split)

    @classmethod
    def _mq_backward(cls) -> Callable[..., object]:
        if cls.backward is Function.backward:
            return cls.vjp
        return cls.backward if cls.vjp is Function.vjp else _two_backwards


FunctionMeta = type(Function)


class _SingleLevelFunction(Function):  # torch's name
    """A function that no transform is asked about: what rules of transforms record with.

    Under transforms, `apply` runs where `enable_single_level_autograd_function` lets it alone.
    """

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> object:
        """Call the function."""
        if tls.st.transforms and not tls.st.single_level_function:
            raise RuntimeError(
                f"{cls.__name__}.apply: a _SingleLevelFunction runs under transforms only in a "
                f"block of enable_single_level_autograd_function; derive from Function instead"
            )
        return super().apply(*args, **kwargs)


def _bound(
    cls: type[Function], args: tuple[object, ...], kwargs: dict[str, object], split: bool
) -> tuple[object, ...]:
    if not split:
        raise TypeError(
            f"{cls.__name__}.apply() takes no keyword arguments (got {', '.join(kwargs)}); they "
            f"work for functions that define setup_context"
        )
    bound = _signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


@functools.lru_cache(256)
def _signature(function: Callable[..., object]) -> inspect.Signature:
    return inspect.signature(function)


def _finish(
    cls: type[Function],
    node: CustomNode | None,
    ctx: FunctionCtx,
    args: tuple[object, ...],
    output: object,
    split: bool,
) -> object:
    outputs = list(output) if isinstance(output, tuple) else [output]
    if split:
        _refuse_saved_passes(cls, ctx, args, outputs)
    results = connect(node, ctx, args, outputs, [False] * len(outputs))
    return tuple(results) if isinstance(output, tuple) else results[0]


def _refuse_saved_passes(
    cls: type[Function], ctx: FunctionCtx, args: tuple[object, ...], outputs: list[object]
) -> None:
    passed = {id(a) for a in args if isinstance(a, Tensor)} & {id(o) for o in outputs}
    passed -= {id(t) for t in ctx._dirty}
    if any(id(t) in passed for t in ctx._to_save if t is not None):
        raise RuntimeError(
            f"{cls.__name__}: an input that has been returned as-is as output is being saved for "
            "backward. This is not supported if you override setup_context: return x.view_as(x), "
            f"or save something else."
        )


def _two_backwards(ctx: FunctionCtx, *grads: object) -> NoReturn:
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
        "only implement one of them."
    )


class InplaceFunction(Function):
    """A `Function` that may be told to write to its argument: ``inplace`` is kept for it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def once_differentiable(fn: Callable[..., object]) -> Callable[..., object]:
    """Mark a backward that cannot itself be differentiated; trying to is an error.

    It runs unrecorded, so it may use NumPy.
    """

    @functools.wraps(fn)
    def wrapped(ctx: FunctionCtx, *grads: object) -> object:
        with recording_off():
            answer = fn(ctx, *grads)
        tensors = [g for g in grads if isinstance(g, Tensor)]
        if not tls.st.grad_enabled or not any(t._records() for t in tensors):
            return answer
        edges = [grad_edge(t) for t in tensors]
        node = RaisingNode(
            edges,
            [None] * len(edges),
            "Error",
            "trying to differentiate twice a function that was marked with @once_differentiable",
        )
        return _raising(answer, node)

    return wrapped


def _raising(answer: object, node: Node) -> object:
    if isinstance(answer, tuple):
        return tuple([_raising(a, node) for a in answer])
    if isinstance(answer, Tensor) and answer.meta.dtype.is_floating_point:
        answer = alias(answer)
        set_history(answer, node, 0)
    return answer


BackwardCFunction = CustomNode  # PyTorch's name of what a Function's nodes are
__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "_SingleLevelFunction",
    "once_differentiable",
]
