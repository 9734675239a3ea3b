"""Losses as functions of torch's own: what they give when no reduction is named."""

import inspect
from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.dispatch import TorchFunctionMode

x, y = mq.arange(6.0).reshape(2, 3), mq.ones(2, 3)


@pytest.mark.parametrize(
    "loss",
    [
        lambda **how: torch.kl_div(x, y, **how),
        lambda **how: torch.margin_ranking_loss(x, y, y, **how),
        lambda **how: torch.hinge_embedding_loss(x, y, **how),
        lambda **how: torch.binary_cross_entropy_with_logits(x, y, **how),
        lambda **how: torch._C._nn.mse_loss(x, y, **how),
        lambda **how: torch._C._nn.huber_loss(x, y, **how),
    ],
)
def test_a_function_reduces_a_loss_only_if_it_is_told(loss: Callable[..., mq.Tensor]) -> None:
    assert loss().shape == (2, 3)
    for code, value in ((0, loss()), (1, loss().mean()), (2, loss().sum())):
        assert torch.allclose(loss(reduction=code), value)


def test_an_operator_has_the_mean_as_its_default() -> None:
    assert mq.ops.aten.kl_div(x, y).shape == ()
    assert mq.ops.aten.mse_loss.default(x, y).shape == ()


def test_a_handler_is_told_no_reduction_that_nobody_wrote() -> None:
    class Seeing(TorchFunctionMode):
        def __torch_function__(
            self, func: object, types: object, args: object = (), kwargs: object = None
        ) -> object:
            return func, args, kwargs

    with Seeing():
        seen = torch.kl_div(x, y)
    assert seen == (torch.kl_div, (x, y), {})


def test_the_signature_of_a_loss_says_that_nothing_is_reduced() -> None:
    assert inspect.signature(torch.kl_div).parameters["reduction"].default == 0
    assert mq.ops.aten.kl_div.default._schema.arguments[2].default_value == 1
