"""Programs that defeat PyTorch's fake mode and must work in ours."""

from __future__ import annotations

import pytest
from models import load_example

import maquette as mq
import maquette.torch as torch


@pytest.fixture(autouse=True)
def torch_is_maquette():
    torch.install()
    yield
    torch.uninstall()


def test_F7_autograd_on_cuda_fakes_needs_no_cuda() -> None:
    with mq.FakeTensorMode() as mode:
        w = mq.empty(3, 3, device="cuda", requires_grad=True)
        (w @ w).relu().sum().backward()
    assert w.grad.fake_mode is mode
    assert str(w.grad.device) == "cuda:0"


def test_F8_a_vit_is_built_in_fake_mode_with_its_truncated_normals() -> None:
    example = load_example("vit")
    with mq.FakeTensorMode():
        model = example.ViT(example.ViTConfig.tiny())
    assert all(isinstance(p, mq.FakeTensor) for p in model.parameters())


def test_F27_a_terabyte_is_made_at_once() -> None:
    with mq.FakeTensorMode():
        t = mq.zeros(10**12, device="cuda")
    assert t.untyped_storage().nbytes() == 4 * 10**12


def test_F65_a_step_counter_counts_in_fake_mode() -> None:
    with mq.FakeTensorMode():
        step = mq.tensor(0.0)
        step += 1
        step.add_(2)
        assert step.item() == 3.0
