"""State dicts: a module's parameters and persistent buffers by dotted name, saved and loaded.

The keys, the metadata beside them, the hooks and the errors are PyTorch's, so that checkpoints
pass from one to the other.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette.autograd import no_grad
from maquette.autograd.hooks import Hook, RemovableHandle
from maquette.nn.base.conversion import on_conversion
from maquette.nn.base.hooks import HookDict, StateHookTable
from maquette.nn.base.members import BUFFERS, MODULES, PARAMETERS
from maquette.nn.base.swapping import swap_tensors
from maquette.nn.base.traversal import Traversal
from maquette.nn.lazy_parameter import is_lazy
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

if TYPE_CHECKING:
    pass

_EXTRA_STATE = "_extra_state"
_ASSIGN = "assign_to_params_buffers"  # PyTorch's key in the metadata that children are given


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_Keys):
    """What `load_state_dict` found no partner for."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


@dataclass
class _Loading:
    """One run of `load_state_dict`: what it was asked for and what it has found so far."""

    metadata: Mapping[str, dict[str, Any]]
    assign: bool
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def load(self, module: StateDict, state_dict: Mapping[str, Any], prefix: str) -> None:
        """Load a module and all below it from the entries that start with `prefix`."""
        local_metadata = self.metadata.get(prefix[:-1], {})
        if self.assign:
            local_metadata[_ASSIGN] = True
        module._load_from_state_dict(
            state_dict, prefix, local_metadata, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._mq_own(MODULES):
            if child is not None:
                below = f"{prefix}{name}."
                own = {key: v for key, v in state_dict.items() if key.startswith(below)}
                self.load(child, own, below)
        for hook in (
            tuple(module._mq_state_hooks.load_post.values()) if module._mq_state_hooks else ()
        ):
            if hook(module, IncompatibleKeys(self.missing, self.unexpected)) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values; change incompatible_keys in place."
                )

    def report(self) -> list[str]:
        """Every error, that of strict loading first."""
        found = []
        for what, keys in (("Missing", self.missing), ("Unexpected", self.unexpected)):
            if keys:
                names = ", ".join(f'"{key}"' for key in keys)
                found.append(f"{what} key(s) in state_dict: {names}. ")
        return found + self.errors


