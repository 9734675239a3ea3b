"""`ModuleTracker`: which modules are running, in forward and in backward."""

from __future__ import annotations

import logging
import warnings
import weakref
from typing import Any

from maquette.autograd.graph import register_multi_grad_hook
from maquette.core.pytree import tree_leaves
from maquette.nn.base import Module
from maquette.nn.base.hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from maquette.tensor.tensor import Tensor
from maquette.torch.internals import _current_graph_task_id

logger = logging.getLogger(__name__)
_ROOT = "Global"


class ModuleTracker:
    """A context in which `parents` has the names of the modules that are running.

    "Global" is always among them. In a backward pass a module is running from when gradients of
    its outputs are there until those of its inputs are; `is_bw` says that it is one.
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {_ROOT}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Module] = weakref.WeakSet()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is going on."""
        return _current_graph_task_id() != -1

    def _name(self, module: Module) -> str:
        if module not in self._names:
            self._names[module] = type(module).__name__
        name = self._names[module]
        if module not in self._seen:
            # All below, for containers are not called themselves.
            for path, below in module.named_modules():
                if path:
                    self._names.setdefault(below, f"{name}.{path}")
            self._seen.add(module)
        return name

    def _add(self, name: str) -> None:
        if name in self.parents:
            logger.info("%s is running already; is it called within itself?", name)
        self.parents.add(name)

    def _enter(self, module: Module, given: Any) -> None:
        name = self._name(module)
        self._add(name)
        inputs = _with_gradient(given)
        if inputs:  # backward has left the module when gradients of its inputs are there
            self._handles.append(
                register_multi_grad_hook(inputs, lambda _: self.parents.discard(name))
            )

    def _leave(self, module: Module, given: Any, output: Any) -> None:
        name = self._name(module)
        if name not in self.parents:
            warnings.warn(f"{name} was left and had not been entered", stacklevel=2)
        self.parents.discard(name)
        outputs = _with_gradient(output)
        if outputs:
            self._handles.append(register_multi_grad_hook(outputs, lambda _: self._add(name)))

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _with_gradient(values: Any) -> list[Tensor]:
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.requires_grad]


__all__ = ["ModuleTracker"]
