"""`torch.backends.kleidiai`: not available."""


def is_available() -> bool:
    """False."""
    return False
