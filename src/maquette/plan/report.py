"""A plan as a person reads it: tables and a sparkline, at most 100 columns wide.

Only drawing is here; every number comes from `plan.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maquette.plan.allocator import DeviceMemory
from maquette.plan.compare import Change
from maquette.plan.roofline import Accelerator, Bound, shown_by_driver

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from maquette.plan.closed_form import ClosedForm
    from maquette.plan.plan import Held, ModuleRow, Plan

BARS = "▁▂▃▄▅▆▇█"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = ("", "K", "M", "G", "T", "P", "E")


def bytes_text(nbytes: int) -> str:
    """Bytes in binary units: ``1.50 GiB``."""
    value, unit = float(nbytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{nbytes} B" if unit == 0 else f"{value:.2f} {_UNITS[unit]}"


def count_text(count: int) -> str:
    """A count in powers of a thousand: ``124.4 M``."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_COUNTS) - 1:
        value, unit = value / 1000, unit + 1
    return str(count) if unit == 0 else f"{value:.1f} {_COUNTS[unit]}"


def sparkline(timeline: list[tuple[int, int]], width: int = 80) -> str:
    """Bytes in use over the step, the largest of each of ``width`` stretches of the program."""
    if not timeline:
        return ""
    end = max(timeline[-1][0], 1)
    peaks = [0] * width
    level = 0
    filled = -1
    for number, nbytes in timeline:
        at = min(number * width // (end + 1), width - 1)
        for gap in range(filled + 1, at):
            peaks[gap] = level
        filled = max(filled, at)
        peaks[at] = max(peaks[at], nbytes, level if peaks[at] == 0 else 0)
        level = nbytes
    top = max(peaks) or 1
    return "".join(BARS[min(p * len(BARS) // (top + 1), len(BARS) - 1)] for p in peaks)


def print_report(plan: Plan, console: Console, *, title: str, depth: int = 3) -> None:
    """Print the whole plan."""
    for part in report(plan, title=title, depth=depth, width=console.width - 4):
        console.print(part)


def text(plan: Plan, *, title: str = "plan", width: int = 100) -> str:
    """The whole report as text, ``width`` columns wide, without trailing blanks."""
    from rich.console import Console

    console = Console(width=width, highlight=False, emoji=False, color_system=None)
    with console.capture() as captured:
        print_report(plan, console, title=title)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def report(plan: Plan, *, title: str, depth: int = 3, width: int = 80) -> list[RenderableType]:
    """The parts of the report, in order."""
    from rich.markup import escape
    from rich.padding import Padding

    parts: list[RenderableType] = [f"[bold]{escape(title)}[/bold]", _summary(plan)]
    spark = sparkline(plan.timeline, max(min(80, width), 1))  # within its padding
    parts.append(f"\n[bold]Memory over the step[/bold]  (peak {bytes_text(plan.peak_bytes)})")
    parts.append(Padding(f"[cyan]{spark}[/cyan]", (0, 2)))
    parts.append(Padding(_phases_line(plan, len(spark)), (0, 2)))
    if len(plan.by_step()) > 1:
        parts.append(_steps(plan))
    parts += [_categories(plan), _largest(plan), _tree(plan, depth), _operators(plan)]
    return parts


def _table(title: str, *columns: tuple[str, str]) -> Table:
    from rich.table import Table

    table = Table(
        title=f"\n[bold]{title}[/bold]", title_justify="left", box=None, padding=(0, 2, 0, 2)
    )
    for name, justify in columns:
        table.add_column(
            name, justify="right" if justify == "right" else "left", overflow="fold", style=None
        )
    return table


def _summary(plan: Plan) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_row(
        "parameters", f"{count_text(plan.parameters)}  ({bytes_text(plan.parameter_bytes)})"
    )
    phases = ", ".join(f"{k} {count_text(v)}" for k, v in plan.flops_by_phase.items())
    table.add_row("FLOPs", f"{count_text(plan.flops)}  ({phases})")
    table.add_row("operators", f"{len(plan.operators):,}")
    table.add_row("peak memory", f"[bold]{bytes_text(plan.peak_bytes)}[/bold]")
    where = plan.peak_operation
    if where is not None:
        module = where.place.module or "(model)"
        table.add_row("reached in", f"{where.name}  ({where.phase})")
        table.add_row("", f"{module}  {where.place.line}")
    return table


def _phases_line(plan: Plan, width: int) -> str:
    """The names of the phases under the part of the sparkline that they took."""
    total = max(len(plan.operators), 1)
    line = [" "] * width
    seen: set[str] = set()
    for number, operation in enumerate(plan.operators):
        if operation.phase in seen:
            continue
        seen.add(operation.phase)
        at = min(number * width // total, width - len(operation.phase) - 1)
        for i, letter in enumerate("╵" + operation.phase):
            line[at + i] = letter
    return f"[dim]{''.join(line).rstrip()}[/dim]"


def _categories(plan: Plan) -> Table:
    table = _table("Alive at the peak", ("category", "left"), ("bytes", "right"), ("", "right"))
    for name, nbytes in plan.by_category().items():
        table.add_row(name, bytes_text(nbytes), f"{100 * nbytes / plan.peak_bytes:.1f} %")
    return table


def device_table(memory: DeviceMemory, on: Accelerator, least: Bound, items: str) -> Table:
    """What a device would hold, and the least time that it would take."""
    table = _table(f"On {on.name}", ("", "left"), ("", "right"), ("", "left"))
    driver = shown_by_driver(memory)
    fits = f"of {bytes_text(on.memory)}: {'fits' if driver <= on.memory else 'DOES NOT FIT'}"
    table.add_row("allocated", bytes_text(memory.allocated), "blocks of the caching allocator")
    share = f"{100 * memory.fragmentation:.1f} % never used, {memory.segments} segments"
    table.add_row("reserved", bytes_text(memory.reserved), share)
    table.add_row("shown by nvidia-smi", bytes_text(driver), fits)
    table.add_row("time, at the least", seconds_text(least.seconds), items)
    for name, seconds in sorted(least.binding.items(), key=lambda pair: -pair[1]):
        share = f"{100 * seconds / least.seconds:.0f} %" if least.seconds else ""
        table.add_row(f"  bound by {name}", seconds_text(seconds), share)
    table.add_row("utilisation, at most", f"{100 * least.utilisation:.0f} %", "of the peak FLOP/s")
    return table


def seconds_text(seconds: float) -> str:
    """Seconds, or milliseconds where they are few."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


def closed_form_table(form: ClosedForm) -> Table:
    """The formulas of FLOPs and peak, and where each part of the peak comes from."""
    base, away = (", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes in form.checked)
    title = f"Closed form, for multiples of {base} (proved at {away})"
    table = _table(title, ("", "left"), ("", "left"))
    table.add_row("FLOPs", str(form.flops))
    for number, region in enumerate(form.regions):
        name = "peak bytes" if len(form.regions) == 1 else "or, if more" if number else "peak bytes"
        table.add_row(name, f"{region.formula}\n[dim]{region.operator}  {region.line}[/dim]")
    return table


def changes_table(found: list[Change], count: int = 30) -> Table:
    """What changed since another plan: the first changes, which are of the whole, come first."""
    columns = (("", "left"), ("before", "right"), ("now", "right"), ("change", "right"))
    table = _table("Changes", *columns)
    for change in found[:count]:
        text = bytes_text if change.unit == "bytes" else count_text
        by = change.after - change.before
        sign = "+" if by > 0 else "-"
        rows = (text(change.before), text(change.after), f"{sign}{text(abs(by))}")
        table.add_row(change.what, *rows)
    if len(found) > count:
        table.add_row(f"[dim]and {len(found) - count} more; --json tells all[/dim]", "", "", "")
    if not found:
        table.add_row("nothing", "", "", "")
    return table


def _steps(plan: Plan) -> Table:
    columns = (("step", "right"), ("peak", "right"), ("FLOPs", "right"), ("operators", "right"))
    table = _table("Steps", *columns)
    for number, row in enumerate(plan.by_step(), start=1):
        peak, flops = bytes_text(row.peak_bytes), count_text(row.flops)
        table.add_row(str(number), peak, flops, f"{row.operators:,}")
    return table


def _largest(plan: Plan, count: int = 10) -> Table:
    table = _table(
        "Largest tensors at the peak", ("bytes", "right"), ("what", "left"), ("made by", "left")
    )
    for held in plan.held[:count]:
        table.add_row(bytes_text(held.nbytes), _what(held), _made_by(held))
    return table


def _what(held: Held) -> str:
    """The tensor's name, or where its maker says more than a name would, its category."""
    return held.category if held.category in ("activations", "temporaries") else held.name


def _made_by(held: Held) -> str:
    made = held.made_by
    if made is None:
        return f"before the step ({held.category})"
    return f"{made.name}  {made.place.module or '(model)'}  [dim]{made.place.line}[/dim]"


def _tree(plan: Plan, depth: int) -> Table:
    table = _table(
        "Modules",
        ("module", "left"),
        ("parameters", "right"),
        ("activations", "right"),
        ("FLOPs", "right"),
    )
    rows = [r for r in plan.by_module() if r.path.count(".") < depth or not r.path]
    for row, times in _folded(rows):
        level = 0 if not row.path else row.path.count(".") + 1
        name = row.path.rpartition(".")[2] or "(model)"
        repeat = f" [dim]and {times - 1} alike[/dim]" if times > 1 else ""
        table.add_row(
            f"{'  ' * level}{name} [dim]{row.kind}[/dim]{repeat}",
            bytes_text(row.parameter_bytes),
            bytes_text(row.activation_bytes),
            count_text(row.flops),
        )
    return table


def _folded(rows: list[ModuleRow]) -> list[tuple[ModuleRow, int]]:
    """Rows, with equal siblings (the layers of a stack) told once and counted."""
    children: dict[str, list[ModuleRow]] = {}
    for row in rows:
        if row.path:
            children.setdefault(row.path.rpartition(".")[0], []).append(row)
    folded: list[tuple[ModuleRow, int]] = []

    def add(row: ModuleRow, times: int) -> None:
        folded.append((row, times))
        kinds: dict[tuple[str, int], list[ModuleRow]] = {}
        for child in children.get(row.path, []):
            name = child.path.rpartition(".")[2]
            key = (child.kind, child.parameters) if name.isdigit() else (child.path, 0)
            kinds.setdefault(key, []).append(child)
        for group in kinds.values():
            add(group[0], len(group))

    for row in rows:
        if not row.path:
            add(row, 1)
    return folded


def _operators(plan: Plan, count: int = 12) -> Table:
    table = _table("Operators", ("overload", "left"), ("calls", "right"), ("FLOPs", "right"))
    rows = plan.operator_counts()
    for name, calls, flops in rows[:count]:
        table.add_row(name, f"{calls:,}", count_text(flops))
    if len(rows) > count:
        table.add_row(f"[dim]and {len(rows) - count} more[/dim]", "", "")
    return table
