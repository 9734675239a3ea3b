"""``maquette plan SOURCE``: the plan of a program, computed with fake tensors.

What may be asked is in `plan_options.py`, where models come from in `sources.py`; here a plan is
made, and its answers are printed and written.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maquette.cli import plan_options
from maquette.cli.advice import advice_table, advise
from maquette.cli.errors import CommandError, failure
from maquette.cli.plan_options import bytes_of
from maquette.cli.sources import Program, program
from maquette.core import dtype as dtypes
from maquette.plan.assumptions import building
from maquette.plan.closed_form import ClosedForm, NotPolynomialError, closed_form
from maquette.plan.compare import Change, changes
from maquette.plan.fit import Fit, largest_that_fits
from maquette.plan.plan import Plan, plan
from maquette.plan.recipe import optimizer_factory
from maquette.plan.recorder import Recorder
from maquette.plan.report import (
    bytes_text,
    changes_table,
    closed_form_table,
    count_text,
    device_table,
    print_report,
)
from maquette.plan.roofline import TABLE, Accelerator, accelerators, bound
from maquette.plan.step import tensors_in
from maquette.plan.trace import write_trace
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from maquette.cli.plan_options import Parsers

TOO_LARGE = 3  # the exit code of --fail-over


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    plan_options.add_parser(commands).set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Plan, print, write."""
    plan_options.check(options)
    limit = bytes_of("--fail-over", options.fail_over) if options.fail_over else None
    old = _read(options.diff) if options.diff else None
    on = accelerator_of(options)
    started = time.perf_counter()
    symbols = plan_options.symbols_of(options)
    form = _closed_form(options, symbols) if symbols else None
    fit = _fit(options, symbols, form) if options.fit else None
    made, about = _plan(options, symbols)
    seconds = time.perf_counter() - started
    _write(options, made, about, on)
    if options.json != "-":
        with _console() as console:
            print_report(made, console, title=_title(options, about), depth=options.depth)
            if on is not None:
                _print_device(options, made, about, on, console)
            if options.advise:
                others = advise(options, made, about.model, lambda o: _plan(o, symbols)[0])
                console.print(advice_table(others, made))
            if form is not None:
                console.print(closed_form_table(form))
            if old is not None:
                console.print(changes_table(_changes(options, old, made)))
            for note in [*about.notes, *_remarks(made)]:
                console.print(f"[dim]note: {note}[/dim]")
            if fit is not None:
                console.print(f"\n{_fit_text(options, symbols, fit)}")
            console.print(f"\nplanned in {seconds:.1f} s with fake tensors: no data was allocated")
    if limit is not None and made.peak_bytes > limit:
        raise CommandError(
            f"the peak of {bytes_text(made.peak_bytes)} is over --fail-over {options.fail_over}",
            TOO_LARGE,
        )
    return 0


# --- planning -------------------------------------------------------------------------


def _plan(options: argparse.Namespace, symbols: Mapping[str, int]) -> tuple[Plan, Program]:
    where = plan_options.device_of(options.device)
    kind = plan_options.dtype_of(options.dtype)
    autocast = plan_options.autocast_of(options.autocast)
    given = plan_options.pairs_of("--optimizer-args", options.optimizer_args)
    recorders: list[Recorder] = []
    with building(), where:
        about = program(options, symbols)
        if kind is not None:
            about.model.to(dtype=kind)
            about.args = tuple(_cast(a, kind) for a in about.args)
            about.kwargs = {k: _cast(v, kind) for k, v in about.kwargs.items()}
    try:
        with _progress() as tell:
            made = plan(
                about.model,
                about.args,
                about.kwargs,
                train=options.train,
                optimizer=optimizer_factory(options.optimizer, given),
                loss=about.loss,
                device=where,
                autocast=autocast,
                accumulate=options.accumulate,
                steps=options.steps,
                checkpoint=options.checkpoint or "",
                generate=options.generate or 0,
                progress=tell,
                recorders=recorders,
            )
    except Exception as error:
        path = recorders[-1].failed_in(error) if recorders else ""
        raise failure(f"planning {options.file or options.module} failed", error, path) from error
    return made, about


def _cast(value: object, kind: dtypes.dtype) -> object:
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.to(kind)
    return value


def _closed_form(options: argparse.Namespace, symbols: dict[str, int]) -> ClosedForm | None:
    """The formulas in the sizes of ``--symbolic``; None where the program has none."""
    once = argparse.Namespace(**{**vars(options), "steps": 1})
    base = {name: next(b for b in (64, 2, 1) if size % b == 0) for name, size in symbols.items()}
    try:
        return closed_form(lambda sizes: _plan(once, sizes)[0], base)
    except (NotPolynomialError, CommandError):  # at such sizes the program may not run at all
        return None


