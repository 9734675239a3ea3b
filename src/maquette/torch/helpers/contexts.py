"""`torch.utils._contextlib`: contexts that decorate functions and generators."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast, overload

from maquette.autograd.decorating import decorated

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]


def context_decorator(
    ctx: contextlib.AbstractContextManager[Any] | Callable[[], Any], func: F
) -> F:
    """``func`` run within a context: ``ctx`` itself, or one that it makes for each call.

    The steps of a generator run within it, one by one. RuntimeError for a class.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager; give a context "
            f"manager, or a function that makes one"
        )
    enter = ctx if callable(ctx) else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether only the constructor or all methods "
            "should have the context manager applied; decorate the methods instead"
        )
    if inspect.isgeneratorfunction(func):
        return cast(F, decorated(enter, func))

    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Any:
        with enter():
            return func(*args, **kwargs)

    return within  # type: ignore[return-value]  # called as func is


class _DecoratorContextManager:
    """A base of contexts that can decorate; each call of the function enters a clone."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Self:
        """A context like this one; a class whose constructor takes arguments overrides it."""
        return type(self)()

    def __call__(self, orig_func: F) -> F:
        return context_decorator(self.clone, orig_func)


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A base of contexts that decorate without being called first: ``@no_grad``."""

    @overload
    def __new__(cls, orig_func: F) -> F: ...  # type: ignore[misc]  # a function, not an object
    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...

    def __new__(cls, orig_func: F | None = None) -> Self | F:  # type: ignore[misc]  # as above
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
