"""``maquette plan --advise``: the step planned in other ways, and what each saves and costs.

Every alternative is an option of ``maquette plan`` and is planned with it: nothing is estimated.
What does not concern a model is not tried: checkpoints without a stack of like modules, chunks
without a ``cross_entropy`` over a linear's rows. What is tried and fails is told with its reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maquette.cli.errors import CommandError, failure
from maquette.cli.plan_options import device_of
from maquette.cli.sources import Program
from maquette.nn import Module, ModuleList, Sequential
from maquette.plan.chunked_loss import Look
from maquette.plan.html import WhatIf
from maquette.plan.plan import Plan, look_at
from maquette.plan.recipe import BACKENDS
from maquette.plan.report import bytes_text, count_text, seconds_text
from maquette.plan.roofline import Accelerator, bound

if TYPE_CHECKING:
    from rich.table import Table

Replan = Callable[[argparse.Namespace], Plan]
Alternative = tuple[str, dict[str, object]]
_CHUNKS = 8  # of a loss: an eighth of the logits at a time
_STEADY = 2  # steps until the optimizer's state is there throughout


@dataclass(frozen=True)
class Way:
    """Another way to run the step: its option, bytes saved at the peak, FLOPs and seconds added.

    added_seconds: at the least, on the device of ``--on``; None without one.
    """

    option: str
    saved_bytes: int
    peak_bytes: int
    added_flops: int
    added_seconds: float | None


@dataclass(frozen=True)
class Refusal:
    """A way that could not be planned, and why, in a line."""

    option: str
    reason: str


@dataclass(frozen=True)
class Advice:
    """The ways that need less, the one that saves most first, and those that failed.

    steps: how many were planned each time; peak_bytes and flops: of the step as it is, flops of
    one step.
    """

    ways: list[Way]
    refused: list[Refusal]
    steps: int
    peak_bytes: int
    flops: int


def advise(
    options: argparse.Namespace,
    made: Plan,
    about: Program,
    replan: Replan,
    on: Accelerator | None = None,
) -> Advice:
    """Plan each alternative to ``made``.

    With an optimizer two steps are planned, since in the first one its state is not there yet.
    """
    steps = options.steps or (_STEADY if options.optimizer else 1)
    if steps != (options.steps or 1):
        options = argparse.Namespace(**{**vars(options), "steps": steps})
        made = replan(options)
    ways: list[Way] = []
    refused: list[Refusal] = []
    try:
        looked = _look(options, about)
    except CommandError as error:
        refused.append(Refusal("--attention, --chunk-loss", _reason(error)))
        looked = Look(None, attention=False)
    for option, changed in _alternatives(options, made, about, looked):
        try:
            other = replan(argparse.Namespace(**{**vars(options), **changed}))
        except CommandError as error:
            refused.append(Refusal(option, _reason(error)))
            continue
        saved = made.peak_bytes - other.peak_bytes
        if saved <= 0:
            continue
        seconds = None
        if on is not None:
            added = bound(other.operators, on).seconds - bound(made.operators, on).seconds
            seconds = added / steps
        ways.append(
            Way(option, saved, other.peak_bytes, (other.flops - made.flops) // steps, seconds)
        )
    ways.sort(key=lambda way: -way.saved_bytes)
    return Advice(ways, refused, steps, made.peak_bytes, made.flops // steps)


def _reason(error: CommandError) -> str:
    """The first line of a failure, without the words that name the command's source."""
    first = str(error).partition("\n")[0]
    return first.partition(" failed: ")[2] or first


def _alternatives(
    options: argparse.Namespace, made: Plan, about: Program, looked: Look
) -> Iterator[Alternative]:
    if not options.dtype:
        yield "--dtype bfloat16", {"dtype": "bfloat16"}
    yield from _attentions(options, made, about.model, looked)
    if not options.train:
        return
    if not options.autocast and not options.dtype:
        yield "--autocast bf16", {"autocast": "bf16"}
    if not options.checkpoint:
        for pattern in _stacks(about.model):
            yield f"--checkpoint '{pattern}'", {"checkpoint": pattern}
    if options.chunk_loss == 1 and looked.head is not None:
        yield f"--chunk-loss {_CHUNKS}", {"chunk_loss": _CHUNKS}
    yield from _optimizers(options)


