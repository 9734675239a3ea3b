"""The least time on a device: what binds an operator, and the table that says what a device can."""

from __future__ import annotations

import json
import pathlib

import pytest

from maquette.plan.recorder import Operation, Place
from maquette.plan.roofline import LAUNCH_SECONDS, Accelerator, accelerators, bound

DEVICE = Accelerator("d", 1 << 30, 1e9, {"float32": 1e12, "bfloat16": 4e12}, "a test")


def operation(flops: int, nbytes: int, dtype: str = "float32", phase: str = "forward") -> Operation:
    return Operation("aten.x", phase, Place("", ""), flops, nbytes, dtype)


@pytest.mark.parametrize(
    ("of", "seconds", "by"),
    [
        (operation(10**12, 10), 1.0, "compute"),
        (operation(10**12, 10, "bfloat16"), 0.25, "compute"),
        (operation(10**12, 10, "int64"), 1.0, "compute"),
        (operation(10, 10**9), 1.0, "memory"),
        (operation(1, 1), LAUNCH_SECONDS, "launch"),
        (operation(0, 0), 0.0, "launch"),
    ],
)
def test_an_operator_is_bound_by_what_takes_longest(of: Operation, seconds: float, by: str) -> None:
    assert bound([of], DEVICE).binding == {by: seconds}


def test_utilisation_is_of_the_peak_in_the_dtype_of_most_flops() -> None:
    both = [operation(4 * 10**12, 0, "bfloat16"), operation(0, 10**9)]
    assert bound(both, DEVICE).utilisation == pytest.approx(0.5)


def test_phases_add_up_to_the_whole() -> None:
    made = bound([operation(10**9, 0), operation(10**9, 0, phase="backward")], DEVICE)
    assert sum(made.by_phase.values()) == pytest.approx(made.seconds)


def test_every_device_of_the_table_has_its_source_and_plausible_numbers() -> None:
    for device in accelerators().values():
        assert device.source
        assert 10e9 < device.memory < 1e12
        assert 1e11 < device.bandwidth < 1e13
        assert device.peak("float32") <= device.peak("float16") < 1e16


def test_a_device_without_bandwidth_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({"mine": {"memory_mib": 1, "float32": 1}}), "utf-8")
    with pytest.raises(ValueError, match=r"device 'mine': expected the numbers .*bandwidth"):
        accelerators(path)
