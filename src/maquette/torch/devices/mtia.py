"""`torch.mtia`: there is no such device here."""

from __future__ import annotations

from maquette.torch.devices import _absent, streams
from maquette.torch.face.forwarding import forward


def seed() -> None:
    """Nothing: there is no generator."""


seed_all = seed


def memory_stats(device: object = None) -> dict[str, int]:
    """No figures."""
    return {}


class graph(streams.graph):  # PyTorch's name
    """A block whose work is captured: RuntimeError, for there is no device that works."""

    def __init__(
        self,
        mtia_graph: streams.CUDAGraph,
        pool: object = None,
        stream: streams.Stream | None = None,
    ) -> None:
        super().__init__(mtia_graph, pool, stream)


get_rng_state, set_rng_state = _absent.rng_state_functions("mtia")

__getattr__ = forward(__name__, "maquette.torch.devices._absent", "maquette.torch.devices.streams")
