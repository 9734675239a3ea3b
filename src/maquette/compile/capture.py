"""A call as a functional graph: what it gets, changes and gives, as inputs and outputs.

The inputs of a graph are the tensors of the arguments, then those of the function's modules and
optimizers (`state.py`), then optimizers' numbers, then gradients that are there. Its outputs are
the results, the new values of all that is changed, and, where results can be differentiated,
gradients for given ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.api.creation import tensor
from maquette.autograd import grad as gradients
from maquette.autograd import is_grad_enabled
from maquette.compile.errors import CompileError
from maquette.compile.state import State, sets_option
from maquette.compile.tracing import Traced, functional_graph
from maquette.core.dtype import float64
from maquette.core.pytree import TreeSpec, tree_flatten
from maquette.dispatch.registry import ops
from maquette.fx.node import Node
from maquette.tensor.tensor import Tensor


@dataclass
class Change:
    """Where a new value goes: into a tensor by its number, its gradient, or an optimizer's state.

    kind: "value" (number: of a tensor of the call), "grad" (of a tensor of the state), or "entry"
    (optimizer, parameter's number in the state, key).
    """

    kind: str
    number: int
    key: Any
    node: Node | None
    plain: Any = None


@dataclass
class Captured:
    """The graph of a call, and what its inputs and outputs are."""

    traced: Traced
    inputs: list[Node]
    results: list[Any]
    spec: TreeSpec
    changes: list[Change]
    needs: list[bool]
    """Which results can be differentiated."""
    tangents: list[Node]
    grads: list[Node | None]
    """For each tensor of the call, its gradient for the tangents."""


class Call:
    """A call to be captured: a function of leaves, the tensors among them, and a state."""

    def __init__(
        self,
        function: Callable[..., Any],
        tensors: Sequence[Tensor],
        state: State,
        grads: Sequence[Tensor | None],
    ) -> None:
        self.function = function
        self.tensors = list(tensors)
        self.state = state
        self.held = state.tensors()
        self.numbers = [tensor(n.value, dtype=float64) for n in state.numbers()]
        self.grads = list(grads)

    def captured(self, tangents: Sequence[Tensor] = ()) -> Captured:
        """Trace the call; with tangents, with the gradients for them."""
        notes = _Notes()
        grads = [g for g in self.grads if g is not None]
        given = [*self.tensors, *self.held, *self.numbers, *grads, *tangents]
        # Modules are exchanged while the function runs, which is inside of the trace.
        traced = functional_graph(
            lambda *flat: self._run(notes, flat, len(tangents)), [t.detach() for t in given]
        )
        return self._assembled(traced, notes, len(tangents))

    def _run(self, notes: _Notes, flat: Sequence[Tensor], tangents: int) -> Any:
        count, held = len(self.tensors), len(self.held)
        fresh = [
            t.requires_grad_() if o.requires_grad else t
            for t, o in zip(flat, [*self.tensors, *self.held])
        ]
        mine, theirs = fresh[:count], fresh[count:]
        left = iter(flat[count + held :])
        numbers = [next(left) for _ in self.numbers]
        for t, o, g in zip(theirs, self.held, self.grads or [None] * held):
            t._is_param = o._is_param
            if g is not None:
                t.grad = next(left)
        with self.state.exchanged(theirs, numbers):
            given = [*mine, *self.held]
            result = self.function(*mine)
            notes.note(result, self.held, self.state)
            found: list[Any] = []
            if tangents:
                notes.wanted = [t.requires_grad and t.is_leaf for t in given]
                wanted = [t for t, is_wanted in zip(given, notes.wanted) if is_wanted]
                outs = [r for r in notes.results if _differentiable(r)]
                if wanted:  # else the results come of what the program made itself
                    found = list(gradients(outs, wanted, list(left), allow_unused=True))
            tensors = [r.detach() for r in notes.results if isinstance(r, Tensor)]
            changed = [t.detach() for t in [*given, *numbers]]
            entries = [v.detach() for *_, v in notes.entries if isinstance(v, Tensor)]
            grads_now = [None if g is None else g.detach() for g in notes.grads]
        return tensors, changed, entries, grads_now, found

    def _assembled(self, traced: Traced, notes: _Notes, tangents: int) -> Captured:
        outputs = iter(traced.outputs)
        results = [next(outputs) if isinstance(r, Tensor) else r for r in notes.results]
        everything = [*self.tensors, *self.held]
        changes: list[Change] = []
        for i, placeholder in enumerate(traced.placeholders[: len(everything)]):
            node = next(outputs)
            if _source(node) is not placeholder:
                changes.append(Change("value", i, None, node))
        placeholders = traced.placeholders[len(everything) :]
        for number, placeholder in zip(self.state.numbers(), placeholders):
            if _source(next(outputs)) is not placeholder:
                raise sets_option([number.key])
        for optimizer, parameter, key, value in notes.entries:
            node = next(outputs) if isinstance(value, Tensor) else None
            at = (optimizer, key)
            plain = None if node is not None else value
            if node is None or not self._is_held(node, traced):
                changes.append(Change("entry", parameter, at, node, plain))
        before = iter(traced.placeholders[len(everything) + len(self.numbers) :])
        for i, grad in enumerate(self.grads):
            node, was = next(outputs), None if grad is None else next(before)
            if _source(node) is not was:
                changes.append(Change("grad", i, None, node))
        grads: list[Node | None] = []
        for wanted in notes.wanted if tangents else []:
            grads.append(next(outputs) if wanted else None)
        first = len(traced.placeholders) - tangents
        return Captured(
            traced,
            traced.placeholders[:first],
            results,
            notes.spec,
            changes,
            [_differentiable(r) for r in notes.results],
            traced.placeholders[first:],
            grads,
        )

    def _is_held(self, node: Node, traced: Traced) -> bool:
        """Whether an entry is a tensor of the state, whose change is noted as such."""
        del traced
        return node.op == "placeholder"


class _Notes:
    """What a run of the function leaves: results, gradients, entries of optimizers."""

    spec: TreeSpec

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.grads: list[Tensor | None] = []
        self.entries: list[tuple[int, int, Any, Any]] = []
        self.wanted: list[bool] = []

    def note(self, result: Any, held: Sequence[Tensor], state: State) -> None:
        self.results, self.spec = tree_flatten(result)
        self.grads = [t._grad for t in held]
        numbers = {id(t): i for i, t in enumerate(held)}
        known = {id(t) for t in held}
        for o, optimizer in enumerate(state.optimizers):
            for parameter, values in optimizer.state.items():
                for key, value in values.items():
                    if id(value) not in known:  # the others are tensors of the state
                        self.entries.append((o, numbers[id(parameter)], key, value))


def _differentiable(r: Any) -> bool:
    return isinstance(r, Tensor) and r.requires_grad and is_grad_enabled()


def _source(node: Any) -> Any:
    """The node that an output is, aliases aside."""
    while isinstance(node, Node) and node.target is ops.aten.detach.default:
        node = node.args[0]
    return node


def check_not_aliased(tensors: Sequence[Tensor], changes: Sequence[Change]) -> None:
    """CompileError if the program mutates a tensor whose memory another input shares."""
    for change in changes:
        if change.kind != "value":
            continue
        t = tensors[change.number]
        others = [o for i, o in enumerate(tensors) if i != change.number]
        if any(o._storage is t._storage for o in others):
            raise CompileError(
                f"the program mutates an input ({t.meta}) that shares memory with another one, "
                f"which a functional program cannot say; pass a clone of one of them"
            )


__all__ = ["Call", "Captured", "Change", "check_not_aliased"]
