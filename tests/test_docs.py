"""Every code block of the documentation runs, and every link leads somewhere.

Python blocks of a page run in order in a process of their own, as a reader would try them; what a
page takes for granted is in `GIVEN`. Commands of plain blocks are checked by their options.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from maquette.cli.main import main

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
# What pages speak of without making it: a model, a step, an operator of the reader's.
_STEP = """
import maquette as mq
from maquette import nn, optim
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
x, y = mq.randn(16, 8), mq.randint(0, 4, (16,))
loss_of = nn.CrossEntropyLoss()
optimizer = optim.AdamW(model.parameters())
"""
_OPERATOR = """
import maquette, maquette.torch, pytest
maquette.torch.install()
import torch
@torch.library.custom_op("my::op", mutates_args=())
def my_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y
@my_op.register_fake
def _(x, y):
    return torch.empty_like(x * y)
x, y = torch.ones(2, 3), torch.ones(2, 3)
"""
_BLOCKS = """
import maquette.torch
maquette.torch.install()
import torch
block, x = torch.nn.Linear(4, 4), torch.ones(2, 4, requires_grad=True)
"""
_LIBRARY = """
import numpy, types
my = types.SimpleNamespace(Array=numpy.ndarray)
"""
# The excerpt of a built-in operator's page is run as one of a namespace of its own.
_PAGE = """
from maquette.aten.common.batching_forms import to_front
from maquette.api.functions import matmul
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import Cost, Variant, define
check_matrices = print
log_softmax = define("docs::log_softmax(Tensor self, int dim) -> Tensor")
"""
GIVEN = {
    "operator_page.md": _PAGE,
    "backends.md": _LIBRARY,
    "compile.md": _STEP,
    "higher_order.md": _BLOCKS,
    "opcheck.md": _OPERATOR,
}
NEEDS = {"compile.md": "jax", "programs.md": "transformers"}
XLA = "--xla_force_host_platform_device_count=8"


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of a page: language, text."""
    return BLOCK.findall((DOCS / page).read_text("utf-8"))


WITH_PYTHON = [page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_of_a_page_runs(page: str, tmp_path: pathlib.Path) -> None:
    if page in NEEDS and importlib.util.find_spec(NEEDS[page]) is None:
        pytest.skip(f"{NEEDS[page]} is not installed")
    script = tmp_path / "page.py"
    texts = [text for kind, text in blocks(page) if kind == "python"]
    script.write_text(
        "\n".join([GIVEN.get(page, ""), *texts]).replace('"aten::', '"docs::'), "utf-8"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path, capture_output=True, text=True, env={"XLA_FLAGS": XLA, **_environment()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(sys.path)}


def commands() -> list[str]:
    """Every line of a page that calls maquette, continued lines joined."""
    found = []
    for page in PAGES:
        for kind, text in blocks(page):
            lines = text.replace("\\\n", " ").splitlines() if kind in ("", "console") else []
            found += [line.partition("#")[0].strip() for line in lines]
    return sorted({line for line in found if line.startswith("maquette ")})


@pytest.mark.parametrize("line", commands())
def test_command_of_a_page_has_options_that_there_are(line: str) -> None:
    for alternative in shlex.split(line):
        if alternative in ("plan", "run", "check", "ops"):
            break
    given = {word for word in shlex.split(line)[2:] if word.startswith("--") and len(word) > 2}
    if "--script" in given or alternative == "run":
        given &= {"--script", "--device", "--on", "--fail-over", "--compile"}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
        main([alternative, "--help"])
    assert not [option for option in given if option not in shown.getvalue()]


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text("utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert not [target for target in targets if not (DOCS / target).exists()]
