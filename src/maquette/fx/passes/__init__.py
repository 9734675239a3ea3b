"""Passes over graphs: shapes, splitting, matching, partitioning, common subexpressions."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = (
    "const_fold", "fake_tensor_prop", "infra", "operator_support", "reinplace", "shape_prop",
    "split_module", "tools_common", "utils",
)  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return importlib.import_module(f"{__name__}.{name}")
