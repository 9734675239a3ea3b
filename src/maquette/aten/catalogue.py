"""PyTorch's aten operators by name, so that a missing one can be explained.

`catalogue.txt` holds the schemas of the overloads that PyTorch's own operator database reaches
(a test compares it with the recordings). It is read when an operator is missing, never before; what
maquette has is in the pages, not here.
"""

from __future__ import annotations

import functools
import os

from maquette.dispatch.registry import MISSING_OPERATOR_HINTS, find_packet


@functools.cache
def schemas() -> dict[str, list[str]]:
    """Operator name to the schemas of its overloads."""
    path = os.path.join(os.path.dirname(__file__), "catalogue.txt")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name = line.partition("(")[0].partition(".")[0].removeprefix("aten::")
        found.setdefault(name, []).append(line)
    return found


def explain(namespace: str, name: str) -> str:
    """What to do about a missing aten operator: its schema and how to register it, or its likes."""
    if namespace != "aten":
        return ""
    known = schemas().get(name)
    if known is None:
        import difflib  # noqa: PLC0415  # when first needed: importing stays quick

        likes = [
            n for n in difflib.get_close_matches(name, schemas(), 3) if find_packet(f"aten::{n}")
        ]
        return f" Did you mean {' or '.join(likes)}?" if likes else ""
    listing = "\n".join(f"  {schema}" for schema in known)
    return (
        f"\nPyTorch has it, maquette does not yet. Its schema:\n{listing}\n"
        f"Register it with maquette.library.define('{known[0].partition('(')[0]}', ...) and "
        f"register_kernel, register_fake, register_autograd, or write its page "
        f"(docs/operator_page.md)."
    )


MISSING_OPERATOR_HINTS.append(explain)
