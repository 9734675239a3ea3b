"""Warnings that programs get where PyTorch gives them, by its key words."""

import warnings
from typing import Any

import pytest

import maquette.torch as torch
import maquette.torch.nn.functional as F
from maquette.core import warned
from maquette.torch import nn

mask = torch.tensor([[True, False], [True, False]])


@pytest.fixture(autouse=True)
def each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings that are given once in a process are given in each test."""
    monkeypatch.setattr(warned, "_given", set())


def leaf() -> torch.Tensor:
    return torch.ones(1, requires_grad=True)


def expanded() -> torch.Tensor:
    return torch.zeros(1, 2).expand(2, 2)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("dtype torch.uint8 is now deprecated", lambda: torch.ones(2)[mask[0].to(torch.uint8)]),
        ("pass the indexing argument", lambda: torch.meshgrid(torch.ones(1), torch.ones(1))),
        ("torch.range is deprecated", lambda: torch.range(0, 2)),
        ("not a leaf Tensor is being accessed", lambda: (leaf() * 1).grad),
        ("create a reference cycle", lambda: (leaf() * 1).backward(create_graph=True)),
        ("to a scalar may lead", lambda: float(leaf())),
        ("to a scalar may lead", lambda: complex(leaf())),
        (r"var\(\): degrees of freedom", lambda: torch.ones(1).var()),
        (r"std_mean\(\): degrees of freedom", lambda: torch.std_mean(torch.ones(1))),
        ("Complex modules are a new feature", lambda: nn.Linear(1, 1).to(torch.complex64)),
        ("masked_fill_ on expanded", lambda: expanded().masked_fill_(mask, 1)),
        ("index_fill_ on expanded", lambda: expanded().index_fill_(0, torch.tensor([0]), 1)),
        (
            "index_put_ on expanded",
            lambda: expanded().index_put_((torch.tensor([0]),), torch.ones(1)),
        ),
        ("dimension other than 2", lambda: torch.ones(2, 2, 2).T),
        ("deprecated on 0-D", lambda: torch.tensor(1.0).T),
        ("Implicit dimension choice for softmax", lambda: F.softmax(torch.ones(2))),
        ("both the batch size and", lambda: F.kl_div(torch.ones(2), torch.ones(2))),
        ("has changed to align", lambda: F.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 2])),
        ("was resized", lambda: torch.add(torch.ones(2), 1, out=torch.ones(3))),
        ("without specifying the dim arg", lambda: torch.cross(torch.ones(3), torch.ones(3))),
        ("in favor of torch.linalg.cholesky", lambda: torch.cholesky(torch.eye(2))),
        ("in favor of torch.linalg.qr", lambda: torch.qr(torch.eye(2))),
        ("A window was not provided", lambda: torch.stft(torch.ones(8), 4, return_complex=True)),
        ("set_default_tensor_type", lambda: torch.set_default_tensor_type(torch.FloatTensor)),
        ("TypedStorage is deprecated", lambda: torch.ones(1).storage()),
    ],
)  # fmt: skip
def test_what_pytorch_warns_of(words: str, call: Any) -> None:
    """Finding 58."""
    with pytest.warns(UserWarning, match=words):
        call()


def test_some_warnings_come_once_in_a_process() -> None:
    """Finding 58: unless set_warn_always is on."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            float(leaf())
        assert len(seen) == 1
        torch.set_warn_always(True)
        float(leaf())
        torch.set_warn_always(False)
    assert len(seen) == 2


def test_a_warning_names_the_line_of_the_program() -> None:
    """Finding 58."""
    with pytest.warns(UserWarning, match="degrees of freedom") as seen:
        torch.ones(1).var()
    assert seen[0].filename == __file__


def test_what_is_retained_or_detached_is_read_in_silence() -> None:
    y = leaf() * 1
    y.retain_grad()
    assert y.grad is None
    assert (leaf() * 1)._grad is None
    assert float(y.detach()) == 1.0
