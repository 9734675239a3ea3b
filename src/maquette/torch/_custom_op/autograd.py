"""Gradients of a `CustomOp`: by its two functions, or refused where it has none.

``save_for_backward(inputs, output)`` gives what backward needs, in any nesting; inputs are a named
tuple. ``backward(ctx, saved, *grads)`` gives a dict of gradients by the name of the input.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from maquette.autograd import Function
from maquette.core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.schemas.schema import FunctionSchema
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.torch._custom_op.impl import CustomOp

_HALVES = {"backward": "save_for_backward", "save_for_backward": "backward"}


def autograd_kernel(op: CustomOp) -> Callable[..., object]:
    """The operator's kernel at Autograd; what is registered later acts, too."""

    def kernel(*args: object, **kwargs: object) -> object:
        found = [half for half in _HALVES if op._has_impl(half)]
        if len(found) == 2:
            return _Call(op).run(_arguments(op._schema, args, kwargs))
        if found:
            raise RuntimeError(
                f"{op}: there is a {found[0]!r} registration, made at "
                f"{op._get_impl(found[0]).location}, but we were unable to find a "
                f"{_HALVES[found[0]]!r} registration; a gradient needs both"
            )
        leaves = tree_leaves((args, kwargs))
        if tls.st.grad_enabled and any(isinstance(t, Tensor) and t.requires_grad for t in leaves):
            raise RuntimeError(
                f"Autograd has not been implemented for operator {op}: register "
                f"impl_save_for_backward and impl_backward"
            )
        with AutoDispatchBelowAutograd():
            return op._overload(*args, **kwargs)

    return kernel


def _arguments(
    schema: FunctionSchema, args: Sequence[object], kwargs: dict[str, object]
) -> list[object]:
    """All arguments of a call, in the schema's order."""
    given = dict(zip([a.name for a in schema.arguments], args)) | kwargs
    return [given.get(a.name, a.default_value) for a in schema.arguments]


class _Call:
    """One call that is recorded: the nesting of its arguments and results, and what was saved."""

    def __init__(self, op: CustomOp) -> None:
        self.op = op

    def run(self, args: list[object]) -> object:
        flat, self.spec = tree_flatten(args)
        node: Any = type(f"{self.op._opname}_customop", (_Recorded,), {})
        results = node.apply(self, *flat)
        return tree_unflatten(list(results), self.out_spec)

    def forward(self, ctx: Any, flat: Sequence[object]) -> tuple[object, ...]:
        op = self.op
        args: Any = tree_unflatten(list(flat), self.spec)
        with AutoDispatchBelowAutograd():
            output = op._overload(*args)
        self.classes: Any = tree_map(type, args)
        inputs = namedtuple(f"{op._opname}_args", [a.name for a in op._schema.arguments])  # type: ignore[misc]  # its fields are values
        saved = op._get_impl("save_for_backward").func(inputs(*args), output)
        leaves, self.saved_spec = tree_flatten(saved)
        ctx.save_for_backward(*[t for t in leaves if isinstance(t, Tensor)])
        self.numbers = [None if isinstance(t, Tensor) else (t,) for t in leaves]
        if op._output_differentiability is not None:
            ctx.mark_non_differentiable(*self._constants(output, op._output_differentiability))
        results, self.out_spec = tree_flatten(output)
        return tuple(results)

    def _constants(self, output: object, differentiable: Sequence[bool]) -> list[Tensor]:
        """The tensors that are said to have no gradient."""
        found: list[Tensor] = []
        outputs = output if isinstance(output, tuple) else (output,)
        for i, (wanted, out) in enumerate(zip(differentiable, outputs, strict=True)):
            if isinstance(out, (Tensor, list)):
                found += [] if wanted else [out] if isinstance(out, Tensor) else out
            elif wanted:
                raise RuntimeError(
                    f"output_differentiability={differentiable} of {self.op}: output {i} is not a "
                    f"Tensor but a {type(out).__name__}, and has no gradient"
                )
        return found

    def backward(self, ctx: Any, flat: Sequence[object]) -> tuple[object, ...]:
        grads: Any = tree_unflatten(list(flat), self.out_spec)
        saved_tensors = iter(ctx.saved_tensors)
        leaves = [next(saved_tensors) if n is None else n[0] for n in self.numbers]
        saved = tree_unflatten(leaves, self.saved_spec)
        given = grads if isinstance(grads, tuple) else (grads,)
        found = self.op._get_impl("backward").func(object(), saved, *given)
        self._check(found)
        by_argument = [
            found.get(a.name, tree_map(lambda _: None, classes))
            for a, classes in zip(self.op._schema.arguments, self.classes)
        ]
        return tuple(tree_leaves(by_argument, is_leaf=lambda g: g is None))

    # --- what backward gave ----------------------------------------------------------

    def _check(self, found: Any) -> None:
        if not isinstance(found, dict):
            self._refuse(f"expected the result to be a dict, got {type(found)}")
        arguments = self.op._schema.arguments
        tensors = {a.name for a in arguments if a.type.written.startswith("Tensor")}
        if found.keys() != tensors:
            self._refuse(
                f"expected the dict to have keys {tensors}, got {set(found)}: a gradient, which "
                f"may be None, for each input that may be a tensor or a list of tensors, and none "
                f"for inputs of non-Tensor-like types"
            )
        for a, classes in zip(arguments, self.classes):
            if a.name in tensors:
                self._check_one(a.name, found[a.name], classes)

    def _check_one(self, name: str, grad: Any, classes: Any) -> None:
        if isinstance(classes, list):
            self._check_list(name, grad, classes)
        elif grad is not None and not isinstance(grad, Tensor):
            self._refuse(
                f"expected the gradient of {name!r} to be either None or a Tensor, got {type(grad)}"
            )
        elif grad is not None and not issubclass(classes, Tensor):
            self._refuse(
                f"got a Tensor as the gradient of {name!r}, expected None: the input was not a "
                f"Tensor but a {classes.__name__}"
            )

    def _check_list(self, name: str, grad: Any, classes: list[type]) -> None:
        if not isinstance(grad, (tuple, list)):
            self._refuse(
                f"expected a list of gradients for {name!r}, got an object of {type(grad)}"
            )
        if len(grad) != len(classes):
            self._refuse(
                f"for {name!r} expected a list of {len(classes)} gradients but got {len(grad)}"
            )
        for i, (g, cls) in enumerate(zip(grad, classes)):
            if g is not None and not isinstance(g, Tensor):
                self._refuse(
                    f"expected a list of None or Tensor gradients for {name!r}, got a {type(g)} "
                    f"at {i}"
                )
            if g is not None and not issubclass(cls, Tensor):
                self._refuse(
                    f"got a Tensor as gradient {i} of {name!r}, expected None: the value was not "
                    f"a Tensor but a {cls.__name__}"
                )

    def _refuse(self, what: str) -> NoReturn:
        at = self.op._get_impl("backward").location
        raise RuntimeError(f"the backward function of {self.op}, registered at {at}: {what}")


class _Recorded(Function):
    """The node of a call."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *flat: Any) -> Any:  # type: ignore[override]  # as applied
        ctx.call = call
        return call.forward(ctx, flat)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *ctx.call.backward(ctx, grads)
