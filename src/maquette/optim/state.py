"""Saving and loading an optimizer: its state dict, in PyTorch's form, and the hooks around it.

A state dict names parameters by their place in the groups: {"state": {0: {...}}, "param_groups":
[{"lr": ..., "params": [0, 1]}]}.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any, ClassVar

from maquette.autograd.hooks import Hook, Hooks, RemovableHandle
from maquette.core import dtype as dtypes
from maquette.nn.base.hooks import StateHookTable, add_hook
from maquette.optim._paths import new_step
from maquette.tensor import Tensor

StateDict = dict[str, Any]


class OptimizerHooks(StateHookTable):
    """The hooks of one optimizer, or of all."""

    def __init__(self) -> None:
        super().__init__()
        self.step_pre: Hooks = {}
        self.step_post: Hooks = {}

    def add_ordered(self, hooks: Hooks, hook: Hook, *, prepend: bool) -> RemovableHandle:
        """Enter `hook` last or (prepend) first."""
        handle = RemovableHandle(self)
        add_hook(hooks, handle.id, hook, prepend=prepend)
        return handle

    def dicts(self) -> tuple[Hooks, ...]:
        """The six kinds."""
        return *super().dicts(), self.step_pre, self.step_post


GLOBAL_STEP_HOOKS = OptimizerHooks()


_ADDED_LATER = {
    "maximize": False,
    "foreach": None,
    "fused": None,
    "differentiable": False,
    "capturable": False,
}
"""What groups of files lack that were saved before there were these options."""


class SavedState:
    """The part of `Optimizer` that saves and loads."""

    defaults: dict[str, Any]
    state: defaultdict[Tensor, Any]
    param_groups: list[dict[str, Any]]
    _mq_hooks: OptimizerHooks
    _mq_counts_in_tensors: ClassVar[bool] = True
    """Whether a parameter's step is a tensor, if its state has one."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_mq_hooks" not in self.__dict__:
            self._mq_hooks = OptimizerHooks()
        for group in state.get("param_groups", ()):
            self._mq_bring_up_to_date(group)

    def _mq_bring_up_to_date(self, group: dict[str, Any]) -> None:
        """Complete a group of a file older than its options, and than steps that are tensors."""
        for name, value in _ADDED_LATER.items():
            if name in vars(self).get("defaults", ()):
                group.setdefault(name, value)
        if not self._mq_counts_in_tensors:
            return
        for parameter in group["params"]:
            own = self.state.get(parameter, {})
            if isinstance(own.get("step"), (int, float)):
                on_device = bool(group.get("fused") or group.get("capturable"))
                own["step"] = new_step(parameter, on_device=on_device).fill_(own["step"])

    def state_dict(self) -> StateDict:
        """The state of every parameter and the options of every group; tensors are not copied."""
        for hook in tuple(self._mq_hooks.save_pre.values()):
            hook(self)
        places: dict[int, int] = {}
        for parameter in chain.from_iterable(group["params"] for group in self.param_groups):
            places.setdefault(id(parameter), len(places))
        groups = []
        for group in self.param_groups:
            saved = {name: value for name, value in group.items() if name != "params"}
            saved["params"] = [places[id(parameter)] for parameter in group["params"]]
            groups.append(saved)
        state = {
            places[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        saved_state: StateDict = {"state": state, "param_groups": groups}
        for hook in tuple(self._mq_hooks.save_post.values()):
            replaced: Any = hook(self, saved_state)
            saved_state = saved_state if replaced is None else replaced
        return saved_state

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over a saved state; tensors go to their parameter's device and, floats, dtype.

        Raises ValueError unless groups and numbers of parameters are the same.
        """
        state_dict = state_dict.copy()
        for hook in tuple(self._mq_hooks.load_pre.values()):
            replaced: Any = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups = deepcopy(state_dict["param_groups"])
        parameters = self._mq_matched(groups)
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in parameters:
                options = next(group for group in groups if key in group["params"])
                state[parameters[key]] = _moved(parameters[key], value, options)
            else:
                state[key] = value
        for own, loaded in zip(self.param_groups, groups):
            loaded["params"] = own["params"]
            if "param_names" in own:
                loaded.setdefault("param_names", own["param_names"])
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in tuple(self._mq_hooks.load_post.values()):
            hook(self)

    def _mq_matched(self, groups: list[dict[str, Any]]) -> dict[Any, Tensor]:
        """The parameters by the names that the saved groups have for them."""
        if len(groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(groups)}, not {len(self.param_groups)}"
            )
        matched: dict[Any, Tensor] = {}
        for own, saved in zip(self.param_groups, groups):
            if len(own["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: {len(saved['params'])}, not {len(own['params'])}"
                )
            matched.update(zip(saved["params"], own["params"]))
        return matched

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before the state is collected."""
        return self._mq_hooks.add_ordered(self._mq_hooks.save_pre, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after; it may return another."""
        return self._mq_hooks.add_ordered(self._mq_hooks.save_post, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another."""
        return self._mq_hooks.add_ordered(self._mq_hooks.load_pre, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return self._mq_hooks.add_ordered(self._mq_hooks.load_post, hook, prepend=prepend)


def _moved(parameter: Tensor, value: Any, options: Mapping[str, Any], key: object = None) -> Any:
    """A saved value where `parameter` needs it; containers are rebuilt."""
    if isinstance(value, Tensor):
        return _moved_tensor(parameter, value, options, key)
    if isinstance(value, dict):
        return {name: _moved(parameter, member, options, name) for name, member in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_moved(parameter, member, options) for member in value)  # type: ignore[call-arg]  # a list or tuple
    return value


def _moved_tensor(
    parameter: Tensor, value: Tensor, options: Mapping[str, Any], key: object
) -> Tensor:
    if key == "step":
        # A counter stays where it was saved, for the host reads it, unless a kernel does.
        if options.get("capturable") or options.get("fused"):
            return value.to(dtype=dtypes.float32, device=parameter.device)
        return value
    if parameter.is_floating_point():
        return value.to(dtype=parameter.dtype, device=parameter.device)
    return value.to(device=parameter.device)
