"""Loading a user's model file: its imports of torch are maquette, its tensors are fake."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import runpy
import sys
import types
from collections.abc import Sequence

from maquette.cli.errors import CommandError, failure
from maquette.torch import install


def load_module(name: str) -> types.ModuleType:
    """The module of a dotted name, imported from the current folder or what is installed."""
    install()
    sys.path.insert(0, str(pathlib.Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise failure(f"cannot import {name}", error) from error


def load(path: str) -> types.ModuleType:
    """The module of a file, executed under the face of maquette; CommandError if it cannot be."""
    file = pathlib.Path(path)
    if not file.is_file():
        raise CommandError(f"there is no file '{path}'; give the path of a Python file", 2)
    install()
    sys.path.insert(0, str(file.resolve().parent))
    package = _package(file.resolve())
    if package:  # its relative imports are those of the package that it lies in
        return load_module(package)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise CommandError(f"'{path}' is not a Python file", 2)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise failure(f"cannot load {path}", error) from error
    return module


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a file as ``__main__`` under the face of maquette; its errors are its own."""
    if not pathlib.Path(path).is_file():
        raise CommandError(f"there is no file '{path}'; give the path of a script", 2)
    install()
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(pathlib.Path(path).resolve().parent))
    runpy.run_path(path, run_name="__main__")


def _package(file: pathlib.Path) -> str:
    """The dotted name of a file of a package, whose folder is put on the path; "" for others."""
    parts = [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1:
        return ""
    sys.path.insert(0, str(folder))
    return ".".join(parts[:-1] if file.stem == "__init__" else parts)


def evaluate(module: types.ModuleType, expression: str | None, default: str, option: str) -> object:
    """The value of an expression in a module; without one, of the call of its ``default``."""
    text = expression
    if text is None:
        if not hasattr(module, default):
            raise CommandError(
                f"{module.__file__} has no function {default}(); give {option} an expression in "
                f"the names of the file",
                2,
            )
        text = f"{default}()"
    try:
        return eval(text, module.__dict__)  # the user's own expression over the user's own file
    except Exception as error:
        raise failure(f"{option} {text!r} failed", error) from error
