"""`torch._logging`: loggers by name. There is no compiler whose artifacts they would show."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

DEFAULT_LOGGING: dict[str, Any] = {}
trace_log = logging.getLogger("torch.__trace")


class LazyString:
    """A text that is made when it is written."""

    def __init__(self, func: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:  # PyTorch's name
    """The logger of an artifact of a module."""
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


def set_logs(
    *, modules: Mapping[str, int | bool] | None = None, **levels: int | bool | None
) -> None:
    """Set the levels of loggers, those of PyTorch's components by keyword, others by module.

    What a component would write is not written here. ValueError for a level that is no number.
    """
    named = {f"torch.{name}": level for name, level in levels.items() if level is not None}
    for name, level in {**named, **dict(modules or {})}.items():
        if not isinstance(level, int):
            raise ValueError(f"Unrecognized log level for {name}: {level!r}")
        chosen = (logging.DEBUG if level else logging.NOTSET) if isinstance(level, bool) else level
        logging.getLogger(name).setLevel(chosen)


@functools.cache
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """Write a warning the first time that it is asked for."""
    logger_obj.warning(*args, **kwargs)


@contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *_: True) -> Iterator[None]:
    """A block within which the warnings that ``filter_fn`` picks are not shown."""
    shown = warnings.showwarning

    def show(message: Any, category: Any, filename: Any, lineno: Any, *rest: Any) -> None:
        if not filter_fn(message, category, filename, lineno, *rest):
            shown(message, category, filename, lineno, *rest)

    try:
        warnings.showwarning = show  # type: ignore[assignment]  # what it is called with
        yield
    finally:
        warnings.showwarning = shown


def trace_structured(name: str, *args: Any, **kwargs: Any) -> None:
    """Nothing: no compiler writes traces."""


dtrace_structured = trace_structured


def get_structured_logging_overhead() -> float | None:
    """None: nothing is written."""
    return None
