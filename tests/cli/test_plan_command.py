"""`maquette plan` as a user runs it: on real files, good and bad; once in a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

import maquette as mq
import maquette.torch
from maquette.aten import catalogue
from maquette.cli.main import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ["examples/gpt2.py", "--model", "GPT2(GPT2Config.tiny())", "--args", "batch(2, 8, 101)"]


class Done(NamedTuple):
    """What a command left behind."""

    returncode: object
    stdout: str
    stderr: str


def run(*arguments: str) -> Done:
    """The command in this process, which saves each test the second of a start."""
    printed, complaints = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complaints),
    ):
        try:
            code: object = main(["plan", *arguments])
        except SystemExit as end:
            code = end.code
        finally:
            maquette.torch.uninstall()
    texts = []
    for stream in (printed, complaints):
        stream.seek(0)
        texts.append(stream.read())
    return Done(code, *texts)


def write(folder: pathlib.Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text, "utf-8")
    return str(path)


BROKEN = """
import torch
from torch import nn

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
    def forward(self, x):
        return self.up(x) @ torch.ones(3, 3)

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Inner()])
    def forward(self, x):
        return self.blocks[0](x)

def model():
    return Outer()

def args():
    return (torch.ones(2, 4),)
"""


def test_plan_prints_what_it_promises() -> None:
    command = [sys.executable, "-m", "maquette.cli.main", "plan", *TINY, "--train"]
    command += ["--optimizer", "adamw", "--device", "cuda"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for word in ("parameters", "FLOPs", "peak memory", "reached in", "optimizer state", "Modules"):
        assert word in done.stdout


def test_plan_fits_100_columns() -> None:
    done = run(*TINY, "--train", "--optimizer", "adamw")
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_plan_writes_json_with_the_names_of_the_contract(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "plan.json"
    assert run(*TINY, "--train", "--json", str(out)).returncode == 0
    found = json.loads(out.read_text("utf-8"))
    assert {"peak_bytes", "flops", "parameters", "timeline", "by_module"} <= set(found)
    assert isinstance(found["peak_bytes"], int)
    assert isinstance(found["flops"], int)


def test_plan_casts_to_a_dtype() -> None:
    sizes = []
    for kind in ("float32", "bfloat16"):
        done = run(*TINY, "--dtype", kind, "--json", "-")
        sizes.append(json.loads(done.stdout)["parameter_bytes"])
    assert sizes[0] == 2 * sizes[1]


def refused(*arguments: str, code: int, words: list[str]) -> str:
    done = run(*arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    return done.stderr


def test_missing_file_is_one_clear_message() -> None:
    refused("nowhere.py", code=2, words=["there is no file 'nowhere.py'"])


def test_expression_that_fails_is_named_with_its_option() -> None:
    refused(TINY[0], "--model", "GPT3()", code=1, words=["--model 'GPT3()' failed", "NameError"])


def test_model_that_is_no_module_is_refused() -> None:
    refused(TINY[0], "--model", "3", code=2, words=["--model must give an nn.Module, got int"])


def test_shape_error_deep_in_a_model_says_operator_module_and_line(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, BROKEN)
    words = ["mat1 and mat2 shapes cannot be multiplied", "blocks.0", "program.py:10"]
    refused(path, code=1, words=words)


def test_unknown_device_is_refused_with_the_known_ones() -> None:
    refused(*TINY, "--device", "abacus", code=2, words=["--device 'abacus'", "cuda"])


def test_unknown_dtype_is_refused_with_the_known_ones() -> None:
    refused(*TINY, "--dtype", "float7", code=2, words=["--dtype 'float7'", "bfloat16"])


def test_missing_operator_is_named_with_its_likes(tmp_path: pathlib.Path) -> None:
    text = BROKEN.replace("self.up(x) @ torch.ones(3, 3)", "torch.ops.aten.softmaxx(x)")
    path = write(tmp_path, text)
    refused(path, code=1, words=["softmaxx", "_softmax", "program.py:10"])


def test_missing_operator_says_its_schema_and_how_to_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "aten::nowhere(Tensor self) -> Tensor"
    monkeypatch.setattr(catalogue, "schemas", lambda: {"nowhere": [line]})
    with pytest.raises(AttributeError, match=re.escape(line)) as caught:
        mq.ops.aten.nowhere(mq.ones(2))
    assert "register_kernel" in str(caught.value)


def test_an_output_that_is_no_scalar_is_planned_with_its_mean() -> None:
    done = run(*TINY[:3], "--args", "batch(2, 8, 101)[:1]", "--train")
    assert done.returncode == 0, done.stderr
    assert "its mean stands in for the loss" in done.stdout


@pytest.mark.parametrize("option", [["--optimizer", "adamw"]])
def test_optimizer_needs_train(option: list[str]) -> None:
    refused(*TINY, *option, code=2, words=["--optimizer needs --train"])
