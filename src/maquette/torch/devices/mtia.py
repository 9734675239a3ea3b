"""`torch.mtia`: there is no such device here."""

from __future__ import annotations

from maquette.torch.devices import _absent
from maquette.torch.face.forwarding import forward


def seed() -> None:
    """Nothing: there is no generator."""


seed_all = seed


def memory_stats(device: object = None) -> dict[str, int]:
    """No figures."""
    return {}


get_rng_state, set_rng_state = _absent.rng_state_functions("mtia")

__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
