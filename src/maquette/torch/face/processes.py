"""Processes that Python starts afresh find torch as the process that starts them does.

By the start methods ``spawn`` and ``forkserver`` (Python's own choice on macOS and Windows, and on
Linux from 3.14) a new process is told how to prepare itself before it imports the program's main
module again. While maquette is installed, `install` is a part of that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# What prepares processes: the standard library's, its copy for dill, and joblib's.
_PREPARING = frozenset(
    ("multiprocessing.spawn", "multiprocess.spawn", "joblib.externals.loky.backend.spawn")
)


class _Installing:
    """An object that is unpickled by a call."""

    def __init__(self, install: Callable[[], None]) -> None:
        self.install = install

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return self.install, ()


class Preparing:
    """Adds ``install`` to what new processes are told, as long as ``is_installed``."""

    def __init__(self, install: Callable[[], None], is_installed: Callable[[], bool]) -> None:
        self.install = install
        self.is_installed = is_installed

    def extend_loaded(self) -> None:
        """Extend the modules of processes that have been imported already."""
        for name in _PREPARING & sys.modules.keys():
            self._extend(sys.modules[name])

    def spec_of(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """The spec of a module of processes, which is extended once it has been run; else None."""
        spec = PathFinder.find_spec(name, path) if name in _PREPARING else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_extend(module: ModuleType) -> None:
            run(module)
            self._extend(module)

        spec.loader.exec_module = run_and_extend  # type: ignore[method-assign]  # of this one
        return spec

    def _extend(self, module: Any) -> None:
        plain = module.get_preparation_data
        if getattr(plain, "installs_torch", False):
            return

        def get_preparation_data(*args: Any, **kwargs: Any) -> dict[str, object]:
            told: dict[str, object] = plain(*args, **kwargs)
            if self.is_installed():
                told["torch"] = _Installing(self.install)
            return told

        get_preparation_data.installs_torch = True  # type: ignore[attr-defined]  # a mark
        module.get_preparation_data = get_preparation_data
