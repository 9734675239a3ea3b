"""`Module`: the pieces put together, and what is too small for a file of its own.

Members and their registration: `members.py`; walking them: `traversal.py`; saving and loading:
`state_dict.py`; moving and casting: `conversion.py`; calling and hooks: `calling.py`, `hooks.py`.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from maquette.dispatch.abstract import ACTIVE
from maquette.nn.base.attributes import replace_shown
from maquette.nn.base.conversion import Conversion
from maquette.nn.base.hooks import registered, registration_hooks
from maquette.nn.base.members import BUFFERS, MODULES, PARAMETERS, Members, store_member
from maquette.nn.base.pickling import Pickling
from maquette.nn.parameter import Buffer, Parameter
from maquette.tensor import Tensor
from maquette.tensor.history import AutogradMeta

T = TypeVar("T", bound="Module")
T_destination = TypeVar("T_destination", bound=dict[str, Any])


class Module(Pickling, Conversion):
    """The base of all neural network modules.

    A subclass calls `super().__init__()`, assigns parameters and modules to attributes, and
    defines `forward`. PyTorch's interface; different: members are instance attributes (see
    `members.py`), so that `module._mq_attributes` shows them, and there is no `__getattr__`.
    """

    T_destination = T_destination
    dump_patches = False  # of source code that differs from what was saved; never told here

    # Here and in no base: a program's ``super(Module, self).__setattr__`` sets a plain attribute.
    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self._mq_attributes
        if isinstance(value, Parameter):
            self._mq_check_initialized("parameters")
            if name not in attributes[PARAMETERS]:
                self._mq_make_free(name)
            self.register_parameter(name, value)
        elif isinstance(value, Members):
            self._mq_check_initialized("module")
            self._mq_refuse_kind(name, value, PARAMETERS)
            if registration_hooks["module"]:
                value = registered("module", self, name, value)
            store_member(attributes, MODULES, name, value)
            if hasattr(type(self), name):
                self._mq_keep_class_attributes()
        elif isinstance(value, Buffer):
            self._mq_check_initialized("buffer")
            self._mq_refuse_kind(name, value, PARAMETERS, MODULES)
            if name not in attributes[BUFFERS]:
                self._mq_make_free(name)
            tensor = cast(Tensor, value)  # what is marked as a Buffer is a tensor
            self.register_buffer(name, tensor, vars(value)["persistent"])
        elif PARAMETERS in attributes and self._mq_kind_of(name) is not None:
            self._mq_replace(name, value)
        elif name == "__dict__":  # a class derived from `ABC` first has another than ours
            replace_shown(self, value)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        kind = self._mq_kind_of(name)
        if kind is not None:
            del self._mq_attributes[kind][name]
        object.__delattr__(self, name)

    def train(self: T, mode: bool = True) -> T:
        """Set training mode, here and below; ValueError unless `mode` is a bool."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean; got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode, here and below."""
        return self.train(False)

    def _replicate_for_data_parallel(self: T) -> T:
        """A shallow copy without the parameters, whose values are then set as plain attributes."""
        replica = self.__new__(type(self))
        own = {
            k: v for k, v in self._mq_attributes.items() if k not in self._mq_attributes[PARAMETERS]
        }
        own |= {kind: dict(own[kind]) for kind in (BUFFERS, MODULES)}
        replica._mq_attributes.update(own | {PARAMETERS: {}, "_is_replica": True})
        return replica

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set whether autograd records operations on the parameters, here and below."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or (set_to_none=False) fill them with zeros."""
        for parameter in self.parameters():
            ag = parameter._ag
            grad = parameter.grad if ACTIVE else None if ag is None else ag.grad
            if ag is None or grad is None:
                continue
            if set_to_none:
                plain = type(parameter).grad is Tensor.grad and not parameter._class_bits
                if plain and not ACTIVE and isinstance(ag, AutogradMeta):
                    ag.grad = None  # what the property does, without asking anybody
                else:
                    parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def share_memory(self: T) -> T:
        """Move parameters and buffers to memory that forked processes share; returns itself."""
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args: object, **kwargs: object) -> None:
        """Nothing: the module runs as it stands, which gives the same."""

    def extra_repr(self) -> str:
        """What the printed form says within the parentheses; to be overridden."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): {_addindent(repr(child), 2)}" for name, child in self._mq_own(MODULES)
        ]
        return parenthesized(self._get_name(), lines, children)


def parenthesized(name: str, lines: list[str], children: list[str]) -> str:
    """PyTorch's printed form of a module: on one line if it has no children."""
    if not children and len(lines) <= 1:
        return f"{name}({''.join(lines)})"
    return "\n  ".join([f"{name}(", *lines, *children]) + "\n)"


def _addindent(s_: str, numSpaces: int) -> str:
    """Every line but the first moved in."""
    return s_.replace("\n", "\n" + " " * numSpaces)
