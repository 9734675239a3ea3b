"""Hold maquette's own operators to opcheck's properties, on PyTorch's recorded calls.

    python tools/check_operators.py [--ops PATTERN ...] [--every N --start K] [--log FILE]

For each overload that the recordings of `conformance/` call, one call (``--samples`` more) is the
sample that inputs are derived from. ``--every N --start K`` takes the overloads K, K + N, K + 2 N
...: those of all K from 0 to N - 1 are all. No overload takes more than ``--budget`` seconds of the
processor. With ``--log`` each report is kept as a line of JSON, and overloads that have one are not
checked again: a run that was stopped goes on, and what was mended is checked again after
``--again`` (those with a finding). Progress and an estimate go to stderr.

Prints findings, counts by property, and how many properties were tried on how many inputs; the exit
status says whether there was a finding. `make verify` runs all overloads by way of
`tools/verify/operators.py`, the tests a sample.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from check_batching import cases
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import DispatchState, node_observers, tls
from maquette.opcheck import OpReport
from maquette.opcheck.operators import checked
from maquette.opcheck.running import Limits, examine
from maquette.tensor.storage import OBSERVERS

# Where a property does not hold in PyTorch either, or an operator is not what the property is
# about: beginnings of (operator, property), and why.
APART: dict[tuple[str, str], str] = {
    ("aten::repeat_interleave.self_Tensor", "fake.accepts"): "output_size is a promise about data",
    ("aten::instance_norm", "writes.undeclared"): "its schema does not say so in PyTorch either",
    ("aten::batch_norm", "writes.undeclared"): "its schema does not say so in PyTorch either",
    (
        "aten::native_batch_norm",
        "writes.undeclared",
    ): "its schema does not say so in PyTorch either",
    ("aten::native_batch_norm", "vmap.values"): "its schema does not say what is written",
    ("aten::batch_norm", "vmap.values"): "its schema does not say what is written",
    ("aten::instance_norm", "vmap.values"): "its schema does not say what is written",
    ("aten::convolution", "vmap.values"): "PyTorch has no groups for an empty batch of weights",
    ("aten::embedding_dense_backward", "decomposition."): "its kernel skips absent rows",
    ("aten::index_add", "decomposition."): "an alpha of float for integers is refused there",
    ("aten::index_put", "derivative."): "of repeated indices the last wins, all get a gradient",
    ("aten::logspace", "decomposition."): "out of one element keeps its shape, as in PyTorch",
    ("aten::native_layer_norm", "fake.meta"): "statistics are float32 on other devices than cpu",
    ("aten::nextafter", "derivative."): "PyTorch's gradient is 0",
    ("aten::softshrink", "derivative."): "on the border PyTorch's gradient is 0",
    ("aten::_fft_r2c", "derivative."): "a dim given twice, which the functions above it refuse",
    ("aten::unsafe_", "aliases.undeclared"): "unsafe_split hides its views, as its name says",
    ("aten::fft_", "symbolic.fixed size"): "a size is compared with the one that is asked for",
    ("aten::linear", "calls.layout"): "PyTorch refuses other ill-formed calls by layout, too",
    ("aten::linalg_cholesky", "derivative."): "a symmetric matrix is meant; one half is read",
    ("aten::cholesky", "derivative."): "a symmetric matrix is meant; one half is read",
    ("aten::linalg_eigh", "derivative."): "a symmetric matrix is meant; one half is read",
    ("aten::_linalg_eigh", "derivative."): "a symmetric matrix is meant; one half is read",
    ("aten::embedding", "derivative."): "the row of padding_idx has no gradient",
    ("aten::_unsafe_masked_index", "derivative."): "it is called with masks that fit its indices",
    ("aten::as_strided", "vmap."): "it looks at memory, of which a batch has another",
    ("aten::as_strided", "calls."): "it looks at memory, which a copy has otherwise",
    ("aten::max_unpool", "derivative."): "of repeated indices the last wins, all get a gradient",
    ("aten::index_copy", "derivative."): "of repeated indices the last wins, all get a gradient",
    ("aten::scatter", "derivative."): "of repeated indices the last wins, all get a gradient",
    ("aten::as_strided_scatter", "derivative."): "PyTorch's gradient, as its docstring says",
    ("aten::linalg_eig", "derivative."): "a symmetric matrix is meant; one half is read",
    ("aten::ctc_loss", "derivative."): "log-probabilities are meant: the gradient is of logits",
    ("aten::_ctc_loss", "derivative."): "log-probabilities are meant: the gradient is of logits",
    ("aten::log_sigmoid_backward", "decomposition."): "its buffer is of one forward call",
    ("aten::polar", "derivative."): "at an absolute value of 0 PyTorch's gradient is 0",
    ("aten::_fft_c2r", "derivative."): "the last size is one that half a spectrum has",
    ("aten::_unsafe_view", "aliases.undeclared"): "it hides its view, as its name says",
    ("aten::lift", "aliases.undeclared"): "it gives its argument; PyTorch's schema does not say so",
    ("aten::soft_margin_loss", "derivative."): "PyTorch has no derivative by its target",
    ("aten::fft_ihfftn.out", ""): "out of no dims is not written at all, as in PyTorch",
    ("aten::std", "derivative.second"): "of no elements all is NaN, and what it is divided by",
    ("aten::var_mean", "derivative.second"): "of no elements all is NaN, and its mean",
    ("aten::view.dtype", "vmap."): "elements of another size need the last stride to be 1",
    ("aten::cov", "fake.reads data"): "weights are checked by value, in PyTorch's fakes too",
    ("aten::is_nonzero", "fake.reads data"): "its result is of data",
    ("aten::narrow.Tensor", "fake.reads data"): "where it starts is data",
    ("aten::tensor_split.tensor_indices", "fake.reads data"): "where it splits is data",
    ("aten::_adaptive_avg_pool", "derivative."): "PyTorch has none of a pool without elements",
    ("aten::adaptive_avg_pool", "derivative."): "PyTorch has none of a pool without elements",
    ("aten::adaptive_max_pool", "derivative."): "PyTorch has none of a pool without elements",
    ("aten::_linalg_eigh", "traced."): "PyTorch has no gradient without eigenvectors either",
    ("aten::_linalg_svd", "derivative."): "PyTorch has no gradient without vectors either",
    ("aten::_trilinear", "derivative."): "a dim that is expanded and summed; PyTorch's fails too",
    ("aten::_unsafe_masked_index", "decomposition."): "negative indices are meant to be masked",
    ("aten::addcdiv.out", "decomposition."): "an out of another shape gets strides of its own",
    ("aten::addcmul.out", "decomposition."): "an out of another shape gets strides of its own",
    ("aten::linspace.Tensor_Tensor_out", "decomposition."): "out of one element keeps its shape",
    ("aten::diagonal_backward", "symbolic.fixed size"): "it is compared with the diagonal's size",
    ("aten::embedding_bag", "traced."): "PyTorch fakes know no gradient of bags by data either",
    ("aten::igamma", "traced."): "PyTorch has no derivative by its first argument",
    ("aten::special_zeta", "traced."): "PyTorch has no derivative by its first argument",
    ("aten::kron", "derivative.saved"): "PyTorch saves views of numbers unseen, too",
    ("aten::linalg_eig", "traced."): "the check's loss depends on the phase of eigenvectors",
    ("aten::lu_unpack", "derivative."): "PyTorch has no gradient where data are not unpacked",
    ("aten::lu_unpack", "traced."): "PyTorch has no gradient where data are not unpacked",
    (
        "aten::nll_loss",
        "decomposition.",
    ): "PyTorch's kernels take targets of uint8, gather does not",
    ("aten::nanmean", "derivative.second"): "of no elements all is NaN, and what it is divided by",
    ("aten::poisson_nll_loss", "derivative."): "at a target of 0 PyTorch's gradient is NaN",
    (
        "aten::_histogramdd_from_bin_tensors",
        "symbolic.fixed size",
    ): "as many columns as there are tensors of bins",
    ("aten::istft", "symbolic.fixed size"): "frequencies are compared with those of n_fft",
    ("aten::_unsafe_masked_index", "traced."): "it is called with masks that fit its indices",
    ("aten::addbmm", "vmap.values"): "a batch is rounded to bfloat16 after each step",
    ("aten::layer_norm", "vmap.values"): "the eps of the record, -0.5, magnifies bfloat16's steps",
    (
        "aten::native_layer_norm",
        "vmap.values",
    ): "the eps of the record, -0.5, magnifies bfloat16's steps",
    ("aten::grid_sampler_3d", "derivative."): "on the border PyTorch's gradient is 0",
    ("aten::linalg_lstsq", "vmap."): "in a batch of none what is not given looks like numbers",
    ("aten::linalg_det", "derivative.tangent"): "by A^-1: of a singular matrix NaN, PyTorch's 0",
    ("aten::_unsafe_view", "vmap.values"): "a batch of none leaves -1 open, as in PyTorch",
    ("aten::lu_unpack", "vmap."): "in a batch of none what is not given looks like numbers",
    ("aten::max_pool", "derivative."): "of padding alone PyTorch's index is of no element",
    ("aten::mish_backward", "decomposition."): "of integers the second step has no kernel",
    ("aten::pinverse", "derivative."): "a constant rank is meant; rcond may cut one off",
    ("aten::renorm", "derivative."): "PyTorch's gradient is NaN where the norm overflows",
    ("aten::soft_margin_loss", "decomposition."): "its kernel's exp is float16's, as in PyTorch",
    ("aten::elu_backward", "decomposition."): "as PyTorch's it takes NaN for a positive number",
    ("aten::svd", "derivative."): "what is left of U depends on the phase of its vectors",
    ("aten::upsample_linear1d", "decomposition."): "PyTorch's copies a kept size, it multiplies",
    ("aten::std_mean", "decomposition."): "squares of large numbers pass the range of float32",
}


# Inputs that are meant, where a number makes work without bounds.
MEANT: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], bool]] = {
    "aten::tensor_split.sections": lambda args, kwargs: _at_most(1000, args),
    "aten::?split.int": lambda args, kwargs: _at_most(1000, args),
    "aten::combinations": lambda args, kwargs: len(args) < 2 or args[1] <= 4,
    # A recurrence of so many steps.
    "aten::special_*polynomial*": lambda args, kwargs: _at_most(1000, args),
}


def _at_most(most: float, args: Sequence[Any]) -> bool:
    return all(abs(a) <= most for a in args if isinstance(a, (int, float)))


def meant(operator: str) -> Callable[[tuple[Any, ...], dict[str, Any]], bool] | None:
    """Which inputs of an operator are meant; None for all."""
    found = [where for pattern, where in MEANT.items() if fnmatch.fnmatch(operator, pattern)]
    return found[0] if found else None


class Options(NamedTuple):
    """What is checked, and how long."""

    patterns: Sequence[str] = ()
    every: int = 1
    start: int = 0
    samples: int = 1
    properties: str | Sequence[str] = "ALL"
    limits: Limits = Limits(40, 2.0, 0)
    budget_s: float = 30.0


class Call(NamedTuple):
    """A recorded call of an overload; ``key`` tells it from others in a log."""

    key: str
    op: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]


def is_apart(operator: str, property: str) -> bool:
    """Whether a finding is one of those that are known and explained."""
    if "_backward" in operator and property.startswith("derivative."):
        return True  # its arguments belong to one forward call; derived ones do not
    return any(operator.startswith(o) and property.startswith(p) for o, p in APART)


def calls(options: Options) -> list[Call]:
    """The calls that are the samples of the chosen overloads."""
    seen: Counter[str] = Counter()
    chosen: list[Call] = []
    # One sample: the first call of each overload, so that no other is made.
    every = sys.maxsize if options.samples == 1 else 1
    for name, op, args, kwargs in cases(options.patterns, every):
        if Tag.data_dependent_output in op.tags:
            continue
        seen[name] += 1
        number = len(seen) - 1
        if seen[name] <= options.samples and number % options.every == options.start:
            chosen.append(Call(f"{name}#{seen[name]}", op, args, kwargs))
    return chosen


def report_of(call: Call, options: Options) -> OpReport:
    """The report of one call, within its budget; what kept it from ending is among its errors."""
    target = checked(call.op)
    failed = OpReport(target.name, str(target.schema), "", options.limits.seed)
    try:
        with put_back(), at_most(options.budget_s):
            return examine(
                target,
                call.args,
                call.kwargs,
                properties=options.properties,
                where=meant(target.name),
                limits=options.limits,
            )
    except OutOfBudget:
        failed.errors["examine"] = f"not done after {options.budget_s:.0f} s of the processor"
    except Exception as error:  # noqa: BLE001  # told, and the others are checked
        failed.errors["examine"] = f"{type(error).__name__}: {error}"
    return failed


class OutOfBudget(BaseException):
    """The time of one overload is over; no check takes it for an operator's refusal."""


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    """After `OutOfBudget` the thread is as it was: it may strike while a mode begins or ends."""
    st = tls.st
    watchers: list[list[Any]] = [OBSERVERS, node_observers]
    before = {name: getattr(st, name) for name in DispatchState.__slots__}
    stacks = {name: list(held) for name, held in before.items() if isinstance(held, list)}
    seen = [list(held) for held in watchers]
    try:
        yield
    except OutOfBudget:
        for name, held in (before | stacks).items():
            setattr(st, name, held)
        for watching, held in zip(watchers, seen, strict=True):
            watching[:] = held
        raise


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """`OutOfBudget` after so much time of the processor, or ten times as much on the wall."""

    def over(number: int, frame: object) -> None:
        raise OutOfBudget

    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def memory_of(gib: float) -> Iterator[None]:
    """A call that wants more memory is refused, as on a machine that has no more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(gib * 2**30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# --- the log ------------------------------------------------------------------------------------


def logged(path: Path | None) -> dict[str, OpReport]:
    """The reports of a log, by key; the last of each."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["key"]: OpReport.from_json(json.dumps(line["report"])) for line in lines}


