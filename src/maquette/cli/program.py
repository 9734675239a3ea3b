"""Loading a user's model file: its imports of torch are maquette, its tensors are fake."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types

from maquette.cli.errors import CommandError, failure
from maquette.torch import install


def load(path: str) -> types.ModuleType:
    """The module of a file, executed under the face of maquette; CommandError if it cannot be."""
    file = pathlib.Path(path)
    if not file.is_file():
        raise CommandError(f"there is no file '{path}'; give the path of a Python file", 2)
    install()
    sys.path.insert(0, str(file.resolve().parent))
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
