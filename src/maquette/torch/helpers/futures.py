"""`torch.futures`: results that come later, in this process; what waits is called by who sets them.

There are no processes to ask and no streams of a device: a `Future` here is Python's own
(`concurrent.futures.Future`), whose value another thread may set, with PyTorch's methods.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from maquette.core.device import device

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that is set once, or an exception; ``devices`` are noted and not used."""

    def __init__(self, *, devices: Sequence[int | str | device] | None = None) -> None:
        self._held: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.devices = list(devices or ())

    def done(self) -> bool:
        """Whether a value or an exception is set."""
        return self._held.done()

    def wait(self) -> T:
        """The value, when it is there; raises the exception that was set."""
        return self._held.result()

    def value(self) -> T:
        """The value that is there; RuntimeError if none is set yet."""
        if not self.done():
            raise RuntimeError("value() was called before the future has one; call wait()")
        return self._held.result()

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what ``callback`` makes of this one, when this one is done.

        What ``callback`` raises is raised there as a RuntimeError, whose cause it is.
        """
        after: Future[S] = Future()

        def follow(_: object) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:  # noqa: BLE001  # whatever it is, who waits is told
                told = RuntimeError(
                    "Got the following error when running the callback: "
                    f"{type(error).__name__}: {error}"
                )
                told.__cause__ = error
                after.set_exception(told)

        self._held.add_done_callback(follow)
        return after

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call ``callback`` with this future when it is done: at once if it is."""
        self._held.add_done_callback(lambda _: callback(self))

    def set_result(self, result: T) -> None:
        """Set the value; RuntimeError if one is set."""
        self._check_open()
        self._held.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception, which `wait` and `value` raise; AssertionError for what is none."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._check_open()
        self._held.set_exception(result)

    def _check_open(self) -> None:
        if self.done():
            raise RuntimeError(
                "Attempting to mark a completed Future as complete again: a Future can only be "
                "marked completed once"
            )

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future")


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of futures, done when all of them are; RuntimeError for None."""
    everything: Future[list[Future[Any]]] = Future()
    waiting = list(futures)
    if any(future is None for future in waiting):
        raise RuntimeError("Future can't be None")
    left = set(map(id, waiting))

    def note(one: Future[Any]) -> None:
        left.discard(id(one))
        if not left and not everything.done():
            everything.set_result(waiting)

    for future in dict.fromkeys(waiting):
        future.add_done_callback(note)
    if not waiting:
        everything.set_result(waiting)
    return everything


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all futures, when they are there; raises the first exception among them."""
    return [future.wait() for future in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
