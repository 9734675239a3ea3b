"""``maquette check MODULE[:OP]``: every operator that a module registers, held to the properties.

Importing the module registers its operators; they are the ones that are there afterwards and were
not before. Calls to check them by come from the module's ``SAMPLES``, from `register_samples`, or
are made from the schemas.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from maquette.cli.errors import CommandError, failure
from maquette.cli.program import load, load_module
from maquette.opcheck import OpReport, samples_of
from maquette.opcheck.framework import Framework, maquette_framework, torch_framework
from maquette.opcheck.operators import CheckedOperator, checked
from maquette.opcheck.report import junit
from maquette.opcheck.running import Limits, chosen, examine
from maquette.opcheck.samples import Call

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Parsers) -> None:
    """Add the command to the parser of ``maquette``."""
    parser = commands.add_parser(
        "check",
        help="hold the operators that a module registers to opcheck's properties",
        description="Check every operator that MODULE registers, or those that OP names. Exit "
        "code: 0 nothing found, 1 findings, 2 the command line is wrong.",
    )
    parser.add_argument(
        "module", metavar="MODULE[:OP]", help="a module, or FILE.py; OP is a name or a pattern"
    )
    parser.add_argument(
        "--on", choices=("maquette", "torch"), default="maquette",
        help="the library whose operators they are; torch needs PyTorch installed",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list operators and samples only")
    parser.add_argument(
        "--properties", metavar="P,...", help="only these, such as fake,vmap.values"
    )
    parser.add_argument("--seed", type=int, default=0, help="which inputs are drawn (0)")
    parser.add_argument("--max-inputs", type=int, default=200, metavar="N", help="a sample (200)")
    parser.add_argument("--deadline", type=float, default=5.0, metavar="S", help="a sample (5 s)")
    parser.add_argument("--json", metavar="OUT", help="write the reports as JSON; - for stdout")
    parser.add_argument("--junit", metavar="FILE", help="write the reports as JUnit's XML")
    parser.add_argument("--quiet", action="store_true", help="findings only, no progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check, print, and say by the exit code whether something was found."""
    _check_numbers(options)
    on = _framework(options.on)
    name, _, pattern = _parted(options.module)
    before = {o.name() for o in _overloads(on)}
    module = _imported(name, on)
    operators = _chosen_operators(on, module, before, pattern, options.module)
    offered = getattr(module, "SAMPLES", None)
    work = [(op, _samples(op, offered)) for op in operators]
    if options.list:
        for op, calls in work:
            print(f"{op.name}  {len(calls)} samples  {op.schema}")
        return 0
    reports, unchecked = _check_all(work, options)
    _write(options, reports, unchecked)
    return int(bool(unchecked) or not all(r.ok for r in reports))


def _check_numbers(options: argparse.Namespace) -> None:
    if options.max_inputs < 1 or not options.deadline > 0:
        raise CommandError("--max-inputs and --deadline are numbers above 0", 2)
    try:
        chosen("ALL" if options.properties is None else options.properties.split(","))
    except ValueError as error:
        raise CommandError(str(error).replace("opcheck: ", "--properties: "), 2) from None


def _framework(name: str) -> Framework:
    try:
        return torch_framework() if name == "torch" else maquette_framework()
    except ImportError as error:
        raise CommandError(str(error)) from None


def _parted(text: str) -> tuple[str, str, str]:
    """Module and operator; a path of a file may have a colon after a drive's letter only."""
    head, colon, tail = text.rpartition(":")
    if colon and not tail.endswith(".py") and not (len(head) == 1 and tail[:1] in "\\/"):
        if head.endswith(":"):  # ns::op is an operator's name: MODULE:ns::op
            module, _, namespace = head[:-1].rpartition(":")
            return module, ":", f"{namespace}::{tail}"
        return head, colon, tail
    return text, "", ""


def _overloads(on: Framework) -> list[Any]:
    """The overloads that programs have defined in a library."""
    if on.name == "maquette":
        from maquette.dispatch.registry import all_overloads  # noqa: PLC0415

        return all_overloads()
    found = []
    for schema in on.torch._C._jit_get_all_schemas():
        namespace, _, rest = schema.name.partition("::")
        if namespace in ("aten", "prim", "prims", "onnx", "quantized", "sparse"):
            continue
        packet = getattr(getattr(on.torch.ops, namespace), rest, None)
        overload = getattr(packet, schema.overload_name or "default", None)
        if isinstance(overload, on.op_overload):
            found.append(overload)
    return found


def _imported(name: str, on: Framework) -> ModuleType:
    """The module, with `import torch` being maquette, or PyTorch."""
    is_file = name.endswith(".py")
    if on.name == "maquette":
        return load(name) if is_file else load_module(name)
    if is_file:
        return _run_file(name)
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise failure(f"cannot import {name}", error) from error
    finally:
        sys.path.pop(0)


