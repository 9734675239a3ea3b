"""Two views of what a module holds: its own attributes, and PyTorch's form of them.

Members are plain attributes here (`members.py`), which makes them quick to read; in PyTorch they
stand in dicts of their own, and programs that copy, patch or compare modules go through
``vars(module)`` and expect that. So `__dict__`, which Python asks its class for, is a property that
shows PyTorch's form and writes through, and our own code reads the attributes as `_mq_attributes`,
the very descriptor that `__dict__` is elsewhere, at the same price (22 ns). Reading and setting
single attributes goes to neither: Python finds them without asking for `__dict__`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self


class ShownAttributes(dict[str, Any]):
    """A module's attributes as PyTorch's modules have them; what is set here is set there.

    It shows the attributes of the moment when it was asked for, and its own changes.
    """

    __slots__ = ("_module",)

    def __new__(cls, *made_of: Any, **named: Any) -> Any:
        """A module's; of items, as programs rebuild the dicts that they find, a plain dict."""
        if made_of and isinstance(made_of[0], Attributes):
            return super().__new__(cls)
        return dict(*made_of, **named)

    def __init__(self, module: Attributes) -> None:
        super().__init__(module._mq_shown())
        self._module = module

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, self._module._mq_show(name, value))

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._module._mq_hide(name)

    def update(self, *others: Any, **named: object) -> None:
        """Set the attributes that another dict, or pairs, or keywords name."""
        for name, value in dict(*others, **named).items():
            self[name] = value

    def __ior__(self, other: Mapping[str, object] | Iterable[tuple[str, object]]) -> Self:  # type: ignore[override, misc]  # dict overloads it
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The attribute of that name, set to the default if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Take an attribute away and give it; KeyError if there is none, and no default."""
        if name in self:
            self._module._mq_hide(name)
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Take the last attribute away."""
        name, value = super().popitem()
        self._module._mq_hide(name)
        return name, value

    def clear(self) -> None:
        """Take all attributes away."""
        super().clear()
        self._module._mq_attributes.clear()

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class _Holder:
    """Gives its instances a dict of attributes, and the descriptor that finds it."""


def _shown(module: Attributes) -> dict[str, Any]:
    return ShownAttributes(module)


def replace_shown(module: Attributes, attributes: Mapping[str, Any]) -> None:
    """Let a module have these attributes, in PyTorch's form, and no others."""
    new = dict(attributes)
    module._mq_attributes.clear()
    for name, value in new.items():
        module._mq_show(name, value)


class Attributes(_Holder):
    """The base of `Module` whose `__dict__` has PyTorch's form.

    A class that is derived from another class first, and then from `Module`, would have that
    class's `__dict__`: see `_put_first`.
    """

    _mq_attributes: dict[str, Any] = vars(_Holder)["__dict__"]
    __dict__ = property(_shown, replace_shown)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if _first_dict(cls) is not _DICT:
            _put_first(cls)

    def _mq_shown(self) -> dict[str, Any]:
        """The attributes in PyTorch's form."""
        raise NotImplementedError

    def _mq_show(self, name: str, value: Any) -> Any:
        """Set what that form has under a name; gives what it has there now."""
        raise NotImplementedError

    def _mq_hide(self, name: str) -> None:
        """Take away what that form has under a name."""
        raise NotImplementedError


def _first_dict(cls: type) -> object:
    """The descriptor that ``instance.__dict__`` asks."""
    return next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base))


def _put_first(cls: type) -> None:
    """Let instances of a class have the `__dict__` of `Attributes`, and not that of another base.

    A base that has it comes before the others. Where the class itself holds the descriptor, as one
    does that is derived from `ABC` first, only its `__getattribute__` can come before that; it
    makes all reading of attributes slow (20 ns become 300).
    """
    first = type("PlainBase", (), {"__dict__": _DICT})
    try:
        cls.__bases__ = (first, *cls.__bases__)
    except TypeError:  # its layout comes from a class without attributes
        if cls.__getattribute__ is object.__getattribute__:
            cls.__getattribute__ = read_attribute  # type: ignore[method-assign, assignment]  # slow


def read_attribute(module: Any, name: str) -> Any:
    """The ``__getattribute__`` that gives PyTorch's form of ``__dict__``."""
    if name == "__dict__":
        return ShownAttributes(module)
    return object.__getattribute__(module, name)


_DICT = vars(Attributes)["__dict__"]
