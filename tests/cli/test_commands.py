"""The commands beside `plan`, and how all of them speak to terminals and pipes (finding 56)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from maquette.cli.main import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ["examples/gpt2.py", "--model", "GPT2(GPT2Config.tiny())", "--args", "batch(2, 8, 101)"]


@pytest.mark.parametrize("pattern", ["aten.mm", "aten::mm", "mm", "aten::mm.default"])
def test_operators_are_found_by_each_of_their_names(
    pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding 56."""
    assert main(["ops", pattern]) == 0
    assert "aten::mm(Tensor self, Tensor mat2) -> Tensor" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Finding 56."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("maquette ")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["run"], "run needs a script"),
        (["plan", "x.py", "--depth", "-1"], "--depth is a number of levels"),
        (["plan", "x.py", "--dtype", "int8"], "--dtype 'int8' is unknown: expected one of"),
        (["ops", "aten.no_such*"], "no operator is called"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    command: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding 56."""
    assert main(command) in (1, 2)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert text in told[0]


def planned(*options: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """`maquette plan` of a small model in a process of its own, with a pipe to write to."""
    command = [sys.executable, "-m", "maquette.cli.main", "plan", *TINY, *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, env=os.environ | environment, timeout=120
    )


def test_a_pipe_gets_lines_of_the_asked_width_without_blanks() -> None:
    """Finding 56."""
    lines = planned(COLUMNS="80").stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]


def test_output_in_ascii_loses_its_bars_only() -> None:
    """Finding 56."""
    done = planned(PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


def test_a_file_that_cannot_be_written_is_named() -> None:
    """Finding 56."""
    done = planned("--json", "/no/such/folder/plan.json")
    assert done.returncode == 1
    assert done.stderr.startswith(b"maquette: --json /no/such/folder/plan.json: cannot be written")


def test_a_closed_pipe_is_no_error() -> None:
    """Finding 56."""
    command = f"{sys.executable} -m maquette.cli.main ops | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_python_m_maquette_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "maquette", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("maquette ")


def test_a_command_runs_where_maquette_is_not_installed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "maquette").symlink_to(ROOT / "src" / "maquette")
    code = (
        "import importlib.metadata as m, sys\n"
        "def version(name): raise m.PackageNotFoundError(name)\n"
        "m.version = version\n"
        "from maquette.cli.main import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("maquette unknown\n", 0)


@pytest.mark.parametrize(
    "command",
    [
        ["plan", "x.py", "--optimizer", "nope"],
        ["plan", "x.py", "--batch", "x"],
        ["plan", "x.py", "--no-such-option"],
        ["frobnicate"],
        [],
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith("maquette")
    assert told[0].endswith("--help tells more)")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--loss", "no_such_name"], "NameError: name 'no_such_name' is not defined"),
        (["--checkpoint", "no.such.*"], "no module's path matches 'no.such.*'"),
    ],
)
def test_no_line_of_python_s_own_is_blamed(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(ROOT / TINY[0]), *TINY[1:], "--train", *options]) == 1
    told = capsys.readouterr().err
    assert text in told
    assert "\n  at  " not in told
