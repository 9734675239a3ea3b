"""Which mode answers a call, where several are active in several threads."""

import gc
import threading
from typing import Any

import pytest

import maquette as mq
from maquette.tensor.storage import observe_allocations

NOBODY: Any = None  # is told nothing, as no storage is made


def test_FX10_both_threads_go_on_with_their_own_modes() -> None:
    ours, theirs = mq.FakeTensorMode(), mq.FakeTensorMode()
    entered, leave = threading.Event(), threading.Event()
    made: list[mq.Tensor] = []

    def work() -> None:
        with theirs:
            entered.set()
            leave.wait()
            b = mq.ones(3)
            made.append(b + b)

    thread = threading.Thread(target=work)
    with ours:
        a = mq.ones(2)
        thread.start()
        entered.wait()
        assert (a + a).fake_mode is ours
        leave.set()
        thread.join()
        assert (a + a).fake_mode is ours
    assert made[0].fake_mode is theirs


def test_FX10_threads_leave_blocks_of_one_mode_in_any_order() -> None:
    mode = mq.FakeTensorMode()
    entered, leave = threading.Event(), threading.Event()
    made: list[mq.Tensor] = []

    def work() -> None:
        with mode:
            entered.set()
            leave.wait(60)
        made.append(mq.ones(3))

    thread = threading.Thread(target=work, daemon=True)  # a failure leaves it waiting
    with mode:
        with mode:
            thread.start()
            entered.wait()
        assert mq.ones(2).fake_mode is mode  # the other thread's block was entered last
        leave.set()
        thread.join()
        assert mq.ones(2).fake_mode is mode
    assert mq.ones(2).fake_mode is None
    assert made[0].fake_mode is None


def test_F32_tensors_of_another_mode_than_the_active_one_are_refused() -> None:
    with mq.FakeTensorMode():
        a = mq.ones(2)
    with mq.FakeTensorMode(), pytest.raises(AssertionError, match="Mixing fake modes"):
        a + a
    assert (a + a).shape == (2,)  # no mode is active: the tensors' own answers


def test_F32_inner_modes_answer_until_they_are_left() -> None:
    outer, inner = mq.FakeTensorMode(), mq.FakeTensorMode()
    with outer:
        a = mq.ones(2)
        with inner:
            b = mq.ones(2)
            assert (b + b).fake_mode is inner
            with pytest.raises(AssertionError, match="Mixing fake modes"):
                a + a
        assert (a + a).fake_mode is outer


def test_the_garbage_collector_waits_for_more_objects_in_a_mode() -> None:
    young, *older = gc.get_threshold()
    with mq.FakeTensorMode() as mode, mq.FakeTensorMode(), mode:
        assert gc.get_threshold() == (100_000, *older)
    assert gc.get_threshold() == (young, *older)


def test_the_garbage_collector_does_not_wait_where_memory_is_counted_or_data_kept() -> None:
    usual = gc.get_threshold()
    with mq.FakeTensorMode(propagate_real_tensors=True):
        assert gc.get_threshold() == usual
    with mq.FakeTensorMode(), observe_allocations(NOBODY):
        assert gc.get_threshold() == usual
    with observe_allocations(NOBODY), mq.FakeTensorMode():
        assert gc.get_threshold() == usual
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("set_to", [(1234, 5, 6), (0, 5, 6)])
def test_a_threshold_that_the_program_sets_in_a_mode_stays(set_to: tuple[int, int, int]) -> None:
    before = gc.get_threshold()
    try:
        with mq.FakeTensorMode():
            gc.set_threshold(*set_to)
        assert gc.get_threshold() == set_to
    finally:
        gc.set_threshold(*before)