def _look(options: argparse.Namespace, about: Program) -> Look:
    """What the model calls; CommandError where it does not run without what its plan has."""
    where = device_of(options.device)
    try:
        return look_at(
            about.model,
            about.args,
            about.kwargs,
            train=options.train,
            loss=about.loss,
            device=where,
        )
    except Exception as error:
        raise failure("a look at what the model calls failed", error) from error


def _attentions(
    options: argparse.Namespace, made: Plan, model: Module, looked: Look
) -> Iterator[Alternative]:
    """Other kernels of attention, and for a model of transformers its other implementation."""
    config = getattr(model, "config", None)
    now = options.attention or getattr(config, "_attn_implementation", None)
    if str(options.file).startswith("hf:") and now == "eager":
        yield "--attention sdpa", {"attention": "sdpa"}
    if not looked.attention:
        return
    used = {o.name for o in made.operators if "scaled_dot_product" in o.name}
    on_cpu = device_of(options.device).type == "cpu"
    for name in BACKENDS:
        if on_cpu and name == "efficient":
            continue  # a kernel of accelerators
        if name != now and not any(f"_{name}_" in operator for operator in used):
            yield f"--attention {name}", {"attention": name}


def _optimizers(options: argparse.Namespace) -> Iterator[Alternative]:
    if options.optimizer not in ("adam", "adamw"):
        return
    for few in ("8bit", "bf16"):
        name = f"{options.optimizer}-{few}"
        kept = [
            pair
            for pair in options.optimizer_args.split(",")
            if pair.partition("=")[0].strip() in ("lr", "eps", "weight_decay")
        ]
        given = ",".join(kept)
        option = f"--optimizer {name}" + (f" --optimizer-args {given}" if given else "")
        yield option, {"optimizer": name, "optimizer_args": given}
    for name in ("adafactor", "sgd-momentum", "sgd"):
        yield f"--optimizer {name}", {"optimizer": name, "optimizer_args": ""}
    if "foreach" in options.optimizer_args or "fused" in options.optimizer_args:
        return
    for how in ("fused=True", "foreach=False"):
        given = f"{options.optimizer_args},{how}".lstrip(",")
        yield f"--optimizer-args {given}", {"optimizer_args": given}


def _stacks(model: Module) -> Iterator[str]:
    """Patterns of the stacks of like modules: what is worth running again."""
    for path, module in model.named_modules():
        children = list(module.children())
        alike = isinstance(module, (ModuleList, Sequential)) and len({*map(type, children)}) == 1
        # A stack within another's module is run again with it.
        if alike and len(children) > 1 and not any(part.isdigit() for part in path.split(".")):
            yield f"{path}.*" if path else "*"


def as_texts(found: Advice) -> WhatIf:
    """The ways as columns and rows of text, and a note for each that was refused."""
    timed = any(way.added_seconds is not None for way in found.ways)
    columns = ["with", "saves", "peak", "FLOPs", *(["time"] * timed)]
    notes = [f"not planned: {refusal.option}: {refusal.reason}" for refusal in found.refused]
    about = f"of {found.steps} steps the peak is {bytes_text(found.peak_bytes)}"
    rows = [_row(way, found) for way in found.ways]
    return WhatIf(columns, rows, notes, about if found.steps > 1 else "")


def _row(way: Way, found: Advice) -> list[str]:
    percent = round(100 * way.added_flops / found.flops) if found.flops else 0
    row = [way.option, bytes_text(way.saved_bytes), bytes_text(way.peak_bytes)]
    row.append(f"{percent:+} %" if found.flops else "")
    if way.added_seconds is not None:
        sign = "-" if way.added_seconds < 0 else "+"
        row.append(f"{sign}{seconds_text(abs(way.added_seconds))}")
    return row


def advice_table(found: Advice) -> Table:
    """The ways as a table."""
    from rich.markup import escape
    from rich.table import Table

    texts = as_texts(found)
    title = "\n[bold]Ways to need less[/bold]" + (f"  ({texts.about})" if texts.about else "")
    table = Table(title=title, title_justify="left", box=None)
    for name in texts.columns:
        table.add_column(name, justify="left" if name == "with" else "right", overflow="fold")
    for option, *cells in texts.rows:
        table.add_row(f"  {escape(option)}", *cells)
    if not found.ways:
        table.add_row("  nothing that was tried", "", "", count_text(found.flops))
    return table
