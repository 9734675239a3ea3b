"""Full backward hooks: gates in the backward graph around one call of a module.

The tensors that enter the module, and those that leave it, each pass one identity node. In
backward the node behind the outputs sees all gradients of outputs at once, the node before the
inputs all gradients of inputs: there the hooks are called, and may put other gradients in place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from maquette.autograd import is_grad_enabled
from maquette.autograd.node import Node, grad_edge, set_history
from maquette.tensor import Tensor
from maquette.tensor.tensor import alias
from maquette.tensor.up_to_date import make_view

if TYPE_CHECKING:
    from maquette.nn.base.module import Module

Grad = Tensor | None
Grads = tuple[Grad, ...]
Hook = Callable[..., object]


class Gate(Node):
    """An identity on several tensors whose gradients pass through a function."""

    __slots__ = ("rule",)

    def __init__(self, tensors: Sequence[Tensor], rule: Callable[[Grads], Sequence[Grad]]) -> None:
        super().__init__([grad_edge(t) for t in tensors], [t.meta for t in tensors])
        self.rule = rule

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        """The gradients as the rule leaves them."""
        return self.rule(tuple(grads))

    def output_count(self) -> int:
        """As many gradients as tensors passed."""
        return len(self.edges)

    def name(self) -> str:
        """As PyTorch prints it."""
        return "BackwardHookFunctionBackward"


class BackwardHooks:
    """The backward hooks of one call."""

    def __init__(self, module: Module, hooks: Sequence[Hook], pre_hooks: Sequence[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: Grads | None = None
        self.input_count = 0
        self.inputs_watched = False

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, their tensors behind the gate of the inputs."""
        self.input_count = len(args)
        places = _tensor_places(args)
        watched = _through_gate(args, places, lambda grads: self._leave(places, grads))
        self.inputs_watched = watched is not args
        return watched

    def watch_outputs(self, result: Any) -> Any:
        """The result, its tensors behind the gate of the outputs."""
        if not isinstance(result, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=2,
            )
        results = result if isinstance(result, tuple) else (result,)
        places = _tensor_places(results)
        watched = _through_gate(
            results, places, lambda grads: self._enter(places, len(results), grads)
        )
        return watched if isinstance(result, tuple) else watched[0]

    def _enter(self, places: Sequence[int], count: int, grads: Grads) -> Sequence[Grad]:
        """At the outputs: pre-hooks see, and may replace, the gradients of the outputs."""
        grad_outputs = _spread(places, grads, count)
        for hook in self.pre_hooks:
            replaced = hook(self.module, grad_outputs)
            if replaced is not None:
                grad_outputs = _checked(replaced, count, "Backward pre hook", "grad_output")
        self.grad_outputs = grad_outputs
        if not self.inputs_watched:
            self._call_without_inputs(grad_outputs)
        return [grad_outputs[place] for place in places]

    def _call_without_inputs(self, grad_outputs: Grads) -> None:
        for hook in self.hooks:
            result = hook(self.module, (None,) * self.input_count, grad_outputs)
            if result is not None and not (
                isinstance(result, tuple) and all(grad is None for grad in result)
            ):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None

    def _leave(self, places: Sequence[int], grads: Grads) -> Sequence[Grad]:
        """At the inputs: hooks see both sides, and may replace the gradients of the inputs."""
        if self.grad_outputs is None:  # backward started inside the module
            return grads
        grad_inputs = _spread(places, grads, self.input_count)
        for hook in self.hooks:
            replaced = hook(self.module, grad_inputs, self.grad_outputs)
            if replaced is not None:
                grad_inputs = _checked(replaced, self.input_count, "Backward hook", "grad_input")
        self.grad_outputs = None
        return [grad_inputs[place] for place in places]


def _tensor_places(values: tuple[Any, ...]) -> list[int]:
    return [i for i, value in enumerate(values) if isinstance(value, Tensor)]


def _through_gate(
    values: tuple[Any, ...], places: Sequence[int], rule: Callable[[Grads], Sequence[Grad]]
) -> tuple[Any, ...]:
    tensors = [values[place] for place in places]
    if not (is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return values
    gate = Gate(tensors, rule)
    passed = list(values)
    for number, (place, tensor) in enumerate(zip(places, tensors)):
        passed[place] = alias(tensor)
        if tensor.requires_grad:  # what was detached arrives detached
            make_view(passed[place], tensor)
            set_history(passed[place], gate, number)
            # Writing to it would be seen outside the module, behind the gate's back.
            passed[place]._autograd().creation_meta = "CUSTOM_FUNCTION"
    kind = type(values)
    return tuple(passed) if kind is tuple else kind(*passed)  # a named tuple takes them apart


def _spread(places: Sequence[int], values: Sequence[Grad], count: int) -> Grads:
    spread: list[Grad] = [None] * count
    for place, value in zip(places, values):
        spread[place] = value
    return tuple(spread)


def _checked(replaced: object, count: int, hook: str, what: str) -> Grads:
    grads = replaced if isinstance(replaced, tuple | list) else (replaced,)
    if len(grads) != count:
        raise RuntimeError(
            f"{hook} returned an invalid number of {what}, got {len(grads)}, but expected {count}"
        )
    return tuple(grads)


def watch_last_node(
    module: Module, hooks: Sequence[Hook], args: tuple[Any, ...], result: Any
) -> None:
    """Call hooks of old, `hook(module, grad_input, grad_output)`, when the output's node is done.

    They see the last operator alone, not the module: a warning says where that makes a difference.
    """
    first = _first_tensor(result)
    node: Any = None if first is None else first.grad_fn
    if node is None:
        return
    _warn_of_other_nodes(args, result, node)
    for hook in hooks:
        node.register_hook(lambda grad_in, grad_out, hook=hook: hook(module, grad_in, grad_out))


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    parts = value.values() if isinstance(value, dict) else value
    found = (_first_tensor(part) for part in parts) if isinstance(parts, Iterable) else iter(())
    return next((t for t in found if t is not None), None)


def _warn_of_other_nodes(args: tuple[Any, ...], result: Any, node: Any) -> None:
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in results):
        why = "does not return a single Tensor or a tuple of Tensors"
    elif not all(isinstance(a, Tensor) for a in args):
        why = "does not take as input a single Tensor or a tuple of Tensors"
    elif len({id(r.grad_fn) for r in results if r.grad_fn is not None}) != 1:
        warnings.warn(
            "Using a non-full backward hook when outputs are generated by different autograd Nodes "
            "is deprecated: it sees some of the gradients only. Use register_full_backward_hook",
            FutureWarning,
            stacklevel=5,
        )
        return
    else:
        edges = [grad_edge(a) for a in args if a.requires_grad]
        inputs = {id(edge[0]) for edge in edges if edge is not None}
        following = {id(edge[0]) for edge in node.next_functions if edge[0] is not None}
        if inputs == following:
            return
        warnings.warn(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is "
            "deprecated: it sees the last of them only. Use register_full_backward_hook",
            FutureWarning,
            stacklevel=5,
        )
        return
    warnings.warn(
        f"Using a non-full backward hook on a Module that {why} is deprecated: it sees some of the "
        "gradients only. Use register_full_backward_hook",
        FutureWarning,
        stacklevel=5,
    )
