"""The command ``maquette``: parse arguments, call a command, turn errors into one clear message.

Commands live in modules of their own; each has `add_parser` and is imported here. Exit codes: 0
well, 1 the program or plan failed, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from maquette.cli import check_command, ops_command, plan_command, run_command
from maquette.cli.errors import CommandError
from maquette.core.version import version


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line; ``--help`` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help tells more)\n")


class _Version(argparse.Action):
    """Prints the version, which is looked up for nothing else."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"maquette {version()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = _Parser(
        prog="maquette", description="Run PyTorch programs without data: memory, FLOPs, operators."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (plan_command, run_command, check_command, ops_command):
        command.add_parser(commands)
    options = parser.parse_args(argv)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except CommandError as error:
        print(f"maquette: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read the output has closed it; Python would try again, and fail, as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
