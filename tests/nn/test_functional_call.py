"""A module called with other tensors in the place of its members."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette import nn
from maquette.nn.utils import stateless
from maquette.torch.func import functional_call


class Counter(nn.Module):
    """Counts its calls in a buffer, and reads an attribute that is no member."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.register_buffer("calls", mq.zeros(1))
        self.offset = mq.ones(1)

    def forward(self, x: mq.Tensor) -> Any:
        self.calls = self.calls + 1
        return x * self.offset + self.calls


def test_what_the_call_assigns_goes_to_the_dict_and_not_to_the_module() -> None:
    module, given = Counter(), {"calls": mq.full((1,), 5.0)}
    assert functional_call(module, given, mq.zeros(1)).item() == 6.0
    assert (given["calls"].item(), module.calls.item()) == (6.0, 0.0)


def test_a_tensor_that_is_no_member_is_replaced_for_the_call() -> None:
    module = Counter()
    assert functional_call(module, {"offset": mq.zeros(1)}, mq.ones(1)).item() == 1.0
    assert module.offset.item() == 1.0


def test_a_name_that_is_not_there_is_there_for_the_call() -> None:
    class Reads(nn.Module):
        def forward(self, x: mq.Tensor) -> Any:
            return x + self.extra

    module = Reads()
    assert functional_call(module, {"extra": mq.ones(1)}, mq.ones(1)).item() == 2.0
    assert not hasattr(module, "extra")
    with pytest.raises(RuntimeError, match="Unexpected key"):
        functional_call(module, {"extra": mq.ones(1)}, mq.ones(1), strict=True)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("linear.weight", 3, TypeError),
        ("absent.weight", mq.ones(1), AttributeError),
        ("linear", mq.ones(1), TypeError),
        ("linear.", mq.ones(1), KeyError),
    ],
)
def test_what_cannot_be_replaced_is_refused_and_all_is_as_it_was(
    name: str, value: Any, error: type[Exception]
) -> None:
    module = Counter()
    before = {**module.state_dict(keep_vars=True), "offset": module.offset}
    with pytest.raises(error):
        functional_call(module, {"linear.bias": mq.ones(1), name: value}, mq.ones(1))
    after = {**module.state_dict(keep_vars=True), "offset": module.offset}
    assert all(after[n] is tensor for n, tensor in before.items())


def test_none_stands_for_a_parameter_that_is_not_there() -> None:
    module = nn.Linear(1, 1)
    result = functional_call(module, {"weight": mq.ones(1, 1), "bias": None}, mq.ones(1))
    assert result.item() == 1.0
    assert module.bias is not None


def test_modules_that_hold_each_other_are_called_by_path() -> None:
    module = Counter()
    module.linear.above = module
    given = {"linear.above.offset": mq.zeros(1)}
    assert functional_call(module, given, mq.ones(1), tie_weights=False).item() == 1.0


def test_tied_members_count_as_given_where_all_must_be() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = self.b = nn.Parameter(mq.ones(1))

        def forward(self) -> Any:
            return self.a + self.b

    assert functional_call(Tied(), {"a": mq.zeros(1)}, strict=True).item() == 0.0
    with pytest.raises(RuntimeError, match=r"Missing key.*'b'"):
        functional_call(Tied(), {"a": mq.zeros(1)}, strict=True, tie_weights=False)


def test_the_old_place_warns() -> None:
    with pytest.warns(FutureWarning, match="torch.func.functional_call"):
        assert stateless.functional_call(nn.Identity(), {}, mq.ones(1)).item() == 1.0
