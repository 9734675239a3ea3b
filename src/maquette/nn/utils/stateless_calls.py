"""Calling a module with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from maquette.nn.base import Module
from maquette.nn.utils._named_member_accessor import NamedMemberAccessor
from maquette.tensor import Tensor

Tensors = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` as if its members had these values, by dotted name; it is unchanged after.

    args: the arguments, a tuple, or the only one. tie_weights: members that are one tensor in the
    module are replaced together. strict: every member must be given, and nothing else; otherwise a
    name may be any attribute that is a tensor, or is not there. What the call assigns to a name is
    put into the one dict that was given.

    Raises ValueError for a name or a tied tensor given two values, RuntimeError if not strict
    enough, TypeError for what is no tensor, AttributeError for a module that is not there.
    """
    return called_with(
        module, _merged(parameter_and_buffer_dicts), args, kwargs, tie_weights, strict
    )


def called_with(
    module: Module,
    values: Tensors,
    args: Any,
    kwargs: dict[str, Any] | None,
    tie_weights: bool,
    strict: bool,
) -> Any:
    """`functional_call` with one dict."""
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, values, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def _merged(dicts: Tensors | Sequence[Tensors]) -> Tensors:
    if isinstance(dicts, Mapping):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    merged: dict[str, Tensor] = {}
    for values in dicts:
        twice = [name for name in values if name in merged]
        if twice:
            raise ValueError(
                f"{twice} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        merged.update(values)
    return merged


def _check_names(module: Module, values: Tensors) -> None:
    members = {
        *(name for name, _ in module.named_parameters(remove_duplicate=False)),
        *(name for name, _ in module.named_buffers(remove_duplicate=False)),
    }
    problems = []
    for what, names in (
        ("Unexpected", values.keys() - members),
        ("Missing", members - values.keys()),
    ):
        if names:
            problems.append(f"{what} key(s): {', '.join(map(repr, sorted(names)))}.")
    if problems:
        listed = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{listed}")


def _tied(module: Module, values: Tensors) -> Tensors:
    """The values, given also to the other names of the tensors that they replace."""
    names_of: dict[int, list[str]] = defaultdict(list)
    for name, tensor in (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ):
        names_of[id(tensor)].append(name)
    result = dict(values)
    for names in names_of.values():
        given = [name for name in names if name in values]
        if len({id(values[name]) for name in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(given)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if given:
            result.update(dict.fromkeys(names, values[given[0]]))
    return result


@contextmanager
def reparametrized(
    module: Module,
    parameters_and_buffers: Tensors,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """In the block the members have these values, by dotted name; as in `functional_call`.

    stack_weights: what is put back comes in the reverse order.
    """
    values = _tied(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_names(module, values)
    accessor = NamedMemberAccessor(module)
    before, _ = accessor.swap_tensors_dict(values, allow_missing=True)
    try:
        yield
    finally:
        if stack_weights:
            before = dict(reversed(before.items()))
        after, _ = accessor.swap_tensors_dict(before, allow_missing=True)
        if isinstance(parameters_and_buffers, MutableMapping):
            parameters_and_buffers.update((name, after[name]) for name in parameters_and_buffers)
