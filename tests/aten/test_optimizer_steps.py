"""Steps of optimizers in one operator, and what gradient scaling needs: finding 49."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette import Tensor, optim
from maquette.torch.testing import assert_close


def _trained(cls: type[Any], dtype: mq.dtype, **options: Any) -> list[Tensor]:
    params = [mq.arange(6.0).reshape(2, 3), mq.linspace(-1, 1, 4)]
    params = [p.to(dtype).requires_grad_() for p in params]
    optimizer = cls(params, **options)
    for i in range(3):
        optimizer.zero_grad()
        sum((i + 1) * ((p - 0.3) ** 2).sum() for p in params).backward()
        optimizer.step()
    return params


@pytest.mark.parametrize("dtype", [mq.float32, mq.float64])
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (optim.Adam, {"weight_decay": 0.1, "amsgrad": True}),
        (optim.AdamW, {"maximize": True, "weight_decay": 0.2}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
        (optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}),
    ],
)
def test_a_fused_step_is_the_step(cls: type[Any], options: dict[str, Any], dtype: mq.dtype) -> None:
    fused = _trained(cls, dtype, fused=True, **options)
    for a, b in zip(fused, _trained(cls, dtype, **options), strict=True):
        assert_close(a, b)


def _sgd(found_inf: float) -> tuple[Tensor, Tensor]:
    param, grad = mq.ones(2), mq.full((2,), 4.0)
    mq._fused_sgd_(
        [param],
        [grad],
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=mq.tensor(0.5),
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
        grad_scale=mq.tensor(2.0),
        found_inf=mq.tensor(found_inf),
    )
    return param, grad


def test_a_fused_step_unscales_gradients_and_skips_infinite_ones() -> None:
    assert [t.tolist() for t in _sgd(0.0)] == [[0.0, 0.0], [2.0, 2.0]]
    assert [t.tolist() for t in _sgd(1.0)] == [[1.0, 1.0], [4.0, 4.0]]


def test_unscaling_tells_what_is_not_finite() -> None:
    grads, found = [mq.tensor([4.0, 8.0]), mq.ones(2).half()], mq.zeros(1)
    mq._amp_foreach_non_finite_check_and_unscale_(grads, found, mq.tensor(0.25))
    assert [found.item(), *grads[0].tolist(), *grads[1].tolist()] == [0, 1, 2, 0.25, 0.25]
    grads[1][0] = float("nan")
    mq._amp_foreach_non_finite_check_and_unscale_(grads, found, mq.tensor(0.25))
    assert found.item() == 1


def test_a_scale_grows_after_good_steps_and_shrinks_after_a_bad_one() -> None:
    scale, good = mq.tensor([4.0]), mq.zeros(1, dtype=mq.int32)
    seen = []
    for bad in (0.0, 0.0, 1.0):
        mq._amp_update_scale_(scale, good, mq.tensor([bad]), 2.0, 0.25, 2)
        seen.append((scale.item(), good.item()))
    assert seen == [(4.0, 1), (8.0, 0), (2.0, 0)]


def test_an_optimizer_that_unscales_is_told_scale_and_finiteness() -> None:
    class Own(optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure: object = None) -> None:  # type: ignore[override]  # as SGD's
            self.told = (self.grad_scale.item(), self.found_inf.item())  # type: ignore[attr-defined]

    weight = mq.ones(1, requires_grad=True)
    scaler = mq.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(weight * float("inf")).backward()
    optimizer = Own([weight])
    scaler.step(optimizer)
    assert optimizer.told == (8.0, 1.0)
    assert not hasattr(optimizer, "grad_scale")


def test_lists_of_no_length_in_common_are_refused_as_lists_of_numbers_or_tensors() -> None:
    one = [mq.ones(2)]
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        mq._foreach_add(one, [])
    with pytest.raises(RuntimeError, match="same number of tensors, got 0 and 1"):
        mq._foreach_add([], one)
