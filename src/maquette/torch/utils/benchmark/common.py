"""Measurements: times of a statement, what was measured, and how sure one can be of them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from maquette.torch.settings import get_num_threads, set_num_threads

# Below this share of the median between the quartiles, times are trusted; beyond, one is warned.
_WARN_ABOVE, _LOUDLY_ABOVE = 0.1, 0.25
_MIN_CONFIDENCE = 1  # digits that a number of times cannot take away
_UNITS = ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
# How far from a normal distribution times are, as PyTorch counts it.
_NORMAL_IQR = 1.349
_LEAST_SPREAD = 0.005  # of the median: equal times are no proof of more than three digits


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured: the statements, what they are called, and with how many threads."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement itself, with the second label."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{_indented(self.stmt)}"

    def setup_str(self) -> str:
        """The preparing statement, unless there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """What was measured, in some lines."""
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        sections = [self.title, self.description or "", self.setup_str(), threads]
        return "\n".join(section for section in sections if section)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a statement in seconds, each of ``number_per_run`` runs; prints its median."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        spec = vars(self).get("task_spec")
        if spec is None or not hasattr(spec, name):
            raise AttributeError(f"Measurement has no attribute {name!r}")
        return getattr(spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, by measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median in seconds; ValueError without a time."""
        return statistics.median(self._some())

    @property
    def mean(self) -> float:
        """The mean in seconds; ValueError without a time."""
        return statistics.fmean(self._some())

    @property
    def iqr(self) -> float:
        """The seconds between the quartiles."""
        return _quantile(self._some(), 0.75) - _quantile(self._some(), 0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median the spread of the times leaves sure: one or more."""
        times = self._some()
        # From the quartiles: they are robust, where a maximum would be an outlier.
        sigma = max(self.iqr / _NORMAL_IQR / math.sqrt(len(times)), _LEAST_SPREAD * self.median)
        return max(_MIN_CONFIDENCE, 1 + math.floor(math.log10(self.median / sigma)))

    @property
    def has_warnings(self) -> bool:
        """Whether times vary so much that they say little."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _WARN_ABOVE) -> bool:
        """Whether the quartiles are closer than this share of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was measured, by name."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Where it was measured, as the task says."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """What the row of a table is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def _some(self) -> list[float]:
        times = self.times
        if not times:
            raise ValueError("the measurement has no times")
        return times

    def __repr__(self) -> str:
        lines = [object.__repr__(self), self.task_spec.summarize().rpartition("\n")[0]]
        times = self.times
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        if len(times) < 2:
            lines.append(f"  {_text(self.median)}")
            lines.append(f"  1 measurement, {self.number_per_run} runs , {threads}")
            return "\n".join(line for line in lines if line)
        lines.append(f"  Median: {_text(self.median)}")
        if len(times) >= 4:
            unit, scale = select_unit(self.median)
            low, high = (_quantile(times, q) / scale for q in (0.25, 0.75))
            lines.append(f"  IQR:    {high - low:.2f} {unit} ({low:.2f} to {high:.2f})")
        runs = f"{self.number_per_run} runs per measurement"
        lines.append(f"  {len(times)} measurements, {runs}, {threads}")
        if self.has_warnings:
            lines.append(self._warning())
        return "\n".join(line for line in lines if line)

    def _warning(self) -> str:
        share = self.iqr / self.median * 100
        told = "This could indicate system fluctuation."
        if share / 100 > _LOUDLY_ABOVE:
            told = "This suggests significant environmental influence."
        said = f"  WARNING: Interquartile range is {share:.1f}% of the median measurement."
        return f"{said}\n           {told}"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of all its times."""
        by_task: dict[TaskSpec, list[Measurement]] = {}
        for each in measurements:
            by_task.setdefault(each.task_spec, []).append(each)
        return [
            Measurement(1, [t for each in group for t in each.times], task)
            for task, group in by_task.items()
        ]


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _text(seconds: float) -> str:
    unit, scale = select_unit(seconds)
    return f"{seconds / scale:.2f} {unit}"


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which to write a time, and its seconds: ("us", 1e-6)."""
    power = math.floor(math.log10(t) / 3) if t > 0 else 0
    return _UNITS[min(max(power, -3), 0) + 3]


def unit_to_english(u: str) -> str:
    """The name of a unit: "us" is a microsecond."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number rounded to ``n`` digits."""
    if x == 0:
        return 0.0
    return round(x, n - 1 - math.floor(math.log10(abs(x))))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, as they came."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A block with this number of threads."""
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
