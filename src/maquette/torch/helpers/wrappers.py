"""Decorators and small values of `torch.utils`' private modules.

`_functools`, `_exposed_in`, `_thunk`, `_typing_utils`, `_stats` and `_import_utils`.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Q = ParamSpec("Q")
F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "Thunk",
    "cache_method",
    "copy_func_params",
    "copy_func_sig",
    "copy_method_params",
    "copy_method_sig",
    "count",
    "count_label",
    "dill_available",
    "exposed_in",
    "import_dill",
    "not_none",
    "prefetchable_cache",
]


# --- _exposed_in, _typing_utils: what a function says of itself -----------------------


def exposed_in(module: str) -> Callable[[F], F]:
    """A decorator: the function says that it is of ``module``."""

    def named(function: F) -> F:
        function.__module__ = module
        return function

    return named


def not_none(obj: T | None) -> T:
    """The object; TypeError if it is None."""
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj


def _as_typed(_: object) -> Callable[[Callable[..., R]], Callable[..., R]]:
    return lambda function: function


def copy_func_sig(func: Callable[P, R]) -> Callable[[Callable[..., Any]], Callable[P, R]]:
    """For type checkers: the decorated function has the signature of ``func``."""
    return _as_typed(func)


copy_func_params = copy_method_params = copy_method_sig = copy_func_sig


# --- _functools ----------------------------------------------------------------------


def cache_method(
    f: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[T, P], R]:
    """A method whose results are remembered on the object, so that they die with it."""
    name = f"_cache_method_{f.__name__}"

    @functools.wraps(f)
    def remembering(self: T, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            raise AssertionError("cache_method: keyword arguments are not supported")
        known: dict[tuple[object, ...], R] | None = getattr(self, name, None)
        if known is None:
            known = {}
            setattr(self, name, known)
        if args not in known:
            known[args] = f(self, *args, **kwargs)
        return known[args]

    return remembering


class prefetchable_cache(Generic[P, R]):  # PyTorch's name
    """A function whose results are remembered, and can be worked out in another thread."""

    def __init__(self, func: Callable[P, R]) -> None:
        self._func = functools.lru_cache(maxsize=None)(func)
        functools.update_wrapper(self, func)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._func(*args, **kwargs)  # type: ignore[arg-type]  # hashable, or TypeError

    def prefetch(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Begin to work out a result that is wanted later."""
        threading.Thread(target=self._func, args=args, kwargs=kwargs, daemon=True).start()

    def cache_clear(self) -> None:
        """Forget all results."""
        self._func.cache_clear()


# --- _thunk --------------------------------------------------------------------------


class Thunk(Generic[R]):
    """A value that is worked out when first asked for."""

    __slots__ = ("f", "r")

    f: Callable[[], R] | None
    r: R | None

    def __init__(self, f: Callable[[], R]) -> None:
        self.f = f
        self.r = None

    def force(self) -> R:
        """The value."""
        if self.f is not None:
            self.r, self.f = self.f(), None
        return self.r  # type: ignore[return-value]  # set when f went


# --- _stats --------------------------------------------------------------------------

simple_call_counter: Counter[str] = Counter()


def count_label(label: str) -> None:
    """Count one call of what ``label`` names."""
    simple_call_counter[label] += 1


def count(fn: Callable[P, R]) -> Callable[P, R]:
    """A function whose calls are counted in `simple_call_counter`, by its qualified name."""

    @functools.wraps(fn)
    def counted(*args: P.args, **kwargs: P.kwargs) -> R:
        count_label(fn.__qualname__)
        return fn(*args, **kwargs)

    return counted


# --- _import_utils -------------------------------------------------------------------


def _check_module_exists(name: str) -> bool:
    """Whether a module could be imported; nothing is imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.cache
def dill_available() -> bool:
    """Whether the package dill is there."""
    return _check_module_exists("dill")


@functools.cache
def import_dill() -> Any:  # a module that is not a dependency
    """The package dill, imported; None if it is not there."""
    return importlib.import_module("dill") if dill_available() else None
