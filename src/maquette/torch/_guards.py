"""`torch._guards`: guards on shapes, and where numbers come from (`maquette.symbolic`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace

from maquette.dispatch.modes import get_current_dispatch_mode_stack
from maquette.fake import FakeTensorMode
from maquette.fake.detecting import detect_fake_mode
from maquette.symbolic.guards import ShapeGuard, SLoc
from maquette.symbolic.program.sources import ChainedSource, Source


class TracingContext:
    """What compilers keep while they trace: the fake mode. Nothing here asks for it."""

    def __init__(self, fake_mode: FakeTensorMode | None) -> None:
        self.fake_mode = fake_mode
        self.guards_context = SimpleNamespace(dynamo_guards=set())

    @staticmethod
    def try_get() -> TracingContext | None:
        """The context that `tracing` has set, or None."""
        return _context.get()

    @staticmethod
    def get() -> TracingContext:
        """The context that `tracing` has set; RuntimeError where there is none."""
        found = _context.get()
        if found is None:
            raise RuntimeError(
                "TracingContext.get() must be called within an ongoing trace: "
                "with torch._guards.tracing(context)."
            )
        return found


_context: ContextVar[TracingContext | None] = ContextVar("tracing context", default=None)


@contextmanager
def tracing(context: TracingContext | None) -> Iterator[TracingContext | None]:
    """Set what `TracingContext.get` gives in the block."""
    before = _context.set(context)
    try:
        yield context
    finally:
        _context.reset(before)


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost fake mode of the thread, or None."""
    modes = reversed(get_current_dispatch_mode_stack())
    return next((mode for mode in modes if isinstance(mode, FakeTensorMode)), None)


__all__ = [
    "ChainedSource",
    "SLoc",
    "ShapeGuard",
    "Source",
    "TracingContext",
    "active_fake_mode",
    "detect_fake_mode",
    "tracing",
]
