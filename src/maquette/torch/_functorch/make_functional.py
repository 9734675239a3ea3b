"""`torch._functorch.make_functional`: modules as functions of their parameters and buffers.

Older programs use these; `torch.func.functional_call` does the same without a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from maquette.api import functions as mq
from maquette.nn.base import Module
from maquette.nn.utils.stateless_calls import functional_call
from maquette.tensor.tensor import Tensor

State = tuple[Tensor, ...]


class FunctionalModule(Module):
    """A module without parameters of its own: they are its first argument."""

    def __init__(self, stateless_model: Module, names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(names)

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """The model's output with these parameters."""
        return _call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A module without parameters and buffers: they are its first two arguments."""

    def __init__(
        self, stateless_model: Module, names: Sequence[str], buffer_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(names)
        self.buffer_names = tuple(buffer_names)

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """The model's output with these parameters and buffers."""
        state = dict(zip(self.param_names, params)) | dict(zip(self.buffer_names, buffers))
        return _call(self.stateless_model, state, args, kwargs)


def _call(
    model: Module, state: dict[str, Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return functional_call(model, state, args, kwargs)


def _stateless(model: Module) -> Module:
    """A copy of a model whose parameters hold no data; those that are one stay one."""
    made = copy.deepcopy(model)
    known: dict[int, Any] = {}
    for module in made.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                if id(p) not in known:
                    known[id(p)] = type(p)(p.detach().to("meta"), p.requires_grad)
                module._parameters[name] = known[id(p)]
    return made


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, State]:
    """A model as a function of its parameters, and the parameters; for models without buffers."""
    buffers = list(model.buffers())
    if buffers:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    named = dict(model.named_parameters())
    params: State = tuple(named.values())
    if disable_autograd_tracking:
        params = tuple([p.detach() for p in params])
    return FunctionalModule(_stateless(model), list(named)), params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, State, State]:
    """A model as a function of its parameters and buffers, and both."""
    named, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    params: State = tuple(named.values())
    if disable_autograd_tracking:
        params = tuple([p.detach() for p in params])
    function = FunctionalModuleWithBuffers(_stateless(model), list(named), list(buffers))
    return function, params, tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, State, State]:
    """Like models as one function, and their parameters and buffers, each stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    parts = [make_functional_with_buffers(m) for m in models]
    params = tuple([mq.stack(list(p)).detach() for p in zip(*[p for _, p, _ in parts])])
    buffers = tuple([mq.stack(list(b)).detach() for b in zip(*[b for _, _, b in parts])])
    for p, first in zip(params, parts[0][1]):
        p.requires_grad_(first.requires_grad)
    return parts[0][0], params, buffers


def functional_init(
    model_class: type[Module], ensemble_shape: tuple[int, ...] | tuple[()] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """What makes a model of a class, or an ensemble of them: parameters, function and names."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(ensemble_shape) >= 2:
            raise ValueError("NYI: ensemble_shape with more than 1 element")
        if not ensemble_shape:
            function, params = make_functional(model_class(*args, **kwargs).to(device))
            return params, _of_data(function), function.param_names
        count = _positive(ensemble_shape[0])
        models = [model_class(*args, **kwargs).to(device) for _ in range(count)]
        function = make_functional(models[0])[0]
        every = [tuple(m.parameters()) for m in models]
        params = tuple([mq.stack(list(p)).detach().requires_grad_() for p in zip(*every)])
        return params, _of_data(function), function.param_names

    return wrapped


def functional_init_with_buffers(
    model_class: type[Module], ensemble_shape: tuple[int, ...] | tuple[()] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """As `functional_init`, for models with buffers."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(ensemble_shape) >= 2:
            raise ValueError("NYI: ensemble_shape with more than 1 element")
        if not ensemble_shape:
            function, weights, buffers = make_functional_with_buffers(
                model_class(*args, **kwargs).to(device)
            )
            names = function.param_names, function.buffer_names
            return weights, buffers, _of_data(function), *names
        count = _positive(ensemble_shape[0])
        models = [model_class(*args, **kwargs).to(device) for _ in range(count)]
        function, params, buffers = combine_state_for_ensemble(models)
        weights = tuple([p.detach().requires_grad_() for p in params])
        names = function.param_names, function.buffer_names
        return weights, buffers, _of_data(function), *names

    return wrapped


def _of_data(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a function that takes the model's arguments as one tuple, the last."""
    return lambda *given: function(*given[:-1], *given[-1])


def _positive(count: int) -> int:
    if count <= 0:
        raise ValueError(f"num_models {count} should be > 0")
    return count
