"""`SchemaCheckMode`: does each operator write and alias only what its schema declares (F102)?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.schema import AliasInfo, Argument
from maquette.fake.tensor import tensors_in
from maquette.tensor.tensor import Tensor


class Mutation(NamedTuple):
    """An operator wrote an argument."""

    op_name: str
    arg_name: str


class Aliasing(NamedTuple):
    """An output shares the storage of an argument."""

    op_name: str
    arg_name: str
    output_number: str


class SchemaCheckMode(TorchDispatchMode):
    """Runs operators for real, and compares what they do with their schemas.

    ops: names of what ran. mutated, aliasing: what was seen, where the schema declares it. Raises
    RuntimeError for a write, an alias of an argument, a returned argument or outputs that alias
    each other, where the schema does not say so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reset_cache()

    def reset_cache(self) -> None:
        """Forget what was seen."""
        self.ops: list[str] = []
        self.mutated: list[Mutation] = []
        self.aliasing: list[Aliasing] = []

    def display_ops(self) -> None:
        """Print the names of the operators that ran."""
        sys.stdout.write(",".join(self.ops) + "\n")

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self.ops.append(func._schema.name)
        given = list(_given(func, args, kwargs))
        before = states_of([v for _, v in given])
        result = func(*args, **kwargs)
        if not func.facts.hides_aliases:
            self.check(func, [a for a, _ in given], before, result)
        return result

    def check(
        self, op: OpOverload, arguments: Sequence[Argument], before: Sequence[Any], result: Any
    ) -> None:
        """Compare with the schema what a call wrote and gave; ``before``: its `states_of`."""
        returned = result if len(op._schema.returns) > 1 else (result,)
        for argument, states in zip(arguments, before, strict=True):
            self._check_written(op, argument, states)
            self._check_outputs(op, argument, [t for t, _, _ in states], returned)
        _check_each_other(op, returned)

    def _check_written(self, op: OpOverload, argument: Argument, states: Sequence[Any]) -> None:
        if not any(_differs(*state) for state in states):
            return
        name = _name(argument)
        if not argument.is_write and argument.name not in op.facts.undeclared_writes:
            raise RuntimeError(
                f"{op}: Argument {name} is not defined as mutable but was mutated; its schema is "
                f"{op._schema}"
            )
        self.mutated.append(Mutation(op._schema.name, name))

    def _check_outputs(
        self, op: OpOverload, argument: Argument, inputs: Sequence[Tensor], returned: Sequence[Any]
    ) -> None:
        name = _name(argument)
        for i, output in enumerate(returned):
            if not _share(inputs, list(tensors_in((output,)))):
                continue
            if not _declared(argument, op._schema.returns[i]):
                raise RuntimeError(
                    f"{op}: Argument {name} is not defined to alias output but was aliasing "
                    f"output {i}; its schema is {op._schema}"
                )
            same = any(t is o for t in inputs for o in tensors_in((output,)))
            if same and not argument.is_write:
                raise RuntimeError(
                    f"{op}: output {i} is the argument {name} itself; return a view of it, such "
                    f"as {name}.view_as({name}), or declare it as written"
                )
            self.aliasing.append(Aliasing(op._schema.name, name, f"output_{i}"))


def states_of(values: Sequence[Any]) -> list[list[tuple[Tensor, Any, Tensor | None]]]:
    """Each argument's tensors, with their metas and copies of their data as they are now."""
    return [[(t, t.meta, _copy(t)) for t in tensors_in((v,))] for v in values]


def _given(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[Argument, Any]]:
    """The arguments that were passed, by the schema."""
    arguments = op._schema.arguments
    yield from zip(arguments, args, strict=False)
    by_name = {a.name: a for a in arguments}
    yield from ((by_name[n], v) for n, v in kwargs.items())


def _name(argument: Argument) -> str:
    return "input" if argument.name == "self" else argument.name


def _copy(t: Tensor) -> Tensor | None:
    """The data; None where there is none."""
    return None if t._mq_data is None else cast(Tensor, t.detach().clone())


def _differs(t: Tensor, meta: Any, before: Tensor | None) -> bool:
    now = t.meta
    if (now.shape, now.strides, now.offset) != (meta.shape, meta.strides, meta.offset):
        return True
    if before is None:
        return False
    same: Any = t.detach() == before
    return not bool((same | ((t.detach() != t.detach()) & (before != before))).all())


def _share(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return any(a._storage is b._storage for a in first for b in second)


def _sets(alias: AliasInfo | None) -> set[str]:
    if alias is None:
        return set()
    inner = [_sets(c) for c in alias.contained or ()]
    return set(alias.before_set).union(alias.after_set, *inner)


def _declared(first: Argument, second: Argument) -> bool:
    one, other = _sets(first.alias_info), _sets(second.alias_info)
    return bool(one & other) or bool(one and other and "*" in one | other)


def _check_each_other(op: OpOverload, returned: Sequence[Any]) -> None:
    """RuntimeError if two outputs share a storage without a common alias set."""
    outputs = [list(tensors_in((o,))) for o in returned]
    for i, first in enumerate(outputs):
        for j in range(i):
            shared = _declared(op._schema.returns[i], op._schema.returns[j])
            if _share(first, outputs[j]) and not shared:
                raise RuntimeError(
                    f"{op}: Outputs {j} and {i} alias unexpectedly; its schema is {op._schema}"
                )
