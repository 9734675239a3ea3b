"""`torch.utils._mode_utils`: skipping modes, comparing them."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.dispatch.modes import no_dispatch


def all_same_mode(modes: Sequence[object]) -> bool:
    """Whether the modes are one and the same."""
    return all(mode == modes[0] for mode in modes)


__all__ = ["all_same_mode", "no_dispatch"]
