"""`torch.utils._config_module`: a module whose variables are settings.

`install_config_module` turns a module's plain values into entries; from then on a value is read
from the environment, from what was set, or from the default, and can be patched for a while.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import inspect
import os
import pickle
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_UNSET = object()
_PLAIN = (int, float, bool, type(None), str, list, set, tuple, dict)

__all__ = [
    "Config",
    "ConfigModule",
    "ContextDecorator",
    "SubConfigProxy",
    "get_tristate_env",
    "install_config_module",
]


class _Config(Generic[T]):
    """A setting that can say more than a default: environment variables, an alias, its type."""

    def __init__(
        self,
        default: T | object = _UNSET,
        justknob: str | None = None,
        env_name_default: str | list[str] | None = None,
        env_name_force: str | list[str] | None = None,
        value_type: type | None = None,
        alias: str | None = None,
        deprecated: bool = False,
        deprecation_message: str | None = None,
    ) -> None:
        if alias is not None and default is not _UNSET:
            raise AssertionError("if alias is set, none of {default} can be set")
        self.default = default
        self.env_name_default = _names(env_name_default)
        self.env_name_force = _names(env_name_force)
        self.value_type = value_type
        self.alias = alias
        self.deprecated = deprecated
        self.deprecation_message = deprecation_message


def Config(*args: Any, **kwargs: Any) -> Any:  # PyTorch's name
    """A setting; type checkers take it for its default."""
    return _Config(*args, **kwargs)


def _names(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def get_tristate_env(name: str, default: Any = None) -> bool | None:
    """An environment variable of "0" or "1" as a bool; ``default`` for all else."""
    return {"1": True, "0": False}.get(os.environ.get(name, ""), default)


def _from_environment(names: list[str]) -> object:
    for name in names:
        found = os.environ.get(name)
        if found is not None:
            return {"1": True, "0": False}.get(found, found)
    return _UNSET


class _Entry:
    """A setting as its module keeps it."""

    def __init__(self, said: _Config[Any]) -> None:
        self.default: object = said.default
        self.kind = said.value_type or (type(said.default) if said.default is not _UNSET else None)
        self.alias = said.alias
        self.deprecated = said.deprecated
        self.message = said.deprecation_message
        self.set: object = _UNSET
        self.hidden = False
        self.forced = _from_environment(said.env_name_force)
        found = _from_environment(said.env_name_default)
        if found is not _UNSET:
            self.default = found
        # Mutable defaults are the module's own: a change of the value is no change of the default.
        self.value: object = copy.deepcopy(self.default)

    def read(self) -> object:
        if self.forced is not _UNSET:
            return self.forced
        return self.value if self.set is _UNSET else self.set

    def is_default(self) -> bool:
        return self.forced is _UNSET and bool(self.read() == self.default)


class ConfigModule(types.ModuleType):
    """A module of settings."""

    _config: dict[str, _Entry]
    _bypass_keys: set[str]
    _compile_ignored_keys: set[str]

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._bypass_keys:
            super().__setattr__(name, value)
        else:
            entry = self._entry(name)
            entry.set, entry.hidden = value, False

    def __getattr__(self, name: str) -> Any:
        entry = self._entry(name)
        if entry.hidden:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return entry.read()

    def __dir__(self) -> list[str]:
        shown = [name for name, entry in self._config.items() if not entry.hidden]
        return sorted({*vars(self), *shown})

    def __delattr__(self, name: str) -> None:
        entry = self._entry(name)
        entry.set, entry.hidden = _UNSET, True

    def _entry(self, name: str) -> _Entry:
        entry = vars(self)["_config"].get(name)
        if entry is None:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        if entry.deprecated:
            warnings.warn(
                entry.message or f"{self.__name__}.{name} is deprecated",
                FutureWarning,
                stacklevel=3,
            )
        if entry.alias is not None:
            module, _, target = entry.alias.rpartition(".")
            holder: ConfigModule = importlib.import_module(module)  # type: ignore[assignment]  # a module of settings
            return holder._entry(target)
        return entry

    def _is_default(self, name: str) -> bool:
        return self._entry(name).is_default()

    def _names(self) -> Iterator[str]:
        return (n for n, e in self._config.items() if not e.hidden and e.alias is None)

    def get_type(self, config_name: str) -> type:
        """The type of a setting's values."""
        kind: type = self._entry(config_name).kind or type(None)
        return kind

    def get_config_copy(self) -> dict[str, Any]:
        """All settings, copied."""
        return {name: copy.deepcopy(self._entry(name).read()) for name in self._names()}

    to_dict = shallow_copy_dict = get_serializable_config_copy = get_config_copy

    def save_config_portable(
        self, *, ignore_private_configs: bool = True, readonly_values: bool = False
    ) -> dict[str, Any]:
        """The settings that are no private ones, copied."""
        left_out = ("_",) if ignore_private_configs else ()
        found = self.get_config_copy().items()
        return {name: value for name, value in found if not name.startswith(left_out)}

    def save_config(self) -> bytes:
        """All settings, pickled; `load_config` reads them."""
        return pickle.dumps(self.get_config_copy(), protocol=2)

    def load_config(self, maybe_pickled_config: bytes | Mapping[str, Any]) -> None:
        """Set what `save_config` or `get_config_copy` gave."""
        given = maybe_pickled_config
        settings = pickle.loads(given) if isinstance(given, bytes) else given
        for name, value in settings.items():
            if name in self._config:
                setattr(self, name, copy.deepcopy(value))

    def codegen_config(self) -> str:
        """Python lines that set what differs from the defaults."""
        module = self.__name__
        changed = [n for n in self._names() if not self._is_default(n)]
        return "\n".join(f"{module}.{name} = {self._entry(name).read()!r}" for name in changed)

    def get_hash(self) -> bytes:
        """A digest of the settings that are not marked as ignored by the compiler."""
        kept = {n: v for n, v in self.get_config_copy().items() if n not in self._ignored()}
        text = repr(sorted(kept.items(), key=lambda item: item[0]))
        return hashlib.md5(text.encode(), usedforsecurity=False).digest()

    def _ignored(self) -> set[str]:
        return self._compile_ignored_keys

    def patch(
        self,
        arg1: str | Mapping[str, Any] | None = None,
        arg2: Any = None,
        **kwargs: Any,
    ) -> ContextDecorator:
        """A context or decorator within which settings differ: ``patch(a=1)``."""
        if arg1 is None:
            changes: dict[str, Any] = dict(kwargs)
        elif isinstance(arg1, str):
            changes = {arg1: arg2}
        else:
            changes = dict(arg1)
        if arg1 is not None and kwargs:
            raise AssertionError(
                f"patch takes a name or names by keyword, not both: {arg1}, {kwargs}"
            )
        return ContextDecorator(self, changes)

    def _make_closure_patcher(self, **changes: Any) -> Callable[[], Callable[[], None]]:
        def change() -> Callable[[], None]:
            before = {name: self._entry(name).read() for name in changes}
            for name, value in changes.items():
                setattr(self, name, value)

            def restore() -> None:
                for name, value in before.items():
                    setattr(self, name, value)

            return restore

        return change


