"""Devices, and which one an operation runs on."""

import copy
import pickle
from typing import Any

import pytest

from maquette.core.device import canonical, cpu, device, meta
from maquette.core.device_rules import DeviceMismatchError, common_device
from maquette.core.dtype import float32
from maquette.core.meta import TensorMeta


def test_equal_devices_are_one_object() -> None:
    assert device("cuda:1") is device("cuda", 1) is device(device("cuda:1")) is device(1)
    assert pickle.loads(pickle.dumps(meta)) is copy.deepcopy(meta) is meta


def test_T10_a_device_without_index_is_another() -> None:
    assert device("cuda") != device("cuda:0")
    assert canonical(device("cuda")) is device("cuda:0")
    assert canonical(cpu) is cpu
    assert canonical(device("cuda:1")) is device("cuda:1")


@pytest.mark.parametrize("name", ["cpu:0", "cpu:3", "meta:0", "meta:1"])
def test_T10_there_is_one_cpu_and_one_meta_device(name: str) -> None:
    assert canonical(device(name)) is device(name.partition(":")[0])


def test_T10_unknown_type_names_the_known() -> None:
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda, .*: foo"):
        device("foo")


@pytest.mark.parametrize("text", ["", "cuda:", "cuda:-1", "cuda:01", ":0", "cuda:0:1", "cuda:x"])
def test_T10_malformed_string(text: str) -> None:
    with pytest.raises(RuntimeError, match=r"[Dd]evice string"):
        device(text)


def test_T10_index_given_twice_negative_or_huge() -> None:
    with pytest.raises(RuntimeError, match="passed explicitly: cuda:0"):
        device("cuda:0", 0)
    with pytest.raises(RuntimeError, match="must not be negative"):
        device("cuda", -1)
    with pytest.raises(RuntimeError, match="at most 127, got 300"):
        device("cuda:300")


@pytest.mark.parametrize("given", [None, 1.5, True, cpu])
def test_device_takes_a_string_an_index_or_a_device(given: Any) -> None:
    with pytest.raises(TypeError, match="expects a string"):
        device(given, 0 if given is cpu else None)


@pytest.mark.parametrize("index", [2.5, True, "1"])
def test_T10_an_index_is_an_int(index: Any) -> None:
    with pytest.raises(TypeError, match="'index' must be int"):
        device("xla", index)


def test_device_prints_as_users_know_it() -> None:
    assert str(device("cuda", 0)) == "cuda:0"
    assert repr(device("cuda", 0)) == "device(type='cuda', index=0)"
    assert repr(cpu) == "device(type='cpu')"


def test_a_device_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        cpu.index = 0


def on(where: str, *shape: int) -> TensorMeta:
    return TensorMeta.of(float32, shape, device=device(where))


@pytest.mark.parametrize(
    "operands, expected",
    [
        ([on("cuda:0", 2), on("cpu")], "cuda:0"),
        ([on("cpu"), on("cuda:0", 2)], "cuda:0"),
        ([on("cpu"), on("cuda:0")], "cuda:0"),
        ([on("cpu"), on("cpu"), on("meta", 2), on("cpu")], "meta"),
        ([on("cpu"), on("cpu", 3)], "cpu"),
    ],
)
def test_F49_a_0_dim_cpu_tensor_yields(operands: list[TensorMeta], expected: str) -> None:
    assert common_device("add", operands) is device(expected)


@pytest.mark.parametrize(
    "operands",
    [
        [on("cuda:0"), on("cpu", 1)],
        [on("cpu", 1), on("cuda:0")],
        [on("cpu"), on("cpu", 1), on("cuda:0")],
        [on("cuda:0", 2), on("cpu", 1)],
        [on("cuda:0"), on("meta")],
    ],
)
def test_F49_two_other_devices_are_refused(operands: list[TensorMeta]) -> None:
    with pytest.raises(DeviceMismatchError):
        common_device("add", operands)


def test_T35_the_error_names_both_devices_and_the_operation() -> None:
    expected = r"at least two devices, cuda:0 and cuda:1! \(add"
    with pytest.raises(RuntimeError, match=expected):
        common_device("add", [on("cuda:0", 2), on("cuda:1", 2)])


def test_F49_without_tensors_there_is_no_device() -> None:
    with pytest.raises(ValueError, match="add: expected at least one tensor"):
        common_device("add", [])
