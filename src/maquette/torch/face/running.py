"""Running a program that was written for PyTorch: ``python -m maquette.torch SCRIPT.py ARGS``."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from maquette.torch.face.installing import install


def run_script(path: str, arguments: Sequence[str] = ()) -> None:
    """Run a script as ``python path arguments`` would, with maquette as torch."""
    install()
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    runpy.run_path(path, run_name="__main__")


def run_module(name: str, arguments: Sequence[str] = ()) -> None:
    """Run a module as ``python -m name arguments`` would, with maquette as torch."""
    install()
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


_USAGE = "usage: python -m maquette.torch SCRIPT.py [ARGS...] | -m MODULE [ARGS...]"


def main(arguments: Sequence[str]) -> None:
    """The command: SystemExit with the usage if nothing is to be run."""
    match list(arguments):
        case ["-m", name, *rest]:
            run_module(name, rest)
        case [path, *rest] if not path.startswith("-"):
            if not os.path.exists(path):
                raise SystemExit(f"maquette.torch: there is no file {path!r}\n{_USAGE}")
            run_script(path, rest)
        case _:
            raise SystemExit(_USAGE)
