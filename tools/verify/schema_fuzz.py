"""Malformed schemas: each gives the parse error that names the position, and nothing else.

    python tools/verify/schema_fuzz.py [COUNT] [SEED]

Schemas of operators are damaged, pieced together and nested. What does not parse must be refused
with RuntimeError, the position and the text; every hundredth is handed to `Library.define` too,
which may leave nothing behind. Prints counts; the exit status is 1 where anything else happened.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator

import maquette as mq
from maquette import parse_schema
from maquette.dispatch.registry import all_overloads, find_packet
from maquette.library import Library

COUNT = 120_000
POSITION = re.compile(r"at position \d+")
PIECES = (
    *"()[]{},:;?!*=|.+-#'\"\\ \n\t@$%&~`<>^/0é\x00🙂",
    *("->", "...", "Tensor", "Tensor(a!)", "Tensor(a -> *)", "int[2]", "SymInt", "float", "None"),
    *("inf", "nan", "1e999", "9" * 40, "0x1", "def", "import", "::", ".default", "__x", "Dict("),
    *("Union[", "(a|b!)", "*,", "=[]", "=[1, 2", '="', "= -", "Optional[", "t", "Future(", "self"),
)


def damaged(schema: str, draw: random.Random) -> str:
    """A schema with one to four pieces taken, put in, doubled or exchanged."""
    text = schema
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(text) + 1)
        end = min(len(text), at + draw.randint(0, 6))
        kind = draw.randrange(5)
        if kind == 0:
            text = text[:at] + text[end:]
        elif kind == 1:
            text = text[:at] + draw.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at:end] * 2 + text[end:]
        elif kind == 3:
            text = text[:at] + draw.choice(PIECES) + text[end:]
        else:
            other = draw.randrange(len(text) + 1)
            text = text[: min(at, other)] + text[max(at, other) :]
    return text


def inputs(schemas: list[str], count: int, draw: random.Random) -> Iterator[str]:
    """Damaged schemas; every tenth is of pieces alone, every thousandth is deep or long."""
    for number in range(count):
        if number % 1000 == 0:
            depth = draw.choice((50, 3000, 20_000))
            opened, closed = draw.choice(("()", "[]", ("Optional[", "]"), ("Dict(str, ", ")")))
            inner = draw.choice(("Tensor x", "1", ""))
            yield f"f({opened * depth}{inner}{closed * draw.choice((depth, 0))}) -> ()"
        elif number % 1000 == 500:
            digits = draw.choice("19") * draw.choice((20, 5000))
            yield f"f(int x={digits}) -> ()"
        elif number % 10 == 0:
            yield "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 30)))
        else:
            yield damaged(draw.choice(schemas), draw)


def problem(text: str) -> str:
    """What is wrong with how a text was taken; "" where nothing is, "parsed" where it is one."""
    try:
        parse_schema(text)
    except RuntimeError as error:
        if POSITION.search(str(error)) is None:
            return f"no position: {error}"
        return ""
    except BaseException as error:  # noqa: BLE001  # anything else is the defect
        return f"{type(error).__name__}: {error}"
    return "parsed"


def leaves_a_trace(text: str, lib: Library) -> str:
    """What a refused definition leaves behind."""
    before = len(all_overloads())
    try:
        lib.define(text)
    except Exception:  # noqa: BLE001  # refused, by whichever check
        if len(all_overloads()) != before:
            return "an operator is left behind"
        name = text.partition("(")[0].strip().rpartition("::")[2].partition(".")[0]
        packet = find_packet(f"{lib.ns}::{name}")
        if packet is not None and not packet.overloads():
            return f"an empty packet {name} is left behind"
        return ""
    return ""


def main(count: int, seed: int) -> int:
    """Fuzz, print counts; 1 where something else than the parse error came."""
    dir(mq.ops.aten)
    schemas = [str(o._schema) for o in all_overloads()]
    draw = random.Random(seed)
    lib = Library("schema_fuzz", "FRAGMENT")
    started = time.perf_counter()
    totals: Counter[str] = Counter()
    for number, text in enumerate(inputs(schemas, count, draw)):
        found = problem(text)
        if found == "parsed":
            totals["well-formed all the same"] += 1
            continue
        if not found and number % 100 == 1:
            bare = text.replace("aten::", "")
            found = leaves_a_trace(bare, lib)
            totals["definitions refused"] += 1
        totals["refused with the position" if not found else "wrong"] += 1
        if found and totals["wrong"] <= 20:
            print(f"{text[:200]!r}: {found[:200]}")
    lib._destroy()
    for value in (None, 3, b"f() -> ()", ["f() -> ()"], 1.5):
        try:
            parse_schema(value)  # type: ignore[arg-type]
            totals["wrong"] += 1
        except TypeError:
            totals["no strings, TypeError"] += 1
    for name, n in totals.items():
        print(f"{n:>8,} {name}")
    print(f"{count:,} texts, seed {seed}, {time.perf_counter() - started:.0f} s")
    return int(totals["wrong"] > 0)


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    sys.exit(main(*[*numbers, *(COUNT, 0)[len(numbers) :]]))
