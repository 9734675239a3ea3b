"""Which mode answers a call, where several are active in several threads."""

import gc
import threading

import pytest

import maquette as mq


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


def test_a_mode_lets_the_garbage_collector_count_five_times_as_many_objects() -> None:
    young, *older = gc.get_threshold()
    with mq.FakeTensorMode(), mq.FakeTensorMode():
        assert gc.get_threshold() == (5 * young, *older)
    assert gc.get_threshold() == (young, *older)


def test_a_threshold_that_the_program_sets_in_a_mode_stays() -> None:
    before = gc.get_threshold()
    try:
        with mq.FakeTensorMode():
            gc.set_threshold(1234, 5, 6)
        assert gc.get_threshold() == (1234, 5, 6)
    finally:
        gc.set_threshold(*before)
