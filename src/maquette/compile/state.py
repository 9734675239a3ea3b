"""What a function changes besides its results: modules' tensors, gradients, optimizers' state.

A function that is compiled may hold modules and optimizers, and tensors that require gradients.
Such tensors become inputs of the graph, and what they are at its end its outputs; for the trace
they are exchanged with traced ones, so that the program finds these wherever it looks.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import CellType, FunctionType
from typing import Any, NamedTuple

from maquette.compile.errors import CompileError
from maquette.higher_order.captured import global_names, members_of
from maquette.nn import Module
from maquette.optim import Optimizer
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.mode import FunctionalTensor

_DEPTH = 6


class State:
    """The modules and optimizers that a function reaches, and their tensors."""

    def __init__(self, function: Any) -> None:
        found: dict[int, Any] = {}
        _reach(function, found, set(), _DEPTH)
        self.modules = _all_modules([m for m in found.values() if isinstance(m, Module)])
        self.optimizers = [o for o in found.values() if isinstance(o, Optimizer)]
        self.captured = [t for t in found.values() if isinstance(t, Tensor)]
        """Tensors that require gradients, of names or met by a trace."""
        functions = [f for f in found.values() if isinstance(f, FunctionType)]
        self.names = [found for f in functions for found in _names_of_tensors(f)]
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
        found = {id(t): t for t in (table[k] for table, k in self.places())}
        return [*found.values(), *[t for t in self.captured if id(t) not in found]]

    def numbers(self) -> list[Number]:
        """Optimizers' options that are tensors in the program, so that it is for any value."""
        found: list[Number] = []
        for optimizer in self.optimizers:
            if type(optimizer).step is not Optimizer.step:
                continue  # a step of the program's own may read them
            for group in optimizer.param_groups:
                for key in optimizer._mq_as_tensors:
                    found += _numbers_of(group, key)
        return found

    def meet(self, constants: Iterable[object]) -> bool:
        """Note the tensors among constants of a trace that require gradients; whether any do."""
        found = [t for t in constants if isinstance(t, Tensor) and t.requires_grad]
        for t in found:
            if isinstance(t.grad, FunctionalTensor):  # the trace's
                t.grad = None
        self.captured += found
        return bool(found)

    def bound(self) -> tuple[int, ...]:
        """Which tensors the names of the functions mean that the function reaches."""
        return tuple([id(names.get(name)) for names, name in self.names])

    def shape(self) -> tuple[object, ...]:
        """What besides metas a trace depends on: flags, options, which entries there are."""
        flags = tuple([m.training for m in self.modules])
        numbers: dict[tuple[int, str], list[int | None]] = {}
        for n in self.numbers():
            numbers.setdefault((id(n.group), n.key), []).append(n.place)
        options = tuple(
            [
                (k, _fixed(v, numbers.get((id(g), k), ())))
                for o in self.optimizers
                for g in o.param_groups
                for k, v in g.items()
                if k != "params" and not isinstance(v, Tensor)
            ]
        )
        entries = tuple([len(v) for o in self.optimizers for v in o.state.values()])
        return flags, options, entries

    @contextmanager
    def exchanged(self, tensors: Sequence[Tensor], numbers: Sequence[Tensor]) -> Iterator[None]:
        """The tensors are others in the block, wherever the program finds them; so are numbers.

        CompileError where the program sets an optimizer's option, which no output tells.
        """
        mine = self.tensors()
        members = [(m, dict(m._mq_attributes)) for m in self.modules]
        states = [o.state for o in self.optimizers]
        options = [[dict(g) for g in o.param_groups] for o in self.optimizers]
        given: list[dict[str, Any]] = []
        pairs = list(zip(mine, tensors, strict=True))
        try:
            for t, other in pairs:
                _exchange(t, other)
            for optimizer, state in zip(self.optimizers, states):
                copied = type(state)(getattr(state, "default_factory", None))  # a defaultdict
                copied.update({p: dict(v) for p, v in state.items()})
                optimizer.state = copied
                reads_none = bool(optimizer._mq_as_tensors)  # so nor from its counters of steps
                for group in optimizer.param_groups if reads_none else ():
                    group.update(capturable=True, foreach=False, fused=False)
            for number, value in zip(self.numbers(), numbers, strict=True):
                number.exchange(value)
            given = [dict(g) for o in self.optimizers for g in o.param_groups]
            yield
            _check_options_stayed(given, [g for o in self.optimizers for g in o.param_groups])
        finally:
            for t, other in pairs:
                _exchange(t, other)
            for optimizer, state, groups in zip(self.optimizers, states, options):
                optimizer.state = state
                for group, before in zip(optimizer.param_groups, groups):
                    params = group["params"]
                    group.clear()
                    group.update(before, params=params)
            for module, before in members:
                _forget_traced(module, before)