def _run_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("checked_module", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise CommandError(f"there is no file {path}", 2)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise failure(f"running {path}", error) from error
    return module


def _chosen_operators(
    on: Framework, module: ModuleType, before: set[str], pattern: str, asked: str
) -> list[CheckedOperator]:
    present = [checked(o) for o in _overloads(on)]
    mine = [op for op in present if op.name not in before or _is_of(op, module)]
    candidates = present if pattern and "::" in pattern else mine
    if pattern:
        candidates = [op for op in candidates if _fits(op, pattern)]
    if not candidates:
        what = f"no operator called {pattern}" if pattern else "no operator"
        known = ", ".join(sorted(op.name for op in mine)[:8]) or "none"
        raise CommandError(f"{asked}: the module registers {what}; it registers {known}", 2)
    return sorted(candidates, key=lambda op: op.name)


def _is_of(op: CheckedOperator, module: ModuleType) -> bool:
    """Whether an operator was defined in the module's files: it may have been imported before."""
    file = getattr(module, "__file__", None)
    place = str(getattr(op.overload, "place", ""))
    folders = [str(folder) + os.sep for folder in getattr(module, "__path__", ())]
    return place.startswith((*folders, *([] if file is None else [f"{file}:"])))


def _fits(op: CheckedOperator, pattern: str) -> bool:
    pattern = pattern.replace("::", ".")
    name = op.name.replace("::", ".")
    rest = op.name.partition("::")[2]
    names = (name, f"{name}.default", rest, rest.partition(".")[0])
    return any(fnmatch.fnmatchcase(n, pattern) for n in names)


def _samples(op: CheckedOperator, offered: Any) -> list[Call]:
    try:
        return samples_of(op, offered)
    except Exception as error:
        raise failure(f"the samples of {op.name}", error) from error


# --- checking -----------------------------------------------------------------------------------


def _check_all(
    work: Sequence[tuple[CheckedOperator, Sequence[Call]]], options: argparse.Namespace
) -> tuple[list[OpReport], dict[str, str]]:
    """Reports, and why an operator could not be checked."""
    reports: list[OpReport] = []
    unchecked: dict[str, str] = {}
    started = time.perf_counter()
    for number, (op, calls) in enumerate(work, 1):
        _progress(options, f"[{number}/{len(work)}] {op.name}")
        if not calls:
            unchecked[op.name] = (
                "no call of it could be made from its schema: offer some, "
                f'SAMPLES = {{"{op.name}": [(args...,)]}}, or register_samples'
            )
            _say(options, f"? {op.name}: {unchecked[op.name]}")
            continue
        for report in _reports_of(op, calls, options):
            reports.append(report)
            if not report.ok:
                _say(options, str(report))
            elif not options.quiet:
                _say(options, f"✓ {report.operator}: {len(report.passed)} properties hold "
                              f"on {report.inputs} inputs, {report.seconds:.1f} s")  # fmt: skip
    _progress(options, "")
    findings = sum(len(r.findings) for r in reports)
    checks = sum(r.checks for r in reports)
    _say(
        options,
        f"{len(work)} operators, {sum(r.inputs for r in reports)} inputs, {checks} checks: "
        f"{findings} findings, {len(unchecked)} operators not checked; "
        f"{time.perf_counter() - started:.1f} s",
    )
    return reports, unchecked


def _reports_of(
    op: CheckedOperator, calls: Sequence[Call], options: argparse.Namespace
) -> Iterator[OpReport]:
    names = "ALL" if options.properties is None else options.properties.split(",")
    limits = Limits(options.max_inputs, options.deadline, options.seed)
    for args, kwargs in calls:
        yield examine(op, args, kwargs, properties=names, limits=limits)


def _say(options: argparse.Namespace, text: str) -> None:
    # What is asked for as JSON on the output stands there alone.
    stream = sys.stderr if options.json == "-" else sys.stdout
    encoding = stream.encoding or "utf-8"
    shown = text.replace("✗", "x").replace("✓", "ok") if encoding.lower() != "utf-8" else text
    print(shown.encode(encoding, "replace").decode(encoding), file=stream, flush=True)


def _progress(options: argparse.Namespace, text: str) -> None:
    if not options.quiet and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _write(
    options: argparse.Namespace, reports: Sequence[OpReport], unchecked: dict[str, str]
) -> None:
    if options.json:
        values = {"reports": [r.to_dict() for r in reports], "unchecked": unchecked}
        _to(options.json, json.dumps(values, indent=1), "--json")
    if options.junit:
        _to(options.junit, junit(reports, unchecked), "--junit")


def _to(path: str, text: str, option: str) -> None:
    if path == "-":
        print(text)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise CommandError(f"{option} {path}: cannot be written: {error.strerror}") from None