def reports(
    options: Options, log: Path | None = None, *, again: bool = False
) -> Iterator[OpReport]:
    """A report for each sample of each chosen overload, those that a log has from there."""
    chosen, known = calls(options), logged(log)
    if again:
        known = {key: r for key, r in known.items() if not has_findings(r)}
    started, done, left = time.perf_counter(), 0, sum(c.key not in known for c in chosen)
    for call in chosen:
        if call.key in known:
            yield known[call.key]
            continue
        report = report_of(call, options)
        if log is not None:
            with log.open("a") as file:
                file.write(json.dumps({"key": call.key, "report": report.to_dict()}) + "\n")
        done += 1
        passed = time.perf_counter() - started
        if done % 25 == 0:
            text = f"{done} of {left} overloads in {passed:.0f} s"
            text += f", about {passed / done * (left - done):.0f} s to go"
            print(text, file=sys.stderr, flush=True)
        yield report


def has_findings(report: OpReport) -> bool:
    """Whether a report has a finding that is not explained, or a check that failed itself."""
    unexplained = [f for f in report.findings if not is_apart(report.operator, f.property)]
    return bool(unexplained or report.errors)


def main(argv: Sequence[str] | None = None) -> int:
    """Print findings and counts; 1 where there is a finding that is not explained."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ops", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth overload")
    parser.add_argument("--start", type=int, default=0, metavar="K", help="from the Kth, K < N")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help="calls an overload")
    parser.add_argument("--properties", default="ALL", metavar="P,...")
    parser.add_argument("--inputs", type=int, default=40, metavar="N", help="inputs a call")
    parser.add_argument("--deadline", type=float, default=2.0, metavar="S", help="seconds a call")
    parser.add_argument("--budget", type=float, default=30.0, metavar="S", help="at the very most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=100, metavar="N", help="findings in full")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep reports; go on from them")
    parser.add_argument("--again", action="store_true", help="check what has findings anew")
    parser.add_argument("--memory", type=float, default=6.0, metavar="GiB", help="address space")
    given = parser.parse_args(argv)
    if not 0 <= given.start < given.every:
        parser.error(f"expected 0 <= start < every, got {given.start} and {given.every}")
    names = "ALL" if given.properties == "ALL" else given.properties.split(",")
    limits = Limits(given.inputs, given.deadline, given.seed)
    options = Options(
        given.ops, given.every, given.start, given.samples, names, limits, given.budget
    )
    with memory_of(given.memory):
        return summary(reports(options, given.log, again=given.again), given.show)


def summary(found: Iterable[OpReport], shown: int) -> int:
    """Print what reports say as they come, then counts."""
    started = time.perf_counter()
    totals: Counter[str] = Counter()
    by_property: Counter[str] = Counter()
    operators = set()
    for report in found:
        operators.add(report.operator)
        totals["inputs"] += report.inputs
        totals["checks"] += report.checks
        for name, text in report.errors.items():
            totals["failed"] += 1
            print(f"{report.operator}: {name} failed itself: {text}"[:200], flush=True)
        for finding in report.findings:
            if is_apart(report.operator, finding.property):
                totals["explained"] += 1
                continue
            totals["findings"] += 1
            by_property[finding.property] += 1
            if totals["findings"] <= shown:
                print(
                    f"{report.operator}: {finding.property}: {finding.input}\n"
                    f"    expected {finding.expected}\n    got {finding.got}"[:600],
                    flush=True,
                )
    for name, count in by_property.most_common():
        print(f"{count:5} {name}")
    failed = f", {totals['failed']} checks failed themselves" if totals["failed"] else ""
    print(
        f"{len(operators)} overloads, {totals['inputs']:,} inputs, {totals['checks']:,} properties "
        f"tried; {totals['findings']} findings, {totals['explained']} explained{failed}; "
        f"{time.perf_counter() - started:.0f} s"
    )
    return int(bool(totals["findings"] or totals["failed"]))


if __name__ == "__main__":
    sys.exit(main())
