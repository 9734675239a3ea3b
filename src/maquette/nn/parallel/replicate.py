"""`replicate`: a module on each of several devices, of which there is none here."""

from __future__ import annotations

from typing import NoReturn


def replicate(*args: object, **kwargs: object) -> NoReturn:
    """Not there yet: NotImplementedError."""
    raise NotImplementedError("replicate is not supported by maquette yet: use the module itself")