class ContextDecorator(contextlib.ContextDecorator):
    """What `ConfigModule.patch` gives; the changes end with the context."""

    def __init__(self, config: ConfigModule, changes: Mapping[str, Any]) -> None:
        self._config = config
        self._changes = dict(changes)
        self._before: list[dict[str, object]] = []

    def __enter__(self) -> None:
        self._before.append({n: self._config._entry(n).read() for n in self._changes})
        for name, value in self._changes.items():
            setattr(self._config, name, value)

    def __exit__(self, *exc: object) -> None:
        for name, value in self._before.pop().items():
            setattr(self._config, name, value)

    def __call__(self, func: Any) -> Any:
        if not isinstance(func, type):
            return super().__call__(func)
        setup, teardown = func.setUpClass, func.tearDownClass  # type: ignore[attr-defined]  # of a test case

        def enter(cls: type) -> None:
            self.__enter__()
            setup()

        def leave(cls: type) -> None:
            try:
                teardown()
            finally:
                self.__exit__(None, None, None)

        made = type(func.__name__, (func,), {"setUpClass": classmethod(enter)})
        made.tearDownClass = classmethod(leave)  # type: ignore[attr-defined]  # of a test case
        made.__qualname__, made.__module__ = func.__qualname__, func.__module__
        return made


class SubConfigProxy:
    """A class within a module of settings: ``config.triton.x`` is the setting ``"triton.x"``."""

    def __init__(self, config: ConfigModule, prefix: str) -> None:
        super().__setattr__("_config", config)
        super().__setattr__("_prefix", prefix)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._config, self._prefix + name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_config"], vars(self)["_prefix"] + name)

    def __delattr__(self, name: str) -> None:
        delattr(self._config, self._prefix + name)


def install_config_module(module: types.ModuleType) -> None:
    """Make the plain values of a module settings, and the module a `ConfigModule`."""
    config: dict[str, _Entry] = {}
    kept = {"_bypass_keys", "_config", "_compile_ignored_keys", *dir(types.ModuleType(""))}

    def visit(source: Any, target: Any, prefix: str) -> None:
        for name, value in list(vars(source).items()):
            if name.startswith("__") or isinstance(value, types.ModuleType | types.FunctionType):
                continue
            if _is_typing(value) or (name in kept and source is module):
                continue
            if isinstance(value, _Config) or isinstance(value, _PLAIN):
                said = value if isinstance(value, _Config) else _Config(default=value)
                config[prefix + name] = _Entry(said)
                if source is module:
                    delattr(module, name)
            elif inspect.isclass(value) and value.__module__ == module.__name__:
                proxy = SubConfigProxy(module, f"{prefix}{name}.")  # type: ignore[arg-type]  # it becomes one
                visit(value, proxy, f"{prefix}{name}.")
                if source is module:
                    setattr(module, name, proxy)
                else:
                    vars(target)[name] = proxy

    visit(module, module, "")
    vars(module)["_config"] = config
    vars(module)["_compile_ignored_keys"] = set()
    vars(module)["_bypass_keys"] = {*vars(module), "__class__", "_is_dirty", "_hash_digest"}
    module.__class__ = _class_of(module.__name__)


@functools.cache
def _class_of(name: str) -> type[ConfigModule]:
    return type("ConfigModuleInstance", (ConfigModule,), {"__module__": name})


def _is_typing(value: object) -> bool:
    return getattr(type(value), "__module__", "") == "typing" or value is sys.modules.get("typing")
