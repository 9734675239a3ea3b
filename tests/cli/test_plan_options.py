"""What `maquette plan` can be told: each option does what it says; nonsense is one message."""

from __future__ import annotations

import csv
import json
import pathlib
from collections.abc import Iterator

import pytest

import maquette.torch
from maquette.cli.main import main
from maquette.plan.report import bytes_text

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = """
import torch
from torch import nn
from .sizes import WIDTH

class Net(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.up = nn.Linear(8, width)
        self.down = nn.Linear(width, 8)
    def forward(self, x, scale=1.0):
        return self.down(self.up(x).relu()) * scale

def model():
    return Net()
"""


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    package = tmp_path / "planned_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("WIDTH = 32", "utf-8")
    (package / "net.py").write_text(PROGRAM, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield str(package / "net.py")
    maquette.torch.uninstall()


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["plan", *arguments, "--json", "-"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


ARGS = ["--args", "torch.ones(B, 8)", "--symbolic", "B=4"]


def test_a_file_of_a_package_may_import_relatively(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding 57."""
    assert as_json(capsys, program, *ARGS)["parameters"] == 8 * 32 + 32 + 32 * 8 + 8


def test_a_module_is_planned_by_its_name(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert as_json(capsys, "-m", "planned_package.net", *ARGS)["parameters"] == 552


def test_keyword_arguments_are_given(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor for `scale` is an input of its own. Finding 57."""
    wide = as_json(capsys, program, *ARGS, "--kwargs", "{'scale': torch.ones(1000)[:8]}")
    narrow = as_json(capsys, program, *ARGS)
    assert wide["peak_bytes"] - narrow["peak_bytes"] == 4000  # type: ignore[operator]


def test_the_loss_may_be_an_expression_or_a_function(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding 57."""
    flops = [
        as_json(capsys, program, *ARGS, "--train", "--loss", text)["flops"]
        for text in ("output.sum()", "lambda y: y.sum()")
    ]
    assert flops[0] == flops[1]


def test_optimizers_take_arguments(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    def operators(text: str) -> int:
        options = ["--train", "--optimizer", "adamw", "--optimizer-args", text]
        steps = as_json(capsys, program, *ARGS, *options)["by_step"]
        return steps[0]["operators"]  # type: ignore[index,no-any-return]

    assert operators("lr=1e-4,foreach=False") > operators("lr=1e-4,foreach=True")


def test_the_largest_batch_that_fits_is_found_and_proved(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", program, *ARGS, "--fit", "64KiB"]) == 0
    told = capsys.readouterr().out
    largest = int(told.partition("fits into 64KiB: ")[2].partition(" ")[0])

    def peak(batch: int) -> int:
        sized = ["--args", "torch.ones(B, 8)", "--symbolic", f"B={batch}"]
        return as_json(capsys, program, *sized)["peak_bytes"]  # type: ignore[return-value]

    assert peak(largest) <= 64 * 1024 < peak(largest + 1)


def test_another_size_is_varied_where_it_is_named(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sized = ["--args", "torch.ones(B, N)", "--symbolic", "N=8,B=1"]
    assert main(["plan", program, *sized, "--fit", "64KiB", "--vary", "B"]) == 0
    assert "largest B that fits into 64KiB: " in capsys.readouterr().out


def test_the_fewest_devices_that_share_the_states_are_found(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ["--train", "--optimizer", "adamw", "--vary", "devices"]
    assert main(["plan", program, *ARGS, *steps, "--fit", "1GiB"]) == 0
    assert "one device of 1GiB is enough" in capsys.readouterr().out
    assert main(["plan", program, *ARGS, *steps, "--fit", "16"]) == 0
    assert "no number of devices of 16 is enough" in capsys.readouterr().out


def test_a_peak_over_the_limit_fails(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", program, *ARGS, "--fail-over", "1MiB"]) == 0
    assert main(["plan", program, *ARGS, "--fail-over", "1KiB"]) == 3
    assert "is over --fail-over 1KiB" in capsys.readouterr().err


def test_csv_has_a_line_for_each_operator(program: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "plan.csv"
    assert main(["plan", program, *ARGS, "--csv", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert rows[1]["operator"] == "aten.addmm.default"
    assert (rows[1]["module"], rows[1]["flops"]) == ("up", str(2 * 4 * 8 * 32))


def test_a_device_shows_memory_and_time(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", program, *ARGS, "--on", "h100", "--price", "2"]) == 0
    told = capsys.readouterr().out
    for text in ("On NVIDIA H100 SXM", "reserved", "nvidia-smi", "bound by launch", "a step"):
        assert text in told


def test_what_changed_since_another_plan_is_told(
    program: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "plan.json")
    assert main(["plan", program, *ARGS, "--json", out]) == 0
    assert main(["plan", program, *ARGS[:2], "--symbolic", "B=8", "--diff", out]) == 0
    assert "peak memory" in capsys.readouterr().out.partition("Changes")[2]


def test_advice_saves_what_it_says(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    step = [program, *ARGS, "--train", "--optimizer", "adamw"]
    assert main(["plan", *step, "--advise"]) == 0
    told = capsys.readouterr().out.partition("Ways to need less")[2]
    row = next(line for line in told.splitlines() if "--optimizer sgd " in line).split()
    steady = ["--train", "--optimizer", "sgd", "--steps", "2"]
    other = as_json(capsys, program, *ARGS, *steady)
    assert f"{row[4]} {row[5]}" == bytes_text(int(str(other["peak_bytes"])))


GPT2 = "examples/gpt2.py"
TINY = [GPT2, "--model", "GPT2(GPT2Config.tiny())"]
ADAMW = [*TINY, "--train", "--optimizer", "adamw"]

WRONG = [
    (["a.py", "--checkpoint", "h.*"], "--checkpoint needs --train"),
    (["a.py", "--generate", "4", "--train"], "--generate and --train do not go together"),
    (["a.py", "--price", "2"], "--price, --devices and --expandable need --on GPU"),
    (["a.py", "--on", "h100", "--price", "-1"], "--price is of an hour, more than 0, not -1"),
    (["a.py", "--on", "abacus"], "--on 'abacus' is unknown: expected b200"),
    (["a.py", "--on", "h100", "--devices", "/no/such"], "--devices /no/such: No such file"),
    (["a.py", "--diff", "/no/such"], "--diff /no/such: cannot be read"),
    (["a.py", "--diff", "README.md"], "--diff README.md: "),
    ([], "give a FILE, -m MODULE, hf:CONFIG, timm:NAME or --script FILE"),
    (["--lora", "r=16", "x.py"], "--lora needs --train"),
    (["--script"], "--script needs a FILE"),
    (["--script", "absent.py"], "there is no file 'absent.py'"),
    (["--train", "--script", "x.py"], "--train and --script do not go together"),
    (["--fit", "1GiB", "--script", "x.py"], "--fit and --script do not go together"),
    (["a.py", "-m", "b"], "give a.py or -m b, not both"),
    (["a.py", "--loss", "x"], "--loss needs --train"),
    (["a.py", "--optimizer", "sgd"], "--optimizer needs --train"),
    (["a.py", "--optimizer-args", "lr=1"], "--optimizer-args needs --optimizer"),
    (["a.py", "--accumulate", "2"], "--accumulate needs --train"),
    (["a.py", "--batch", "0"], "--batch is a number from 1 on, not 0"),
    (["a.py", "--steps", "-1"], "--steps is a number from 1 on, not -1"),
    (["a.py", "--fit", "much"], "--fit: a size in bytes is like 80GiB"),
    (["a.py", "--fail-over", "8 B ytes"], "--fail-over: a size in bytes is like 80GiB"),
    (["a.py", "--fit", "1GiB"], "--fit needs --symbolic B=N"),
    (["a.py", "--vary", "seq"], "--vary needs --fit SIZE"),
    (["a.py", "--fit", "1GiB", "--vary", "seq"], "--vary 'seq': expected devices"),
    (["hf:llama", "--fit", "1GiB", "--vary", "B"], "--vary 'B': expected batch, seq, devices"),
    (["a.py", "--symbolic", "B"], "--symbolic takes NAME=VALUE,NAME=VALUE, not 'B'"),
    (["a.py", "--symbolic", "B=0"], "--symbolic B=0: a size is a number from 1 on"),
    (["a.py", "--autocast", "int8"], "--autocast 'int8' is unknown: expected bf16 or fp16"),
    (["a.py"], "there is no file 'a.py'"),
    (["-m", "no_such_module_at_all"], "cannot import no_such_module_at_all"),
    (["timm:resnet18"], "timm: needs timm: pip install"),
    (["a.py", "--batch", "x"], "argument --batch: invalid int value: 'x'"),
    (["a.py", "--batch"], "argument --batch: expected one argument"),
    (["a.py", "--batch", "4"], "--batch is of hf: and timm: models; of others --args says it"),
    (["timm:resnet18", "--seq", "4"], "--seq is of hf: models; of others --args says it"),
    (["a.py", "--nonsense"], "unrecognized arguments: --nonsense"),
    (["a.py", "--json"], "argument --json: expected one argument"),
    (["a.py", "--steps", "two"], "argument --steps: invalid int value: 'two'"),
    (["a.py", "--attention", "slow"], "argument --attention: invalid choice: 'slow'"),
    (["a.py", "--optimizer", "adamwww"], "argument --optimizer: invalid choice: 'adamwww'"),
    (["a.py", "--chunk-loss", "0"], "--chunk-loss is a number from 1 on, not 0"),
    (["a.py", "--generate", "0"], "--generate is a number from 1 on, not 0"),
    (["a.py", "--symbolic", "=3"], "--symbolic takes NAME=VALUE,NAME=VALUE, not '=3'"),
    (["a.py", "--symbolic", "B=x"], "--symbolic B=x: a size is a number from 1 on"),
    (["-m"], "argument -m: expected one argument"),
    (["README.md"], "'README.md' is not a Python file"),
    (["src"], "there is no file 'src'"),
    (["hf:no_such_model"], "hf: needs transformers: pip install"),
    ([GPT2, "--model", "GPT2("], "--model 'GPT2(' failed: SyntaxError"),
    ([GPT2, "--model", "GPT2"], "--model must give an nn.Module, got type"),
    ([*TINY, "--args", "1/0"], "--args '1/0' failed: ZeroDivisionError"),
    ([*TINY, "--kwargs", "[1]"], "--kwargs must give a dict with names, got list"),
    ([*TINY, "--dtype", "float7"], "--dtype 'float7' is unknown: expected one of"),
    ([*TINY, "--device", "abacus"], "--device 'abacus': Expected one of cpu, cuda"),
    ([*TINY, "--generate", "4"], "unexpected keyword argument 'use_cache'"),
    ([*TINY, "--train", "--accumulate", "0"], "--accumulate is a number from 1 on, not 0"),
    ([*TINY, "--train", "--checkpoint", "no.*"], "no module's path matches 'no.*': there are"),
    ([*TINY, "--train", "--lora", "rank"], "--lora takes NAME=VALUE,NAME=VALUE, not 'rank'"),
    ([*TINY, "--train", "--loss", "absent"], "NameError: name 'absent' is not defined"),
    ([*ADAMW, "--optimizer-args", "lr"], "--optimizer-args takes NAME=VALUE,NAME=VALUE"),
    ([*ADAMW, "--optimizer-args", "speed=1"], "unexpected keyword argument 'speed'"),
    ([*TINY, "--json", "/no/such/p.json"], "--json /no/such/p.json: cannot be written"),
    ([*TINY, "--html", "/no/such/p.html"], "--html /no/such/p.html: cannot be written"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG, ids=lambda v: " ".join(v)[:40])
def test_what_is_wrong_is_said_in_one_clear_line(
    arguments: list[str],
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    try:
        code: object = main(["plan", *arguments])
    except SystemExit as end:
        code = end.code
    finally:
        maquette.torch.uninstall()
    assert code in (1, 2)
    told = capsys.readouterr().err
    assert text in told
    assert len(told.splitlines()) == 1
