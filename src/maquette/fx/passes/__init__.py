"""Passes over graphs: shapes, splitting, matching, partitioning, common subexpressions."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = (
    "annotate_getitem_nodes", "const_fold", "fake_tensor_prop", "graph_drawer",
    "graph_manipulation", "graph_transform_observer", "infra", "operator_support", "pass_manager",
    "reinplace", "shape_prop", "split_module", "split_utils", "splitter_base", "tools_common",
    "utils",
)  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return importlib.import_module(f"{__name__}.{name}")
