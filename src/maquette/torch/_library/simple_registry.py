"""`torch._library.simple_registry`: what was registered for an operator, by its qualified name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from maquette.dispatch.keysets import DispatchKey
from maquette.library.registrations import find_overload


class Kernel(NamedTuple):
    """A registered function, and the line that did it."""

    func: Callable[..., Any] | None
    source: str


class FakeImplHolder:
    """The function that answers for fake tensors; ``kernel`` is None where there is none."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname

    @property
    def kernel(self) -> Kernel | None:
        """The one registered last."""
        op = find_overload(self.qualname)
        found = None if op is None else op.kernel_at(DispatchKey.Fake)
        return None if found is None else Kernel(found.python, found.place)


class SimpleOperatorEntry:
    """What was registered for one operator."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.fake_impl = self.abstract_impl = FakeImplHolder(qualname)


class SimpleLibraryRegistry:
    """Entries by name: every operator has one, and it shows what is registered when asked."""

    def find(self, qualname: str) -> SimpleOperatorEntry:
        """The entry of ``ns::name`` or ``ns::name.overload``."""
        return SimpleOperatorEntry(qualname)

    get = find


singleton = SimpleLibraryRegistry()
