"""Context managers that decorate: functions, generators, coroutines and classes.

Each use of a decorated function enters a fresh context. The body of a generator or of a coroutine
runs inside of it step by step: between steps the caller has the mode that it had.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
Contexts = Callable[[], AbstractContextManager[object]]


def decorated(contexts: Contexts, function: Callable[P, R]) -> Callable[P, R]:
    """``function``, run inside a context that ``contexts`` makes for each call.

    The body of a coroutine is inside too; PyTorch's decorators do not reach it. A class becomes a
    function that makes its objects inside, with a FutureWarning.
    """
    if inspect.isclass(function):
        warnings.warn(
            f"Decorating classes is deprecated ({function.__name__}): decorate its __init__, or "
            f"the methods that are meant",
            FutureWarning,
            stacklevel=3,
        )
        made = functools.partial(cast(Callable[..., R], function))
        return functools.update_wrapper(cast(Any, _calling(contexts, made)), function, updated=())
    for is_such, wrapper in _WRAPPERS:
        if is_such(function):
            return functools.wraps(function)(wrapper(contexts, function))
    return functools.wraps(function)(_calling(contexts, function))


def _calling(contexts: Contexts, function: Callable[P, R]) -> Callable[P, R]:
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with contexts():
            return function(*args, **kwargs)

    return wrapped


def _generating(contexts: Contexts, function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _stepwise(contexts, function(*args, **kwargs)))

    return wrapped


def _awaiting(contexts: Contexts, function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        return await _Steps(contexts, function(*args, **kwargs))

    return wrapped


def _generating_async(contexts: Contexts, function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        sent = None
        try:
            while True:
                sent = yield await _Steps(contexts, inner.asend(sent))
        except StopAsyncIteration:
            return
        finally:
            await _Steps(contexts, inner.aclose())

    return wrapped


_WRAPPERS: tuple[tuple[Callable[[object], bool], Callable[..., Any]], ...] = (
    (inspect.isgeneratorfunction, _generating),
    (inspect.iscoroutinefunction, _awaiting),
    (inspect.isasyncgenfunction, _generating_async),
)


class _Steps:
    """Awaits something, each of its steps inside a context."""

    def __init__(self, contexts: Contexts, awaited: Awaitable[Any] | Coroutine[Any, Any, Any]):
        self.contexts = contexts
        self.awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        return _stepwise(self.contexts, self.awaited.__await__())


def _stepwise(contexts: Contexts, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The same as ``inner``, each of its steps inside a context."""
    step: Callable[[], Any] = functools.partial(inner.send, None)
    while True:
        try:
            with contexts():
                given = step()
        except StopIteration as stop:
            return stop.value
        try:
            step = functools.partial(inner.send, (yield given))
        except GeneratorExit:
            with contexts():
                inner.close()
            raise
        except BaseException as error:  # noqa: BLE001  # the inner generator's to handle
            step = functools.partial(inner.throw, error)
