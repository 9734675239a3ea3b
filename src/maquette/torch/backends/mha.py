"""`torch.backends.mha`: whether layers may take a short way; kept, there is one way here."""

_fastpath = [True]


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` was last given."""
    return _fastpath[0]


def set_fastpath_enabled(value: bool) -> None:
    """Keep it."""
    _fastpath[0] = value
