"""The default device belongs to a thread, and ends with its block (D137)."""

import threading

import maquette as mq


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
            mq.set_default_device(None)
        assert mq.ones(1).is_meta
    finally:
        mq.set_default_device(None)
