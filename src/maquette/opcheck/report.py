"""What a check found: an `OpReport` per operator, a `Finding` per failing property."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One failing property, with the smallest input that shows it.

    ``property`` is a stable id; ``input`` a line of Python; ``line`` the place that is probably
    wrong.
    """

    property: str
    spec: str
    expected: str
    got: str
    input: str
    hint: str
    line: str = ""
    label: str = ""


@dataclass
class OpReport:
    """All that was tried of an operator, and what failed."""

    operator: str
    schema: str
    defined_at: str
    seed: int
    findings: list[Finding] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    inputs: int = 0
    dropped: int = 0
    checks: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.findings

    def outcomes(self) -> dict[str, Any]:
        """Property ids with "SUCCESS", "SKIPPED: why" or the finding's text."""
        found: dict[str, Any] = dict.fromkeys(self.passed, "SUCCESS")
        found |= {name: f"SKIPPED: {why}" for name, why in self.skipped.items()}
        return found | {f.property: AssertionError(_finding_text(f)) for f in self.findings}

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)

    def to_json(self, indent: int | None = 1) -> str:
        """The report as JSON, which `from_json` reads."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str) -> OpReport:
        """The report that `to_json` wrote."""
        values = json.loads(text)
        values["findings"] = [Finding(**f) for f in values["findings"]]
        return cls(**values)

    def __str__(self) -> str:
        head = (
            f"{self.operator}: {len(self.findings)} findings, {len(self.passed)} properties hold, "
            f"{len(self.skipped)} do not apply; {self.inputs} inputs, {self.dropped} dropped, "
            f"{self.seconds:.1f} s"
        )
        failed = [f"! {name}: the check failed itself: {e}" for name, e in self.errors.items()]
        parts = [head, f"  {self.schema}", *map(_finding_text, self.findings), *failed]
        return "\n".join(_wrapped("\n".join(parts)))


def _finding_text(f: Finding) -> str:
    lines = [
        f"✗ {f.property}  ({f.spec})",
        f"    input     {f.input}",
        f"    expected  {f.expected}",
        f"    got       {f.got}",
    ]
    if f.line:
        lines.append(f"    line      {f.line}")
    return "\n".join([*lines, f"    hint      {f.hint}"])


def _wrapped(text: str) -> list[str]:
    found = []
    for line in text.splitlines():
        indent = " " * (14 if line.startswith("    ") else 4)
        found += textwrap.wrap(
            line, 100, subsequent_indent=indent, break_long_words=True, drop_whitespace=True,
            replace_whitespace=False,
        ) or [""]  # fmt: skip
    return found


def junit(reports: Sequence[OpReport], errors: Mapping[str, str] | None = None) -> str:
    """Reports as JUnit's XML: a test case for each operator and property."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415

    root = ET.Element("testsuites")
    for report in reports:
        tests = len(report.findings) + len(report.passed) + len(report.skipped)
        suite = ET.SubElement(
            root, "testsuite", name=report.operator, tests=str(tests),
            failures=str(len(report.findings)), skipped=str(len(report.skipped)),
            errors="0", time=f"{report.seconds:.3f}",
        )  # fmt: skip
        for name in report.passed:
            ET.SubElement(suite, "testcase", classname=report.operator, name=name)
        for name, why in report.skipped.items():
            case = ET.SubElement(suite, "testcase", classname=report.operator, name=name)
            ET.SubElement(case, "skipped", message=why)
        for finding in report.findings:
            case = ET.SubElement(
                suite, "testcase", classname=report.operator, name=finding.property
            )
            message = f"expected {finding.expected}, got {finding.got}"
            ET.SubElement(case, "failure", message=message).text = _finding_text(finding)
    for name, text in (errors or {}).items():
        suite = ET.SubElement(root, "testsuite", name=name, tests="1", failures="0", errors="1")
        case = ET.SubElement(suite, "testcase", classname=name, name="sample")
        ET.SubElement(case, "error", message=text)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)
