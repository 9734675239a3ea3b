"""`torch.multiprocessing`: Python's `multiprocessing`; tensors travel by pickle, as copies."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403  # it stands for that module

from maquette.torch.face.forwarding import forward


def get_all_sharing_strategies() -> set[str]:
    """One: memory is not shared, tensors are copied."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """``"file_system"``; tensors are copied all the same."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: there is one way."""


from maquette.torch.multiprocessing.spawn import (  # noqa: E402, I001  # over the others
    ProcessContext as ProcessContext,
    ProcessException as ProcessException,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,
    start_processes as start_processes,
)

_forwarded = forward(__name__)


def __getattr__(name: str) -> object:
    found = getattr(multiprocessing, name, None)
    return _forwarded(name) if found is None else found
