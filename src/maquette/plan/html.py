"""A plan as one page for a browser: no network, no other file. The page itself is in `page/`.

The chart is drawn by uPlot, vendored with its licence. What is here packs a plan into columns that
the page's script unpacks: numbers of operators, storages and their events, each text once.
"""

from __future__ import annotations

import html
import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from maquette.core.version import version
from maquette.plan.recorder import Operation
from maquette.plan.report import bytes_text, count_text

if TYPE_CHECKING:
    from maquette.plan.plan import Plan

_PAGE = pathlib.Path(__file__).parent / "page"


@dataclass(frozen=True)
class WhatIf:
    """Other ways to run the step, as the page shows them: columns, rows of text, notes below.

    about: what the numbers are of, if not of the step that the page shows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    about: str = ""


def page(plan: Plan, title: str = "plan", what_if: WhatIf | None = None) -> str:
    """The whole page as text."""
    parts = {
        "title": html.escape(title),
        "what_if": "" if what_if is None else _what_if(what_if),
        "version": version(),
        "css": _read("page.css"),
        "js": _read("page.js"),
        "uplot_css": _read("uplot/uPlot.min.css"),
        "uplot_js": _read("uplot/uPlot.iife.min.js"),
        # "</" would end the script element that holds the data.
        "data": json.dumps(_data(plan), separators=(",", ":")).replace("</", "<\\/"),
    }
    text = _read("page.html")
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def _what_if(found: WhatIf) -> str:
    """The section of other ways: a table whose rows are named by their first cell."""
    head = "".join(_cell("th", i, text, "col") for i, text in enumerate(found.columns))
    rows = "".join(f"<tr>{_way(row)}</tr>" for row in found.rows)
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in found.notes)
    about = f'<p class="hint">{html.escape(found.about)}</p>' if found.about else ""
    return f"""<section aria-labelledby="ways-h">
    <h2 id="ways-h">Ways to need less</h2>{about}
    <div class="scroll" tabindex="0" role="region" aria-label="Table of other ways">
      <table id="ways"><caption class="away">Options, and what the step needs with each</caption>
        <thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>
    </div>
    <ul>{notes}</ul>
  </section>""".replace("<ul></ul>", "")


def _way(row: Sequence[str]) -> str:
    return "".join(_cell("td" if i else "th", i, text, "row") for i, text in enumerate(row))


def _cell(kind: str, at: int, text: str, scope: str) -> str:
    named = f' scope="{scope}"' if kind == "th" else ""
    number = ' class="n"' if at else ""
    return f"<{kind}{named}{number}>{html.escape(text)}</{kind}>"


def embedded(text: str, height: int = 900) -> str:
    """A page within another: what a notebook shows."""
    source = html.escape(text, quote=True)
    return f'<iframe srcdoc="{source}" width="100%" height="{height}" title="plan"></iframe>'


def _read(name: str) -> str:
    return (_PAGE / name).read_text("utf-8")


class _Texts:
    """Texts by number, each kept once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))

    def numbers(self, texts: Iterable[str]) -> list[int]:
        return [self.number(text) for text in texts]

    @property
    def listed(self) -> list[str]:
        return list(self.known)


def _data(plan: Plan) -> dict[str, object]:
    names, modules, lines, phases, categories = (_Texts() for _ in range(5))
    operators = plan.operators
    places = {a.storage: i for i, a in enumerate(plan.allocations)}
    kinds = categories.numbers(plan.category(a) for a in plan.allocations)
    return {
        "summary": _summary(plan),
        "notes": plan.notes,
        "operators": {
            "name": names.numbers(o.name for o in operators),
            "module": modules.numbers(o.place.module for o in operators),
            "line": lines.numbers(o.place.line for o in operators),
            "phase": phases.numbers(o.phase for o in operators),
            "flops": [o.flops for o in operators],
        },
        "names": names.listed,
        "modules": modules.listed,
        "lines": lines.listed,
        "phases": phases.listed,
        "categories": categories.listed,
        "allocations": {
            "category": kinds,
            "made": [-1 if plan.maker(a) is None else a.made_by for a in plan.allocations],
            "name": [a.name for a in plan.allocations],
        },
        "events": {
            "op": [number for number, _, _ in plan.events],
            "allocation": [places[storage] for _, storage, _ in plan.events],
            "bytes": [nbytes for _, _, nbytes in plan.events],
        },
        "tree": [asdict(row) for row in plan.by_module()],
        "table": _table(operators),
    }


def _summary(plan: Plan) -> list[tuple[str, str, str]]:
    where = plan.peak_operation
    reached = "" if where is None else f"{where.name} ({where.phase})"
    at = "" if where is None else f"{where.place.module or '(model)'} {where.place.line}"
    phases = ", ".join(f"{k} {count_text(v)}" for k, v in plan.flops_by_phase.items())
    return [
        ("peak memory", bytes_text(plan.peak_bytes), f"{plan.peak_bytes:,} bytes"),
        ("reached in", reached, at),
        ("parameters", count_text(plan.parameters), bytes_text(plan.parameter_bytes)),
        ("FLOPs", count_text(plan.flops), phases),
        ("operators", f"{len(plan.operators):,}", ""),
    ]


def _table(operators: list[Operation]) -> list[tuple[str, int, int, int]]:
    calls: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for o in operators:
        calls[o.name] += 1
        flops[o.name] += o.flops
        moved[o.name] += o.bytes_moved
    return [(name, calls[name], flops[name], moved[name]) for name in calls]
