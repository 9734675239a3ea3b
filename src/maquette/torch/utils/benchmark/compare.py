"""`Compare`: tables of measurements, with rows by second label and columns by description."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Iterable

from maquette.torch.utils.benchmark.common import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

_BEST, _GOOD = "\033[92m", "\033[34m"
_BAD, _VERY_BAD = "\033[2m\033[91m", "\033[31m"
_BOLD, _END = "\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """What a time is coloured by: nothing, its column, its row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements, one for each label; of a task's several, all times are one."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def __str__(self) -> str:
        return "\n".join(self._tables())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements; ValueError for what is none."""
        found = list(results)
        for result in found:
            if not isinstance(result, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
        self._results.extend(found)

    def trim_significant_figures(self) -> None:
        """Write no more digits than the times' spread leaves sure."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour times by how they compare within their column, or row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark times whose spread is large with "(! XX%)"."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Print the tables."""
        sys.stdout.write(f"{self}\n")

    def _tables(self) -> list[str]:
        merged = Measurement.merge(self._results)
        labels = ordered_unique(m.task_spec.label for m in merged)
        return [self._table([m for m in merged if m.task_spec.label == label]) for label in labels]

    def _table(self, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(m.median for m in results))
        columns = ordered_unique(m.task_spec.description for m in results)
        envs = ordered_unique(m.task_spec.env for m in results)
        rows = ordered_unique(
            (m.task_spec.num_threads, m.task_spec.env, m.as_row_name) for m in results
        )
        rows.sort(key=lambda row: row[0])
        at = {
            (m.task_spec.num_threads, m.task_spec.env, m.as_row_name, m.task_spec.description): m
            for m in results
        }
        grid = [[at.get((*row, column)) for column in columns] for row in rows]
        texts = self._column_texts(grid, columns, scale)
        names = [f"({env})  {name}" if len(envs) > 1 else f"{name}" for _, env, name in rows]
        return self._laid_out(results, columns, rows, names, texts, grid, unit)

    def _column_texts(
        self, grid: list[list[Measurement | None]], columns: list[str | None], scale: float
    ) -> list[list[str]]:
        texts: list[list[str]] = [[] for _ in grid]
        for j, column in enumerate(columns):
            found = [self._number(line[j], scale) for line in grid]
            places = 1 if not self._trim_significant_figures else self._places(grid, j, scale)
            written = ["" if v is None else f"{v:.{places}f}" for v in found]
            marks = [self._mark(line[j]) for line in grid]
            cells = [w + m for w, m in zip(written, marks, strict=True)]
            width = max(len(column or ""), *(len(cell) for cell in cells))
            for line, cell in zip(texts, cells, strict=True):
                line.append(cell.rjust(width) if cell else "".center(width))
        return texts

    def _number(self, m: Measurement | None, scale: float) -> float | None:
        if m is None:
            return None
        value = m.median / scale
        return (
            trim_sigfig(value, m.significant_figures) if self._trim_significant_figures else value
        )

    def _places(self, grid: list[list[Measurement | None]], column: int, scale: float) -> int:
        measured = [line[column] for line in grid]
        return min(
            max(m.significant_figures - math.ceil(math.log10(m.median / scale)), 0)
            for m in measured
            if m is not None
        )

    def _mark(self, m: Measurement | None) -> str:
        if m is None or not (self._highlight_warnings and m.has_warnings):
            return ""
        return f" (! {m.iqr / m.median * 100:.0f}%)"

    def _laid_out(
        self,
        results: list[Measurement],
        columns: list[str | None],
        rows: list[tuple[int, str | None, str]],
        names: list[str],
        texts: list[list[str]],
        grid: list[list[Measurement | None]],
        unit: str,
    ) -> str:
        widths = [len(text) for text in texts[0]]
        heads = [(c or "").center(w) for c, w in zip(columns, widths, strict=True)]
        left = max(len(name) for name in names) + 6
        total = left + sum(widths) + 5 * len(widths)
        title = f" {results[0].task_spec.label or ''} "
        lines = [f"[{title.center(total - 2, '-')}]", "  |  ".join([" " * left, *heads])]
        threads: int | None = None
        for row, name, cells, measured in zip(rows, names, texts, grid, strict=True):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(total, "-"))
            shown = self._coloured(cells, measured, grid)
            lines.append("  |  ".join([f"      {name}".ljust(left), *shown]))
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._highlight_warnings and any(self._mark(m) for line in grid for m in line):
            lines.append(
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            )
        return "\n".join(lines) + "\n"

    def _coloured(
        self,
        cells: list[str],
        measured: list[Measurement | None],
        grid: list[list[Measurement | None]],
    ) -> list[str]:
        if self._colorize is Colorize.NONE:
            return cells
        shown = []
        for j, (cell, m) in enumerate(zip(cells, measured, strict=True)):
            peers = measured if self._colorize is Colorize.ROWWISE else [line[j] for line in grid]
            best = min((p.median for p in peers if p is not None), default=None)
            shown.append(cell if m is None or best is None else _colour(m.median / best)(cell))
        return shown


def _colour(ratio: float) -> Callable[[str], str]:
    if ratio <= 1.05:
        return lambda text: f"{_BEST}{_BOLD}{text}{_END}{_END}"
    if ratio <= 1.25:
        return lambda text: f"{_GOOD}{text}{_END}"
    if ratio < 1.5:
        return lambda text: text
    shade = _VERY_BAD if ratio < 2 else _BAD
    return lambda text: f"{shade}{text}{_END}{_END if shade == _BAD else ''}"
