"""``maquette plan --advise``: the step planned in other ways, and what each saves and costs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maquette.cli.errors import CommandError
from maquette.nn import Module, ModuleList, Sequential
from maquette.plan.plan import Plan
from maquette.plan.report import bytes_text, count_text

if TYPE_CHECKING:
    from rich.table import Table

Replan = Callable[[argparse.Namespace], Plan]


@dataclass(frozen=True)
class Advice:
    """Another way to run the step: its option, bytes saved at the peak, FLOPs added."""

    option: str
    saved: int
    added_flops: int


def advise(options: argparse.Namespace, made: Plan, model: Module, replan: Replan) -> list[Advice]:
    """Each alternative that needs less memory, the one that saves most first.

    An alternative that cannot be planned, such as an optimizer that refuses these parameters, is
    left out.
    """
    found = []
    for option, changed in _alternatives(options, model):
        try:
            other = replan(argparse.Namespace(**{**vars(options), **changed}))
        except CommandError:
            continue
        saved = made.peak_bytes - other.peak_bytes
        if saved > 0:
            found.append(Advice(option, saved, other.flops - made.flops))
    return sorted(found, key=lambda advice: -advice.saved)


def _alternatives(
    options: argparse.Namespace, model: Module
) -> Iterator[tuple[str, dict[str, object]]]:
    if not options.dtype:
        yield "--dtype bfloat16", {"dtype": "bfloat16"}
    if not options.train:
        return
    if not options.autocast and not options.dtype:
        yield "--autocast bf16", {"autocast": "bf16"}
    if not options.checkpoint:
        for pattern in _stacks(model):
            yield f"--checkpoint '{pattern}'", {"checkpoint": pattern}
    if options.optimizer in ("adam", "adamw"):
        for name in ("adafactor", "sgd-momentum", "sgd"):
            yield f"--optimizer {name}", {"optimizer": name, "optimizer_args": ""}
        if "foreach" not in options.optimizer_args:
            given = f"{options.optimizer_args},foreach=False".lstrip(",")
            yield f"--optimizer-args {given}", {"optimizer_args": given}


def _stacks(model: Module) -> Iterator[str]:
    """Patterns of the stacks of like modules: what is worth running again."""
    for path, module in model.named_modules():
        children = list(module.children())
        alike = isinstance(module, (ModuleList, Sequential)) and len({*map(type, children)}) == 1
        # A stack within another's module is run again with it.
        if alike and len(children) > 1 and not any(part.isdigit() for part in path.split(".")):
            yield f"{path}.*" if path else "*"


def advice_table(found: list[Advice], made: Plan) -> Table:
    """The alternatives as a table."""
    from rich.table import Table

    table = Table(title="\n[bold]Ways to need less[/bold]", title_justify="left", box=None)
    for name in ("with", "saves", "peak", "FLOPs"):
        table.add_column(name, justify="left" if name == "with" else "right")
    for advice in found:
        share = f"{100 * advice.added_flops / made.flops:+.0f} %" if made.flops else ""
        peak = bytes_text(made.peak_bytes - advice.saved)
        table.add_row(f"  {advice.option}", bytes_text(advice.saved), peak, share)
    if not found:
        table.add_row("  nothing that was tried", "", "", count_text(made.flops))
    return table
