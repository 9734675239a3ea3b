"""`torch.utils._traceback` and `torch.utils._device`."""

from collections.abc import Iterator

import maquette.torch as torch
from maquette.torch.utils._device import set_device
from maquette.torch.utils._traceback import CapturedTraceback, format_traceback_short


def test_a_captured_traceback_ends_where_it_was_taken() -> None:
    taken = CapturedTraceback.extract()
    (text,) = CapturedTraceback.format_all([taken])
    assert text == taken.format()
    assert "test_a_captured_traceback_ends_where_it_was_taken" in text[-1]
    assert "taken = CapturedTraceback.extract()" in text[-1]


def test_a_captured_traceback_leaves_inner_calls_out() -> None:
    def inner() -> CapturedTraceback:
        return CapturedTraceback.extract(skip=1)

    assert inner().summary()[-1].name == "test_a_captured_traceback_leaves_inner_calls_out"


def test_a_traceback_in_short_is_its_innermost_place() -> None:
    try:
        int("no number")
    except ValueError as error:
        text = format_traceback_short(error.__traceback__)
    assert text.endswith("in test_a_traceback_in_short_is_its_innermost_place")


def test_a_function_and_a_generator_have_a_default_device() -> None:
    @set_device("meta")
    def made() -> torch.Tensor:
        return torch.empty(3)

    @set_device("meta")
    def several() -> Iterator[torch.Tensor]:
        yield torch.empty(3)
        yield torch.empty(3)

    assert made().device.type == "meta"
    for each in several():
        assert each.device.type == "meta"
        assert torch.empty(3).device.type == "cpu"
