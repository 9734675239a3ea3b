"""`maquette plan --advise`: real replans of what concerns the model, each with what it costs."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import maquette.torch
from maquette.cli.main import main

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward = nn.Linear(64, 192)
    def forward(self, x):
        q, k, v = self.inward(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        return x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)

class Words(nn.Module):
    def __init__(self, classes=4096, whole=False):
        super().__init__()
        self.words = nn.Embedding(classes, 64)
        self.attention = Attention()
        self.head = nn.Linear(64, classes)
        self.whole = whole
    def forward(self, tokens):
        logits = self.head(self.attention(self.words(tokens)))
        if self.whole:
            logits = logits - logits.logsumexp(-1, keepdim=True)
        return F.cross_entropy(logits[:, :-1].float().reshape(-1, 4096), tokens[:, 1:].flatten())

def model():
    return Words()

def args():
    return (torch.zeros(4, 64, dtype=torch.long),)
"""


@pytest.mark.parametrize("shown", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_lines_on_a_terminal_end_without_blanks(program: str, shown: dict[str, str]) -> None:
    command = [sys.executable, "-m", "maquette", "plan", program, "--train", "--advise"]
    ours, theirs = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    env = {**kept, "TERM": "xterm-256color", "COLUMNS": "80", **shown}
    with subprocess.Popen(command, stdout=theirs, env=env):
        os.close(theirs)
        told = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in told.decode().split("\r\n")]
    assert "Ways to need less" in lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(map(len, lines)) <= 80


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Iterator[str]:
    path = tmp_path / "words.py"
    path.write_text(PROGRAM, "utf-8")
    yield str(path)
    maquette.torch.uninstall()


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["plan", *arguments, "--json", "-"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def ways(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {way["option"]: way for way in answer["advice"]["ways"]}


@pytest.mark.parametrize("option", ["--chunk-loss 8", "--optimizer adamw-8bit", "--dtype bfloat16"])
def test_each_row_is_what_its_option_plans(
    program: str, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    step = [program, "--train", "--optimizer", "adamw"]
    asked = planned(capsys, *step, "--advise")
    told = ways(asked)[option]
    other = planned(capsys, *step, *option.split(), "--steps", "2")
    assert told["peak_bytes"] == other["peak_bytes"]
    assert told["saved_bytes"] == asked["advice"]["peak_bytes"] - other["peak_bytes"] > 0


def test_chunked_logits_cost_the_flops_of_the_head_again(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ways(planned(capsys, program, "--train", "--advise"))["--chunk-loss 8"]
    product = 2 * 4 * 63 * 64 * 4096
    assert product <= told["added_flops"] < 1.2 * product


def test_time_is_added_with_a_device(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    step = [program, "--train", "--device", "cuda", "--advise"]
    without = ways(planned(capsys, *step))["--chunk-loss 8"]["added_seconds"]
    told = ways(planned(capsys, *step, "--on", "h100"))["--chunk-loss 8"]["added_seconds"]
    assert without is None
    assert told > 0


def test_logits_that_are_used_whole_are_named(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chunks are tried, since the loss reads a linear, and refused with the reason."""
    whole = ["--model", "Words(whole=True)", "--train"]
    (refused,) = planned(capsys, program, *whole, "--advise")["advice"]["refused"]
    assert refused["option"] == "--chunk-loss 8"
    assert "needs its logits whole for logsumexp" in refused["reason"]
    assert main(["plan", program, *whole, "--chunk-loss", "8"]) == 1
    assert "needs its logits whole for logsumexp" in capsys.readouterr().err


def test_a_kernel_that_does_not_take_the_inputs_is_told_in_a_line(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = planned(capsys, program, "--train", "--device", "cuda", "--advise")
    refused = {row["option"]: row["reason"] for row in asked["advice"]["refused"]}
    assert "only FLASH_ATTENTION is allowed" in refused["--attention flash"]
    assert "\n" not in refused["--attention flash"]


def test_another_kernel_saves_the_scores(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    step = [program, "--args", "(torch.zeros(1, 2048, dtype=torch.long),)", "--device", "cuda"]
    asked = planned(capsys, *step, "--attention", "math", "--advise")
    told = ways(asked)["--attention efficient"]
    assert told["peak_bytes"] == planned(capsys, *step)["peak_bytes"]
    assert told["saved_bytes"] > 0


def test_a_model_without_a_loss_over_a_linear_is_offered_no_chunks(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "line.py"
    path.write_text("import torch\nfrom torch import nn\n", "utf-8")
    step = [str(path), "--model", "nn.Linear(8, 8)", "--args", "torch.ones(2, 8)", "--train"]
    advice = planned(capsys, *step, "--advise")["advice"]
    offered = {row["option"] for row in [*advice["ways"], *advice["refused"]]}
    assert offered <= {"--dtype bfloat16", "--autocast bf16"}
    assert main(["plan", *step, "--chunk-loss", "4"]) == 1
    assert "no cross_entropy reads the rows of a linear" in capsys.readouterr().err
    maquette.torch.uninstall()
