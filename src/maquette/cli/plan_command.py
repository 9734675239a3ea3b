"""``maquette plan FILE.py``: the plan of a model file, computed with fake tensors."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from maquette import FakeTensorMode
from maquette.cli.errors import CommandError, failure
from maquette.cli.program import evaluate, load
from maquette.core import dtype as dtypes
from maquette.core.device import device
from maquette.nn import Module
from maquette.plan.plan import OPTIMIZERS, Plan, plan
from maquette.plan.recorder import Recorder
from maquette.plan.report import print_report
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rich.status import Status

    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    parser = commands.add_parser(
        "plan",
        help="memory, FLOPs and operators of a model, without data or accelerator",
        description="Plan one step of the model in FILE. Without --model and --args, the file's "
        "functions model() and args() are called.",
    )
    parser.add_argument("file", metavar="FILE", help="a Python file, in plain PyTorch style")
    parser.add_argument("--model", metavar="EXPR", help="the model, in the names of the file")
    parser.add_argument("--args", metavar="EXPR", help="its arguments: a tuple, or one tensor")
    parser.add_argument("--device", default="cpu", metavar="D", help="cpu, cuda, ... (no hardware)")
    parser.add_argument("--dtype", metavar="T", help="cast the model and floating inputs to T")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument(
        "--optimizer", choices=sorted(OPTIMIZERS), help="with --train: plan its first step too"
    )
    parser.add_argument("--depth", type=int, default=3, help="levels of the module tree (3)")
    parser.add_argument("--json", metavar="OUT", help="write the plan as JSON; - for stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Plan and print."""
    where = _device(options.device)
    kind = _dtype(options.dtype)
    if options.optimizer and not options.train:
        raise CommandError("--optimizer needs --train", 2)
    if options.depth < 0:
        raise CommandError(f"--depth is a number of levels from 0 on, not {options.depth}", 2)
    started = time.perf_counter()
    made, title = _plan(options, where, kind)
    seconds = time.perf_counter() - started
    if options.json == "-":
        print(json.dumps(made.to_dict(), indent=1))
        return 0
    if options.json:
        try:
            made.to_json(options.json)
        except OSError as error:
            raise CommandError(
                f"--json {options.json}: cannot be written: {error.strerror}"
            ) from None
    from rich.console import Console

    asked = os.environ.get("COLUMNS", "")
    width = min(Console().width, 100) if sys.stdout.isatty() or asked.isdigit() else 100
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        print_report(made, console, title=title, depth=options.depth)
        console.print(f"\nplanned in {seconds:.1f} s with fake tensors: no data was allocated")
    # Tables are padded to their width with blanks, which only a terminal's lines should have.
    text = captured.get()
    if not sys.stdout.isatty():
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    print(_printable(text), end="")
    return 0


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


def _plan(
    options: argparse.Namespace, where: device, kind: dtypes.dtype | None
) -> tuple[Plan, str]:
    module = load(options.file)
    mode = FakeTensorMode()
    recorders: list[Recorder] = []
    with mode, where:
        model = evaluate(module, options.model, "model", "--model")
        if not isinstance(model, Module):
            raise CommandError(f"--model must give an nn.Module, got {type(model).__name__}", 2)
        args = evaluate(module, options.args, "args", "--args")
        if isinstance(args, Tensor):
            args = (args,)
        if not isinstance(args, (tuple, list)):
            raise CommandError(
                f"--args must give a tuple of arguments or one tensor, got {type(args).__name__}", 2
            )
        if kind is not None:
            model.to(dtype=kind)
            args = tuple(_cast(a, kind) for a in args)
    try:
        with _progress() as tell:
            made = plan(
                model,
                args,
                train=options.train,
                optimizer=options.optimizer,
                device=where,
                progress=tell,
                recorders=recorders,
            )
    except Exception as error:
        path = recorders[-1].module if recorders else ""
        raise failure(f"planning {options.file} failed", error, path) from error
    what = options.model or "model()"
    step = "a training step" if options.train else "a forward pass"
    step += f" with {options.optimizer}" if options.optimizer else ""
    return made, f"{options.file}: {what}, {step} on {where.type}"


def _cast(value: object, kind: dtypes.dtype) -> object:
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.to(kind)
    return value


def _device(text: str) -> device:
    try:
        return device(text)
    except RuntimeError as error:
        raise CommandError(f"--device {text!r}: {error}", 2) from None


def _dtype(text: str | None) -> dtypes.dtype | None:
    if text is None:
        return None
    for kind in dtypes.all_dtypes:
        if kind.name == text.removeprefix("torch.") and kind.category >= 2:
            return kind
    names = ", ".join(d.name for d in dtypes.all_dtypes if d.is_floating_point)
    raise CommandError(f"--dtype {text!r} is unknown: expected one of {names}", 2)


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