def _fit(options: argparse.Namespace, symbols: dict[str, int], form: ClosedForm | None) -> Fit:
    budget = bytes_of("--fit", options.fit)
    name = next(iter(symbols), "batch")
    if not symbols and not str(options.file).startswith(("hf:", "timm:")):
        raise CommandError("--fit needs --symbolic B=N, and --args in which B stands", 2)

    def peak(number: int) -> int:
        if symbols:
            return _plan(options, {**symbols, name: number})[0].peak_bytes
        changed = argparse.Namespace(**{**vars(options), "batch": number})
        return _plan(changed, symbols)[0].peak_bytes

    start = symbols.get(name, options.batch)
    if form is not None:
        others = {other: size for other, size in symbols.items() if other != name}
        start = max(form.largest(name, budget, **others), 1)
    fit = largest_that_fits(peak, budget, start=start)
    if fit.largest:
        if symbols:
            symbols[name] = fit.largest
        else:
            options.batch = fit.largest
    return fit


# --- printing -------------------------------------------------------------------------


def _title(options: argparse.Namespace, about: Program) -> str:
    step = "a training step" if options.train else "a forward pass"
    if options.generate:
        step = f"generating {options.generate} tokens"
    if options.optimizer:
        step += f" with {options.optimizer}"
    if options.autocast:
        step += f", autocast {options.autocast}"
    if options.checkpoint:
        step += f", {options.checkpoint} run again in backward"
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
    first, passes = inputs[0], options.accumulate * options.steps
    many, name = (first.shape[0], "samples")
    if first.dim() == 2 and not first.is_floating_point():
        many, name = first.numel(), "tokens"
    return f"{count_text(int(many * passes / seconds))} {name}/s"


def _read(path: str) -> dict[str, object]:
    try:
        found = json.loads(pathlib.Path(path).read_text("utf-8"))
    except OSError as error:
        raise CommandError(f"--diff {path}: cannot be read: {error.strerror}", 2) from None
    except ValueError:
        raise CommandError(f"--diff {path}: not JSON, which --json writes", 2) from None
    if not isinstance(found, dict):
        raise CommandError(f"--diff {path}: no plan, which --json writes", 2)
    return found


def _changes(options: argparse.Namespace, old: dict[str, object], made: Plan) -> list[Change]:
    try:
        return changes(old, made.to_dict())
    except ValueError as error:
        raise CommandError(f"--diff {options.diff}: {error}", 2) from None


def accelerator_of(options: argparse.Namespace) -> Accelerator | None:
    """The device of ``--on``, from the table of ``--devices`` or our own."""
    if options.on is None:
        return None
    try:
        table = accelerators(options.devices or TABLE)
    except OSError as error:
        raise CommandError(f"--devices {options.devices}: {error.strerror}", 2) from None
    except ValueError as error:
        raise CommandError(f"--devices {options.devices}: {error}", 2) from None
    if options.on not in table:
        raise CommandError(f"--on {options.on!r} is unknown: expected {', '.join(table)}", 2)
    return table[options.on]


def _fit_text(options: argparse.Namespace, symbols: Mapping[str, int], fit: Fit) -> str:
    name = next(iter(symbols), "batch")
    if not fit.largest:
        least = bytes_text(fit.next_peak_bytes)
        return f"{name} = 1 does not fit into {options.fit}: it needs {least}"
    return (
        f"largest {name} that fits into {options.fit}: [bold]{fit.largest}[/bold] "
        f"({bytes_text(fit.peak_bytes)}; {name} = {fit.largest + 1} needs "
        f"{bytes_text(fit.next_peak_bytes)})"
    )


def _write(options: argparse.Namespace, made: Plan, about: Program, on: Accelerator | None) -> None:
    if options.json == "-":
        print(json.dumps(made.to_dict(), indent=1))
    writers: dict[str, Callable[[str], None]] = {
        "json": made.to_json,
        "csv": made.to_csv,
        "html": lambda path: made.to_html(path, _title(options, about)),
        "trace": lambda path: write_trace(made, path, on),
    }
    for option, write in writers.items():
        path = getattr(options, option)
        if not path or path == "-":
            continue
        try:
            write(path)
        except OSError as error:
            raise CommandError(f"--{option} {path}: cannot be written: {error.strerror}") from None


@contextmanager
def _console() -> Iterator[Console]:
    """A console that prints at the end, without trailing blanks, in what the output can show."""
    from rich.console import Console

    asked = os.environ.get("COLUMNS", "")
    width = min(Console().width, 100) if sys.stdout.isatty() or asked.isdigit() else 100
    console = Console(width=width, highlight=False, emoji=False)
    with console.capture() as captured:
        yield console
    # Tables are padded to their width with blanks, which only a terminal's lines should have.
    text = captured.get()
    if not sys.stdout.isatty():
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    print(_printable(text), end="")


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


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """A counter of operators on stderr, once the work has taken longer than a second."""
    started = time.perf_counter()
    status: list[Status] = []

    def tell(operations: int) -> None:
        if time.perf_counter() - started < 1 or not sys.stderr.isatty():
            return
        if not status:
            from rich.console import Console

            status.append(Console(stderr=True).status(""))
            status[0].start()
        status[0].update(f"planning: {operations:,} operators")

    try:
        yield tell
    finally:
        if status:
            status[0].stop()
