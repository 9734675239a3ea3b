"""What `importlib.metadata` is told of ``torch`` while maquette stands for it."""

from __future__ import annotations

import os
from importlib.metadata import Distribution
from pathlib import Path

from maquette.torch import version


class StandIn(Distribution):
    """The distribution ``torch`` of the version that maquette stands for; it has no files."""

    def read_text(self, filename: str) -> str | None:
        """Its METADATA; it has no other file."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {version.__version__}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """FileNotFoundError: there are no files of torch here."""
        raise FileNotFoundError(f"maquette stands for torch, and has no file {path} of it")
