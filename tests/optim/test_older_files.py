"""States of optimizers that were saved before today's options, and errors of their arguments."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette import optim


def stepped(kind: str) -> optim.Optimizer:
    parameter = mq.ones(2, requires_grad=True)
    parameter.grad = mq.ones(2)
    made: optim.Optimizer = getattr(optim, kind)([parameter], lr=0.1)
    made.step()
    return made


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "ASGD"])
def test_groups_without_later_options_are_completed(kind: str) -> None:
    optimizer = stepped(kind)
    saved = optimizer.state_dict()
    for name in ("maximize", "foreach", "fused", "differentiable", "capturable"):
        saved["param_groups"][0].pop(name, None)
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert optimizer.param_groups[0]["foreach"] is None


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad", "RMSprop", "NAdam"])
def test_steps_that_were_saved_as_numbers_become_tensors(kind: str) -> None:
    optimizer = stepped(kind)
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 1.0
    optimizer.load_state_dict(saved)
    optimizer.step()
    (state,) = optimizer.state.values()
    assert state["step"].item() == 2


def test_optimizers_name_the_arguments_that_they_refuse() -> None:
    real, pairs = mq.ones(2, requires_grad=True), mq.ones(2, 2, dtype=mq.complex64)
    betas = (mq.tensor(0.9), mq.tensor(0.99))
    with pytest.raises(ValueError, match=r"betas\[0\] as a Tensor is not supported"):
        optim.Adam([real], betas=betas, foreach=True)
    with pytest.raises(ValueError, match="epsilon1 should be >= 0"):
        optim.Adafactor([real], eps=(-1e-30, 1e-3))
    with pytest.raises(ValueError, match="does not support complex parameters"):
        optim.SparseAdam([pairs])
    with pytest.raises(ValueError, match="must be 1-element"):
        optim.SparseAdam([real], lr=mq.tensor([0.0, 0.0]))
    pairs.grad = mq.ones_like(pairs)
    with pytest.raises(RuntimeError, match="Muon does not support complex"):
        optim.Muon([pairs]).step()
