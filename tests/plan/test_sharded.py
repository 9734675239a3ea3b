"""The peak of one of several devices that divide a model's states."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette import nn
from maquette.plan.plan import Plan, plan
from maquette.plan.sharded import fewest_devices, sharded_peak, units

WIDTH, LAYERS = 256, 10
BLOCK = 4 * (WIDTH * WIDTH + WIDTH)  # bytes of one block's parameters


class Blocks(nn.Module):
    """A stack of equal blocks and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        for block in self.blocks:
            x = block(x).relu()
        return x.sum()


def planned(*, train: bool) -> Plan:
    """A plan whose activations are small beside its parameters: one row."""
    return plan(Blocks(), [mq.zeros(1, WIDTH)], train=train, optimizer="adamw" if train else None)


def test_units_are_the_repeated_blocks() -> None:
    assert units(planned(train=False).by_module()) == {f"blocks.{i}": BLOCK for i in range(LAYERS)}


def test_one_device_divides_nothing() -> None:
    made = planned(train=True)
    assert sharded_peak(made, 1) == made.peak_bytes


def test_a_forward_holds_its_share_and_two_whole_blocks() -> None:
    made = planned(train=False)
    activations = made.peak_bytes - LAYERS * BLOCK
    expected = LAYERS * BLOCK // 10 + 2 * BLOCK
    assert expected < sharded_peak(made, 10) <= expected + activations


def test_a_training_step_holds_two_whole_blocks_and_the_gradients_of_one() -> None:
    made = planned(train=True)
    states = 4 * LAYERS * BLOCK  # parameters, gradients, two moments
    found = sharded_peak(made, 1000)
    assert found - 3 * BLOCK < BLOCK // 2  # what is left: the share and one row of activations
    assert found > 3 * BLOCK + states // 2000


def test_more_devices_need_no_more_each() -> None:
    made = planned(train=True)
    peaks = [sharded_peak(made, n) for n in range(2, 40)]
    assert peaks == sorted(peaks, reverse=True)


def test_the_fewest_devices_are_proved_by_one_less() -> None:
    made = planned(train=True)
    budget = sharded_peak(made, 7)
    found = fewest_devices(lambda n: sharded_peak(made, n), budget)
    assert found.peak_bytes <= budget < found.peak_with_one_less
    assert sharded_peak(made, found.fewest - 1) == found.peak_with_one_less


def test_none_is_told_with_the_least_that_is_needed() -> None:
    made = planned(train=True)
    found = fewest_devices(lambda n: sharded_peak(made, n), BLOCK)
    assert found.fewest == 0
    assert found.peak_bytes > BLOCK


def test_a_number_of_devices_is_from_one_on() -> None:
    with pytest.raises(ValueError, match="devices is a number from 1 on, not 0"):
        sharded_peak(planned(train=False), 0)
