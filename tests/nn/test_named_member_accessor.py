"""Members by dotted names: read, swapped, deleted, put back."""

import pytest

import maquette as mq
from maquette import nn
from maquette.nn.utils._named_member_accessor import NamedMemberAccessor


def _accessor() -> NamedMemberAccessor:
    return NamedMemberAccessor(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))


def test_a_swapped_tensor_is_returned_and_any_tensor_may_take_its_place() -> None:
    members = _accessor()
    own = members.get_tensor("0.weight")
    assert members.swap_tensor("0.weight", mq.zeros(2, 2)) is own
    assert not isinstance(members.module[0].weight, nn.Parameter)


def test_a_missing_name_is_told_and_all_is_put_back() -> None:
    members = _accessor()
    own = members.get_tensor("0.bias")
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): '0.other'"):
        members.swap_tensors_dict({"0.bias": mq.zeros(2), "0.other": mq.ones(1)})
    assert members.get_tensor("0.bias") is own
    assert not hasattr(members.module[0], "other")


def test_what_was_missing_goes_when_it_is_swapped_back() -> None:
    members = _accessor()
    before, missing = members.swap_tensors_dict({"0.other": mq.ones(1)}, allow_missing=True)
    assert missing == ["0.other"]
    assert members.get_tensor("0.other").item() == 1
    members.swap_tensors_dict(before, allow_missing=True)
    assert not hasattr(members.module[0], "other")


def test_keys_are_checked_both_ways() -> None:
    assert _accessor().check_keys(["0.weight", "x"]) == (["0.bias"], ["x"])


def test_a_swapped_module_is_found_afterwards() -> None:
    members = _accessor()
    other = nn.Linear(3, 3)
    members.swap_submodule("0", other)
    assert members.get_tensor("0.weight") is other.weight
