"""`torch._guards`: guards on shapes, and where numbers come from (`maquette.symbolic`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace

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


__all__ = [
    "ChainedSource",
    "SLoc",
    "ShapeGuard",
    "Source",
    "TracingContext",
    "detect_fake_mode",
    "tracing",
]
