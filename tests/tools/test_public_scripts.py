"""`tools/public_scripts.py`: running scripts, reading their losses, and the verdict."""

from __future__ import annotations

import argparse
import importlib
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("public_scripts")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one script, which counts its losses down, in tenths, for ever."""
    folder = tmp_path / "checkouts" / "nets"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(
        "import os, sys\n"
        "for n in range(10**9):\n"
        "    print('loss', int(sys.argv[1]) - n / 10 + float(os.environ['OFF']), flush=True)\n"
    )
    return folder.parent


def script(tool: Any, **changed: Any) -> Any:
    return tool.Script(**{"name": "nets", "repository": "me/nets", "file": "train.py"} | changed)


def side(tool: Any, off: float) -> Any:
    return tool.Side(str(off), (sys.executable,), {"PYTHONPATH": "", "OFF": str(off)})


def test_a_script_is_stopped_when_it_has_printed_its_losses(tool: Any, checkout: Path) -> None:
    found = tool.run(script(tool, arguments="3", steps=4), side(tool, 0), checkout, 60)
    assert found.losses == pytest.approx([3, 2.9, 2.8, 2.7])
    assert found.status is None


def test_a_checkout_is_left_as_it_is(tool: Any, checkout: Path) -> None:
    chosen = script(tool, arguments="3", data=lambda folder: (folder / "data").mkdir())
    tool.run(chosen, side(tool, 0), checkout, 60)
    assert [file.name for file in (checkout / "nets").iterdir()] == ["train.py"]


def test_a_script_that_ends_gives_what_it_printed(tool: Any, checkout: Path) -> None:
    found = tool.run(script(tool, arguments="none"), side(tool, 0), checkout, 60)
    assert (found.losses, found.status) == ([], 1)
    assert "ValueError" in found.text


@pytest.mark.parametrize(("off", "agrees"), [(0.0, True), (2e-5, True), (0.01, False)])
def test_losses_agree_within_the_tolerance(
    off: float, agrees: bool, tool: Any, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "sides", lambda options: (side(tool, 0), side(tool, off)))
    options = argparse.Namespace(folder=checkout, keep=None, timeout=60)
    assert tool.compare(script(tool, arguments="3"), options).agrees is agrees


def test_losses_are_read_from_lines_and_progress_bars(tool: Any) -> None:
    text = "Loss: 2.5\rLoss: 1e-3\nmean 7\nloss -0.5"
    assert tool.losses_in(script(tool), text) == [2.5, 1e-3, -0.5]


def test_digits_are_written_in_mnists_format(tool: Any, tmp_path: Path) -> None:
    tool.data.digits(tmp_path)
    raw = (tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte").read_bytes()
    assert struct.unpack(">HBBIII", raw[:16]) == (0, 8, 3, 1000, 28, 28)
    assert np.frombuffer(raw[16:], np.uint8).size == 1000 * 28 * 28
