"""`torch.classes`: script classes by namespace; none is registered by C++ here."""

from __future__ import annotations

from typing import NoReturn

from maquette.torch.face.forwarding import forward

loaded_libraries: set[str] = set()
_forwarded = forward(__name__)


class _ClassNamespace:
    """`torch.classes.NAME`, which has no class: RuntimeError, as in PyTorch, for each asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{name}', but it does not exist: classes "
            "written in C++ cannot be loaded here. Use what the library has in Python"
        )


def __getattr__(name: str) -> object:
    try:
        return _forwarded(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        return _ClassNamespace(name)
