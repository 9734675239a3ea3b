"""Which mode answers a call, where several are active in several threads."""

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
