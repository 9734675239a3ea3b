"""The table of higher-order operators in docs/higher_order.md, from the tests that pass.

    python tools/hop_table.py           # run the tests, write the table
    python tools/hop_table.py --check   # exit 1 if the table is not what passes

Each cell is a test of tests/higher_order/test_table.py, ``test_operator_in_setting[cond-vmap]``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "higher_order.md"
TESTS = "tests/higher_order/test_table.py"
BEGIN, END = "<!-- table: tools/hop_table.py -->", "<!-- end of the table -->"
_CASE = re.compile(r"test_operator_in_setting\[(?P<operator>\w+)-(?P<setting>[\w ]+)\]")


def results() -> dict[str, dict[str, bool]]:
    """Whether each test passed, by operator and setting, in the order of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", TESTS, f"--junitxml={report}"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        cases = list(ET.parse(report).iter("testcase"))
    found: dict[str, dict[str, bool]] = {}
    for case in cases:
        match = _CASE.fullmatch(case.get("name", ""))
        if match:
            found.setdefault(match["operator"], {})[match["setting"]] = len(case) == 0
    return found


def table(found: dict[str, dict[str, bool]]) -> str:
    """The table as Markdown: a row an operator, a column a setting."""
    settings = list(dict.fromkeys(s for row in found.values() for s in row))
    lines = [f"| operator | {' | '.join(settings)} |", "| --- " * (len(settings) + 1) + "|"]
    for operator, row in found.items():
        marks = [{True: "✓", False: "fails", None: "–"}[row.get(s)] for s in settings]
        lines.append(f"| `{operator}` | {' | '.join(marks)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write the table, or with ``--check`` compare it; the exit status."""
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    made = f"{head}{BEGIN}\n{table(results())}\n{END}{tail}"
    if "--check" in arguments:
        if made != text:
            print(f"{PAGE} is not what passes: run python tools/hop_table.py")
        return int(made != text)
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
