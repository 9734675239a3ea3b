"""`torch.random`: seeds and the state of the default generator."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette", "maquette.aten.random.random_factories")


def thread_safe_generator() -> object | None:
    """None: the default generator is one for all threads, with a lock."""
    return None
