"""``maquette plan SOURCE``: the plan of a program, computed with fake tensors.

What may be asked is in `plan_options.py`, where models come from in `sources.py`; here a plan is
made; `plan_output.py` prints and writes it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from maquette.cli import plan_options
from maquette.cli.advice import advise
from maquette.cli.errors import CommandError, failure
from maquette.cli.plan_options import bytes_of, pairs_of
from maquette.cli.plan_output import Answers, print_answers, read_plan, write_answers
from maquette.cli.program import run_script
from maquette.cli.sources import Program, adapted, program
from maquette.core import dtype as dtypes
from maquette.nn import Module
from maquette.plan.assumptions import building
from maquette.plan.closed_form import ClosedForm, NotPolynomialError, closed_form
from maquette.plan.fit import Fit, largest_that_fits
from maquette.plan.plan import Plan, plan
from maquette.plan.recipe import BACKENDS, optimizer_factory
from maquette.plan.recorder import Recorder
from maquette.plan.report import bytes_text
from maquette.plan.roofline import TABLE, Accelerator, accelerators
from maquette.plan.script import MOST_STEPS, plan_script
from maquette.plan.sharded import fewest_devices, sharded_peak
from maquette.tensor.cuda_devices import DeviceProperties, device_assumed
from maquette.tensor.tensor import Tensor
from maquette.torch.saving.serialization import saves_discarded

if TYPE_CHECKING:
    from rich.status import Status

    from maquette.cli.plan_options import Parsers

_BATCH, _DEVICES = "batch", "devices"  # what --fit varies
_AMPLE = 80 * 2**30  # bytes of a device that only --device names
TOO_LARGE = 3  # the exit code of --fail-over


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    plan_options.add_parser(commands).set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Plan, print, write."""
    plan_options.check(options)
    limit = bytes_of("--fail-over", options.fail_over) if options.fail_over else None
    old = read_plan(options.diff) if options.diff else None
    on = accelerator_of(options)
    found = _planned_script(options, on) if options.script else _planned_model(options, on)
    found.on, found.old = on, old
    write_answers(found)
    if options.json != "-":
        print_answers(found)
    if limit is not None and found.plan.peak_bytes > limit:
        raise CommandError(
            f"the peak of {bytes_text(found.plan.peak_bytes)} is over --fail-over "
            f"{options.fail_over}",
            TOO_LARGE,
        )
    return 0


# --- planning -------------------------------------------------------------------------


def _planned_model(options: argparse.Namespace, on: Accelerator | None) -> Answers:
    started = time.perf_counter()
    symbols = plan_options.symbols_of(options)
    form = _closed_form(options, symbols) if symbols else None
    budget = bytes_of("--fit", options.fit) if options.fit else 0
    varied = _varied(options, symbols) if options.fit else ""
    fit = None
    if varied not in ("", _DEVICES):
        fit = _fit(options, symbols, varied, budget, form)
    made, about = _plan(options, symbols)
    found = Answers(options, made, about, time.perf_counter() - started, symbols)
    found.form, found.fit, found.varied = form, fit, varied
    if varied == _DEVICES:
        found.devices = fewest_devices(lambda n: sharded_peak(made, n), budget)
    if options.advise:
        found.advice = advise(options, made, about, lambda o: _plan(o, symbols)[0], on)
    return found


def _planned_script(options: argparse.Namespace, on: Accelerator | None) -> Answers:
    """The plan of a script, which decides everything itself; what it prints goes to stderr."""
    path, *arguments = options.script
    started = time.perf_counter()
    cuda = on is not None or plan_options.device_of(options.device).type == "cuda"
    from_here = redirect_stdout(sys.stderr)
    with from_here, saves_discarded(), _found_by_script(on, cuda=cuda), _progress() as tell:
        recorders: list[Recorder] = []
        try:
            made = plan_script(
                lambda: run_script(path, arguments),
                steps=options.steps or MOST_STEPS,
                device_type="cuda" if cuda else None,
                progress=tell,
                recorders=recorders,
            )
        except CommandError:
            raise
        except Exception as error:
            module = recorders[-1].failed_in(error) if recorders else ""
            raise failure(f"planning {path} failed", error, module) from error
    about = Program(Module(), (), {}, " ".join(options.script))
    return Answers(options, made, about, time.perf_counter() - started, {})


@contextmanager
def _found_by_script(on: Accelerator | None, *, cuda: bool) -> Iterator[None]:
    """The device of ``--device cuda`` and ``--on``, where the script asks whether there is one."""
    if not cuda:
        yield
        return
    name, nbytes = ("a planned device", _AMPLE) if on is None else (on.name, on.memory)
    with device_assumed(DeviceProperties(name, nbytes)):
        yield


def _plan(options: argparse.Namespace, symbols: Mapping[str, int]) -> tuple[Plan, Program]:
    where = plan_options.device_of(options.device)
    kind = plan_options.dtype_of(options.dtype)
    autocast = plan_options.autocast_of(options.autocast)
    given = pairs_of("--optimizer-args", options.optimizer_args)
    recorders: list[Recorder] = []
    with building(), where:
        about = program(options, symbols)
        if options.lora:
            about.model = adapted(about.model, pairs_of("--lora", options.lora))
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
                steps=options.steps or 1,
                checkpoint=options.checkpoint or "",
                generate=options.generate or 0,
                chunk_loss=options.chunk_loss,
                attention=options.attention if options.attention in BACKENDS else "",
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


def _varied(options: argparse.Namespace, symbols: Mapping[str, int]) -> str:
    """What ``--fit`` varies: ``--vary``, or the first name of ``--symbolic``, or the batch."""
    name = options.vary or next(iter(symbols), _BATCH)
    possible = [*symbols, _DEVICES]
    if not symbols and str(options.file).startswith("hf:"):
        possible = [_BATCH, "seq", _DEVICES]
    elif not symbols and str(options.file).startswith("timm:"):
        possible = [_BATCH, _DEVICES]
    if name in possible:
        return str(name)
    if not symbols and not options.vary:
        raise CommandError(
            "--fit needs --symbolic B=N, and --args in which B stands (or --vary devices)", 2
        )
    raise CommandError(f"--vary {name!r}: expected {', '.join(possible)}", 2)


def _fit(
    options: argparse.Namespace,
    symbols: dict[str, int],
    name: str,
    budget: int,
    form: ClosedForm | None,
) -> Fit:
    """The largest ``name`` that fits, which the plan that is shown has from then on."""

    def peak(number: int) -> int:
        if name in symbols:
            return _plan(options, {**symbols, name: number})[0].peak_bytes
        changed = argparse.Namespace(**{**vars(options), name: number})
        return _plan(changed, symbols)[0].peak_bytes

    start = symbols.get(name) or getattr(options, name, None) or 1
    if form is not None:
        others = {other: size for other, size in symbols.items() if other != name}
        start = max(form.largest(name, budget, **others), 1)
    fit = largest_that_fits(peak, budget, start=start)
    if fit.largest:
        if name in symbols:
            symbols[name] = fit.largest
        else:
            setattr(options, name, fit.largest)
    return fit


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
