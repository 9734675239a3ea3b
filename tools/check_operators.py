"""Hold maquette's own operators to opcheck's properties, on PyTorch's recorded calls.

    python tools/check_operators.py [--ops PATTERN ...] [--every N] [--properties P,...] [--show N]

For each overload that the recordings of `conformance/` call, one call (``--samples`` more) is the
sample that inputs are derived from. Prints findings by property, and how many properties were tried
on how many inputs; the exit status says whether there was a finding. `make verify` runs all
overloads by way of `tools/verify/operators.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from check_batching import cases
from maquette.dispatch.tags import Tag
from maquette.opcheck import OpReport
from maquette.opcheck.operators import checked
from maquette.opcheck.running import Limits, examine

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
    ("aten::fft_ihfftn.out", "twins.functional"): "one element keeps its shape, as in PyTorch",
    ("aten::cov", "fake.reads data"): "weights are checked by value, in PyTorch's fakes too",
    ("aten::is_nonzero", "fake.reads data"): "its result is of data",
    ("aten::narrow.Tensor", "fake.reads data"): "where it starts is data",
}


class Options(NamedTuple):
    """What is checked, and how long."""

    patterns: Sequence[str] = ()
    every: int = 1
    samples: int = 1
    properties: str | Sequence[str] = "ALL"
    limits: Limits = Limits(40, 2.0, 0)


def is_apart(operator: str, property: str) -> bool:
    """Whether a finding is one of those that are known and explained."""
    if "_backward" in operator and property.startswith("derivative."):
        return True  # its arguments belong to one forward call; derived ones do not
    return any(operator.startswith(o) and property.startswith(p) for o, p in APART)


def reports(options: Options) -> Iterator[OpReport]:
    """A report for each sample of each chosen overload."""
    seen: Counter[str] = Counter()
    number = 0
    # One sample: the first call of each overload, so that no other is made.
    every = sys.maxsize if options.samples == 1 else 1
    for name, op, args, kwargs in cases(options.patterns, every):
        seen[name] += 1
        if seen[name] == 1:
            number += 1
        if seen[name] > options.samples or (number - 1) % options.every:
            continue
        if Tag.data_dependent_output in op.tags:
            continue
        target = checked(op)
        try:
            yield examine(
                target, args, kwargs, properties=options.properties, limits=options.limits
            )
        except Exception as error:  # noqa: BLE001  # told, and the others are checked
            report = OpReport(target.name, str(target.schema), "", 0)
            report.errors["examine"] = f"{type(error).__name__}: {error}"
            yield report


def main(argv: Sequence[str] | None = None) -> int:
    """Print findings and counts; 1 where there is a finding that is not explained."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ops", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth overload")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help="calls an overload")
    parser.add_argument("--properties", default="ALL", metavar="P,...")
    parser.add_argument("--inputs", type=int, default=40, metavar="N", help="inputs a call")
    parser.add_argument("--deadline", type=float, default=2.0, metavar="S", help="seconds a call")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=100, metavar="N", help="findings in full")
    given = parser.parse_args(argv)
    names = "ALL" if given.properties == "ALL" else given.properties.split(",")
    limits = Limits(given.inputs, given.deadline, given.seed)
    options = Options(given.ops, given.every, given.samples, names, limits)
    return summary(reports(options), given.show)


def summary(found: Iterator[OpReport], shown: int) -> int:
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
            totals["checks that failed themselves"] += 1
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
    print(
        f"{len(operators)} overloads, {totals['inputs']:,} inputs, {totals['checks']:,} properties "
        f"tried; {totals['findings']} findings, {totals['explained']} explained; "
        f"{time.perf_counter() - started:.0f} s"
    )
    return int(bool(totals["findings"]))


if __name__ == "__main__":
    sys.exit(main())