def _forget_traced(module: Module, before: dict[str, Any]) -> None:
    """Take from a module's attributes what a trace has put there, which is no tensor outside."""
    members = module._mq_attributes
    for name, value in list(members.items()):
        if isinstance(value, list):
            value[:] = [v for v in value if not isinstance(v, FunctionalTensor)]
        elif isinstance(value, FunctionalTensor):
            if name in before:
                members[name] = before[name]
            else:
                del members[name]


class Number(NamedTuple):
    """A number among an optimizer's options: of a group, by its key and place in a tuple."""

    group: dict[str, Any]
    key: str
    place: int | None
    value: float

    def exchange(self, tensor: Tensor) -> None:
        """Put a tensor in its place."""
        if self.place is None:
            self.group[self.key] = tensor
        else:
            option = self.group[self.key]
            self.group[self.key] = (*option[: self.place], tensor, *option[self.place + 1 :])


def _numbers_of(group: dict[str, Any], key: str) -> Iterator[Number]:
    option = group.get(key)
    several = isinstance(option, (tuple, list))
    for i, value in enumerate(option if isinstance(option, (tuple, list)) else [option]):
        # No momentum at all is another program.
        if value.__class__ in (int, float) and (value or key != "momentum"):
            yield Number(group, key, i if several else None, float(value))


def _fixed(option: Any, places: Sequence[int | None]) -> Any:
    """What a program depends on of an option some numbers of which are its inputs."""
    if None in places:
        return Number
    if not places:
        return tuple(option) if isinstance(option, list) else option
    return tuple([Number if i in places else v for i, v in enumerate(option)])


def _check_options_stayed(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> None:
    for old, new in zip(before, now, strict=True):
        changed = [k for k in {**old, **new} if old.get(k) is not new.get(k)]
        if changed:
            raise sets_option(changed)


def sets_option(names: Iterable[str]) -> CompileError:
    """The refusal of a program that sets options of its optimizers."""
    return CompileError(
        f"the program sets an optimizer's option ({', '.join(map(repr, names))}), as a scheduler "
        f"of learning rates does, which no compiled program can; set it outside of what is "
        f"compiled"
    )


_NOTHING = object()


def _exchange(one: Any, other: Any) -> None:
    """Exchange all that two tensors are but their identity: who refers to one has the other's."""
    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    for slot in copyreg._slotnames(Tensor):  # type: ignore[attr-defined]  # private
        a, b = getattr(one, slot, _NOTHING), getattr(other, slot, _NOTHING)
        for t, value in ((one, b), (other, a)):
            if value is not _NOTHING:
                setattr(t, slot, value)


def _start(optimizer: Any) -> None:
    """Make the state that an optimizer makes at its first step, where it can be asked to."""
    start = getattr(optimizer, "_mq_begin", None) or getattr(optimizer, "_mq_start", None)
    if start is None:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and not optimizer.state[parameter]:
                start(parameter, optimizer.state[parameter], group)


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


class _Cell:
    """A closure's variable as a table of one name."""

    def __init__(self, cell: CellType) -> None:
        self.cell = cell

    def get(self, name: str) -> object:
        del name
        return self.cell.cell_contents


def _names_of_tensors(function: FunctionType) -> Iterator[tuple[Any, str]]:
    """The names of a function that mean tensors, each with the table to look it up in."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):  # not assigned yet
            if isinstance(cell.cell_contents, Tensor):
                yield _Cell(cell), name
    for name in global_names(function.__code__):
        if isinstance(function.__globals__.get(name), Tensor):
            yield function.__globals__, name


def _all_modules(roots: Sequence[Module]) -> list[Module]:
    return list({id(m): m for root in roots for m in root.modules()}.values())


def _reach(value: Any, found: dict[int, Any], seen: set[int], depth: int) -> None:
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (Module, Optimizer, FunctionType)) or _needs_gradient(value):
        found[id(value)] = value
    if isinstance(value, (Module, Optimizer, Tensor)):
        return
    for _, member in members_of(value):
        _reach(member, found, seen, depth - 1)


__all__ = ["Number", "State", "sets_option"]
