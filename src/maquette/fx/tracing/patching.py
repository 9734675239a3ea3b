"""Diverting functions while a trace runs, and putting them back.

Functions are replaced where programs look them up: in the globals of modules and in classes. The
replacement records the call if a proxy is among its arguments, and else calls the original.
"""

from __future__ import annotations

import builtins
import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from maquette.fx.node import map_aggregate
from maquette.fx.tracing.proxy import Proxy

_ABSENT = object()


class _Tracing(threading.local):
    """How many traces this thread is in."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc: object) -> None:
        self.depth -= 1


tracing = _Tracing()


def find_proxy(*values: Any) -> Proxy | None:
    """Some proxy among arguments, or None."""
    found: list[Proxy] = []

    def note(x: Any) -> Any:
        if isinstance(x, Proxy):
            found.append(x)
        return x

    map_aggregate(values, note)
    return found[0] if found else None


def recorded(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function that records its calls with proxies."""

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    wrapped._records = original  # type: ignore[attr-defined]  # so that it is not wrapped again
    return wrapped


class Patcher:
    """Replaces things for a ``with`` block, and restores them in the opposite order."""

    _registered: ClassVar[dict[tuple[int, str], dict[str, Any]]] = {}
    _methods: ClassVar[list[tuple[type, str]]] = []

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()

    @classmethod
    def register(cls, names: dict[str, Any], name: str) -> None:
        """Have traces record calls of the global ``name``."""
        cls._registered[(id(names), name)] = names

    @classmethod
    def register_method(cls, owner: type, name: str) -> None:
        """Have traces record calls of a method."""
        cls._methods.append((owner, name))

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._undo:
            self._undo.pop()()
        self._seen.clear()

    def patch(self, names: dict[str, Any], name: str, new: Any) -> None:
        """Replace a global."""
        before = names.get(name, _ABSENT)
        names[name] = new
        if before is _ABSENT:
            self._undo.append(lambda: names.pop(name, None))
        else:
            self._undo.append(lambda: names.__setitem__(name, before))

    def patch_method(self, owner: type, name: str, new: Any) -> None:
        """Replace an attribute of a class."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, new)
        if before is _ABSENT:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def wrap_registered(self) -> None:
        """Divert what was given to `wrap`."""
        for (_, name), names in list(self._registered.items()):
            original = names.get(name)
            if original is None:
                original = getattr(builtins, name, None)
            if original is None or hasattr(original, "_records"):
                continue
            self.patch(names, name, recorded(original))
        for owner, name in self._methods:
            self.patch_method(owner, name, _recorded_method(owner, name))

    def wrap_functions(self, names: dict[str, Any], ids: set[int]) -> None:
        """Divert the functions with these ids among the globals of a module, once a trace."""
        if not ids or id(names) in self._seen:
            return
        self._seen.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in ids:
                self.patch(names, name, recorded(value))


def _recorded_method(owner: type, name: str) -> Callable[..., Any]:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped
