"""``maquette ops [PATTERN]``: what is known of operators: schema, tags, kernels, rules, cost."""

from __future__ import annotations

import argparse
import fnmatch
import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from maquette.cli.errors import CommandError
from maquette.cli.operator_page import page_of
from maquette.cli.program import load, load_module
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import all_overloads, ops

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MOST_PAGES = 12
_WIDTH = 80


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    parser = commands.add_parser(
        "ops",
        help="list operators, or show their pages",
        description="Show the pages of the operators that PATTERN names: their overloads, or a "
        "glob of names. More than twelve are listed.",
    )
    parser.add_argument("pattern", nargs="?", default="*", help="such as 'aten.mm*' or 'add'")
    parser.add_argument(
        "--load", action="append", default=[], metavar="MODULE",
        help="import a module, or FILE.py, whose operators are asked for; may be given often",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the operators that fit the pattern; in full if they are few."""
    for name in options.load:
        if name.endswith(".py"):
            load(name)
        else:
            load_module(name)
    found = chosen(options.pattern)
    few = len(found) <= _MOST_PAGES
    if options.json:
        print(json.dumps([page_of(o, example=few) for o in found], indent=1))
    elif not few:
        print("\n".join(map(str, found)))
    else:
        print("\n\n".join(["\n".join(lines_of(page_of(o))) for o in found]))
    return 0


def chosen(pattern: str) -> list[OpOverload]:
    """The operators that a pattern names, those of that very name if there are any."""
    dir(ops.aten)  # those that few programs call are defined when they are asked for
    found = [o for o in all_overloads() if _fits(o, pattern)]
    if not found:
        raise CommandError(
            f"no operator is called '{pattern}'; import the module that defines it by "
            f"--load MODULE, or define one with "
            f"maquette.library.define('ns::name', '(Tensor x) -> Tensor')"
        )
    return sorted(found, key=str)


def _fits(operator: OpOverload, pattern: str) -> bool:
    # ``aten::mm``, as schemas write it, and ``aten.mm``, as programs do, are one name.
    pattern = pattern.replace("::", ".")
    for prefix in ("torch.", "maquette.", "mq.", "ops."):
        pattern = pattern.removeprefix(prefix)
    name = str(operator)
    packet = name.rpartition(".")[0]
    short = name.partition(".")[2]
    names = (name, packet, name.removesuffix(".default"), short, operator._opname)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


# --- as text --------------------------------------------------------------------------------------


def lines_of(page: dict[str, Any]) -> list[str]:
    """A page as lines of at most eighty columns."""
    lines = [page["operator"]]
    for name in ("summary", "schema"):
        if page[name]:
            lines += _wrapped(page[name], "  ", "      ")
    fields = {"form": page["form"], "tags": page["tags"], "other forms": page["forms"]}
    if page["functional"] not in (None, page["operator"]):
        fields["twin"] = page["functional"]
    fields |= {"memory": page["aliases"], "defined at": page["defined at"]}
    for name, value in fields.items():
        lines += _field(name, value)
    for title, table in (("kernels", page["kernels"]), ("rules", page["rules"])):
        lines += [f"  {title}", *_table(table)] if table else _field(title, "none")
    registered = {k: ", then ".join(v) for k, v in page["registered"].items()}
    lines += ["  registered", *_table(registered)]
    lines += _field("example", page.get("example"))
    lines += _field("it costs", page.get("cost of the example"))
    return lines


def _field(name: str, value: str | Sequence[str] | None) -> Iterator[str]:
    text = value if isinstance(value, str) else ", ".join(value or ())
    if text:
        yield from _wrapped(text, f"  {name:<12} ", " " * 15)


def _table(rows: dict[str, str]) -> list[str]:
    width = max(map(len, rows), default=0)
    return [
        line
        for name, text in rows.items()
        for line in _wrapped(text, f"    {name:<{width}}  ", " " * (width + 6))
    ]


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )
