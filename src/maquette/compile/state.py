"""What a function changes besides its results: modules' tensors, gradients, optimizers' state.

A function that is compiled may hold modules and optimizers. Their tensors become inputs of the
graph, and what they are at its end its outputs; for the trace they are exchanged in place, so that
the program finds them where it looks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from maquette.higher_order.captured import members_of
from maquette.nn import Module
from maquette.optim import Optimizer
from maquette.tensor.tensor import Tensor

_DEPTH = 6


class State:
    """The modules and optimizers that a function reaches, and their tensors."""

    def __init__(self, function: Any) -> None:
        found: dict[int, Any] = {}
        _reach(function, found, set(), _DEPTH)
        self.modules = _all_modules([m for m in found.values() if isinstance(m, Module)])
        self.optimizers = [o for o in found.values() if isinstance(o, Optimizer)]
        for optimizer in self.optimizers:
            _start(optimizer)

    # --- the tensors, by where they are ----------------------------------------------

    def places(self) -> list[tuple[Any, Any]]:
        """Each table and key that holds a tensor, in a fixed order; a tensor may be in several."""
        found: list[tuple[Any, Any]] = []
        for module in self.modules:
            for table in (module._parameters, module._buffers):
                found += [(table, k) for k, t in table.items() if isinstance(t, Tensor)]
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                found += [(group["params"], i) for i in range(len(group["params"]))]
                found += [(group, k) for k, v in group.items() if isinstance(v, Tensor)]
            for values in optimizer.state.values():
                found += [(values, k) for k, v in values.items() if isinstance(v, Tensor)]
        return found

    def tensors(self) -> list[Tensor]:
        """The distinct tensors, in a fixed order."""
        return list({id(t): t for t in (table[k] for table, k in self.places())}.values())

    def shape(self) -> tuple[object, ...]:
        """What besides metas a trace depends on: flags, options, which entries there are."""
        flags = tuple([m.training for m in self.modules])
        options = tuple(
            [
                (k, v)
                for o in self.optimizers
                for g in o.param_groups
                for k, v in g.items()
                if k != "params" and not isinstance(v, Tensor)
            ]
        )
        entries = tuple([len(v) for o in self.optimizers for v in o.state.values()])
        return flags, options, entries

    @contextmanager
    def exchanged(self, tensors: dict[int, Tensor], grads: dict[int, Tensor]) -> Iterator[None]:
        """Other tensors in the places of these, by the id of each; their gradients too."""
        places = self.places()
        kept = [table[k] for table, k in places]
        states = [o.state for o in self.optimizers]
        options = [[dict(g) for g in o.param_groups] for o in self.optimizers]
        try:
            for old, (table, key) in zip(kept, places):
                _put(table, key, tensors[id(old)])
            for optimizer, state in zip(self.optimizers, states):
                renamed = type(state)(getattr(state, "default_factory", None))  # a defaultdict
                renamed.update({tensors.get(id(p), p): dict(v) for p, v in state.items()})
                optimizer.state = renamed
                for group in optimizer.param_groups:
                    if "capturable" in group:  # no number is read from its step counters
                        group.update(capturable=True, foreach=False)
            for old in grads:
                tensors[old].grad = grads[old]
            yield
        finally:
            for old, (table, key) in zip(kept, places):
                _put(table, key, old)
            for optimizer, state, groups in zip(self.optimizers, states, options):
                optimizer.state = state
                for group, before in zip(optimizer.param_groups, groups):
                    group.update({k: v for k, v in before.items() if k != "params"})


def _put(table: Any, key: Any, t: Tensor) -> None:
    table[key] = t
    module = getattr(table, "module", None)
    if module is not None and key in module.__dict__:
        module.__dict__[key] = t


def _start(optimizer: Any) -> None:
    """Make the state that an optimizer makes at its first step, where it can be asked to."""
    start = getattr(optimizer, "_start", None)
    if start is None:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and not optimizer.state[parameter]:
                start(parameter, optimizer.state[parameter], group)


def _all_modules(roots: Sequence[Module]) -> list[Module]:
    return list({id(m): m for root in roots for m in root.modules()}.values())


def _reach(value: Any, found: dict[int, Any], seen: set[int], depth: int) -> None:
    if depth == 0 or id(value) in seen or isinstance(value, Tensor):
        return
    seen.add(id(value))
    if isinstance(value, (Module, Optimizer)):
        found[id(value)] = value
        return
    for _, member in members_of(value):
        _reach(member, found, seen, depth - 1)


__all__ = ["State"]
