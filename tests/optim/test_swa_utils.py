"""Averages of models, the rates they are taken at, and cyclic rates."""

import math

import pytest

import maquette as mq
from maquette import nn, optim
from maquette.optim import lr_scheduler, swa_utils

VALUES = [1.0, 3.0, 8.0]


def averaged(**options):
    """The average of a model that had VALUES one after another."""
    model = nn.Linear(1, 1, bias=False)
    average = swa_utils.AveragedModel(model, **options)
    for value in VALUES:
        nn.init.constant_(model.weight, value)
        average.update_parameters(model)
    return average, model


def test_the_average_is_the_mean_of_all_values():
    average, _ = averaged()
    assert average.module.weight.item() == pytest.approx(sum(VALUES) / 3)
    assert average.n_averaged.item() == 3
    assert average(mq.ones(1, 1)).item() == pytest.approx(4.0)


@pytest.mark.parametrize(
    "options",
    [
        {"avg_fn": swa_utils.get_ema_avg_fn(0.5)},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)},
        {"avg_fn": lambda average, value, count: (average + value) / 2},
    ],
)
def test_a_moving_average_forgets(options):
    average, _ = averaged(**options)
    assert average.module.weight.item() == pytest.approx((1 / 2 + 3 / 2) / 2 + 8 / 2)


def test_buffers_are_copied_or_averaged():
    model = nn.BatchNorm1d(2)
    for use_buffers, expected in ((False, 3.0), (True, 2.0)):
        average = swa_utils.AveragedModel(model, use_buffers=use_buffers)
        for value in (1.0, 3.0):
            model.running_mean.fill_(value)
            average.update_parameters(model)
        assert average.module.running_mean.tolist() == [expected] * 2


def test_averages_are_saved_under_the_models_names():
    average, model = averaged()
    assert list(average.state_dict()) == ["n_averaged", "module.weight"]
    other = swa_utils.AveragedModel(model)
    other.load_state_dict(average.state_dict())
    assert other.n_averaged.item() == 3


def test_statistics_of_batch_norm_are_computed_anew():
    model = nn.BatchNorm1d(1).eval()
    model.running_mean.fill_(100)
    batches = [mq.tensor([[0.0], [2.0]]), mq.tensor([[4.0], [6.0]])]
    swa_utils.update_bn([(batch, None) for batch in batches], model)
    assert model.running_mean.item() == pytest.approx(3.0)  # the mean of the batches' means
    assert model.momentum == 0.1
    assert not model.training


@pytest.mark.parametrize("strategy", ["linear", "cos"])
def test_swalr_anneals_and_stays(strategy):
    optimizer = optim.SGD([nn.Parameter(mq.ones(1))], lr=1.0)
    scheduler = swa_utils.SWALR(optimizer, 0.2, anneal_epochs=4, anneal_strategy=strategy)
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    for epoch, rate in enumerate(rates):
        t = min(1, epoch / 4)
        share = t if strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
        assert rate == pytest.approx(1.0 + share * (0.2 - 1.0))


def cycled(steps, *, momentum=0.9, **options):
    """Rates and momenta of an optimizer under `CyclicLR`."""
    optimizer = optim.SGD([nn.Parameter(mq.ones(1))], lr=7.0, momentum=momentum)
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2, **options)
    found = []
    for _ in range(steps):
        group = optimizer.param_groups[0]
        found.append((group["lr"], group["momentum"]))
        optimizer.step()
        scheduler.step()
    return found


def test_cyclic_rates_rise_and_fall_and_momenta_go_against_them():
    rates, momenta = zip(*cycled(9))
    assert rates == pytest.approx([0.1, 0.3, 0.5, 0.3] * 2 + [0.1])
    assert momenta == pytest.approx([0.9, 0.85, 0.8, 0.85] * 2 + [0.9])


def test_the_modes_lower_the_peaks():
    halved = [rate for rate, _ in cycled(9, mode="triangular2")]
    assert (halved[2], halved[6]) == pytest.approx((0.5, 0.3))
    falling = [rate for rate, _ in cycled(9, mode="exp_range", gamma=0.5)]
    assert falling[6] == pytest.approx(0.1 + 0.4 * 0.5**6)
    own = [rate for rate, _ in cycled(9, scale_fn=lambda cycle: 1 / cycle)]
    assert own[6] == pytest.approx(0.1 + 0.4 / 2)


def test_cyclic_momentum_needs_an_optimizer_that_has_one():
    optimizer = optim.Adagrad([nn.Parameter(mq.ones(1))])
    with pytest.raises(ValueError, match="cycle_momentum=False"):
        lr_scheduler.CyclicLR(optimizer, 0.1, 0.5)
    adam = optim.Adam([nn.Parameter(mq.ones(1))])
    lr_scheduler.CyclicLR(adam, 0.1, 0.5)
    assert adam.param_groups[0]["betas"] == (0.9, 0.999)
    with pytest.raises(ValueError, match="mode"):
        lr_scheduler.CyclicLR(adam, 0.1, 0.5, mode="square")
