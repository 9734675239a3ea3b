"""``maquette run SCRIPT.py``: an unmodified PyTorch script, on maquette."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from maquette.cli.errors import CommandError
from maquette.cli.program import run_script
from maquette.compile.engines import engine_of
from maquette.compile.everywhere import modules_compiled

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    parser = commands.add_parser("run", help="run an unmodified PyTorch script on maquette")
    parser.add_argument(
        "--compile",
        metavar="ENGINE",
        choices=("jax", "dask", "numpy"),
        help="compile the models that the script calls: jax, dask or numpy",
    )
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script as ``__main__``; its errors are its own."""
    if options.script is None:
        raise CommandError("run needs a script: maquette run SCRIPT.py [ARGS...]", 2)
    with _compiling(options.compile):
        run_script(options.script, options.arguments)
    return 0


def _compiling(engine: str | None) -> AbstractContextManager[None]:
    """Where modules are compiled by an engine; CommandError where it is not installed."""
    if engine is None:
        return nullcontext()
    try:
        return modules_compiled(engine_of(engine, {}))
    except NotImplementedError as error:
        raise CommandError(str(error), 2) from error
