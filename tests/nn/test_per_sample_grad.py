"""Gradients by member of a batch."""

import pytest

import maquette as mq
from maquette import nn
from maquette.autograd import grad
from maquette.nn.utils._per_sample_grad import call_for_per_sample_grads
from maquette.torch.testing import assert_close


def _model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(8, 2))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_they_are_the_gradients_of_each_member_alone(reduction: str) -> None:
    model, x = _model(), mq.randn(3, 1, 3, 3)
    result = call_for_per_sample_grads(model, loss_reduction=reduction)(x)
    (result.sum() if reduction == "sum" else result.mean()).backward()
    weight = model[3].weight
    for i in range(3):
        alone = model(x[i : i + 1])
        loss = alone.sum() if reduction == "sum" else alone.mean()
        (expected,) = grad(loss, [weight])
        assert_close(weight.grad_sample[i], expected)
    assert weight.grad is None


def test_a_second_call_without_clearing_is_refused() -> None:
    model = nn.Linear(2, 2)
    call_for_per_sample_grads(model)(mq.ones(3, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="grad_sample is there already"):
        call_for_per_sample_grads(model)


def test_batches_of_two_sizes_need_to_be_told() -> None:
    both = call_for_per_sample_grads(nn.Bilinear(2, 2, 2))
    with pytest.raises(RuntimeError, match=r"batch sizes \[2, 3\]"):
        both(mq.ones(3, 2), mq.ones(2, 2))
