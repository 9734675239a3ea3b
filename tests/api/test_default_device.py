"""The default device belongs to a thread, and ends with its block (D137)."""

import threading

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch.overrides import TorchFunctionMode
from maquette.torch.utils import _device


class Seen(TorchFunctionMode):
    """Keeps the keywords of the calls that it is told, and what factories in it make."""

    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.__name__ != "__get__":
            self.seen.append((func.__name__, kwargs, mq.empty(0).device.type))
        return func(*args, **kwargs)


def count():
    return torch._C._len_torch_function_stack()


def in_another_thread(function):
    """What ``function`` gives in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_D137_a_block_of_a_device_is_not_seen_by_other_threads():
    with mq.device("meta"):
        assert mq.ones(2).is_meta
        assert in_another_thread(lambda: mq.ones(2).device.type) == "cpu"
        assert in_another_thread(lambda: mq.tensor([1.0]).device.type) == "cpu"


def test_D137_blocks_of_two_threads_end_in_any_order():
    entered, leave = threading.Event(), threading.Event()

    def other():
        with mq.device("meta"):
            entered.set()
            leave.wait(10)
            return mq.ones(1).device.type

    found = []
    thread = threading.Thread(target=lambda: found.append(other()))
    with mq.device("cpu"):
        thread.start()
        entered.wait(10)
    assert mq.get_default_device().type == mq.ones(1).device.type == "cpu"
    leave.set()
    thread.join()
    assert found == ["meta"]


def test_D137_a_default_device_that_is_set_holds_for_its_thread():
    mq.set_default_device("meta")
    try:
        assert in_another_thread(mq.get_default_device).type == "cpu"
        with mq.device("cpu"):
            assert not mq.ones(1).is_meta
            mq.set_default_device(None)
            mq.set_default_device("meta")  # below the block, as in PyTorch
            assert not mq.ones(1).is_meta
        assert mq.ones(1).is_meta
    finally:
        mq.set_default_device(None)


def test_D137_a_block_of_a_device_is_a_function_mode():
    with mq.device("meta"):
        assert count() == 1
        assert torch._C._is_torch_function_mode_enabled()
        with mq.device("cpu"):
            assert count() == 2
            [outer, inner] = torch.overrides._get_current_function_mode_stack()
        assert (outer.device.type, inner.device.type) == ("meta", "cpu")
        assert type(outer) is _device.DeviceContext
        assert torch._C._get_function_stack_at(0) is outer
    assert count() == 0


def test_D137_a_mode_outside_of_a_device_sees_it_in_the_calls():
    with Seen() as mode, mq.device("meta"):
        made = [mq.zeros(1), mq.tensor([1]), mq.ones(1, device="cpu"), mq.zeros_like(mq.empty(1))]
        assert [t.device.type for t in made] == ["meta", "meta", "cpu", "meta"]
    given = {name: kwargs.get("device") for name, kwargs, _ in mode.seen}
    meta = mq.device("meta")
    assert given == {
        "zeros": meta, "tensor": meta, "ones": "cpu", "zeros_like": None, "empty": meta,
    }  # fmt: skip
    assert {where for _, _, where in mode.seen} == {"cpu"}  # the device is above it


def test_D137_a_mode_inside_of_a_device_does_not_see_it():
    with mq.device("meta"), Seen() as mode:
        assert mq.zeros(1).is_meta
    assert mode.seen == [("zeros", {}, "meta")]


def test_D137_modes_are_pushed_and_popped_as_pytorchs():
    with mq.device("meta"):
        popped = torch._C._pop_torch_function_stack()
        assert (count(), mq.ones(1).is_meta) == (0, False)
        torch._C._push_on_torch_function_stack(popped)
        assert (count(), mq.ones(1).is_meta) == (1, True)


def test_D137_contexts_and_defaults_of_devices_are_below_the_other_modes():
    assert _device.CURRENT_DEVICE is None
    with Seen() as mode, _device.DeviceContext("meta"):
        assert mq.device("meta") is _device.CURRENT_DEVICE
        assert [*torch.overrides._get_current_function_mode_stack()][1] is mode
        assert mq.zeros(1).is_meta
    assert mode.seen == [("zeros", {}, "meta")]
    assert mq.zeros in _device._device_constructors()


def test_D137_where_handlers_are_off_there_is_no_default_device():
    with mq.device("meta"):
        with torch._C.DisableTorchFunction():
            assert mq.ones(1).device.type == "cpu"
        with torch._C.DisableTorchFunctionSubclass():
            assert mq.ones(1).is_meta
        assert torch.Tensor([1.0]).device.type == "cpu"  # no constructor takes one, as in PyTorch


def test_D137_a_block_that_raises_ends():
    with pytest.raises(KeyError), mq.device("meta"):
        raise KeyError
    assert count() == 0
