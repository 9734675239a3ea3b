"""Schedules: their rates in closed form, their composition, saving and loading."""

import math

import pytest

import maquette as mq
from maquette import nn, optim
from maquette.optim import lr_scheduler

BASE = 0.8


def optimizer_of(rates=(BASE,), **options):
    groups = [{"params": [nn.Parameter(mq.zeros(1))], "lr": rate} for rate in rates]
    return optim.SGD(groups, lr=1.0, **options)


def rates_of(make, epochs=12):
    """The rate in each epoch."""
    optimizer = optimizer_of()
    scheduler = make(optimizer)
    rates = []
    for _ in range(epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def cosine(epoch, low=0.1, period=5):
    return low + (BASE - low) * (1 + math.cos(math.pi * epoch / period)) / 2


@pytest.mark.parametrize(
    "make, rate",
    [
        (lambda o: lr_scheduler.StepLR(o, 3, 0.5), lambda e: BASE * 0.5 ** (e // 3)),
        (
            lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5], 0.5),
            lambda e: BASE * 0.5 ** ((e >= 2) + 2 * (e >= 5)),
        ),
        (
            lambda o: lr_scheduler.ConstantLR(o, 0.5, 4),
            lambda e: BASE * (0.5 if e < 4 else 1.0),
        ),
        (
            lambda o: lr_scheduler.LinearLR(o, 0.25, 0.75, 4),
            lambda e: BASE * (0.25 + 0.5 * min(e, 4) / 4),
        ),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.9), lambda e: BASE * 0.9**e),
        (
            lambda o: lr_scheduler.PolynomialLR(o, 20, 2.0),
            lambda e: BASE * (1 - e / 20) ** 2,
        ),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.1), cosine),
        (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), lambda e: BASE / (e + 1)),
        (lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.9), lambda e: BASE * 0.9**e),
        (
            lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 1, 0.1),
            lambda e: cosine(e % 4, period=4),
        ),
    ],
)
def test_rates_follow_the_closed_form(make, rate):
    assert rates_of(make) == pytest.approx([rate(epoch) for epoch in range(12)])


def test_one_cycle_rises_falls_and_turns_momentum_round():
    optimizer = optimizer_of(momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    (group,) = optimizer.param_groups
    rates, momenta = [], []
    for _ in range(10):
        rates.append(group["lr"])
        momenta.append(group["momentum"])
        optimizer.step()
        scheduler.step()
    assert rates[0] == pytest.approx(1.0 / 25)
    assert max(rates) == rates[2] == 1.0
    assert rates[-1] == pytest.approx(1.0 / 25 / 1e4)
    assert momenta[2] == min(momenta) == pytest.approx(0.85)
    with pytest.raises(ValueError, match="total steps is 10"):
        scheduler.step()


def test_sequential_switches_at_milestones():
    def make(optimizer):
        return lr_scheduler.SequentialLR(
            optimizer,
            [
                lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 2),
                lr_scheduler.ExponentialLR(optimizer, 0.5),
            ],
            [2],
        )

    expected = [0.5, 0.75, 1.0, 0.5, 0.25]
    assert rates_of(make, 5) == pytest.approx([BASE * factor for factor in expected])


def test_chained_multiplies():
    def make(optimizer):
        return lr_scheduler.ChainedScheduler(
            [
                lr_scheduler.ExponentialLR(optimizer, 0.9),
                lr_scheduler.StepLR(optimizer, 2, 0.5),
            ]
        )

    assert rates_of(make, 4) == pytest.approx([BASE * 0.9**e * 0.5 ** (e // 2) for e in range(4)])


def test_plateau_waits_then_falls():
    optimizer = optimizer_of()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    rates = []
    for loss in (1.0, 0.9, 0.9, 0.9, 0.9, 0.8):
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4]


def test_a_group_has_its_own_rate():
    optimizer = optimizer_of((1.0, 0.1))
    scheduler = lr_scheduler.LambdaLR(optimizer, [lambda e: 1.0, lambda e: 0.5])
    assert scheduler.get_last_lr() == [1.0, 0.05]
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        lr_scheduler.LambdaLR(optimizer, [lambda e: 1.0])


def test_a_rate_in_a_tensor_stays_that_tensor():
    optimizer = optimizer_of((mq.tensor(1.0),))
    rate = optimizer.param_groups[0]["lr"]
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.5


def test_a_saved_schedule_goes_on():
    first, second = optimizer_of(), optimizer_of()
    schedule = lr_scheduler.CosineAnnealingLR(first, 10)
    for _ in range(3):
        first.step()
        schedule.step()
    resumed = lr_scheduler.CosineAnnealingLR(second, 10)
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    for optimizer, scheduler in ((first, schedule), (second, resumed)):
        optimizer.step()
        scheduler.step()
    assert resumed.get_last_lr() == schedule.get_last_lr()


def test_resuming_needs_the_initial_rate():
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(optimizer_of(), 3, last_epoch=4)


def test_stepping_before_the_optimizer_warns():
    scheduler = lr_scheduler.StepLR(optimizer_of(), 3)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        scheduler.step()


def test_asking_for_rates_outside_a_step_warns():
    scheduler = lr_scheduler.StepLR(optimizer_of(), 3)
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda o: lr_scheduler.StepLR(3, 1), TypeError),
        (lambda o: lr_scheduler.LinearLR(o, start_factor=0.0), ValueError),
        (lambda o: lr_scheduler.ConstantLR(o, factor=2.0), ValueError),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0), ValueError),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="up"), ValueError),
        (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]), ValueError),
        (lambda o: lr_scheduler.ChainedScheduler([]), ValueError),
    ],
)
def test_bad_arguments_are_refused(make, error):
    with pytest.raises(error):
        make(optimizer_of())


def test_a_step_that_is_replaced_after_the_scheduler_is_warned_of():
    optimizer = mq.optim.SGD([mq.nn.Parameter(mq.ones(1))], lr=0.1)
    scheduler = mq.optim.lr_scheduler.StepLR(optimizer, 1)
    step = optimizer.step
    optimizer.step = lambda: step()
    optimizer.step()
    with pytest.warns(UserWarning, match="(?s)has been overridden.*how-to-adjust-learning-rate"):
        scheduler.step()


def test_what_lowers_the_rates_of_a_plateau_is_given_the_epoch():
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer_of(), patience=0)
    lowered = []
    scheduler._reduce_lr = lowered.append
    for metric in (1.0, 1.0, 0.5, 2.0):
        scheduler.step(metric)
    assert lowered == [2, 4]


@pytest.mark.parametrize(
    "make", [lr_scheduler.ExponentialLR, lambda o, g: lr_scheduler.StepLR(o, 1, g)]
)
def test_a_rate_without_a_factor_does_not_stay_as_it_is(make):
    with pytest.raises(TypeError, match="NoneType"):
        rates_of(lambda optimizer: make(optimizer, None))
