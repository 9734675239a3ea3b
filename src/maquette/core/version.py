"""Which maquette this is: read from what the installer wrote, when somebody asks."""

from __future__ import annotations

import importlib


def version() -> str:
    """The installed version; "unknown" where maquette runs from a folder that is not installed."""
    metadata = importlib.import_module("importlib.metadata")  # it takes 10 ms
    try:
        return str(metadata.version("maquette"))
    except metadata.PackageNotFoundError:
        return "unknown"
