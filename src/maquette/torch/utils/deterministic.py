"""`torch.utils.deterministic`: whether new memory is filled, where programs ask for determinism."""

from __future__ import annotations

import sys
from types import ModuleType

from maquette.core.determinism import Determinism
from maquette.core.errors import check


class _Module(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether memory that a factory leaves unset is filled, with NaN or the largest integer."""
        return Determinism.fill_uninitialized_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        check(type(mode) is bool, lambda: f"expected a bool, but got {type(mode).__name__}")
        Determinism.fill_uninitialized_memory = mode


sys.modules[__name__].__class__ = _Module
