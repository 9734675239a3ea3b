"""``maquette ops [PATTERN]``: what is known of operators: schema, tags, kernels, cost."""

from __future__ import annotations

import argparse
import fnmatch
import json
from typing import TYPE_CHECKING

from maquette.cli.errors import CommandError
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import all_overloads, ops

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    parser = commands.add_parser("ops", help="list operators, or show one operator's page")
    parser.add_argument("pattern", nargs="?", default="*", help="such as 'aten.mm*' or 'add'")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the operators that fit the pattern; in full if they are few."""
    dir(ops.aten)  # those that few programs call are defined when they are asked for
    found = [o for o in all_overloads() if _fits(o, options.pattern)]
    if not found:
        raise CommandError(
            f"no operator is called '{options.pattern}'; define one with "
            f"maquette.library.define('ns::name', '(Tensor x) -> Tensor')"
        )
    found.sort(key=str)
    if options.json:
        print(json.dumps([facts(o) for o in found], indent=1))
        return 0
    if len(found) > 12:
        print("\n".join(str(o) for o in found))
        return 0
    for operator in found:
        for name, value in facts(operator).items():
            shown = ", ".join(value) if isinstance(value, list) else value
            print(f"{name:>11}  {shown}" if name != "operator" else f"{shown}")
        print()
    return 0


def _fits(operator: OpOverload, pattern: str) -> bool:
    # ``aten::mm``, as schemas write it, and ``aten.mm``, as programs do, are one name.
    pattern = pattern.replace("::", ".")
    name = str(operator)
    packet = name.rpartition(".")[0]
    names = (name, packet, name.removeprefix("aten."), operator._opname)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def facts(operator: OpOverload) -> dict[str, object]:
    """What the operator's page says, in words."""
    kernels = sorted(k.name for k, stack in operator._kernels.items() if stack)
    return {
        "operator": str(operator),
        "schema": operator._schema_text,
        "tags": [t.name for t in operator.tags],
        "kernels": kernels,
        "shape rule": _name(operator.shape_rule),
        "derivative": "yes" if operator.derivatives is not None else "no",
        "cost": _name(operator.facts.cost),
        "defined at": operator.place,
    }


def _name(function: object) -> str:
    if function is None:
        return "none"
    code = getattr(function, "__code__", None)
    where = "" if code is None else f"  ({code.co_filename}:{code.co_firstlineno})"
    return f"{getattr(function, '__qualname__', function)}{where}"
