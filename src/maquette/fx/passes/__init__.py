"""Passes over graphs: shapes, splitting, matching, partitioning, common subexpressions."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("const_fold", "infra", "shape_prop", "split_module", "utils")


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return importlib.import_module(f"{__name__}.{name}")
