"""`torch.futures`: values that are set later."""

import pickle
import threading

import pytest

from maquette.torch.futures import Future, collect_all, wait_all


def test_a_value_is_waited_for():
    future = Future()
    threading.Timer(0.01, future.set_result, (3,)).start()
    assert future.wait() == 3
    assert future.done()
    assert future.value() == 3


def test_what_follows_is_called_with_the_future():
    future = Future()
    twice = future.then(lambda f: f.value() * 2)
    assert not twice.done()
    future.set_result(4)
    assert twice.wait() == 8


def test_an_exception_is_raised_where_it_is_waited_for():
    future = Future()
    following = future.then(lambda f: f.value())
    future.set_exception(ValueError("of the task"))
    with pytest.raises(ValueError, match="of the task"):
        future.wait()
    with pytest.raises(RuntimeError, match="callback: ValueError: of the task"):
        following.wait()


def test_a_value_is_set_once():
    future = Future()
    with pytest.raises(RuntimeError, match="before the future has one"):
        future.value()
    future.set_result(1)
    with pytest.raises(RuntimeError, match="marked completed once"):
        future.set_result(2)


def test_many_are_waited_for_together():
    futures = [Future() for _ in range(3)]
    together = collect_all(futures)
    for number, future in enumerate(futures):
        assert not together.done()
        future.set_result(number)
    assert together.wait() == futures
    assert wait_all(futures) == [0, 1, 2]
    assert collect_all([]).wait() == []


def test_what_a_callback_raises_is_the_cause_of_a_runtime_error() -> None:
    future: Future[int] = Future()
    after = future.then(lambda _: 1 // 0)
    future.set_result(1)
    with pytest.raises(RuntimeError, match="error when running the callback: ZeroDivisionError"):
        after.wait()


def test_a_future_is_not_pickled_and_none_is_no_future() -> None:
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(Future())
    with pytest.raises(RuntimeError, match="Future can't be None"):
        collect_all((None,))  # type: ignore[arg-type]  # wrong on purpose
