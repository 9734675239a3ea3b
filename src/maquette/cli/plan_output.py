"""What ``maquette plan`` prints and writes, once everything is planned."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from maquette.cli.advice import Advice, advice_table, as_texts
from maquette.cli.errors import CommandError
from maquette.cli.sources import Program
from maquette.plan.closed_form import ClosedForm
from maquette.plan.compare import Change, changes
from maquette.plan.fit import Fit
from maquette.plan.plan import Plan
from maquette.plan.report import (
    bytes_text,
    changes_table,
    closed_form_table,
    count_text,
    device_table,
    print_report,
)
from maquette.plan.roofline import Accelerator, bound
from maquette.plan.sharded import MOST_DEVICES, Devices
from maquette.plan.step import tensors_in
from maquette.plan.trace import write_trace

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Answers:
    """What was asked and found.

    varied: what ``--fit`` varied: ``fit`` has the answer, or ``devices`` where it was their number.
    old: the plan of ``--diff``; advice: of ``--advise``.
    """

    options: argparse.Namespace
    plan: Plan
    about: Program
    seconds: float
    symbols: Mapping[str, int]
    on: Accelerator | None = None
    form: ClosedForm | None = None
    varied: str = ""
    fit: Fit | None = None
    devices: Devices | None = None
    old: dict[str, object] | None = None
    advice: Advice | None = None

    def to_dict(self) -> dict[str, object]:
        """The plan as ``--json`` writes it, with the advice that was asked for."""
        made = self.plan.to_dict()
        return made if self.advice is None else {**made, "advice": asdict(self.advice)}


def print_answers(found: Answers) -> None:
    """Print the report and every answer that was asked for."""
    options, made, about = found.options, found.plan, found.about
    from rich.markup import escape

    with _console() as console:
        print_report(made, console, title=_title(options, about), depth=options.depth)
        if found.on is not None:
            _print_device(options, made, about, found.on, console)
        if found.advice is not None:
            console.print(advice_table(found.advice))
            for note in as_texts(found.advice).notes:
                console.print(f"[dim]{escape(note)}[/dim]")
        if found.form is not None:
            console.print(closed_form_table(found.form))
        if found.old is not None:
            console.print(changes_table(_changes(options, found.old, made)))
        for note in [*about.notes, *_remarks(made)]:
            console.print(f"[dim]note: {note}[/dim]")
        if found.fit is not None:
            console.print(f"\n{_fit_text(options, found.varied, found.fit)}")
        if found.devices is not None:
            console.print(f"\n{_devices_text(options, found.devices)}")
        seconds = f"{found.seconds:.1f} s"
        console.print(f"\nplanned in {seconds} with fake tensors: no data was allocated")


def _title(options: argparse.Namespace, about: Program) -> str:
    if options.script:
        return f"{about.name}, the script as it is"
    step = "a training step" if options.train else "a forward pass"
    if options.generate:
        step = f"generating {options.generate} tokens"
    if options.optimizer:
        step += f" with {options.optimizer}"
    if options.autocast:
        step += f", autocast {options.autocast}"
    if options.checkpoint:
        step += f", {options.checkpoint} run again in backward"
    if options.chunk_loss > 1:
        step += f", the loss in {options.chunk_loss} chunks"
    if options.attention:
        step += f", {options.attention} attention"
    if options.lora:
        step += f", LoRA {options.lora}"
    if options.accumulate > 1:
        step += f", {options.accumulate} backwards a step"
    if options.dtype:
        step += f", {options.dtype}"
    return f"{about.name}, {step} on {options.device}"


def _remarks(made: Plan) -> list[str]:
    if not made.stand_in_loss:
        return made.notes
    stand_in = "the output is no scalar: its mean stands in for the loss (--loss EXPR says another)"
    return [*made.notes, stand_in]


def _print_device(
    options: argparse.Namespace, made: Plan, about: Program, on: Accelerator, console: Console
) -> None:
    least = bound(made.operators, on)
    items = _items(about, options, least.seconds)
    if options.price:
        items += f", {options.price * least.seconds / 3600:.6f} a step"
    memory = made.on_device(expandable=options.expandable)
    console.print(device_table(memory, on, least, items))


def _items(about: Program, options: argparse.Namespace, seconds: float) -> str:
    """What the program gets through in a second: tokens where it takes whole numbers."""
    inputs = [t for t in tensors_in([*about.args, *about.kwargs.values()]) if t.dim()]
    if not inputs or not seconds:
        return ""
    first, passes = inputs[0], options.accumulate * (options.steps or 1)
    many, name = (first.shape[0], "samples")
    if first.dim() == 2 and not first.is_floating_point():
        many, name = first.numel(), "tokens"
    return f"{count_text(int(many * passes / seconds))} {name}/s"


def _changes(options: argparse.Namespace, old: dict[str, object], made: Plan) -> list[Change]:
    try:
        return changes(old, made.to_dict())
    except ValueError as error:
        raise CommandError(f"--diff {options.diff}: {error}", 2) from None


def _fit_text(options: argparse.Namespace, name: str, fit: Fit) -> str:
    if not fit.largest:
        least = bytes_text(fit.next_peak_bytes)
        return f"{name} = 1 does not fit into {options.fit}: it needs {least}"
    return (
        f"largest {name} that fits into {options.fit}: [bold]{fit.largest}[/bold] "
        f"({bytes_text(fit.peak_bytes)}; {name} = {fit.largest + 1} needs "
        f"{bytes_text(fit.next_peak_bytes)})"
    )


def _devices_text(options: argparse.Namespace, found: Devices) -> str:
    least = bytes_text(found.peak_bytes)
    if not found.fewest:
        return (
            f"no number of devices of {options.fit} is enough: fully sharded over "
            f"{MOST_DEVICES:,}, each still needs {least} for its own batch and the blocks that are "
            f"whole for a while"
        )
    if found.fewest == 1:
        return f"one device of {options.fit} is enough ({least})"
    return (
        f"fewest devices of {options.fit} each, fully sharded, every one with this batch: "
        f"[bold]{found.fewest}[/bold] ({least}; {found.fewest - 1} need "
        f"{bytes_text(found.peak_with_one_less)} each)"
    )


def read_plan(path: str) -> dict[str, object]:
    """The plan that ``--json`` wrote; CommandError where there is none."""
    try:
        found = json.loads(pathlib.Path(path).read_text("utf-8"))
    except OSError as error:
        raise CommandError(f"--diff {path}: cannot be read: {error.strerror}", 2) from None
    except ValueError:
        raise CommandError(f"--diff {path}: not JSON, which --json writes", 2) from None
    if not isinstance(found, dict):
        raise CommandError(f"--diff {path}: no plan, which --json writes", 2)
    return found


# --- files -----------------------------------------------------------------------------


def write_answers(found: Answers) -> None:
    """Write the files that were asked for; CommandError names one that cannot be."""
    options, made = found.options, found.plan
    if options.json == "-":
        print(json.dumps(found.to_dict(), indent=1))
    what_if = None if found.advice is None else as_texts(found.advice)
    writers: dict[str, Callable[[str], None]] = {
        "json": lambda path: _write_json(found, path),
        "csv": made.to_csv,
        "html": lambda path: made.to_html(path, _title(options, found.about), what_if),
        "trace": lambda path: write_trace(made, path, found.on),
    }
    for option, write in writers.items():
        path = getattr(options, option)
        if not path or path == "-":
            continue
        try:
            write(path)
        except OSError as error:
            raise CommandError(f"--{option} {path}: cannot be written: {error.strerror}") from None


def _write_json(found: Answers, path: str) -> None:
    pathlib.Path(path).write_text(json.dumps(found.to_dict(), indent=1) + "\n", "utf-8")


# --- the terminal ------------------------------------------------------------------------


@contextmanager
def _console() -> Iterator[Console]:
    """A console that prints at the end, without trailing blanks, in what the output can show."""
    from rich.console import Console

    asked = os.environ.get("COLUMNS", "")
    width = min(Console().width, 100) if sys.stdout.isatty() or asked.isdigit() else 100
    console = Console(width=width, highlight=False, emoji=False)
    with console.capture() as captured:
        yield console
    # Tables are padded to their width with blanks, among which a style may end.
    text = _LINE_END.sub(lambda end: end[0].replace(" ", ""), captured.get())
    print(_printable(text), end="")


_LINE_END = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)


def _printable(text: str) -> str:
    """The text with what the output's encoding lacks replaced: bars by ``#``, the rest by ``?``."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        shown = text.translate(_ASCII)
        return shown.encode(encoding, "replace").decode(encoding)
    return text


_ASCII = {ord(c): "#" for c in "▁▂▃▄▅▆▇█"} | {ord(c): "-" for c in "─━╌"} | {ord("│"): "|"}
