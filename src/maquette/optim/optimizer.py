"""`Optimizer`: parameter groups, state by parameter, steps with hooks around them.

An optimizer defines `_mq_update(group)`, one step of one group; a user's own may override `step` as
in PyTorch. Saving and loading is in `state.py`, how an update is carried out in `_paths.py`. Values
in groups and states are what an optimizer puts there: hence Any.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar

from maquette.api import functions as mq
from maquette.autograd import enable_grad, no_grad
from maquette.autograd.hooks import Hook, RemovableHandle
from maquette.nn.utils.foreach import grouped
from maquette.optim import own_steps
from maquette.optim._paths import recorded_step
from maquette.optim.own_steps import (
    ParamsT,
    _default_to_fused_or_foreach,
    _disable_dynamo_if_unsupported,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)
from maquette.optim.own_steps import StateDict as StateDict
from maquette.optim.state import GLOBAL_STEP_HOOKS, OptimizerHooks, SavedState
from maquette.tensor import Tensor

Group = dict[str, Any]
Args = tuple[Any, ...]
Params = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]
Step = Callable[..., Any]
_params_t = ParamsT  # its older name, which programs still import

required = object()  # the default of an option that each group must be given


def _with_hooks(func: Step) -> Step:
    """`func`, a step, between the hooks, all of which may be registered at any time."""

    @functools.wraps(func)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        own: OptimizerHooks | None = vars(self).get("_mq_hooks")
        # An override has hooks of its own; one that holds another optimizer may have none.
        if type(self).step is not hooked or own is None:
            return func(self, *args, **kwargs)
        everywhere = GLOBAL_STEP_HOOKS
        for hook in chain(everywhere.step_pre.values(), own.step_pre.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{changed}."
                )
            args, kwargs = changed
        result = func(self, *args, **kwargs)
        if "_opt_called" in vars(self):  # a learning rate scheduler watches
            self._opt_called = True
        for hook in chain(own.step_post.values(), everywhere.step_post.values()):
            hook(self, args, kwargs)
        return result

    return hooked


class Optimizer(SavedState):
    """The base of all optimizers.

    params: tensors, named tensors, or dicts with "params" and options of their own; defaults: the
    options of groups that name none. Raises TypeError or ValueError for parameters that cannot be
    optimized.
    """

    # What hooks are, for annotations.
    OptimizerPreHook = Callable[[Any, Args, Group], tuple[Args, Group] | None]
    OptimizerPostHook = Callable[[Any, Args, Group], None]

    _opt_called: bool
    profile_hook_step = staticmethod(_with_hooks)
    _mq_as_tensors: ClassVar[tuple[str, ...]] = ()
    """Options that a compiled step may have as tensors, so that it is for any of their values."""
    _group_tensors_by_device_and_dtype = staticmethod(own_steps.group_tensors)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]  # the same, hooked

    def __init__(self, params: Params, defaults: Group) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}; put it in a list."
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._mq_hooks = OptimizerHooks()
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    # --- Groups ----------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Optimize more parameters: a dict with "params" and options that differ from defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._mq_set_params(param_group)
        for parameter in param_group["params"]:
            _check_optimizable(parameter, differentiable=bool(self.defaults.get("differentiable")))
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        self._mq_check_against_groups(param_group)
        self.param_groups.append(param_group)

    def _mq_set_params(self, group: Group) -> None:
        """Make group["params"] a list of tensors; their names, where given, go beside it."""
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        listed = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in listed if isinstance(entry, tuple)]
        if names and len(names) != len(listed):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        group["params"] = [entry[1] for entry in listed] if names else listed
        if names:
            group["param_names"] = names

    def _mq_check_against_groups(self, new: Group) -> None:
        ids = [id(parameter) for parameter in new["params"]]
        if len(ids) != len(set(ids)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        for group in self.param_groups:
            if ("param_names" in new) != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if 'param_names' in new else 'without'} names to the optimizer"
                )
            if not {id(parameter) for parameter in group["params"]}.isdisjoint(ids):
                raise ValueError("some parameters appear in more than one parameter group")

    # --- Steps -----------------------------------------------------------------------

    @_with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place and outside autograd.

        With ``differentiable`` the update is recorded: gradients go through it to what it was
        computed from, and parameters may not be leaves.

        closure: computes the loss and gradients anew; its result is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with recorded_step() if self.defaults.get("differentiable") else no_grad():
            for group in self.param_groups:
                self._mq_update(group)
        return loss

    def _mq_update(self, group: Group) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or (set_to_none=False) fill them with zeros."""
        gradients: list[Tensor] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                else:
                    gradients.append(_cut_loose(parameter.grad))
        if self.defaults.get("foreach") or self.defaults.get("fused"):
            for (group_gradients,) in grouped(gradients):
                mq._foreach_zero_(group_gradients)
        else:
            for gradient in gradients:
                gradient.zero_()

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments."""
        return self._mq_hooks.add(self._mq_hooks.step_pre, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._mq_hooks.add(self._mq_hooks.step_post, hook)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"


def _check_optimizable(parameter: object, *, differentiable: bool) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError(
            "optimizer can only optimize Tensors, but one of the params is "
            f"{type(parameter).__name__}"
        )
    if not (differentiable or parameter.is_leaf or getattr(parameter, "retains_grad", False)):
        raise ValueError("can't optimize a non-leaf Tensor; optimize the leaves it came from.")


def _cut_loose(gradient: Tensor) -> Tensor:
    """A gradient outside the graph that may have computed it."""
    if gradient.grad_fn is not None:
        gradient.detach_()
    else:
        gradient.requires_grad_(False)
    return gradient


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: Iterable[Tensor], swapin_optim_state: Mapping[str, Any]
) -> Iterator[None]:
    """Within the block the optimizer has these parameters, and this ``state_dict()``'s state.

    What is changed in place stays in the given tensors; all else is as before afterwards. Raises
    ValueError if the parameters or groups are not as many as the optimizer's.
    """
    groups, given = optimizer.param_groups, list(swapin_parameters)
    saved = swapin_optim_state["param_groups"]
    if [len(g["params"]) for g in groups] != [len(g["params"]) for g in saved]:
        raise ValueError(
            f"the state has {len(saved)} parameter groups, and they or their sizes are not those "
            f"of the optimizer, which has {len(groups)}"
        )
    if len(given) != sum(len(g["params"]) for g in groups):
        raise ValueError(f"got {len(given)} parameters for another number of the optimizer's")
    state, before = optimizer.state, [dict(group) for group in groups]
    waiting = iter(given)
    try:
        optimizer.state = defaultdict(dict)
        for group, named in zip(groups, saved, strict=True):
            mine = [next(waiting) for _ in named["params"]]
            group.update({**named, "params": mine})
            for param, number in zip(mine, named["params"], strict=True):
                optimizer.state[param] = dict(swapin_optim_state["state"].get(number, {}))
        yield
    finally:
        for group, kept in zip(groups, before, strict=True):
            group.clear()
            group.update(kept)
        optimizer.state = state


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return GLOBAL_STEP_HOOKS.add(GLOBAL_STEP_HOOKS.step_pre, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return GLOBAL_STEP_HOOKS.add(GLOBAL_STEP_HOOKS.step_post, hook)


__all__ = [
    "Optimizer",
    "ParamsT",
    "_default_to_fused_or_foreach",
    "_disable_dynamo_if_unsupported",
    "_get_capturable_supported_devices",
    "_get_scalar_dtype",
    "_get_value",
    "_stack_if_compiling",
    "_to_scalar",
    "_use_grad_for_differentiable",
    "_view_as_real",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
    "swap_in_optimizer_params_and_state",
]
