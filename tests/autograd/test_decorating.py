"""Grad modes as decorators: what they reach, and what the caller has in between (finding 12)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import maquette as mq

MODES = [mq.no_grad, mq.no_grad(), mq.inference_mode, mq.inference_mode()]


@pytest.mark.parametrize("mode", MODES)
def test_T63_a_decorated_function_runs_in_the_mode(mode: Callable[..., Any]) -> None:
    assert not mode(mq.is_grad_enabled)()
    assert mq.is_grad_enabled()


@pytest.mark.parametrize("mode", MODES)
def test_T63_the_body_of_a_generator_runs_in_the_mode_its_caller_does_not(
    mode: Callable[..., Any],
) -> None:
    @mode
    def steps() -> Iterator[bool]:
        yield mq.is_grad_enabled()
        yield mq.is_grad_enabled()

    seen = []
    for inside in steps():
        seen.append((inside, mq.is_grad_enabled()))
    assert seen == [(False, True), (False, True)]


def test_T63_a_generator_gets_what_is_sent_and_thrown() -> None:
    @mq.no_grad()
    def echo() -> Any:
        got = yield 0
        while True:
            try:
                got = yield got, mq.is_grad_enabled()
            except ValueError as error:
                got = error.args[0]

    it = echo()
    next(it)
    assert it.send(1) == (1, False)
    assert it.throw(ValueError("oh")) == ("oh", False)


def test_T63_a_generator_is_closed_in_the_mode() -> None:
    seen = []

    @mq.no_grad()
    def closing() -> Iterator[int]:
        try:
            yield 1
        finally:
            seen.append(mq.is_grad_enabled())

    it = closing()
    next(it)
    it.close()
    assert seen == [False]


def test_T63_a_generator_returns_its_value() -> None:
    @mq.no_grad()
    def giving() -> Any:
        yield 1
        return 2

    def outer() -> Any:
        return (yield from giving())

    it = outer()
    next(it)
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == 2


@pytest.mark.parametrize("mode", MODES)
def test_T63_the_body_of_a_coroutine_runs_in_the_mode_others_do_not(
    mode: Callable[..., Any],
) -> None:
    """PyTorch's decorators stop at the call that makes the coroutine."""
    seen = []

    @mode
    async def inside() -> bool:
        await asyncio.sleep(0)
        return mq.is_grad_enabled()

    async def beside() -> None:
        seen.append(mq.is_grad_enabled())
        await asyncio.sleep(0)
        seen.append(mq.is_grad_enabled())

    async def both() -> bool:
        return (await asyncio.gather(inside(), beside()))[0]

    assert not asyncio.run(both())
    assert seen == [True, True]


def test_T63_the_body_of_an_async_generator_runs_in_the_mode() -> None:
    @mq.no_grad()
    async def steps() -> AsyncIterator[bool]:
        yield mq.is_grad_enabled()
        await asyncio.sleep(0)
        yield mq.is_grad_enabled()

    async def collected() -> list[bool]:
        return [inside async for inside in steps()]

    assert asyncio.run(collected()) == [False, False]


def test_T63_a_decorated_class_makes_objects_in_the_mode_and_warns() -> None:
    class Maker:
        def __init__(self) -> None:
            self.recording = mq.is_grad_enabled()

    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        make = mq.no_grad()(Maker)
    assert not make().recording


def test_T63_set_grad_enabled_as_a_decorator_changes_nothing_outside() -> None:
    @mq.set_grad_enabled(False)
    def inside() -> bool:
        return mq.is_grad_enabled()

    assert mq.is_grad_enabled()
    assert not inside()
