"""A small part of YAML: nested blocks of mappings and lists, with plain ints, strings and null.

What `fake_profile` writes, and what PyYAML writes of the same values. Anything else is refused, so
that no file is read otherwise than it was meant.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

Line = tuple[int, str]
_KEY = re.compile(r"([A-Za-z_][\w.:]*):(?:\s+(.*))?$")


def dump(value: Any) -> str:
    """The text of nested dicts and lists."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> list[str]:
    found: list[str] = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            found += [f"{key}:", *("  " + line for line in _lines(item))]
        elif isinstance(item, list) and item:
            found += [f"{key}:", *_listed(item)]
        else:
            found.append(f"{key}: {_scalar_text(item)}")
    return found


def _listed(items: list[Any]) -> list[str]:
    found: list[str] = []
    for item in items:
        if isinstance(item, dict):
            first, *rest = _lines(item)
            found += [f"- {first}", *("  " + line for line in rest)]
        else:
            found.append(f"- {_scalar_text(item)}")
    return found


def _scalar_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    text = str(value)
    looks_plain = isinstance(value, int) or re.fullmatch(r"[A-Za-z_][\w.:]*", text)
    return text if looks_plain else f"'{text}'"


def load(text: str) -> Any:
    """The value of a text; ValueError for what is not of this part of YAML."""
    lines: list[Line] = []
    for raw in text.splitlines():
        bare = raw.strip()
        if bare and not bare.startswith("#") and bare != "---":
            lines.append((len(raw) - len(raw.lstrip(" ")), bare))
    if not lines:
        return None
    value, rest = _block(lines, lines[0][0])
    if rest:
        _refuse(rest[0][1])
    return value


def _refuse(line: str) -> NoReturn:
    raise ValueError(f"not a YAML block of mappings, lists, ints, strings and null: {line!r}")


def _block(lines: list[Line], indent: int) -> tuple[Any, list[Line]]:
    """The block that begins at the first line, all of whose entries have its indent."""
    if lines[0][1].startswith("-"):
        return _list(lines, indent)
    found: dict[str, Any] = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("-"):
        entry = _KEY.match(lines[0][1])
        if entry is None:
            _refuse(lines[0][1])
        key, inline = entry.groups()
        if inline:
            found[key], lines = _scalar(inline), lines[1:]
        else:
            found[key], lines = _nested(lines[1:], indent)
    if lines and lines[0][0] > indent:
        _refuse(lines[0][1])
    return found, lines


def _nested(lines: list[Line], indent: int) -> tuple[Any, list[Line]]:
    """The value below a key: a deeper block, a list at the key's own indent, or null."""
    if lines and (lines[0][0] > indent or (lines[0][0] == indent and lines[0][1].startswith("-"))):
        return _block(lines, lines[0][0])
    return None, lines


def _list(lines: list[Line], indent: int) -> tuple[list[Any], list[Line]]:
    found: list[Any] = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("-"):
        rest = lines[0][1][1:].lstrip()
        if _KEY.match(rest):
            deeper = indent + len(lines[0][1]) - len(rest)
            item, lines = _block([(deeper, rest), *lines[1:]], deeper)
            found.append(item)
        else:
            found.append(_scalar(rest))
            lines = lines[1:]
    return found, lines


def _scalar(text: str) -> Any:
    if text in ("null", "~", ""):
        return None
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    quoted = re.fullmatch(r"'([^']*)'|\"([^\"\\]*)\"", text)
    if quoted:
        return quoted[1] if quoted[1] is not None else quoted[2]
    if not re.fullmatch(r"[\w.:+/-]+", text):
        _refuse(text)
    return text
