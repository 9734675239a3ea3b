"""`torch.random`: seeds and the state of the default generator."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward

__getattr__ = forward(__name__, "maquette", "maquette.aten.random.random_factories")


def thread_safe_generator() -> object | None:
    """None: the default generator is one for all threads, with a lock."""
    return None


__all__ = ["thread_safe_generator"]
__all__ += "fork_rng get_rng_state initial_seed manual_seed seed set_rng_state".split()  # handed on
