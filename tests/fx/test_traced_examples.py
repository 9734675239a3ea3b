"""Traced = run: the example models, forward and with their backward, traced with and without data.

The programs are those of `tests/peer/models.py`; that their operators are PyTorch's is checked in
`tests/peer/test_examples.py`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from models import CASES, Case, build_model, make_inputs, programs_to_trace

import maquette.torch
from maquette.core.pytree import tree_leaves


@pytest.fixture(autouse=True)
def torch_is_maquette() -> Iterator[None]:
    was = maquette.torch.face.installing.is_installed()
    maquette.torch.install()
    yield
    if not was:
        maquette.torch.uninstall()


def check(case: Case, part: str, mode: Any) -> None:
    torch = maquette.torch
    torch.manual_seed(0)
    model = build_model(case)
    inputs, targets = (torch.from_numpy(a) for a in make_inputs(case))
    program, arguments = programs_to_trace(torch, model)[part]
    graph = maquette.fx.make_fx(program, tracing_mode=mode)(*arguments(), inputs, targets)
    graph.graph.lint()
    torch.manual_seed(1)
    expected = program(*arguments(), inputs, targets)
    torch.manual_seed(1)
    given = graph(*arguments(), inputs, targets)
    for one, other in zip(tree_leaves(given), tree_leaves(expected), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "resnet"])
def test_backward_traced_with_fakes_runs_as_it_does(name: str) -> None:
    check(next(c for c in CASES if c.name == name), "joint", "fake")


@pytest.mark.verify
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("part", ["forward", "joint"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_example_traced_runs_as_it_does(case: Case, part: str, mode: str) -> None:
    check(case, part, mode)
