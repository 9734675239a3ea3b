"""Calling a module with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from maquette.nn.base import Module
from maquette.nn.base.members import BUFFERS, PARAMETERS
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
    module are replaced together. strict: every member must be given, and nothing else.

    Raises ValueError for a name or a tied tensor given two values, RuntimeError if not strict
    enough.
    """
    values = _merged(parameter_and_buffer_dicts)
    if strict:
        _check_names(module, values)
    if tie_weights:
        values = _tied(module, values)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, values):
        return module(*arguments, **(kwargs or {}))


def _merged(dicts: Tensors | Sequence[Tensors]) -> dict[str, Tensor]:
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, Sequence) or not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
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


def _tied(module: Module, values: dict[str, Tensor]) -> dict[str, Tensor]:
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
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: Tensors,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """In the block the members have these values, by dotted name; as in `functional_call`.

    What the block assigns to them instead is put into ``parameters_and_buffers``, if that is a
    dict. stack_weights: taken, and no difference: members come back as they were.
    """
    values = dict(parameters_and_buffers)
    if strict:
        _check_names(module, values)
    if tie_weights:
        values = _tied(module, values)
    with _replaced(module, values):
        yield
        if isinstance(parameters_and_buffers, dict):
            _take_back(module, parameters_and_buffers)


def _take_back(module: Module, values: dict[str, Tensor]) -> None:
    """Note what stands in the place of the values now."""
    for path in values:
        owner_path, _, name = path.rpartition(".")
        values[path] = getattr(module.get_submodule(owner_path), name)


@contextmanager
def _replaced(module: Module, values: Tensors) -> Iterator[None]:
    found = []
    members = dict(module.named_modules(remove_duplicate=False))
    for path, value in values.items():
        owner_path, _, name = path.rpartition(".")
        owner = members.get(owner_path)
        if owner is None:
            continue
        if name not in owner.__dict__[PARAMETERS] and name not in owner.__dict__[BUFFERS]:
            continue  # only `strict` minds
        found.append((owner.__dict__, name, value))
    originals = [(attributes, name, attributes[name]) for attributes, name, _ in found]
    try:
        # Past __setattr__: a plain tensor may stand where a Parameter is.
        for attributes, name, value in found:
            attributes[name] = value
        yield
    finally:
        for attributes, name, original in originals:
            attributes[name] = original
