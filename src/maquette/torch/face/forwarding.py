"""Modules of the face that hand names on: a ``__getattr__`` over the modules that have them."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from types import ModuleType

from maquette.api.function_homes import own_module
from maquette.torch.face import absent_names, class_names, paths

Spellings = Callable[[str], Iterable[str]]


def _as_written(name: str) -> Iterable[str]:
    return (name,)


def without_underscores(name: str) -> Iterable[str]:
    """The name, and without what torch puts before private ones: ``_dispatch_``, ``_``."""
    return name, name.removeprefix("_dispatch_"), name.removeprefix("_")


def forward(
    module: str, *packages: str, spellings: Spellings = _as_written, path: str | None = None
) -> Callable[[str], object]:
    """A ``__getattr__`` for ``module``: finds names in ``packages`` and submodules, and keeps them.

    `dir` of the module, unless it has a ``__dir__`` of its own, tells the names that it lists,
    those that the packages list, and those that have stand-ins.
    spellings: under which names to look for a name. path: torch's, unless it is the module's own.
    AttributeError says what is missing.
    """
    place = path or paths.torch_path(module)
    here = vars(sys.modules[module])

    def __dir__() -> list[str]:
        lists = [_listed(package) for package in packages if package != "maquette"]
        if place == paths.torch_path(module):  # and no part of another module
            lists.append(absent_names.names_of(place))
        return sorted({*here, *here.get("__all__", ())}.union(*lists) - {"annotations", "forward"})

    def __getattr__(name: str) -> object:
        if name == "__all__" and here["__dir__"] is not __dir__:
            return _public(sys.modules[module])
        found = None if name.startswith("__") else _search(place, name, packages, spellings)
        if found is None:
            found = absent_names.stand_in(place, name)
        if found is None:
            raise AttributeError(
                f"module 'torch.{place}' ({module}) has no attribute '{name}': maquette does not "
                f"have it, or not yet"
            )
        class_names.name_found(found, place)
        setattr(sys.modules[module], name, found)
        return found

    here.setdefault("__dir__", __dir__)
    return __getattr__


def _listed(package: str) -> list[str]:
    """The names that a package lists; of one that lists none, its own functions and classes."""
    names = vars(_imported(package) or object)
    listed = names.get("__all__")
    if listed is not None:
        return list(listed)
    return [n for n, value in names.items() if n[0] != "_" and own_module(value) == package]


def _public(module: ModuleType) -> list[str]:
    """The names that a star takes of a module that does not list them."""
    names = (name for name in dir(module) if not name.startswith("_") and name != "annotations")
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def _search(path: str, name: str, packages: Iterable[str], spellings: Spellings) -> object | None:
    served_by = paths.resolve(f"{path}.{name}")
    if served_by is not None:
        try:
            module = importlib.import_module(served_by)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("maquette"):
                raise
            return None  # it needs a package that is not installed: `hasattr` is False
        class_names.name_loaded(served_by)
        return module
    for package in packages:
        for spelling in spellings(name):
            found = _find(package, spelling)
            if found is not None:
                return found
    return None


def _find(package: str, name: str) -> object | None:
    module = sys.modules.get(package) or _imported(package)
    return getattr(module, name, None)


@functools.cache
def _imported(package: str) -> ModuleType | None:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and package.startswith(error.name):
            return None  # the package is not built yet
        raise
