"""`torch.distributed.checkpoint.state_dict`: states keyed by the names of parameters.

There is one process, which has everything: nothing is gathered, sent or split here. What is left
is what programs of one process use it for, states of optimizers that name parameters as the model
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from maquette.core.pytree import tree_map_only
from maquette.nn import Module
from maquette.optim import Optimizer
from maquette.tensor.tensor import Tensor

State: TypeAlias = dict[str, Any]
Optimizers: TypeAlias = Optimizer | Iterable[Optimizer]


@dataclass
class StateDictOptions:
    """How states are taken and set.

    full_state_dict: with meta tensors in the model, what is loaded takes their place.
    cpu_offload: states are copied to the cpu. ignore_frozen_params: parameters that need no
    gradient are left out. strict: whether all keys must match. flatten_optimizer_state_dict: one
    dict of ``state.NAME.KEY`` and ``param_groups.NAME.KEY``. The others change nothing here.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _refuse_submodules(submodules: set[Module] | None) -> None:
    if submodules:
        raise NotImplementedError(
            "state dicts of submodules= are not supported by maquette, and deprecated by PyTorch: "
            "give the submodule as the model"
        )


def get_model_state_dict(
    model: Module,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> State:
    """The model's state dict; NotImplementedError for that of some submodules."""
    _refuse_submodules(submodules)
    options = options or StateDictOptions()
    state: State = model.state_dict()
    if options.ignore_frozen_params:
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                state.pop(name, None)
    return _placed(state, options)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> State:
    """The states of the optimizers together; parameters go by their names in the model.

    An optimizer without states gets those of a first step, which changes nothing.
    NotImplementedError for those of some submodules.
    """
    _refuse_submodules(submodules)
    options = options or StateDictOptions()
    names = _names_of(model)
    states: State = {}
    groups: list[State] = []
    for optimizer in _all_of(optimizers):
        _begin(optimizer)
        own = optimizer.state_dict()
        for group, saved in zip(optimizer.param_groups, own["param_groups"], strict=True):
            here = [names[p] for p in group["params"]]
            states |= {
                name: own["state"][index]
                for name, index in zip(here, saved["params"], strict=True)
                if index in own["state"]
            }
            groups.append(saved | {"params": here})
    found = {"state": states, "param_groups": groups}
    return _placed(_flat(found) if options.flatten_optimizer_state_dict else found, options)


def get_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[State, State]:
    """`get_model_state_dict` and `get_optimizer_state_dict`."""
    _refuse_submodules(submodules)
    of_optimizers = get_optimizer_state_dict(model, optimizers, options=options)
    return get_model_state_dict(model, options=options), of_optimizers


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load the model's state; gives what `Module.load_state_dict` does, the keys that differ."""
    options = options or StateDictOptions()
    assign = options.full_state_dict and any(t.is_meta for t in _tensors_of(model))
    return model.load_state_dict(model_state_dict, strict=options.strict, assign=assign)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: State,
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load the states of optimizers that go by names; KeyError for a parameter without a group."""
    names = _names_of(model)
    for optimizer in _all_of(optimizers):
        _begin(optimizer)
        given = _nested(optim_state_dict, names.values())
        options_of = {name: group for group in given["param_groups"] for name in group["params"]}
        own = optimizer.state_dict()
        states: dict[int, Any] = {}
        groups = []
        for group, saved in zip(optimizer.param_groups, own["param_groups"], strict=True):
            here = [names[p] for p in group["params"]]
            for name, index in zip(here, saved["params"], strict=True):
                if name in given["state"]:
                    states[index] = given["state"][name]
            first = options_of[here[0]] if here else saved
            groups.append(saved | first | {"params": saved["params"]})
        optimizer.load_state_dict({"state": states, "param_groups": groups})


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: State,
    options: StateDictOptions | None = None,
) -> Any:
    """`set_model_state_dict`, whose result is given, and `set_optimizer_state_dict`."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


def _all_of(optimizers: Optimizers) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _names_of(model: Module) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in model.named_parameters()}


def _tensors_of(model: Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _placed(state: State, options: StateDictOptions) -> State:
    if not options.cpu_offload:
        return state
    return cast(State, tree_map_only(Tensor, _on_cpu, state))


def _on_cpu(tensor: Any) -> Any:
    return tensor.detach().cpu()


def _begin(optimizer: Optimizer) -> None:
    """Let a step of zero gradients make the states, at a rate of 0."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in parameters):
        return
    rates = [group["lr"] for group in optimizer.param_groups]
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = parameter.detach().new_zeros(parameter.shape)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def _flat(nested: State) -> State:
    flat = {
        f"state.{name}.{key}": value
        for name, values in nested["state"].items()
        for key, value in values.items()
    }
    for group in nested["param_groups"]:
        for name in group["params"]:
            options = ((key, value) for key, value in group.items() if key != "params")
            flat |= {f"param_groups.{name}.{key}": value for key, value in options}
    return flat


def _nested(given: State, names: Iterable[str]) -> State:
    """A state that may be flat, with a group for each name then."""
    if "state" in given or "param_groups" in given:
        return {"state": given.get("state", {}), "param_groups": given.get("param_groups", [])}
    states: State = {}
    groups = []
    for name in names:
        of_state = _below(given, f"state.{name}.")
        options = _below(given, f"param_groups.{name}.")
        if of_state:
            states[name] = of_state
        if options:
            groups.append(options | {"params": [name]})
    return {"state": states, "param_groups": groups}


def _below(given: State, beginning: str) -> State:
    """What stands below a beginning, but not below a longer name."""
    found = (
        (key.removeprefix(beginning), value)
        for key, value in given.items()
        if key.startswith(beginning)
    )
    return {key: value for key, value in found if "." not in key}
