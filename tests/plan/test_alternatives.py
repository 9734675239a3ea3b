"""What a plan can try in a program's place: the same values with fewer bytes."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette import optim
from maquette.nn import Linear, Module
from maquette.nn import functional as F
from maquette.plan.chunked_loss import Chunked, WholeLogitsError
from maquette.plan.narrow_adam import BLOCK, LEAST, NarrowAdam
from maquette.tensor.tensor import Tensor


class Head(Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = Linear(8, 8)
        self.head = Linear(8, 11)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.up(x))


def rows() -> tuple[Tensor, Tensor]:
    mq.manual_seed(1)
    targets = mq.randint(0, 11, (3, 5))
    targets[0, 1] = -100
    return mq.randn(3, 5, 8), targets


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("chunks", [2, 4, 15])
def test_chunks_give_the_same_loss_and_gradients(reduction: str, chunks: int) -> None:
    model, (x, targets) = Head(), rows()

    def loss(logits: Tensor) -> Tensor:
        shifted = (logits[..., :-1, :].contiguous().float() / 2).view(-1, 11)
        last = targets[:, 1:].flatten()
        return F.cross_entropy(shifted, last, reduction=reduction, label_smoothing=0.1)

    whole = loss(model(x))
    whole.backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    with Chunked(model.head.weight, chunks):
        parts = loss(model(x))
    parts.backward()
    assert mq.allclose(parts, whole, atol=1e-6)
    for p, grad in zip(model.parameters(), expected, strict=True):
        assert p.grad is not None
        assert grad is not None
        assert mq.allclose(p.grad, grad, atol=1e-6)


def test_logits_that_are_needed_whole_are_refused() -> None:
    model, (x, _) = Head(), rows()
    with Chunked(model.head.weight, 2):
        logits = model(x)
    with pytest.raises(WholeLogitsError, match="needs its logits whole for softmax"):
        F.softmax(logits, -1)
    with pytest.raises(WholeLogitsError, match="needs its logits whole for argmax"):
        logits.argmax(-1)
    with pytest.raises(WholeLogitsError, match="a slice of the classes"):
        logits[..., :3]


# --- moments of few bits ------------------------------------------------------------------


def trained(make: str, steps: int = 60) -> tuple[float, optim.Optimizer]:
    mq.manual_seed(0)
    model = Linear(64, 80)
    x, y = mq.randn(32, 64), mq.randn(32, 80)
    made: optim.Optimizer
    if make == "adamw":
        made = optim.AdamW(model.parameters(), lr=1e-2)
    else:
        params = model.parameters()
        made = NarrowAdam(params, lr=1e-2, weight_decay=1e-2, keep=make, decoupled=True)
    for _ in range(steps):
        loss = F.mse_loss(model(x), y)
        made.zero_grad()
        loss.backward()
        made.step()
    return float(loss), made


@pytest.mark.parametrize("keep", ["bf16", "8bit"])
def test_narrow_moments_train_as_adamw_does(keep: str) -> None:
    expected, _ = trained("adamw")
    assert trained(keep)[0] == pytest.approx(expected, rel=0.05)


def test_eight_bits_are_a_byte_an_element_and_a_scale_a_block() -> None:
    _, made = trained("8bit", steps=2)
    weight, bias = made.state.values()
    assert weight["exp_avg"].nbytes + weight["exp_avg_sq"].nbytes == 2 * 64 * 80
    assert 64 * 80 >= LEAST
    assert weight["exp_avg_scale"].numel() == 64 * 80 // BLOCK
    assert bias["exp_avg"].dtype is mq.float32  # too small to be worth it


def test_bf16_moments_are_two_bytes_an_element() -> None:
    _, made = trained("bf16", steps=2)
    for state in made.state.values():
        assert state["exp_avg"].dtype is state["exp_avg_sq"].dtype is mq.bfloat16
