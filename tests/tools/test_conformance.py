"""The conformance tool, on a checker that answers what a test wants."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

import conformance

PASSED = "real: 2/2 passed; overloads complete: 1/1"


class Unsupported(Exception):
    """What check.py raises for an operator that is not there."""


class Backend:
    """A maquette with one operator."""

    def operator(self, name: str) -> str:
        if name != "aten.add.Tensor":
            raise Unsupported(name)
        return name


def checker(*failures: str, summary: str = PASSED) -> ModuleType:
    """A stand-in for check.py, with these lines in its fail list."""

    def main(argv: Sequence[str]) -> int:
        Path(argv[argv.index("--fail-list") + 1]).write_text("".join(f + "\n" for f in failures))
        print(f"a table\n{summary}" if summary else "a table")
        return 0

    module = ModuleType("check")
    module.__dict__.update(main=main, Backend=Backend, Unsupported=Unsupported)
    return module


def test_no_failure_passes_and_prints_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([], checker()) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == PASSED
    assert last.startswith("overloads present: 1/")


def test_unsupported_records_are_excused() -> None:
    row = "real\tunsupported\taten.mm.default\t1f\tno operator"
    assert conformance.main([], checker(row)) == 0


@pytest.mark.parametrize("outcome", ["fail", "error"])
def test_any_other_failure_fails_and_is_shown(
    outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = f"fake\t{outcome}\taten.add.Tensor\t1f\tstride is [1]"
    assert conformance.main([], checker(row)) == 1
    printed = capsys.readouterr().out
    assert "fake  aten.add.Tensor 1f: stride is [1]" in printed
    assert "failing: aten.add.Tensor (1)" in printed


def test_only_the_first_failures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"real\tfail\taten.add.Tensor\t{i}\twrong" for i in range(3)]
    assert conformance.main(["--show", "1"], checker(*rows)) == 1
    printed = capsys.readouterr().out
    assert "and 2 more" in printed
    assert "failing: aten.add.Tensor (3)" in printed


def test_a_run_that_checks_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["--ops", "no_such"], checker(summary="")) == 1
    assert "nothing was checked" in capsys.readouterr().err


def test_the_repositorys_checker_loads() -> None:
    module = conformance.load_checker()
    assert module.FORMAT == 1
    assert module.wanted("aten.sum.dim_IntList", ["sum"])
