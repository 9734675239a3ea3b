"""Block replay: equal modules on equal metas are run once. See `replay.py`."""

from maquette.fake.replay.replay import BlockReplay, ReplayInfo

__all__ = ["BlockReplay", "ReplayInfo"]
