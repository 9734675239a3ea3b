"""Script objects: objects of classes that schemas name, and fake ones that stand for them.

`register_class` makes a class a schema type. `register_fake_class` says how an object is made to
stand for one without its data: a fake class with the same methods. A `FakeScriptObject` holds such
an object; kernels and modes get it where the real one would be.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from maquette.core.pytree import tree_map_only
from maquette.dispatch.higher_order import HigherOrderOperator
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import disable_current_modes
from maquette.dispatch.schemas.types import register_script_type
from maquette.library.objects.opaque_types import (
    get_member_type,
    get_opaque_type_name,
    is_opaque_value_type,
    opaque_info,
    register_opaque_type,
)
from maquette.tensor.tensor import Tensor

C = TypeVar("C", bound=type)
_CLASSES: dict[type, str] = {}
_FAKES: dict[str, type] = {}
_PREFIX = "__torch__.torch.classes."


def _long_name(qualname: str) -> str:
    return _PREFIX + qualname.replace("::", ".")


def register_class(qualname: str, cls: C) -> C:
    """Make ``cls`` a schema type, ``__torch__.torch.classes.ns.Name`` for ``"ns::Name"``."""
    if qualname.count("::") != 1:
        raise ValueError(f"register_class: expected 'namespace::Name', got {qualname!r}")
    name = _long_name(qualname)
    _CLASSES[cls] = name
    register_script_type(name, lambda value: _fits(value, cls, name))
    return cls


def _fits(value: object, cls: type, name: str) -> bool:
    if isinstance(value, FakeScriptObject):
        return value.script_class_name == name
    return isinstance(value, cls)


# --- fake classes -------------------------------------------------------------------------------


def register_fake_class(qualname: str, fake_class: type | None = None) -> Any:
    """Register the class of objects that stand for those of ``"ns::Name"``; or decorate it.

    It has the methods of the real one and a classmethod ``__obj_unflatten__(flattened)``.
    ValueError for a name without ``::``; RuntimeError if the class is not registered or
    ``__obj_unflatten__`` is missing.
    """

    def register(cls: type) -> type:
        if qualname.count("::") != 1:
            raise ValueError(
                f"Expected qualname to be of the form 'namespace::Name', got {qualname!r}"
            )
        name = _long_name(qualname)
        if name not in _CLASSES.values():
            raise RuntimeError(
                f"register_fake_class: no class is registered as {qualname}; register_class first"
            )
        unflatten = cls.__dict__.get("__obj_unflatten__")
        if not isinstance(unflatten, classmethod):
            raise RuntimeError(
                f"{cls.__name__} doesn't define __obj_unflatten__ as a classmethod, which makes a "
                f"fake {qualname} of what __obj_flatten__ gives"
            )
        if name in _FAKES:
            warnings.warn(
                f"{qualname} has a fake class already, {_FAKES[name].__name__}; it is replaced by "
                f"{cls.__name__}",
                stacklevel=2,
            )
        _FAKES[name] = cls
        return cls

    return register if fake_class is None else register(fake_class)


def deregister_fake_class(qualname: str) -> type | None:
    """Withdraw the fake class of ``"ns::Name"`` and return it; warns where there is none."""
    found = _FAKES.pop(_long_name(qualname), None)
    if found is None:
        warnings.warn(f"{qualname} has no fake class to withdraw", stacklevel=2)
    return found


def is_script_object(value: object) -> bool:
    """Whether an object is of a class registered by `register_class`, or stands for one."""
    if isinstance(value, FakeScriptObject):
        return value.script_class_name.startswith(_PREFIX)
    return any(_CLASSES.get(c, "").startswith(_PREFIX) for c in type(value).__mro__)


def has_fake_class(qualname: str) -> bool:
    """Whether ``"ns::Name"`` has a fake class."""
    return _long_name(qualname) in _FAKES


# --- fake objects -------------------------------------------------------------------------------

_READABLE = frozenset(("wrapped_obj", "script_class_name", "real_obj"))
ALLOWED_MEMBERS = frozenset(("__class__", "__doc__", "__dict__", "_type", "fake_class"))
"""Members of a fake object that may be read beside the methods of its class."""


class FakeScriptObject:
    """An object of a fake class in the place of a real one: its methods may be called, no more.

    ``wrapped_obj`` is it, ``real_obj`` a copy of the real one, by which fake objects are equal.
    """

    wrapped_obj: Any
    script_class_name: str
    real_obj: Any

    def __init__(self, wrapped_obj: Any, script_class_name: str, real_obj: Any) -> None:
        for name, value in (
            ("wrapped_obj", wrapped_obj),
            ("script_class_name", script_class_name),
            ("real_obj", real_obj),
        ):
            object.__setattr__(self, name, value)

    def __getattribute__(self, name: str) -> Any:
        if name in _READABLE or name in ALLOWED_MEMBERS or (name[:2] == name[-2:] == "__"):
            return object.__getattribute__(self, name)
        wrapped = object.__getattribute__(self, "wrapped_obj")
        if callable(getattr(type(wrapped), name, None)):
            return lambda *args, **kwargs: call_torchbind(self, name, *args, **kwargs)
        script_class = object.__getattribute__(self, "script_class_name")
        raise AttributeError(
            f"Tried to access attribute {name} of a fake {script_class}: only methods of its fake "
            f"class {type(wrapped).__name__} may be called; add a method {name} to it"
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"Tried to set attribute {name} of a fake {self.script_class_name}: fake script "
            f"objects are changed by methods of their fake class only"
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FakeScriptObject):
            return bool(self.real_obj == other.real_obj)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.real_obj)

    def __repr__(self) -> str:
        return f"FakeScriptObject({self.script_class_name})"


class OpaqueStandIn(FakeScriptObject):
    """What stands for an object of a reference type in a trace: `isinstance` holds, it is equal to
    itself, and of its members those that were registered may be read."""

    def __init__(self, real: Any) -> None:
        super().__init__(None, get_opaque_type_name(type(real)), real)

    @property  # type: ignore[misc]  # what isinstance asks
    def __class__(self) -> type:
        return type(object.__getattribute__(self, "real_obj"))

    def __getattribute__(self, name: str) -> Any:
        if name in _READABLE or (name[:2] == name[-2:] == "__"):
            return object.__getattribute__(self, name)
        real = object.__getattribute__(self, "real_obj")
        if get_member_type(type(real), name) is not None:
            return getattr(real, name)
        raise AttributeError(
            f"attribute {name} of a {type(real).__name__}: fakes and traces do not see what is in "
            f"an opaque object; register_opaque_type(..., members=...) names what they may read"
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"attribute {name} of a {type(self.real_obj).__name__} cannot be set while it is "
            f"traced: an opaque object is not looked into"
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<stand-in for a {type(self.real_obj).__name__}>"


def maybe_to_fake_obj(fake_mode: Any, obj: Any) -> Any:
    """The fake of a script object under a mode; the object itself where it asks to stay real.

    RuntimeError where ``__obj_flatten__`` gives no tuple of (name, value) pairs, and where the
    class has no fake class.
    """
    if isinstance(obj, FakeScriptObject):
        return obj
    if opaque_info(type(obj)) is not None:
        return obj if is_opaque_value_type(type(obj)) else OpaqueStandIn(obj)
    mode_of = getattr(obj, "tracing_mode", None)
    if callable(mode_of) and mode_of() == "real":
        return obj
    name = next((_CLASSES[c] for c in type(obj).__mro__ if c in _CLASSES), None)
    fake_class = None if name is None else _FAKES.get(name)
    if name is None or fake_class is None:
        raise RuntimeError(
            f"{type(obj).__name__} has no fake class: register one with "
            f"maquette.library.register_fake_class"
        )
    with disable_current_modes():
        flattened = obj.__obj_flatten__()
        real = copy.deepcopy(obj)
    _check_flattened(flattened, type(obj).__name__)
    fakes = tree_map_only(Tensor, fake_mode.from_tensor, flattened)
    wrapped = fake_class.__obj_unflatten__(fakes)  # type: ignore[attr-defined]  # checked when registered
    return FakeScriptObject(wrapped, name, real)


def _check_flattened(flattened: object, name: str) -> None:
    pairs = isinstance(flattened, tuple) and all(
        isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in flattened
    )
    if not pairs:
        raise RuntimeError(
            f"{name}.__obj_flatten__ should give a tuple of (name, value) pairs, gave {flattened!r}"
        )


def maybe_unwrap_fake_script_object(obj: Any) -> Any:
    """The copy of the real object that a fake one keeps; anything else itself."""
    return obj.real_obj if isinstance(obj, FakeScriptObject) else obj


# --- calling methods ----------------------------------------------------------------------------


class CallTorchBind(HigherOrderOperator):
    """``higher_order.call_torchbind(obj, method, *args)``: a method of a script object."""

    def __init__(self) -> None:
        super().__init__("call_torchbind")
        for key in (DispatchKey.CompositeExplicitAutograd, DispatchKey.Fake):
            self.py_impl(key)(self.called)
        self.fallthrough(DispatchKey.Autograd)

    def __call__(self, obj: Any, method: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # it states its parameters
        return super().__call__(obj, method, *args, **kwargs)

    def called(self, obj: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method, of the object that a fake one holds if it is one."""
        target = obj.wrapped_obj if isinstance(obj, FakeScriptObject) else obj
        call: Callable[..., Any] = getattr(target, method)
        return call(*args, **kwargs)


call_torchbind = CallTorchBind()

__all__ = [
    "ALLOWED_MEMBERS",
    "FakeScriptObject",
    "call_torchbind",
    "deregister_fake_class",
    "has_fake_class",
    "is_script_object",
    "maybe_to_fake_obj",
    "maybe_unwrap_fake_script_object",
    "register_class",
    "register_fake_class",
    "register_opaque_type",
]