class StateDict(Traversal):
    """The part of `Module` that saves and loads."""

    _version: int = 1
    _mq_state_hooks: StateHookTable | None = None

    def get_extra_state(self) -> Any:
        """What else belongs in the state dict; to be overridden together with its setter."""
        raise RuntimeError(
            f"{type(self).__name__}: get_extra_state() is called only where it is overridden."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise RuntimeError(
            f"{type(self).__name__} overrides get_extra_state() but not set_extra_state()."
        )

    # --- Saving ----------------------------------------------------------------------

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """The parameters and persistent buffers of this module and all below it, by dotted name.

        keep_vars: the tensors themselves; otherwise detached aliases of them. `destination`: a
        dict to put them in. Positional arguments are deprecated.
        """
        if args:
            destination, prefix, keep_vars = self._mq_positional(
                args, destination, prefix, keep_vars
            )
        if destination is None:
            destination = _with_metadata(OrderedDict(), OrderedDict())
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        hooks = self._mq_state_hooks or _NO_HOOKS
        for hook in tuple(hooks.save_pre.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._mq_own(MODULES):
            if child is not None:
                child.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in tuple(hooks.save_post.values()):
            replaced = hook(self, destination, prefix, local_metadata)
            destination = destination if replaced is None else replaced
        return destination

    def _mq_positional(
        self, args: tuple[Any, ...], destination: Any, prefix: str, keep_vars: bool
    ) -> tuple[Any, str, bool]:
        warnings.warn(
            "Positional args are being deprecated, use kwargs instead: state_dict(destination=..., "
            "prefix=..., keep_vars=...).",
            FutureWarning,
            stacklevel=3,
        )
        given = (*args, *(destination, prefix, keep_vars)[len(args) :])
        return given[0], given[1], given[2]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the state of this module alone, without those below, into `destination`."""
        for name, tensor in self._mq_saved_tensors():
            kept = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if kept else tensor.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def _mq_saved_tensors(self) -> list[tuple[str, Tensor]]:
        """Parameters, then persistent buffers, without the empty places."""
        persistent = self._mq_attributes[BUFFERS]
        members = (
            *self._mq_own(PARAMETERS),
            *(item for item in self._mq_own(BUFFERS) if persistent[item[0]]),
        )
        return [(name, tensor) for name, tensor in members if tensor is not None]

    # --- Loading ---------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state dict into this module and all below it.

        strict: the keys must be exactly this module's. assign: take the tensors themselves, with
        their device and dtype, in place of copying. Returns the keys without partner.

        Raises TypeError for no mapping, RuntimeError listing everything that did not fit.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        loading = _Loading(metadata or {}, assign)
        own = OrderedDict(state_dict)  # a copy: hooks may rename keys in it
        loading.load(self, own if metadata is None else _with_metadata(own, metadata), "")
        errors = loading.report() if strict else loading.errors
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return IncompatibleKeys(loading.missing, loading.unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module alone; what goes wrong is added to the three lists."""
        hooks = self._mq_state_hooks or _NO_HOOKS
        for hook in tuple(hooks.load_pre.values()):
            own = (self,) if isinstance(hook, WithModule) else ()
            hook(
                *own,
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = bool(local_metadata.get(_ASSIGN, False))
        expected = self._mq_saved_tensors()
        for name, tensor in expected:
            key = prefix + name
            if key in state_dict:
                error = self._mq_load_tensor(name, tensor, key, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        self._mq_load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            known = {name for name, _ in expected}
            unexpected_keys.extend(self._mq_unexpected(state_dict, prefix, known))

    def _mq_load_tensor(
        self, name: str, tensor: Tensor, key: str, value: Any, assign: bool
    ) -> str | None:
        """Load one tensor; returns what went wrong."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
        if is_lazy(tensor) and is_lazy(value):
            return None
        if is_lazy(value):
            return f"{key} has no shape in the state dict: {_refusal(value)}"
        if len(tensor.shape) == 0 and tuple(value.shape) == (1,):
            value = value[0]  # checkpoints older than 0-dim tensors
        if value.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        if tensor.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True`?)",
                stacklevel=2,
            )
        try:
            with no_grad():
                self._mq_take(name, tensor, value, assign)
        except Exception as error:  # noqa: BLE001  # reported with the other errors, by name
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {value.size()}, an "
                f"exception occurred : {error.args}."
            )
        return None

    def _mq_take(self, name: str, tensor: Tensor, value: Tensor, assign: bool) -> None:
        if on_conversion["swap"]:
            new = tensor.module_load(value, assign=assign)
            if new is value or new is tensor:
                raise RuntimeError(
                    "module_load returned one of self or other, please .detach() the result if "
                    "returning one of the inputs in module_load"
                )
            if isinstance(tensor, Parameter):
                new = Parameter(new, requires_grad=tensor.requires_grad)
            swap_tensors(tensor, new)
            return
        if not assign:
            tensor.copy_(value)
            return
        if isinstance(tensor, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(tensor.requires_grad)
            else:
                value = Parameter(value, requires_grad=tensor.requires_grad)
        setattr(self, name, value)

    def _mq_load_extra_state(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + _EXTRA_STATE
        wanted = type(self).set_extra_state is not StateDict.set_extra_state
        if wanted and key in state_dict:
            self.set_extra_state(state_dict[key])
        elif wanted and strict:
            missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _mq_unexpected(
        self, state_dict: Mapping[str, Any], prefix: str, known: set[str]
    ) -> list[str]:
        children = self._mq_attributes[MODULES]
        found = []
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + _EXTRA_STATE:
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (children if dot else known):
                found.append(key)
        return found

    # --- Hooks -----------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module's state is collected."""
        table = self._mq_state_hook_table()
        return table.add(table.save_pre, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after; it changes in place."""

        def checked(*args: object) -> None:
            if hook(*args) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        with suppress(AttributeError):  # a bound method takes no marks
            hook._from_public_api = True  # type: ignore[attr-defined]  # read by who wrote it
        table = self._mq_state_hook_table()
        return table.add(table.save_post, checked)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, *arguments of _load_from_state_dict)` before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and those below have loaded."""
        table = self._mq_state_hook_table()
        return table.add(table.load_post, hook)

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        table = self._mq_state_hook_table()
        return table.add(table.save_post, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        table = self._mq_state_hook_table()
        return table.add(table.load_pre, WithModule(hook) if with_module else hook)

    _state_dict_hooks = HookDict("_mq_state_hook_table", "save_post")
    _state_dict_pre_hooks = HookDict("_mq_state_hook_table", "save_pre")
    _load_state_dict_pre_hooks = HookDict("_mq_state_hook_table", "load_pre")
    _load_state_dict_post_hooks = HookDict("_mq_state_hook_table", "load_post")

    def _mq_state_hook_table(self) -> StateHookTable:
        if self._mq_state_hooks is None:
            self._mq_state_hooks = StateHookTable()
        return self._mq_state_hooks


_NO_HOOKS = StateHookTable()


def _with_metadata(
    state: OrderedDict[str, Any], metadata: Mapping[str, Any]
) -> OrderedDict[str, Any]:
    # PyTorch's way to send module versions along: an attribute of the dict, which pickle keeps.
    vars(state)["_metadata"] = metadata
    return state


def _refusal(place: Tensor) -> str:
    try:
        _ = place.shape
    except RuntimeError as error:
        return str(error)
    return ""


class WithModule:
    """A hook that is given the module first; it holds no module, which would be a cycle."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook

    def __call__(self, *args: object) -> object:
        return self.hook(*args)
